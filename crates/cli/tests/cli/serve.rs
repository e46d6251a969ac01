//! `serve`: from the command line to an answer over HTTP, and to the end.

use std::io::{BufRead, BufReader, Lines, Read, Write};
use std::net::TcpStream;
use std::process::{Child, ChildStderr, Stdio};
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::{Value, json};
use testkit::fixtures;

use crate::common::Home;

struct Serving {
    child: Child,
    said: Lines<BufReader<ChildStderr>>,
    address: String,
}

impl Serving {
    fn new(home: &Home, args: &str) -> Serving {
        let mut command = home.command(&format!("serve --port 0 {args}"));
        let mut child = command.stderr(Stdio::piped()).spawn().expect("the program starts");
        let mut said = BufReader::new(child.stderr.take().expect("a pipe")).lines();
        let mut seen = String::new();
        let address = loop {
            let line = said.next().unwrap_or_else(|| panic!("it ends with: {seen}")).expect("UTF-8");
            seen += &line;
            if let Some((_, rest)) = line.split_once("http://") {
                break rest.split(' ').next().expect("an address").to_owned();
            }
        };
        Serving { child, said, address }
    }

    /// The status and the body of the answer.
    fn send(&self, head: &str, body: &str) -> (u16, String) {
        let mut stream = TcpStream::connect(&self.address).expect("it listens");
        stream.set_read_timeout(Some(Duration::from_secs(120))).expect("a time");
        let (host, length) = (&self.address, body.len());
        let head = format!(
            "{head} HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\ncontent-length: {length}\r\n\r\n"
        );
        stream.write_all((head + body).as_bytes()).expect("a request");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("an answer");
        let status = answer.split(' ').nth(1).and_then(|status| status.parse().ok()).expect("a status");
        let (_, body) = answer.split_once("\r\n\r\n").expect("a body");
        (status, body.to_owned())
    }

    fn post(&self, path: &str, body: &Value) -> Value {
        let (status, body) = self.send(&format!("POST {path}"), &body.to_string());
        assert_eq!(status, 200, "{body}");
        serde_json::from_str(&body).expect("JSON")
    }

    /// Ends it with a signal, and gives what it said since the beginning.
    fn end(mut self, signal: Signal) -> (Option<i32>, String) {
        kill(Pid::from_raw(self.child.id().try_into().expect("an id")), signal).expect("it is there");
        let said: Vec<String> = self.said.by_ref().map(|line| line.expect("UTF-8")).collect();
        (self.child.wait().expect("it ends").code(), said.join("\n"))
    }
}

fn models(serving: &Serving) -> Vec<Value> {
    let (_, body) = serving.send("GET /v1/models", "");
    let list: Value = serde_json::from_str(&body).expect("JSON");
    list["data"].as_array().expect("models").clone()
}

#[test]
fn a_model_is_served_until_a_signal() {
    let home = Home::new();
    let serving = Serving::new(&home, "MODEL --parallel 2 -c 64");
    let names: Vec<Value> = models(&serving).iter().map(|model| model["id"].clone()).collect();
    assert_eq!(names, ["model"]);
    let answer =
        serving.post("/v1/completions", &json!({ "prompt": "a b", "max_tokens": 3, "ignore_eos": true }));
    assert_eq!(answer["usage"]["completion_tokens"], 3);
    let (code, said) = serving.end(Signal::SIGTERM);
    assert_eq!((code, &*said), (Some(0), ""));
}

#[test]
fn several_models_are_loaded_when_they_are_asked_for() {
    let home = Home::new();
    let (_, spec) =
        fixtures::encoders().into_iter().find(|(name, _)| name == "F32-bert").expect("an encoder");
    spec.write_to(&home.path("bert.gguf")).expect("the model is written");
    let serving = Serving::new(&home, "-m writes=model.gguf -m bert.gguf");
    let found: Vec<Value> =
        models(&serving).iter().map(|one| json!([one["id"], one["status"]["value"]])).collect();
    assert_eq!(found, [json!(["writes", "unloaded"]), json!(["bert", "unloaded"])]);
    let body = json!({ "model": "bert", "input": "a b" });
    let embedding = serving.post("/v1/embeddings", &body)["data"][0]["embedding"].clone();
    let alone = home.run_with("embed -m bert.gguf --json", &["a b"]).json();
    assert_eq!(embedding, alone["data"][0]["embedding"]);
    serving.post("/v1/completions", &json!({ "model": "writes", "prompt": "a", "max_tokens": 1 }));
    assert!(models(&serving).iter().all(|one| one["status"]["value"] == "loaded"));
    let (code, said) = serving.end(Signal::SIGINT);
    assert_eq!(code, Some(0));
    assert!(said.contains("bert: computes embeddings") && said.contains("writes: 16 requests"), "{said}");
}

#[test]
fn mistakes_are_told_before_it_listens() {
    let home = Home::new();
    for (args, message) in [
        ("-m MODEL -m MODEL", "two models are called `model`; name them: -m NAME=MODEL"),
        ("-m a=model.gguf -m b=model.gguf --alias c", "--alias names one model"),
        ("--host 0.0.0.0", "others can reach 0.0.0.0"),
        ("--alias a,,b", "expected a name"),
        ("--cors-origin example.org", "expected an origin such as https://example.org"),
        ("--cors-origin https://exam*.org", "expected an origin such as https://example.org"),
        ("--host-name https://example.org", "expected a name without scheme"),
        ("--host-name a.*.org", "expected a name without scheme"),
        ("--cors-origin https://example.org/page", "expected an origin such as https://example.org"),
        ("--chat-template-kwargs {\"messages\":[]}", "messages is set by the program"),
    ] {
        let error = home.run(&format!("serve --port 0 {args}")).failed(2);
        assert!(error.contains(message), "{error}");
    }
    let error = home.run("serve --port 0 -m a=gone.gguf -m b=model.gguf").failed(1);
    assert!(error.contains("gone.gguf"), "{error}");
}
