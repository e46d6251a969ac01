//! `rustorch serve`: models for several users, over HTTP.

mod models;

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::num::NonZero;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::{self, SyncSender};
use std::time::Duration;

use anyhow::{anyhow, bail};
use clap::builder::FalseyValueParser;
use clap::{Arg, ValueEnum};
use server::{Config, Defaults, Keys, Loader, ModelSource, Server, StartError, Tls};

use crate::args::{PositionalModel, TemplateChoice, WritingArgs};
use crate::output::Usage;
use crate::params::ParamArgs;
use crate::{interrupt, output};
use models::{EmbeddingArgs, ModelsArgs};

/// While a request decodes, steps take about this long at most.
const STEP_TARGET: Duration = Duration::from_millis(100);

/// Contexts that the KV cache holds by default: most requests are shorter than the context.
const CONTEXTS: usize = 4;

#[derive(Debug, clap::Args)]
#[command(after_help = "\
A page to chat is at the address itself, OpenAI's and Anthropic's protocols below /v1, ollama's below /api.
Requests with a common beginning share its computation.
Ctrl-C, or SIGTERM, lets requests end; another Ctrl-C does not.")]
pub(crate) struct Args {
    #[command(flatten)]
    positional: PositionalModel,
    #[command(flatten)]
    models: ModelsArgs,
    /// Models that are loaded at once; the one unused for the longest time makes room
    #[arg(long, value_name = "N", default_value = "4", env, help_heading = "Model")]
    models_max: NonZero<usize>,
    /// Unload a model that nobody has used for so many seconds, until it is asked for again
    #[arg(long, alias = "sleep-idle-seconds", value_name = "SECONDS", env, help_heading = "Model")]
    keep_alive: Option<NonZero<u64>>,
    #[command(flatten)]
    http: HttpArgs,
    #[command(flatten)]
    keys: KeyArgs,
    /// Whether models reason, where the chat template can turn it off
    #[arg(long, value_name = "MODE", value_enum, default_value_t = Reasoning::Auto, help_heading = DEFAULTS)]
    reasoning: Reasoning,
    #[command(flatten)]
    params: ParamArgs,
    #[command(flatten)]
    serving: Serving,
}

/// The heading of options that requests can override.
const DEFAULTS: &str = "Defaults of requests";

