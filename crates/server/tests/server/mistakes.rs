//! Requests that cannot be answered: the status, and what is wrong.

use serde_json::{Value as Json, json};
use server::Keys;

use crate::client::Running;

const CHAT: &str = "/v1/chat/completions";
const JSON: (&str, &str) = ("content-type", "application/json");

fn chat(more: Json) -> Json {
    let mut body = json!({ "messages": [{ "role": "user", "content": "Hi" }], "max_tokens": 4 });
    for (name, value) in more.as_object().expect("an object") {
        body[name] = value.clone();
    }
    body
}

#[test]
fn wrong_fields_are_named() {
    let server = Running::new();
    let wrong = [
        (json!({ "messages": null }), "messages"),
        (json!({ "messages": [] }), "messages"),
        (json!({ "messages": "Hi" }), "messages"),
        (json!({ "messages": [{ "content": "Hi" }] }), "messages"),
        (json!({ "temperature": "hot" }), "temperature"),
        (json!({ "temperature": -1 }), "temperature"),
        (json!({ "top_p": 2 }), "top_p"),
        (json!({ "n": 0 }), "n"),
        (json!({ "n": 9 }), "n"),
        (json!({ "max_tokens": -4 }), "max_tokens"),
        (json!({ "min_tokens": -1 }), "min_tokens"),
        // No more than `max_tokens`.
        (json!({ "min_tokens": 5 }), "min_tokens"),
        (json!({ "stop": 5 }), "stop"),
        (json!({ "stop": vec!["x"; 17] }), "stop"),
        (json!({ "stop": "x".repeat(2000) }), "stop"),
        (json!({ "samplers": "s".repeat(1000) }), "samplers"),
        (json!({ "samplers": vec!["top_k"; 100] }), "samplers"),
        (
            json!({ "dry_multiplier": 1, "dry_sequence_breakers": ["x".repeat(2000)] }),
            "dry_sequence_breakers",
        ),
        (json!({ "logit_bias": { "x".repeat(65): 1 } }), "logit_bias"),
        (json!({ "logit_bias": { "1": 500 } }), "logit_bias"),
        (json!({ "top_logprobs": 5 }), "top_logprobs"),
        (json!({ "logprobs": true, "top_logprobs": 21 }), "top_logprobs"),
        (json!({ "tool_choice": "perhaps", "tools": [{}] }), "tool_choice"),
        (json!({ "tool_choice": "required" }), "tool_choice"),
        // A service would run it.
        (json!({ "tool_choice": "required", "tools": [{ "type": "web_search" }] }), "tool_choice"),
        (json!({ "functions": [{ "name": "f" }], "tools": [{ "function": { "name": "f" } }] }), "functions"),
        (json!({ "tool_choice": "nonsense" }), "tool_choice"),
        (json!({ "modalities": ["text", "audio"] }), "modalities"),
        (json!({ "response_format": { "type": "xml" } }), "response_format"),
        (json!({ "response_format": { "type": "json_schema", "json_schema": {} } }), "response_format"),
        (json!({ "guided_regex": "(" }), "guided_regex"),
        (json!({ "grammar": "root ::= [" }), "grammar"),
        (json!({ "grammar": "root ::= \"a\"", "guided_regex": "a" }), "guided_regex"),
        (json!({ "seed": 0.5 }), "seed"),
        (json!({ "chat_template_kwargs": { "messages": [] } }), "chat_template_kwargs"),
    ];
    for (fields, param) in wrong {
        let error = server.post(CHAT, &chat(fields.clone())).error(400);
        assert_eq!(error["param"], param, "{fields}: {error}");
        assert!(error["message"].as_str().unwrap().contains(param), "{error}");
    }
    let schema = json!({ "type": "object", "patternProperties": { "(": {} }, "nonsense": 1 });
    let format = json!({ "type": "json_schema", "json_schema": { "schema": schema } });
    let error = server.post(CHAT, &chat(json!({ "response_format": format }))).error(400);
    assert_eq!(error["param"], "response_format");
}

#[test]
fn pictures_are_refused_by_their_place() {
    let server = Running::new();
    let url = json!({ "type": "image_url", "image_url": { "url": "http://127.0.0.1:1/x.png" } });
    let content = json!([{ "type": "text", "text": "What is this?" }, url]);
    let error =
        server.post(CHAT, &chat(json!({ "messages": [{ "role": "user", "content": content }] }))).error(400);
    assert_eq!(error["param"], "messages[0].content[1]");
    assert_eq!(error["code"], "unsupported_parameter");
}

