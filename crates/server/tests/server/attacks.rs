//! Attacks on other servers, tried on this one. A CVE is where such an attack was found.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::time::Duration;

use serde_json::{Value as Json, json};
use server::Keys;

use crate::client::{Answer, Running, TOOLS};

const CHAT: &str = "/v1/chat/completions";
const JSON: (&str, &str) = ("content-type", "application/json");

fn chat(more: Json) -> Json {
    let mut body = json!({ "messages": [{ "role": "user", "content": "Hi" }], "max_tokens": 2 });
    for (name, value) in more.as_object().expect("an object") {
        body[name] = value.clone();
    }
    body
}

/// The server still answers.
fn is_well(server: &Running) {
    server.post(CHAT, &chat(json!({}))).json();
}

/// What the server says to these bytes until it closes the connection.
fn raw(server: &Running, bytes: &[u8]) -> String {
    let mut stream = TcpStream::connect(server.address).expect("it listens");
    stream.set_read_timeout(Some(Duration::from_secs(60))).expect("a time");
    // It may close the connection before it has read everything.
    let _ = stream.write_all(bytes);
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer);
    String::from_utf8_lossy(&answer).into_owned()
}

/// CVE-2025-46570 (vLLM): the prefix cache told by its speed what others had asked.
#[test]
fn nobody_learns_from_the_cache_what_others_asked() {
    let server = Running::with(|config| config.keys = Keys::new(["one", "two"]));
    let body = json!({ "prompt": "word ".repeat(100), "max_tokens": 1 });
    let cached = |key: &str, salt: Option<&str>| {
        let mut body = body.clone();
        body["cache_salt"] = salt.into();
        let bearer = format!("Bearer {key}");
        let headers = [JSON, ("authorization", &*bearer)];
        let answer = server.send("POST", "/v1/completions", &headers, body.to_string().as_bytes()).json();
        answer["usage"]["prompt_tokens_details"]["cached_tokens"].as_u64().expect("a count")
    };
    assert_eq!(cached("one", None), 0);
    assert!(cached("one", None) > 0);
    assert_eq!(cached("two", None), 0);
    // A key that several people share.
    assert_eq!(cached("one", Some("salt")), 0);
}

/// CVE-2025-62426 (vLLM): variables of the chat template became arguments of the renderer, and a template of its own ran.
#[test]
fn variables_of_the_template_change_nothing_of_the_servers() {
    let server = Running::new();
    for name in ["messages", "tools", "add_generation_prompt", "bos_token", "eos_token", "strftime_now"] {
        let error = server.post(CHAT, &chat(json!({ "chat_template_kwargs": { name: "x" } }))).error(400);
        assert_eq!(error["param"], "chat_template_kwargs");
    }
    let expected = server.post("/apply-template", &chat(json!({}))).json();
    let own = json!({ "chat_template": "{{ 7 * 7 }}", "tokenize": true, " run": 1, "self": 1, "range": 1 });
    for more in [json!({ "chat_template_kwargs": own }), json!({ "chat_template": "{{ 7 * 7 }}" })] {
        assert_eq!(server.post("/apply-template", &chat(more)).json(), expected);
    }
}

/// CVE-2025-48942, -48943 and -48944 (vLLM): a schema, an expression or a tool that cannot be compiled ended the process.
#[test]
fn tools_that_cannot_be_compiled_are_errors() {
    let server = Running::with_template(TOOLS);
    let bad = [
        json!({ "type": "something" }),
        json!({ "type": "object", "properties": { "a": { "type": "string", "pattern": "a{" } } }),
        json!({ "type": "object", "properties": { "a": { "type": "string", "pattern": "(?=x)" } } }),
        json!({ "type": "object", "properties": { "a": { "$ref": "#/nowhere" } } }),
        json!({ "type": "object", "properties": 5 }),
    ];
    for parameters in bad {
        let tool = |is_strict: bool| {
            let function = json!({ "name": "f", "parameters": parameters, "strict": is_strict });
            chat(
                json!({ "tools": [{ "type": "function", "function": function }], "tool_choice": "required" }),
            )
        };
        assert_eq!(server.post(CHAT, &tool(true)).error(400)["param"], "tools", "{parameters}");
        // What cannot be enforced is left open unless the tool is strict; a root that is no object is none.
        let status = server.post(CHAT, &tool(false)).status;
        assert!(status == 200 || parameters["type"] == "something", "{parameters}: {status}");
    }
    for tool in
        [json!({}), json!(5), json!({ "type": "function" }), json!({ "type": "function", "function": {} })]
    {
        let answer = server.post(CHAT, &chat(json!({ "tools": [tool], "tool_choice": "required" })));
        assert!((400..500).contains(&answer.status), "{tool}: {}", answer.body);
    }
    is_well(&server);
}