pub(crate) fn in_requests(arg: Arg) -> Arg {
    if arg.get_help_heading() == Some("Length") { arg.help_heading(DEFAULTS) } else { arg }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Reasoning {
    On,
    Off,
    Auto,
}

/// How each model is served.
#[derive(Clone, Debug, clap::Args)]
struct Serving {
    #[command(flatten)]
    template: TemplateChoice,
    #[command(flatten)]
    embedding: EmbeddingArgs,
    /// Requests that are computed at once; others wait [short: -np]
    #[arg(long, alias = "np", value_name = "N", default_value = "16", env, help_heading = "Engine")]
    parallel: NonZero<usize>,
    /// Tokens in the KV cache, of all requests and of beginnings for later ones [default: 4 contexts, as far as there can be
    /// so many]
    #[arg(long, value_name = "N", env, help_heading = "Engine")]
    cache_tokens: Option<NonZero<usize>>,
    #[command(flatten)]
    writing: WritingArgs,
}

#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Server")]
struct HttpArgs {
    /// Address to listen at; all of this machine's are 0.0.0.0
    #[arg(long, value_name = "ADDRESS", default_value_t = IpAddr::V4(Ipv4Addr::LOCALHOST), env, value_parser = host)]
    host: IpAddr,
    /// Port; 0 is any that is free
    #[arg(long, value_name = "PORT", default_value = "8080", env)]
    port: u16,
    /// PEM file with the certificate, and those that signed it: connections are encrypted (https)
    #[arg(long, value_name = "FILE", env, requires = "ssl_key_file")]
    ssl_cert_file: Option<PathBuf>,
    /// PEM file with its private key; SIGHUP reads both files again
    #[arg(long, value_name = "FILE", env, requires = "ssl_cert_file")]
    ssl_key_file: Option<PathBuf>,
    /// Name of the model for clients, and further ones after commas; * is any other [default: that of the file]
    #[arg(short, long, value_name = "NAME", env, value_delimiter = ',', value_parser = name)]
    alias: Vec<String>,
    /// Host name that clients use for this server; * accepts any
    #[arg(long, value_name = "NAME", env, value_delimiter = ',')]
    host_name: Vec<String>,
    /// Origin of pages that may call this server from a browser, such as https://example.org; localhost is those of this
    /// machine, * any
    #[arg(long, alias = "cors-origins", value_name = "ORIGIN", env, value_delimiter = ',')]
    #[arg(value_parser = origin)]
    cors_origin: Vec<String>,
    /// Seconds that requests may go on after the signal to stop
    #[arg(long, value_name = "SECONDS", default_value = "30", env)]
    drain_timeout: u64,
    /// Requests that wait or run, at most; more are told to try again
    #[arg(long, value_name = "N", default_value = "512", env)]
    max_requests: NonZero<usize>,
    /// Tell at /slots how many requests run, as llama-server does
    #[arg(long, env, value_parser = FalseyValueParser::new())]
    slots: bool,
    /// Do not serve the chat page
    #[arg(long, aliases = ["no-ui", "no-webui"], env, value_parser = FalseyValueParser::new())]
    no_page: bool,
}

fn name(text: &str) -> Result<String, String> {
    let name = Some(text.trim().to_owned()).filter(|name| !name.is_empty());
    name.ok_or_else(|| "expected a name".to_owned())
}

/// As browsers send it.
fn origin(text: &str) -> Result<String, String> {
    let origin = text.trim().trim_end_matches('/').to_ascii_lowercase();
    let is_origin = origin.split_once("://").is_some_and(|(scheme, host)| {
        !scheme.is_empty() && !host.is_empty() && !host.contains(['/', '?', '#', '@', ' '])
    });
    let known = Some(origin).filter(|origin| is_origin || ["*", "localhost"].contains(&&**origin));
    let expected = "expected an origin such as https://example.org or http://localhost:3000, localhost or *";
    known.ok_or_else(|| expected.to_owned())
}

fn host(text: &str) -> Result<IpAddr, String> {
    if text == "localhost" {
        return Ok(Ipv4Addr::LOCALHOST.into());
    }
    text.parse().map_err(|_| {
        "expected an IP address of this machine, such as 127.0.0.1, 0.0.0.0 (all) or ::1; names by which clients call it are \
         given to --host-name"
            .to_owned()
    })
}

#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Keys")]
struct KeyArgs {
    /// File with one API key per line; it is read again at SIGHUP
    #[arg(long, value_name = "FILE", env)]
    api_key_file: Option<PathBuf>,
    /// An API key; other users of this machine can see it, unless it comes from the variable
    #[arg(long, value_name = "KEY", env, hide_env_values = true, conflicts_with = "api_key_file")]
    api_key: Option<String>,
    /// Let everybody use it, also at addresses that others can reach
    #[arg(long)]
    insecure: bool,
}

impl KeyArgs {
    fn read(&self) -> anyhow::Result<Keys> {
        Ok(match (&self.api_key, &self.api_key_file) {
            (Some(key), _) if key.trim().is_empty() => {
                bail!(Usage("--api-key is empty, by which anybody could use the server".to_owned()))
            }
            (Some(key), _) => Keys::new([key.trim()]),
            (None, Some(file)) => Keys::read(file)?,
            (None, None) => Keys::default(),
        })
    }
}

/// Raises the limit of open files as far as it may be: each connection takes two.
#[cfg(unix)]
fn open_many_files() {
    use nix::sys::resource::{Resource, getrlimit, setrlimit};
    if let Ok((soft, hard)) = getrlimit(Resource::RLIMIT_NOFILE) {
        // If it is refused, the server takes fewer connections.
        let _ = setrlimit(Resource::RLIMIT_NOFILE, soft.max(hard.min(1 << 13)), hard);
    }
}

#[cfg(not(unix))]
fn open_many_files() {}

pub(crate) fn run(args: Args) -> anyhow::Result<()> {
    let address = SocketAddr::new(args.http.host, args.http.port);
    let keys = args.keys.read()?;
    if keys.is_empty() && !address.ip().is_loopback() && !args.keys.insecure {
        bail!(Usage(format!(
            "others can reach {}; give a file of keys with --api-key-file, or --insecure to let everybody use it",
            address.ip()
        )));
    }
    let pair = args.http.ssl_cert_file.clone().zip(args.http.ssl_key_file.clone());
    let tls = pair.as_ref().map(|(certificate, key)| Tls::read(certificate, key)).transpose()?;
    let scheme = if tls.is_some() { "https" } else { "http" };
    let (failure, failed) = mpsc::sync_channel(1);
    open_many_files();
    let (models, has_page) = (args.models(&failure)?, !args.http.no_page);
    let config = args.config(address, keys, tls);
    let mut server = Server::new(config, models).map_err(|error| match &error {
        StartError::Listen { .. } => {
            anyhow!("{error}; --port N chooses another port, and 0 one that is free")
        }
        _ => error.into(),
    })?;
    let (shutdown, reload) = (server.shutdown(), server.reload());
    let file = args.keys.api_key_file.clone();
    interrupt::serving(
        move || shutdown.stop(),
        move || {
            match file.as_deref().map(Keys::read) {
                Some(Ok(keys)) => reload.replace(keys),
                Some(Err(error)) => tracing::error!("{error}; the old keys stay"),
                None => {}
            }
            match pair.as_ref().map(|(certificate, key)| Tls::read(certificate, key)) {
                Some(Ok(tls)) => reload.encrypt(tls),
                Some(Err(error)) => tracing::error!("{error}; the old certificate stays"),
                None => {}
            }
        },
    )?;
    let address = server.address()?;
    let page = if has_page { "has a page to chat" } else { "listens" };
    server.when_ready(move || {
        output::note(format_args!(
            "{scheme}://{address} {page}; OpenAI's and Anthropic's APIs are below /v1, ollama's below /api"
        ));
    });
    server.run().map_err(|error| failed.try_recv().unwrap_or_else(|_| error.into()))?;
    Ok(())
}

impl Args {
    /// One model is loaded at the start, several when they are asked for. `failure` gets the error of the one.
    fn models(&self, failure: &SyncSender<anyhow::Error>) -> anyhow::Result<Vec<(String, ModelSource)>> {
        let mut named = self.models.named(&self.positional)?;
        if let Some(alias) = self.http.alias.first() {
            let [one] = &mut named[..] else {
                bail!(Usage("--alias names one model; name several by -m NAME=MODEL".to_owned()));
            };
            one.name.clone_from(alias);
        }
        if self.serving.writing.speculation.model_draft.is_some() && named.len() > 1 {
            bail!(Usage("--model-draft drafts for one model, but there are several".to_owned()));
        }
        let is_kept = named.len() == 1 && self.keep_alive.is_none();
        let serving = Arc::new(self.serving.clone());
        let mut models = Vec::new();
        for mut one in named {
            let name = one.name.clone();
            one.find()?;
            let (serving, failure) = (serving.clone(), failure.clone());
            let load: Loader = Arc::new(move || {
                one.load(&serving).map_err(|error| {
                    let message = format!("{error:#}");
                    let _ = failure.try_send(error);
                    message
                })
            });
            let source = if is_kept { ModelSource::AtStart(load) } else { ModelSource::OnDemand(load) };
            models.push((name, source));
        }
        Ok(models)
    }

    fn config(&self, address: SocketAddr, keys: Keys, tls: Option<Tls>) -> Config {
        let mut config = Config::new(address);
        config.keys = keys;
        config.hosts = self.http.host_name.clone();
        config.origins = self.http.cors_origin.clone();
        config.max_models = self.models_max.get();
        config.keep_alive = self.keep_alive.map(|seconds| Duration::from_secs(seconds.get()));
        config.slots = self.http.slots;
        config.page = !self.http.no_page;
        config.aliases = self.http.alias.get(1..).unwrap_or_default().to_vec();
        let mut variables = self.serving.template.variables();
        if self.reasoning != Reasoning::Auto {
            variables.extend(engine::template::reasoning_switch(self.reasoning == Reasoning::On));
        }
        config.defaults = Defaults { params: self.params.0.clone(), variables };
        config.tls = tls;
        config.drain = Duration::from_secs(self.http.drain_timeout);
        config.limits.requests = self.http.max_requests.get();
        config
    }
}
