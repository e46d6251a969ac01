//! What clients send in other forms than the documentation has, and mean what it says.

use serde_json::{Value as Json, json};

use crate::client::{Running, demo};

const CHAT: &str = "/v1/chat/completions";

fn chat(more: Json) -> Json {
    let mut body = json!({ "messages": [{ "role": "user", "content": "Hi" }], "max_tokens": 2 });
    for (name, value) in more.as_object().expect("an object") {
        body[name] = value.clone();
    }
    body
}

#[test]
fn whole_numbers_are_integers() {
    let server = Running::new();
    let hi = json!([{ "role": "user", "content": "Hi" }]);
    for (path, body) in [
        (
            CHAT,
            json!({ "messages": hi, "max_completion_tokens": 2.0, "n": 1.0, "seed": 4e1, "top_k": -1.0, "logprobs": true,
            "top_logprobs": 2.0, "stop_token_ids": [1.0], "priority": 0.0 }),
        ),
        (
            "/v1/completions",
            json!({ "prompt": [1.0, 2.0], "max_tokens": 2.0, "logprobs": 1.0, "best_of": 1.0 }),
        ),
        ("/v1/responses", json!({ "input": "Hi", "max_output_tokens": 2.0 })),
        (
            "/v1/messages",
            json!({ "messages": hi, "max_tokens": 2.0, "top_k": 4.0,
            "thinking": { "type": "enabled", "budget_tokens": 1024.0 } }),
        ),
        (
            "/api/chat",
            json!({ "messages": hi, "stream": false,
            "options": { "num_predict": 2.0, "top_k": 4.0, "seed": 42.0, "num_ctx": 4096.0 } }),
        ),
        (
            "/api/generate",
            json!({ "prompt": "Hi", "stream": false, "options": { "num_predict": 2e0 }, "top_logprobs": 1.0 }),
        ),
        (
            "/completion",
            json!({ "prompt": [[1.0, 2.0]], "n_predict": 2.0, "n_probs": 1.0, "t_max_predict_ms": 5000.0 }),
        ),
        ("/detokenize", json!({ "tokens": [3.0, 4.0] })),
    ] {
        let answer = server.post(path, &body);
        assert_eq!(answer.status, 200, "{path} {body}: {}", answer.body);
    }
    for (fields, param) in [
        (json!({ "max_tokens": 2.5 }), "max_tokens"),
        (json!({ "max_tokens": 1e300 }), "max_tokens"),
        (json!({ "max_tokens": "2" }), "max_tokens"),
        (json!({ "top_logprobs": 2.5, "logprobs": true }), "top_logprobs"),
    ] {
        assert_eq!(server.post(CHAT, &chat(fields)).error(400)["param"], param);
    }
}

/// The arguments of earlier calls are the client's: a template writes them as they are.
#[test]
fn numbers_within_messages_stay_as_they_are() {
    let template = "{% for m in messages %}{% for c in m.tool_calls or [] %}{{ c.function.arguments | tojson }}{% endfor %}{% endfor %}";
    let server = Running::with_template(template);
    let calls = json!([{ "function": { "name": "a", "arguments": { "x": 1.0, "y": [2.0] } } }]);
    let messages = json!([{ "role": "user", "content": "Hi" }, { "role": "assistant", "tool_calls": calls }, { "role": "user", "content": "Hi" }]);
    let prompt = server.post("/apply-template", &json!({ "messages": messages })).json()["prompt"].clone();
    assert!(
        prompt.as_str().is_some_and(|prompt| prompt.contains("1.0") && prompt.contains("2.0")),
        "{prompt}"
    );
}