/// Expressions and schemas that need exponential time or memory in other engines.
#[test]
fn bombs_in_grammars_come_to_an_end() {
    let server = Running::new();
    let doubling = (0..60).fold("root ::= r59\nr0 ::= \"a\"\n".to_owned(), |text, n| {
        text + &format!("r{} ::= r{n} r{n}\n", n + 1)
    });
    let doubled = (0..60).fold(json!({ "d0": { "type": "string" } }), |mut all, n| {
        let before = json!({ "$ref": format!("#/$defs/d{n}") });
        all[format!("d{}", n + 1)] =
            json!({ "type": "array", "prefixItems": [before, before], "minItems": 2 });
        all
    });
    let bombs = [
        json!({ "guided_regex": "(((((((a{1,99}){1,99}){1,99}){1,99}){1,99}){1,99}){1,99})" }),
        json!({ "guided_regex": "(a|a)*".repeat(2000) }),
        json!({ "guided_regex": "(".repeat(100_000) }),
        json!({ "grammar": doubling }),
        json!({ "grammar": format!("root ::= {}", "(".repeat(50_000)) }),
        json!({ "grammar": "root ::= root root | root" }),
        json!({ "json_schema": { "$ref": "#/$defs/d60", "$defs": doubled } }),
        json!({ "json_schema": { "type": "string", "minLength": 1_000_000_000 } }),
        json!({ "json_schema": { "type": "array", "minItems": 1_000_000_000, "items": {} } }),
    ];
    for bomb in bombs {
        let answer = server.post(CHAT, &chat(bomb.clone()));
        let shown: String = bomb.to_string().chars().take(80).collect();
        // 503 while the threads that compile are at work on those before.
        assert!([200, 400, 503].contains(&answer.status), "{shown}: {} {}", answer.status, answer.body);
    }
    is_well(&server);
}

/// A chat template and variables that multiply each other: the deadline of a rendering is an error.
#[test]
fn renderings_without_an_end_are_errors() {
    let nested = "{% for a in messages %}{% for b in range(90000) %}{% set c = b ~ a.content %}{% endfor %}{% endfor %}x";
    let server = Running::with_template(nested);
    let messages: Vec<Json> = (0..400).map(|_| json!({ "role": "user", "content": "a" })).collect();
    let error = server.post(CHAT, &json!({ "messages": messages, "max_tokens": 1 })).error(400);
    let message = error["message"].as_str().expect("a message");
    assert!(message.contains("in time") || message.contains("steps"), "{message}");
}

/// CVE-2025-48956 (vLLM): one large header took all memory.
#[test]
fn large_heads_end_the_connection() {
    let server = Running::new();
    let head = |name: &str| format!("GET /health HTTP/1.1\r\nhost: localhost\r\n{name}");
    let large = head(&format!("x: {}\r\n\r\n", "a".repeat(8 << 20)));
    let many = head(&"x: y\r\n".repeat(1000)) + "\r\n";
    let endless = head(&"x: ".repeat(1 << 20));
    for request in [large, many, endless] {
        let answer = raw(&server, request.as_bytes());
        assert!(answer.is_empty() || answer.starts_with("HTTP/1.1 4"), "{answer}");
    }
    is_well(&server);
}