#[test]
fn too_long_prompts_are_never_cut() {
    let server = Running::new();
    let content = "word ".repeat(600);
    let error =
        server.post(CHAT, &chat(json!({ "messages": [{ "role": "user", "content": content }] }))).error(400);
    assert_eq!(error["code"], "context_length_exceeded");
    assert_eq!(error["n_ctx"], 512);
    // LiteLLM tells it by these words.
    let message = error["message"].as_str().unwrap();
    assert!(message.starts_with("this model's maximum context length is 512 tokens"), "{message}");
    assert!(error["n_prompt_tokens"].as_u64().unwrap() > 512, "{error}");
}

#[test]
fn what_is_no_request_is_refused() {
    let server = Running::new();
    assert_eq!(server.send("POST", CHAT, &[JSON], b"{").error(400)["type"], "invalid_request_error");
    server.send("POST", CHAT, &[JSON], b"[]").error(400);
    server.send("POST", CHAT, &[JSON], b"\xff\xfe").error(400);
    let deep = format!("{{\"messages\":{}{}}}", "[".repeat(200), "]".repeat(200));
    server.send("POST", CHAT, &[JSON], deep.as_bytes()).error(400);
    server.send("POST", CHAT, &[("content-type", "image/png")], b"{}").error(415);
    server.get(CHAT).error(405);
    server.get("/v1/nothing").error(404);
    // No text in UTF-8.
    server.get("/v1/models/%ff").error(400);
    server.get("/page/%ff").error(400);
    let strict = Running::with(|config| config.strict_model = true);
    assert_eq!(strict.post(CHAT, &chat(json!({ "model": "gpt-4" }))).error(404)["code"], "model_not_found");
    // Refused before they are read, and yet the answers arrive.
    let long = vec![b' '; 4 << 20];
    server.send("POST", CHAT, &[("content-type", "image/png")], &long).error(415);
    server.send("POST", "/v1/nothing", &[JSON], &long).error(404);
    Running::with(|config| config.keys = Keys::new(["one"])).send("POST", CHAT, &[JSON], &long).error(401);
    let small = Running::with(|config| config.limits.body = 1000);
    small.post(CHAT, &chat(json!({ "user": "x".repeat(2000) }))).error(413);
}

#[test]
fn unknown_fields_are_ignored_by_name() {
    let server = Running::new();
    let answer = server.post(CHAT, &chat(json!({ "colour": "blue", "user": "me" })));
    answer.json();
    assert_eq!(answer.header("x-ignored-fields"), Some("colour"));
}

#[test]
fn only_who_has_a_key_is_served() {
    let server = Running::with(|config| config.keys = Keys::new(["one", "two"]));
    let ask = |headers: &[(&str, &str)]| {
        server.send("POST", CHAT, &[&[JSON], headers].concat(), chat(json!({})).to_string().as_bytes())
    };
    let error = ask(&[]).error(401);
    assert_eq!((&error["code"], &error["type"]), (&json!("invalid_api_key"), &json!("authentication_error")));
    ask(&[("authorization", "Bearer three")]).error(401);
    ask(&[("authorization", "Basic one")]).error(401);
    ask(&[("authorization", "Bearer one")]).json();
    ask(&[("x-api-key", "two")]).json();
    server.get("/metrics").error(401);
    server.get("/openapi.json").error(401);
    assert_eq!(server.get("/health").status, 200);
    server.reload.replace(Keys::new(["three"]));
    ask(&[("authorization", "Bearer one")]).error(401);
    ask(&[("authorization", "Bearer three")]).json();
}

/// A page of another site must not reach a server on this machine: neither by a name that leads here, nor by its scripts.
#[test]
fn other_hosts_and_origins_are_kept_out() {
    let server = Running::with(|config| {
        config.hosts = vec!["models.example".into()];
        config.origins = vec!["https://good.example".parse().expect("an origin")];
    });
    let get = |headers: &[(&str, &str)]| server.send("GET", "/v1/models", headers, b"");
    get(&[("host", "evil.example:8080")]).error(400);
    get(&[("host", "")]).error(400);
    for host in ["localhost:8080", "127.0.0.1", "[::1]:80", "models.example"] {
        get(&[("host", host)]).json();
    }
    let good = get(&[("origin", "https://good.example")]);
    assert_eq!(good.header("access-control-allow-origin"), Some("https://good.example"));
    assert!(
        good.header("access-control-expose-headers").is_some_and(|names| names.contains("x-ignored-fields"))
    );
    get(&[("host", "localhost:80"), ("origin", "http://localhost:80")]).json();
    // Without a type the request needs no permission, and its answer is not shown; but the work would be done.
    let body = json!({ "messages": [{ "role": "user", "content": "Hi" }] }).to_string();
    for origin in ["https://evil.example", "null", "http://localhost:81"] {
        let refused = server.send("POST", CHAT, &[("origin", origin)], body.as_bytes());
        assert_eq!(refused.header("access-control-allow-origin"), None);
        assert!(refused.error(403)["message"].as_str().expect("a message").contains("--cors-origin"));
    }
    assert_eq!(server.figure("vllm:prompt_tokens_total"), 0.0);
    let asked = [
        ("origin", "https://good.example"),
        ("access-control-request-method", "POST"),
        ("access-control-request-headers", "x-stainless-os, content-type"),
    ];
    let preflight = server.send("OPTIONS", CHAT, &asked, b"");
    assert_eq!(preflight.header("access-control-allow-headers"), Some("x-stainless-os, content-type"));
}

