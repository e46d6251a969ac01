//! Several requests at once: what they share, and what they must not.

use std::io::{Read, Write};
use std::thread;
use std::time::Duration;

use serde_json::{Value as Json, json};
use server::Keys;

use crate::client::{Answer, Running};

const CHAT: &str = "/v1/chat/completions";

fn ask(text: &str, seed: u32) -> Json {
    let messages = json!([{ "role": "user", "content": text }]);
    json!({ "messages": messages, "temperature": 0.8, "seed": seed, "max_tokens": 24 })
}

fn content(answer: &Answer) -> Json {
    answer.json()["choices"][0]["message"]["content"].clone()
}

#[test]
fn an_answer_is_the_same_alone_and_among_others() {
    let server = Running::new();
    let questions: Vec<Json> = (0..16)
        .map(|i| ask(&format!("What is {i} plus two? {}", "And why? ".repeat(i as usize)), i))
        .collect();
    let alone: Vec<Json> = questions.iter().map(|body| content(&Running::new().post(CHAT, body))).collect();
    for _ in 0..2 {
        let together = thread::scope(|scope| {
            let asked: Vec<_> =
                questions.iter().map(|body| scope.spawn(|| content(&server.post(CHAT, body)))).collect();
            asked.into_iter().map(|asked| asked.join().unwrap()).collect::<Vec<_>>()
        });
        assert_eq!(together, alone, "cold, or with a cache");
    }
}

#[test]
fn clients_share_no_cache() {
    let server = Running::with(|config| config.keys = Keys::new(["one", "two"]));
    let body = ask(&"The same long question. ".repeat(20), 1).to_string();
    let cached = |key: &str| {
        let headers = [("content-type", "application/json"), ("x-api-key", key)];
        let usage = server.send("POST", CHAT, &headers, body.as_bytes()).json()["usage"].clone();
        usage["prompt_tokens_details"]["cached_tokens"].as_u64().unwrap()
    };
    assert_eq!(cached("one"), 0);
    assert!(cached("one") > 32);
    assert_eq!(cached("two"), 0, "it is the other's");
}

/// Who has a place in a file of keys, has no right to what was cached for another one at that place.
#[test]
fn a_new_key_finds_nothing_of_an_old_one() {
    let server = Running::with(|config| config.keys = Keys::new(["old", "new"]));
    let body = ask(&"The same long question. ".repeat(20), 1).to_string();
    let cached = |key: &str| {
        let headers = [("content-type", "application/json"), ("x-api-key", key)];
        let usage = server.send("POST", CHAT, &headers, body.as_bytes()).json()["usage"].clone();
        usage["prompt_tokens_details"]["cached_tokens"].as_u64().expect("a number")
    };
    assert_eq!(cached("old"), 0);
    server.reload.replace(Keys::new(["new"]));
    assert_eq!(cached("new"), 0);
    assert!(cached("new") > 32);
}

#[test]
fn who_leaves_is_forgotten() {
    let server = Running::new();
    let mut body = ask("Tell me a long story.", 1);
    body["max_tokens"] = 400.into();
    body["ignore_eos"] = true.into();
    let mut before = 0.0;
    for is_stream in [false, true] {
        body["stream"] = is_stream.into();
        let mut stream =
            server.open("POST", CHAT, &[("content-type", "application/json")], body.to_string().as_bytes());
        server.until("vllm:num_requests_running", 1.0);
        if is_stream {
            stream.read_exact(&mut [0; 100]).expect("the beginning of the answer");
        }
        drop(stream);
        server.until("vllm:num_requests_running", 0.0);
        assert_eq!(server.figure("vllm:kv_cache_usage_perc"), 0.0);
        assert_eq!(server.figure("vllm:request_success_total"), 0.0);
        let generated = server.figure("vllm:generation_tokens_total");
        assert!(generated < before + 400.0, "it ran to its end: {generated} tokens after {before}");
        before = generated;
    }
    // What they took is counted all the same.
    assert!(server.figure("vllm:prompt_tokens_total") > 0.0);
    assert!(before > 0.0);
}

#[test]
fn nothing_is_in_use_after_an_answer() {
    let server = Running::new();
    server.post(CHAT, &ask("Hi", 1)).json();
    server.until("vllm:num_requests_running", 0.0);
    server.until("vllm:kv_cache_usage_perc", 0.0);
    assert_eq!(server.figure("vllm:request_success_total"), 1.0);
}

#[test]
fn a_full_server_says_so_before_the_first_byte() {
    let server = Running::with(|config| config.limits.requests = 1);
    let mut body = ask("Tell me a long story.", 1);
    (body["max_tokens"], body["ignore_eos"]) = (300.into(), true.into());
    let first =
        server.open("POST", CHAT, &[("content-type", "application/json")], body.to_string().as_bytes());
    server.until("vllm:num_requests_running", 1.0);
    let refused = server.post(CHAT, &ask("Hi", 1));
    assert_eq!(refused.error(503)["code"], "server_overloaded");
    assert!(refused.header("retry-after").is_some());
    assert_eq!(server.get("/health").status, 200);
    Answer::read(first).json();
    server.post(CHAT, &ask("Hi", 1)).json();
}

#[test]
fn who_is_cut_off_at_the_end_is_told() {
    let server = Running::with(|config| config.drain = Duration::from_millis(1));
    let open = |path: &str, is_stream: bool| {
        let messages = json!([{ "role": "user", "content": "Tell me a story." }]);
        let body =
            json!({ "messages": messages, "max_tokens": 450, "ignore_eos": true, "stream": is_stream });
        server.open("POST", path, &[("content-type", "application/json")], body.to_string().as_bytes())
    };
    let whole = open(CHAT, false);
    let streams = [CHAT, "/v1/messages", "/api/chat"].map(|path| open(path, true));
    server.until("vllm:num_requests_running", 4.0);
    server.stop();
    assert_eq!(Answer::read(whole).error(503)["code"], "server_overloaded");
    for stream in streams {
        let answer = Answer::read(stream);
        assert!(answer.status == 200 && answer.body.contains("shutting down"), "{answer:?}");
    }
    server.wait();
}

/// What follows a request does not hide that its client has left.
#[test]
fn who_leaves_with_a_line_too_many_is_forgotten() {
    let server = Running::new();
    let mut body = ask("Tell me a long story.", 1);
    (body["max_tokens"], body["ignore_eos"]) = (400.into(), true.into());
    let mut stream =
        server.open("POST", CHAT, &[("content-type", "application/json")], body.to_string().as_bytes());
    stream.write_all(b"\r\n").expect("it listens");
    server.until("vllm:num_requests_running", 1.0);
    drop(stream);
    server.until("vllm:num_requests_running", 0.0);
    assert_eq!(server.figure("vllm:request_success_total"), 0.0, "it ran to its end");
}

#[test]
fn a_server_that_stops_finishes_what_it_has_begun() {
    let server = Running::new();
    let mut body = ask("Tell me a story.", 1);
    (body["max_tokens"], body["ignore_eos"], body["stream"]) = (200.into(), true.into(), true.into());
    let stream =
        server.open("POST", CHAT, &[("content-type", "application/json")], body.to_string().as_bytes());
    server.until("vllm:num_requests_running", 1.0);
    server.stop();
    // Routers are told until the end to ask another server.
    while server.get("/ready").status != 503 {}
    assert_eq!(server.get("/health").status, 200);
    server.post(CHAT, &ask("Hi", 1)).error(503);
    let events = Answer::read(stream).events();
    assert!(events.iter().any(|event| event["choices"][0]["finish_reason"] == "length"));
    server.wait();
}