/// CVE-2025-59425 (vLLM): the time of a comparison told how much of a key was right. Hashes are compared, in constant time; what
/// can be seen here is that nothing but the key itself is one.
#[test]
fn a_part_of_a_key_is_no_key() {
    let server = Running::with(|config| config.keys = Keys::new(["0123456789abcdef"]));
    let status = |key: &str| server.send("GET", "/v1/models", &[("authorization", key)], b"").status;
    assert_eq!(status("Bearer 0123456789abcdef"), 200);
    for wrong in
        ["", "0", "0123456789abcde", "0123456789abcdef0", "0123456789ABCDEF", "0123456789abcdef, x", "*"]
    {
        assert_eq!(status(&format!("Bearer {wrong}")), 401, "{wrong}");
        assert_eq!(status(wrong), 401, "{wrong}");
    }
}

/// CVE-2026-48746 (vLLM): a `Host` with a path made other paths look like those that need no key.
#[test]
fn no_spelling_of_a_path_needs_no_key() {
    let server = Running::with(|config| config.keys = Keys::new(["one"]));
    let hosts = ["localhost/health?", "localhost/health#", "localhost/page/", "localhost@x/health"];
    for host in hosts {
        let status = server.send("GET", "/v1/models", &[("host", host)], b"").status;
        assert!(status == 400 || status == 401, "{host}: {status}");
    }
    for path in [
        "/page/../v1/models",
        "/page/%2e%2e/metrics",
        "//v1/models",
        "/health/../metrics",
        "/v1/models?/health",
    ] {
        let answer = server.get(path);
        assert!([400, 401, 404].contains(&answer.status), "{path}: {}", answer.status);
        assert!(!answer.body.contains("demo"), "{path}: {}", answer.body);
    }
    let address = server.address;
    let absolute =
        format!("GET http://{address}/v1/models HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n\r\n");
    assert!(raw(&server, absolute.as_bytes()).starts_with("HTTP/1.1 401"));
}

/// CVE-2026-24779 (vLLM): two parsers read the host of an address differently, and the server fetched from its own network.
#[test]
fn nothing_is_fetched() {
    let server = Running::new();
    let trap = TcpListener::bind("127.0.0.1:0").expect("a port");
    trap.set_nonblocking(true).expect("a listener");
    let port = trap.local_addr().expect("an address").port();
    let urls = [
        format!("http://127.0.0.1:{port}/x.png"),
        format!("http://example.com\\@127.0.0.1:{port}/x.png"),
        format!("http://example.com#@127.0.0.1:{port}/x.png"),
        format!("file://127.0.0.1:{port}/etc/passwd"),
    ];
    for url in urls {
        let part = json!({ "type": "image_url", "image_url": { "url": url } });
        let own = json!({ "type": "image", "source": { "type": "url", "url": url } });
        let input = json!({ "role": "user", "content": [{ "type": "input_image", "image_url": url }] });
        let schema = json!({ "$ref": url });
        let calls = [
            (CHAT, chat(json!({ "messages": [{ "role": "user", "content": [part] }] }))),
            (CHAT, chat(json!({ "json_schema": schema }))),
            ("/v1/messages", chat(json!({ "messages": [{ "role": "user", "content": [own] }] }))),
            ("/v1/responses", json!({ "input": [input] })),
            ("/api/chat", json!({ "messages": [{ "role": "user", "content": "a", "images": [url] }] })),
            ("/api/generate", json!({ "prompt": "a", "images": [url] })),
        ];
        for (path, body) in calls {
            assert_eq!(server.post(path, &body).status, 400, "{path}: {body}");
        }
    }
    for path in ["/api/pull", "/api/push", "/api/create"] {
        let body = json!({ "model": format!("http://127.0.0.1:{port}/library/x"), "insecure": true });
        assert_eq!(server.post(path, &body).status, 501, "{path}");
    }
    assert!(trap.accept().is_err(), "somebody has called");
}