#[test]
fn minus_one_is_no_limit_in_every_protocol() {
    let server = Running::new();
    let hi = json!([{ "role": "user", "content": "Hi" }]);
    // Ends after more tokens than any default would give.
    let letters = "[a-z]{60}";
    for (path, body, reason, expected) in [
        (CHAT, json!({ "messages": hi, "max_tokens": -1 }), "/choices/0/finish_reason", "stop"),
        (CHAT, json!({ "messages": hi, "max_completion_tokens": -1 }), "/choices/0/finish_reason", "stop"),
        ("/v1/completions", json!({ "prompt": "a", "max_tokens": -1 }), "/choices/0/finish_reason", "stop"),
        ("/v1/responses", json!({ "input": "a", "max_output_tokens": -1 }), "/status", "completed"),
        ("/v1/messages", json!({ "messages": hi, "max_tokens": -1 }), "/stop_reason", "end_turn"),
        (
            "/api/chat",
            json!({ "messages": hi, "stream": false, "options": { "num_predict": -2 } }),
            "/done_reason",
            "stop",
        ),
        ("/completion", json!({ "prompt": "a", "n_predict": -1 }), "/stop_type", "eos"),
    ] {
        let mut body = body;
        body["regex"] = letters.into();
        body["seed"] = (-1).into();
        let answer = server.post(path, &body).json();
        assert_eq!(answer.pointer(reason), Some(&json!(expected)), "{path}: {answer}");
    }
}

#[test]
fn a_single_model_answers_to_any_name_and_says_so() {
    let server = Running::new();
    let hi = json!([{ "role": "user", "content": "Hi" }]);
    for (path, body) in [
        (CHAT, json!({ "messages": hi, "max_tokens": 1 })),
        ("/v1/messages", json!({ "messages": hi, "max_tokens": 1 })),
        ("/v1/responses", json!({ "input": "Hi", "max_output_tokens": 1 })),
        ("/api/generate", json!({ "prompt": "Hi", "options": { "num_predict": 1 } })),
        ("/api/show", json!({})),
        ("/tokenize", json!({ "content": "Hi" })),
    ] {
        for (name, used) in [
            (json!("gpt-4"), Some("demo")),
            (json!("demo"), None),
            (json!("demo:latest"), None),
            (json!(""), None),
            (json!(null), None),
        ] {
            let mut body = body.clone();
            body["model"] = name.clone();
            let answer = server.post(path, &body);
            assert_eq!(
                (answer.status, answer.header("x-model-used")),
                (200, used),
                "{path} {name}: {}",
                answer.body
            );
        }
    }
    let old = server.post("/api/generate", &json!({ "name": "gpt-4", "prompt": "" }));
    assert_eq!((old.status, old.header("x-model-used")), (200, Some("demo")));
    server.get("/v1/models/gpt-4").error(404);

    let strict = Running::with(|config| config.strict_model = true);
    strict.post(CHAT, &chat(json!({ "model": "gpt-4" }))).error(404);
    strict.post(CHAT, &chat(json!({ "model": "" }))).json();
    let two = Running::serve(vec![("a".into(), demo().into()), ("b".into(), demo().into())], |_| {});
    two.post(CHAT, &chat(json!({ "model": "gpt-4" }))).error(404);
}

#[test]
fn a_body_is_json_whatever_its_type_says() {
    let server = Running::new();
    let body = chat(json!({})).to_string();
    for kind in [
        "application/json; charset=utf-8",
        "Application/JSON",
        "application/vnd.api+json",
        "text/plain;charset=UTF-8",
        "application/x-www-form-urlencoded",
        "application/octet-stream",
        "",
    ] {
        server.send("POST", CHAT, &[("content-type", kind)], body.as_bytes()).json();
        // From a page of another site, each would need no leave of the browser.
        let headers = [("content-type", kind), ("origin", "https://evil.example")];
        server.send("POST", CHAT, &headers, body.as_bytes()).error(403);
    }
    server.send("POST", CHAT, &[], body.as_bytes()).json();
    for kind in ["multipart/form-data; boundary=x", "application/xml", "image/png"] {
        server.send("POST", CHAT, &[("content-type", kind)], body.as_bytes()).error(415);
    }
}

