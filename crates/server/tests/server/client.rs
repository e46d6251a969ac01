//! A server for a test, and a client that sees every byte.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::num::NonZero;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use backend::Backend;
use backend_cpu::Cpu;
use engine::{Engine, Model, Options, Speculation};
use gguf::Gguf;
use serde_json::Value as Json;
use server::{Config, ModelSource, Reload, Server, Shutdown};

/// Long after any answer.
const HANG: Duration = Duration::from_secs(120);

/// A chat template with tool calls as Hermes 2 Pro writes them.
pub(crate) const TOOLS: &str = "\
{%- if tools %}<|im_start|>system
<tools>
{%- for tool in tools %}
{{ tool | tojson }}
{%- endfor %}
</tools>
<tool_call>
{\"name\": <function-name>, \"arguments\": <args-json-object>}
</tool_call><|im_end|>
{% endif %}
{%- for message in messages %}
{{- '<|im_start|>' + message.role + '\\n' + (message.content or '') }}
{%- for call in message.tool_calls or [] %}
<tool_call>
{\"name\": \"{{ call.function.name }}\", \"arguments\": {{ call.function.arguments | tojson }}}
</tool_call>
{%- endfor %}
{{- '<|im_end|>\\n' }}
{%- endfor %}
{%- if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}";

/// The embedded model.
fn demo_file() -> Model {
    let file = Gguf::from_bytes(bytes::Bytes::from_static(demo_model::EMBEDDED)).expect("a good file");
    Model::new(file).expect("a good model")
}

pub(crate) struct Running {
    pub(crate) address: SocketAddr,
    pub(crate) reload: Reload,
    shutdown: Shutdown,
    thread: Option<JoinHandle<()>>,
}

/// The embedded model on an engine.
pub(crate) fn demo() -> Engine {
    engine(demo_file(), None)
}

/// The same with drafts.
pub(crate) fn speculating() -> Engine {
    engine(demo_file(), Some(Speculation::default()))
}

pub(crate) fn engine(model: Model, speculation: Option<Speculation>) -> Engine {
    let options = Options {
        n_ctx: Some(512),
        sequences: 8,
        n_batch: 64,
        blocks: Some(96),
        step_target: Some(Duration::from_millis(100)),
        speculation,
        ..Options::default()
    };
    Engine::new(Arc::new(model), cpu(), options).expect("it fits")
}

pub(crate) fn cpu() -> Box<dyn Backend> {
    Box::new(Cpu::new(NonZero::new(2)))
}

/// The same, with weights that stay in the file.
pub(crate) fn mapped() -> Box<dyn Backend> {
    Box::new(Cpu::new(NonZero::new(2)).without_repacking())
}

impl Running {
    pub(crate) fn new() -> Running {
        Running::with(|_| {})
    }

    /// A server of the embedded model, called `demo`.
    pub(crate) fn with(change: impl FnOnce(&mut Config)) -> Running {
        Running::serve(vec![("demo".into(), demo().into())], change)
    }

    /// The same with another chat template.
    pub(crate) fn with_template(source: &str) -> Running {
        Running::with_template_and(source, |_| {})
    }

    pub(crate) fn with_template_and(source: &str, change: impl FnOnce(&mut Config)) -> Running {
        let model = demo_file().with_template(source).expect("a good template");
        Running::serve(vec![("demo".into(), engine(model, None).into())], change)
    }

    pub(crate) fn serve(models: Vec<(String, ModelSource)>, change: impl FnOnce(&mut Config)) -> Running {
        let mut config = Config::new(SocketAddr::from(([127, 0, 0, 1], 0)));
        change(&mut config);
        let server = Server::new(config, models).expect("a free port");
        let address = server.address().expect("it listens");
        let (shutdown, reload) = (server.shutdown(), server.reload());
        let thread = std::thread::spawn(|| server.run().expect("it serves"));
        Running { address, reload, shutdown, thread: Some(thread) }
    }

    pub(crate) fn stop(&self) {
        self.shutdown.stop();
    }

    /// Waits for the end of the server.
    pub(crate) fn wait(mut self) {
        self.thread.take().into_iter().for_each(|thread| thread.join().expect("it ends well"));
    }

    pub(crate) fn post(&self, path: &str, body: &Json) -> Answer {
        self.send("POST", path, &[("content-type", "application/json")], body.to_string().as_bytes())
    }

    pub(crate) fn get(&self, path: &str) -> Answer {
        self.send("GET", path, &[], b"")
    }

    pub(crate) fn send(&self, method: &str, path: &str, headers: &[(&str, &str)], body: &[u8]) -> Answer {
        Answer::read(self.open(method, path, headers, body))
    }

    /// Sends a request, and does not wait for the answer.
    pub(crate) fn open(&self, method: &str, path: &str, headers: &[(&str, &str)], body: &[u8]) -> TcpStream {
        let mut stream = TcpStream::connect(self.address).expect("it listens");
        stream.set_read_timeout(Some(HANG)).expect("a time");
        let mut head =
            format!("{method} {path} HTTP/1.1\r\nconnection: close\r\ncontent-length: {}\r\n", body.len());
        if !headers.iter().any(|(name, _)| *name == "host") {
            head += &format!("host: {}\r\n", self.address);
        }
        for (name, value) in headers {
            head += &format!("{name}: {value}\r\n");
        }
        // Also a body that the server refuses before it has read it.
        let sent = stream.write_all((head + "\r\n").as_bytes()).and_then(|()| stream.write_all(body));
        sent.expect("the server takes everything in");
        stream
    }

    /// Waits until a figure of `/metrics` is `expected`.
    pub(crate) fn until(&self, name: &str, expected: f64) {
        let begin = Instant::now();
        while self.figure(name) != expected {
            assert!(begin.elapsed() < HANG, "{name} never is {expected}");
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    /// A figure of `/metrics`.
    pub(crate) fn figure(&self, name: &str) -> f64 {
        let text = self.get("/metrics").body;
        let line = text.lines().find(|line| line.starts_with(&format!("{name}{{"))).expect("a figure");
        line.rsplit(' ').next().and_then(|number| number.parse().ok()).expect("a number")
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.shutdown.stop();
    }
}

#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: String,
}

impl Answer {
    pub(crate) fn read(stream: TcpStream) -> Answer {
        let mut reader = BufReader::new(stream);
        let mut line = || {
            let mut line = String::new();
            reader.read_line(&mut line).expect("an answer");
            line.trim_end().to_owned()
        };
        let status = line().split(' ').nth(1).and_then(|status| status.parse().ok()).expect("a status");
        let mut headers = Vec::new();
        loop {
            let header = line();
            let Some((name, value)) = header.split_once(": ") else { break };
            headers.push((name.to_lowercase(), value.to_owned()));
        }
        let is_chunked =
            headers.iter().any(|(name, value)| name == "transfer-encoding" && value == "chunked");
        let mut body = Vec::new();
        if is_chunked {
            loop {
                let mut size = String::new();
                reader.read_line(&mut size).expect("a chunk");
                let size = usize::from_str_radix(size.trim(), 16).expect("the size of a chunk");
                let mut chunk = vec![0; size + 2];
                reader.read_exact(&mut chunk).expect("a whole chunk");
                body.extend_from_slice(&chunk[..size]);
                if size == 0 {
                    break;
                }
            }
        } else {
            reader.read_to_end(&mut body).expect("a body");
        }
        Answer { status, headers, body: String::from_utf8(body).expect("text") }
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(own, _)| own == name).map(|(_, value)| &**value)
    }

    /// The body of a good answer.
    pub(crate) fn json(&self) -> Json {
        assert_eq!(self.status, 200, "{}", self.body);
        serde_json::from_str(&self.body).expect("JSON")
    }

    /// The error of an answer with this status.
    pub(crate) fn error(&self, status: u16) -> Json {
        assert_eq!(self.status, status, "{}", self.body);
        let json: Json = serde_json::from_str(&self.body).expect("JSON");
        let error = json["error"].clone();
        for field in ["message", "type", "param", "code"] {
            assert!(error.get(field).is_some(), "{json} lacks {field}");
        }
        error
    }

    /// The events of a stream, which ends with `[DONE]`.
    pub(crate) fn events(&self) -> Vec<Json> {
        assert_eq!(self.status, 200, "{}", self.body);
        assert_eq!(self.header("content-type"), Some("text/event-stream"));
        let data = self.body.lines().filter_map(|line| line.strip_prefix("data: "));
        let mut data: Vec<&str> = data.collect();
        assert_eq!(data.pop(), Some("[DONE]"));
        data.into_iter().map(|event| serde_json::from_str(event).expect("JSON")).collect()
    }
}