/// CVE-2026-21869 (llama.cpp): a negative number of tokens to discard wrote beyond the context.
#[test]
fn negative_numbers_of_tokens_do_no_harm() {
    let server = Running::new();
    for n in [-1, -4096, i64::MIN] {
        let body = json!({ "prompt": "word ".repeat(50), "n_predict": -1, "ignore_eos": true, "n_discard": n, "n_keep": n });
        // It ends when the context is full; nothing is discarded.
        let answer = server.post("/completion", &body).json();
        assert_eq!((&answer["stop_type"], &answer["truncated"]), (&json!("limit"), &json!(true)));
    }
    for (name, path) in
        [("n_predict", "/completion"), ("max_tokens", "/v1/completions"), ("repeat_last_n", "/completion")]
    {
        let body = json!({ "prompt": "a", name: i64::MIN });
        assert_eq!(server.post(path, &body).status, 400, "{name}");
    }
}

/// CVE-2024-28224 (ollama): a page of another site reached the server under a name of its own.
#[test]
fn names_that_lead_here_are_not_ours() {
    let server = Running::new();
    for host in
        ["evil.example", "127.0.0.1.evil.example", "localhost.evil.example", "evil.example:80", "0x7f.1.evil"]
    {
        for path in ["/api/tags", "/api/chat", "/v1/models", "/"] {
            assert_eq!(server.send("GET", path, &[("host", host)], b"").status, 400, "{host} {path}");
        }
    }
}

/// An address leads to itself whatever a page does, and load balancers that ask for the health by HTTP/1.0 name no host.
#[test]
fn addresses_need_no_name() {
    let server = Running::new();
    for host in ["192.0.2.7", "[2001:db8::7]:8080", "127.0.0.1:1", "LOCALHOST"] {
        assert_eq!(server.send("GET", "/v1/models", &[("host", host)], b"").status, 200, "{host}");
    }
    for (line, status) in
        [("HTTP/1.0", 200), ("HTTP/1.0\r\nhost: evil.example", 400), ("HTTP/1.1\r\nconnection: close", 400)]
    {
        let answer = raw(&server, format!("GET /health {line}\r\n\r\n").as_bytes());
        assert_eq!(answer.split(' ').nth(1), Some(&*status.to_string()), "{line:?}: {answer}");
    }
}

/// CVE-2024-12886 (ollama): what was small on the wire took all memory when it was unpacked.
#[test]
fn compressed_bodies_are_refused() {
    let server = Running::new();
    let body = chat(json!({})).to_string();
    for coding in ["gzip", "deflate", "br", "zstd", "identity, gzip"] {
        let answer = server.send("POST", CHAT, &[JSON, ("content-encoding", coding)], body.as_bytes());
        assert!(answer.error(415)["message"].as_str().expect("a message").contains("compressed"), "{coding}");
    }
    server.send("POST", CHAT, &[JSON, ("content-encoding", "identity")], body.as_bytes()).json();
}

/// CVE-2024-37032 (ollama): a digest was a path out of the folder of models. Names of models and files of the page are such texts.
#[test]
fn names_are_no_paths() {
    let server = Running::with(|config| config.strict_model = true);
    for name in
        ["../../etc/passwd", "/etc/passwd", "sha256:../../../etc/passwd", "..\\..\\x", "demo/../demo", "a\0b"]
    {
        for path in [CHAT, "/api/show", "/api/chat"] {
            let body = chat(json!({ "model": name }));
            assert_eq!(server.post(path, &body).status, 404, "{path} {name}");
        }
    }
    for path in [
        "/api/blobs/sha256:..%2f..%2fetc%2fpasswd",
        "/page/..%2f..%2fetc%2fpasswd",
        "/page//etc/passwd",
        "/page/../Cargo.toml",
    ] {
        let answer = server.get(path);
        assert!([404, 405].contains(&answer.status), "{path}: {}", answer.status);
    }
    assert_eq!(server.send("POST", "/api/blobs/sha256:..%2f..%2fx", &[], b"x").status, 501);
}

/// Bodies that nest as deep as they are long, in a stack of one thread.
#[test]
fn deep_bodies_are_errors() {
    let server = Running::new();
    for (open, close) in [("[", "]"), ("{\"a\":", "}")] {
        for field in ["messages", "tools", "json_schema", "logit_bias", "chat_template_kwargs"] {
            let (open, close) = (open.repeat(100_000), close.repeat(100_000));
            let body = format!("{{\"{field}\": {open}1{close}}}");
            server.send("POST", CHAT, &[JSON], body.as_bytes()).error(400);
        }
    }
    is_well(&server);
}