#[test]
fn a_body_is_utf_8_and_may_have_a_byte_order_mark() {
    let server = Running::new();
    let body = chat(json!({})).to_string();
    server.send("POST", CHAT, &[], format!("\u{feff}{body}").as_bytes()).json();
    let wide = |unit: fn(u16) -> [u8; 2], mark: bool| -> Vec<u8> {
        mark.then_some(0xfeff).into_iter().chain(body.encode_utf16()).flat_map(unit).collect()
    };
    for wide in [
        wide(u16::to_le_bytes, true),
        wide(u16::to_be_bytes, true),
        wide(u16::to_le_bytes, false),
        wide(u16::to_be_bytes, false),
    ] {
        let message = server.send("POST", CHAT, &[], &wide).error(400)["message"].clone();
        assert!(
            message.as_str().is_some_and(|text| text.contains("UTF-16") && text.contains("UTF-8")),
            "{message}"
        );
    }
    let latin = [b"{\"user\": \"caf\xe9\", ", &body.as_bytes()[1..]].concat();
    let message = server.send("POST", CHAT, &[], &latin).error(400)["message"].clone();
    assert!(message.as_str().is_some_and(|text| text.contains("0xe9")), "{message}");
}

/// Histories that began with other providers go on here.
#[test]
fn messages_of_other_providers_are_read() {
    let template = "{% for m in messages %}[{{ m.role }}|{{ m.reasoning_content }}|{{ m.content }}\
        {% for c in m.tool_calls or [] %}|{{ c.function.name }}{{ c.function.arguments | tojson }}{% endfor %}]{% endfor %}";
    let server = Running::with_template(template);
    let prompt = |messages: Json| {
        let answer = server.post("/apply-template", &json!({ "messages": messages }));
        (
            answer.json()["prompt"].as_str().expect("a prompt").to_owned(),
            answer.header("x-ignored-fields").map(str::to_owned),
        )
    };
    let user = json!({ "role": "user", "content": "Hi" });
    for (message, expected, ignored) in [
        (
            json!({ "role": "assistant", "content": null, "refusal": null, "annotations": [], "audio": null, "tool_calls": null,
                "function_call": null, "name": null, "reasoning_details": [{ "type": "reasoning.text", "text": "x" }] }),
            "[assistant||]",
            None,
        ),
        (json!({ "role": "assistant", "content": null, "refusal": "No." }), "[assistant||No.]", None),
        (
            json!({ "role": "assistant", "content": null, "function_call": { "name": "f", "arguments": "{\"a\":1}" } }),
            "[assistant|||f{\"a\":1}]",
            None,
        ),
        (json!({ "role": "function", "name": "f", "content": "3" }), "[tool||3]", None),
        (
            json!({ "role": "assistant", "tool_calls": [{ "id": "1", "type": "custom", "custom": { "name": "p", "input": "x" } }] }),
            "[assistant|||p{\"input\":\"x\"}]",
            None,
        ),
        (
            json!({ "role": "assistant", "content": [{ "type": "thinking", "thinking": [{ "type": "text", "text": "Hm." }] },
                { "type": "text", "text": "Yes." }, { "type": "reference", "reference_ids": [1] }] }),
            "[assistant|Hm.|Yes.]",
            Some("messages[1].content[2]"),
        ),
        (json!({ "role": "user", "content": [{ "type": "input_text", "text": "a" }] }), "[user||a]", None),
    ] {
        let (prompt, named) = prompt(json!([user, message, user]));
        let flat = prompt.replace("None", "").replace(": ", ":");
        assert!(flat.contains(expected), "{message}: {prompt}");
        assert_eq!(named.as_deref(), ignored, "{message}");
    }
}

#[test]
fn an_answer_that_was_interrupted_while_it_reasoned_goes_on() {
    let server = Running::new();
    let ask = |answer: Json| {
        let answer = server.post(
            CHAT,
            &chat(json!({ "messages": [{ "role": "user", "content": "Hi" }, answer], "temperature": 0 })),
        );
        (
            answer.json()["usage"]["prompt_tokens"].clone(),
            answer.header("x-ignored-fields").map(str::to_owned),
        )
    };
    let (continued, none) = ask(json!({ "role": "assistant", "content": "Well" }));
    let (dropped, named) = ask(json!({ "role": "assistant", "content": "Well", "reasoning_content": "Hm." }));
    assert_eq!((dropped, named.as_deref(), none), (continued, Some("messages[].reasoning_content"), None));
    let (anew, named) = ask(json!({ "role": "assistant", "content": "", "reasoning_content": "Hm." }));
    let question = server.post(CHAT, &chat(json!({}))).json()["usage"]["prompt_tokens"].clone();
    assert_eq!((anew, named.as_deref()), (question, Some("messages[].reasoning_content")));
}