#[test]
fn pages_of_this_machine_may_be_let_in() {
    let server = Running::with(|config| config.origins = vec!["localhost".parse().expect("an origin")]);
    let get = |origin: &str| server.send("GET", "/v1/models", &[("origin", origin)], b"");
    for origin in [
        "http://localhost",
        "https://tauri.localhost",
        "https://localhost:3000",
        "http://127.0.0.1:8000",
        "http://[::1]:3000",
    ] {
        let answer = get(origin);
        assert_eq!((answer.status, answer.header("access-control-allow-origin")), (200, Some(origin)));
    }
    for origin in
        ["http://localhost.evil.example", "http://evil.example/localhost", "http://10.0.0.1", "null"]
    {
        get(origin).error(403);
    }
}

/// No foreign page has a key: with keys, a server may have any name, such as those of containers.
#[test]
fn servers_with_keys_have_any_name() {
    let server = Running::with(|config| config.keys = Keys::new(["one"]));
    let get = |headers: &[(&str, &str)]| server.send("GET", "/v1/models", headers, b"");
    for host in ["host.docker.internal:8080", "rustorch", "box.local", "a.example"] {
        get(&[("host", host), ("authorization", "Bearer one")]).json();
        get(&[("host", host)]).error(401);
    }
    // Its pages are foreign nevertheless.
    get(&[("host", "a.example"), ("origin", "https://evil.example"), ("authorization", "Bearer one")])
        .error(403);
    let open = Running::with(|config| config.hosts = vec!["*.local".into()]);
    let get = |host: &str| open.send("GET", "/v1/models", &[("host", host)], b"");
    get("box.local:8080").json();
    for host in ["local", "box.local.evil.example", "evil.example", "host.docker.internal"] {
        get(host).error(400);
    }
}

/// No site can have such an origin, and a program on this machine needs none to come here.
#[test]
fn pages_of_programs_are_let_in_on_this_machine() {
    let ask = |server: &Running, origin: &str| {
        server.send("POST", CHAT, &[("origin", origin)], chat(json!({})).to_string().as_bytes())
    };
    let server = Running::new();
    for origin in [
        "app://obsidian.md",
        "file://",
        "tauri://localhost",
        "vscode-webview://0a1b",
        "vscode-file://vscode-app",
    ] {
        assert_eq!(ask(&server, origin).header("access-control-allow-origin"), Some(origin));
    }
    for origin in ["null", "https://app.evil.example", "chrome-extension://abc", "nonsense"] {
        ask(&server, origin).error(403);
    }
    let open = Running::with(|config| config.address = ([0, 0, 0, 0], 0).into());
    ask(&open, "app://obsidian.md").error(403);
}

/// An error that names an option names one that helps.
#[test]
fn the_advice_of_refusals_can_be_followed() {
    for origin in ["null", "https://evil.example", "chrome-extension://abc", "http://[::1]:3000", "custom://"]
    {
        let refused = Running::new().send("GET", "/v1/models", &[("origin", origin)], b"").error(403);
        let (_, advice) =
            refused["message"].as_str().and_then(|text| text.split_once("--cors-origin ")).expect("advice");
        let named = advice.split(' ').next().and_then(|name| name.parse().ok()).expect("an origin");
        let server = Running::with(|config| config.origins = vec![named]);
        server.send("GET", "/v1/models", &[("origin", origin)], b"").json();
    }
    let refused = Running::new().send("GET", "/v1/models", &[("host", "box.lan:80")], b"").error(400);
    assert!(
        refused["message"].as_str().is_some_and(|text| text.contains("--host-name box.lan")),
        "{refused}"
    );
    for host in ["", "a b", "%"] {
        let refused = Running::new().send("GET", "/v1/models", &[("host", host)], b"").error(400);
        assert!(refused["message"].as_str().is_some_and(|text| !text.contains("--host-name")), "{refused}");
    }
}
