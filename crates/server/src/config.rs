//! Settings of the server.

use std::net::SocketAddr;
use std::time::Duration;

use engine::Params;
use serde_json::{Map, Value as Json};

use crate::connection::Tls;
use crate::keys::Keys;
use crate::origin::Origin;

/// Settings of a server.
#[derive(Clone, Debug)]
pub struct Config {
    /// The address to listen on.
    pub address: SocketAddr,
    /// Keys of those who may use it; everybody if there are none.
    pub keys: Keys,
    /// Values of the `Host` header that are accepted besides the address itself, unless there are keys, which no foreign page has.
    /// `*.` stands for all subdomains, `*` for any name.
    pub hosts: Vec<String>,
    /// Origins of pages that may call the server from a browser.
    pub origins: Vec<Origin>,
    /// Models that are loaded at once; another one takes the place of that which was not used for the longest time.
    pub max_models: usize,
    /// Further names of the first model; `*` is any name that no model has.
    pub aliases: Vec<String>,
    /// Whether a single model is refused under a name that it does not have. Otherwise it answers to every name.
    pub strict_model: bool,
    /// Defaults of requests.
    pub defaults: Defaults,
    /// Whether there is a page to chat.
    pub page: bool,
    /// Time without use after which a model is unloaded; none keeps it.
    pub keep_alive: Option<Duration>,
    /// Whether `/slots` tells how many requests run.
    pub slots: bool,
    /// Encrypts connections.
    pub tls: Option<Tls>,
    /// Time that running requests may go on after the signal to stop.
    pub drain: Duration,
    /// Limits of requests and connections.
    pub limits: Limits,
}

impl Config {
    /// A server on `address` without keys, with default limits.
    pub fn new(address: SocketAddr) -> Config {
        Config {
            address,
            keys: Keys::default(),
            hosts: Vec::new(),
            origins: Vec::new(),
            max_models: 4,
            aliases: Vec::new(),
            strict_model: false,
            defaults: Defaults::default(),
            page: true,
            keep_alive: None,
            slots: false,
            tls: None,
            drain: Duration::from_secs(30),
            limits: Limits::default(),
        }
    }
}

/// Defaults of requests.
#[derive(Clone, Debug, Default)]
pub struct Defaults {
    /// Sampling, length and stop conditions.
    pub params: Params,
    /// Variables of the chat template.
    pub variables: Map<String, Json>,
}

/// Limits of requests and connections.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Bytes of a body.
    pub body: usize,
    /// Time to receive a body.
    pub body_time: Duration,
    /// Time to receive the head of a request.
    pub head_time: Duration,
    /// Time in which a client must read something of its answer.
    pub write_time: Duration,
    /// Open connections.
    pub connections: usize,
    /// Requests that wait or run.
    pub requests: usize,
    /// Messages of a conversation.
    pub messages: usize,
    /// Tools of a request.
    pub tools: usize,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            body: 8 << 20,
            body_time: Duration::from_secs(30),
            head_time: Duration::from_secs(10),
            write_time: Duration::from_secs(30),
            connections: 1024,
            requests: 512,
            messages: 4096,
            tools: 256,
        }
    }
}