/// A proxy that takes the other one of two headers sees another request than this server.
#[test]
fn headers_that_are_there_twice_are_refused() {
    let server = Running::with(|config| config.keys = Keys::new(["one"]));
    let key = ("authorization", "Bearer one");
    let twice = [
        [("host", "localhost"), ("host", "evil.example"), key],
        [key, ("authorization", "Bearer two"), ("x", "y")],
        [("x-api-key", "one"), ("x-api-key", "two"), ("x", "y")],
        [("origin", "http://localhost"), ("origin", "http://evil.example"), key],
    ];
    for headers in twice {
        assert_eq!(server.send("GET", "/v1/models", &headers, b"").status, 400, "{headers:?}");
    }
}

/// What is refused by its length is refused before it is sent.
#[test]
fn a_body_is_refused_by_its_length() {
    let server = Running::new();
    for length in ["99999999", "99999999999"] {
        for expect in ["", "expect: 100-continue\r\n"] {
            let head =
                format!("POST {CHAT} HTTP/1.1\r\nhost: localhost\r\ncontent-length: {length}\r\n{expect}");
            let answer = raw(&server, format!("{head}connection: close\r\n\r\n").as_bytes());
            assert!(answer.starts_with("HTTP/1.1 413 "), "{answer}");
        }
    }
}

/// A body that never comes is refused, also where the rest of one is waited for.
#[test]
fn a_body_that_stops_is_refused() {
    let server = Running::with(|config| config.limits.body_time = Duration::from_millis(50));
    let head = format!(
        "POST {CHAT} HTTP/1.1\r\nhost: localhost\r\ncontent-length: 1000\r\nconnection: close\r\n\r\n"
    );
    for sent in ["", "{"] {
        let answer = raw(&server, format!("{head}{sent}").as_bytes());
        assert!(answer.starts_with("HTTP/1.1 408 "), "{answer}");
    }
}

/// Tokens with their pieces take more memory than any text of the largest size.
#[test]
fn pieces_are_bounded() {
    let server = Running::new();
    let content = "\u{1F600}".repeat(100_000);
    let tokens =
        |with_pieces| server.post("/tokenize", &json!({ "content": content, "with_pieces": with_pieces }));
    let ids = tokens(false).json()["tokens"].as_array().expect("ids").len();
    assert!(ids > 1 << 18, "{ids}");
    assert_eq!(tokens(true).error(400)["param"], "content");
}

/// Where one server sees the end of a body and the next one sees another, a request hides in it.
#[test]
fn no_request_hides_in_another() {
    let server = Running::new();
    let hidden = "GET /v1/models HTTP/1.1\r\nhost: localhost\r\n\r\n";
    let head = "POST /tokenize HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n";
    let length = 5 + hidden.len();
    let smuggled = [
        // The end of the chunks is that of the body, and the connection ends with it.
        format!("{head}content-length: {length}\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n{hidden}"),
        format!("{head}transfer-encoding: chunked\r\ncontent-length: {length}\r\n\r\n0\r\n\r\n{hidden}"),
        format!("{head}content-length: 2\r\ncontent-length: {length}\r\n\r\n{{}}{hidden}"),
        format!("{head}transfer-encoding: chunked, identity\r\n\r\n0\r\n\r\n{hidden}"),
        format!("{head}transfer-encoding: xchunked\r\n\r\n0\r\n\r\n{hidden}"),
        format!("{head}content-length: +2\r\n\r\n{{}}{hidden}"),
        format!("{head}content-length : 2\r\n\r\n{{}}{hidden}"),
    ];
    for request in smuggled {
        let answer = raw(&server, request.as_bytes());
        assert!(answer.matches("HTTP/1.1 ").count() <= 1, "{request}\n{answer}");
        assert!(!answer.contains("\"demo\""), "{request}\n{answer}");
    }
    let good = Answer::read(server.open("POST", "/tokenize", &[JSON], b"{}"));
    assert_eq!(good.json(), json!({ "tokens": [] }));
}
