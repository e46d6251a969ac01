//! Requests that cannot be answered, and fields that are ignored.

use serde_json::{Value as Json, json};
use server::Keys;

use super::{COUNT, JSON, MESSAGES, TOOLS, VERSION, error, question, weather};
use crate::client::{Answer, Running};

#[test]
fn wrong_fields_are_named() {
    let server = Running::with_template(TOOLS);
    let said = |content: Json| json!({ "messages": [{ "role": "user", "content": content }] });
    let answered = |content: Json| json!({ "messages": [{ "role": "assistant", "content": content }] });
    let result = |content: Json| {
        let call = json!({ "type": "tool_use", "id": "a", "name": "weather", "input": {} });
        let result = json!({ "type": "tool_result", "tool_use_id": "a", "content": content });
        json!({ "messages": [
            { "role": "user", "content": "Hi" }, { "role": "assistant", "content": [call] },
            { "role": "user", "content": [result] },
        ] })
    };
    let image = json!({ "type": "image", "source": { "type": "url", "url": "http://127.0.0.1:1/x.png" } });
    let search = json!([{ "type": "web_search_20250305", "name": "web_search" }]);
    let function = json!([{ "type": "function", "function": { "name": "weather" } }]);
    let pdf = json!({ "type": "base64", "media_type": "application/pdf", "data": "aGk=" });
    let wrong = [
        (json!({ "max_tokens": null }), "`max_tokens`"),
        (json!({ "max_tokens": 0 }), "`max_tokens`"),
        (json!({ "messages": null }), "`messages`"),
        (json!({ "messages": [] }), "`messages`"),
        (json!({ "messages": [{ "role": "robot", "content": "Hi" }] }), "`messages[0]`"),
        (json!({ "messages": [{ "role": "user" }] }), "`messages[0]`"),
        (said(json!(5)), "`messages[0]`"),
        (said(json!([image])), "Could not process image: `messages[0].content[0]`"),
        (said(json!([{ "type": "document", "source": {} }])), "`messages[0].content[0]`"),
        (said(json!([{ "text": "Hi" }])), "`messages[0].content[0]`"),
        (said(json!([{ "type": "text" }])), "`messages[0].content[0]`"),
        (
            said(json!([{ "type": "thinking", "thinking": "Hm.", "signature": "" }])),
            "`messages[0].content[0]`",
        ),
        (
            said(json!([{ "type": "tool_result", "tool_use_id": "b" }])),
            "`messages[0].content[0].tool_use_id`",
        ),
        (
            answered(json!([{ "type": "tool_use", "id": "a", "name": "weather", "input": 5 }])),
            "`messages[0].content[0]`",
        ),
        (result(json!([{ "type": "text", "text": "Look:" }, image])), "`messages[2].content[0].content[1]`"),
        (json!({ "system": 5 }), "`system`"),
        (json!({ "system": [image] }), "`system[0]`"),
        (json!({ "temperature": 1.5 }), "`temperature`"),
        (json!({ "top_p": 2 }), "`top_p`"),
        (json!({ "stop_sequences": vec!["x"; 17] }), "`stop_sequences`"),
        (json!({ "stop_sequences": 5 }), "`stop_sequences`"),
        (json!({ "tools": search, "tool_choice": { "type": "any" } }), "`tool_choice`"),
        (
            json!({ "tools": search, "tool_choice": { "type": "tool", "name": "web_search" } }),
            "`tool_choice`",
        ),
        (json!({ "tools": function }), "`tools[0]`"),
        (said(json!([{ "type": "document", "source": pdf }])), "`messages[0].content[0].source`"),
        (json!({ "tools": [{ "name": "weather" }] }), "`tools[0]`"),
        (json!({ "tool_choice": { "type": "any" } }), "`tool_choice`"),
        (json!({ "tools": weather(), "tool_choice": { "type": "perhaps" } }), "`tool_choice`"),
        (json!({ "tools": weather(), "tool_choice": { "type": "tool" } }), "`tool_choice.name`"),
        (json!({ "tools": weather(), "tool_choice": { "type": "tool", "name": "time" } }), "tool_choice"),
        (json!({ "thinking": { "type": "between_tools" } }), "`thinking.type`"),
        (json!({ "thinking": true }), "`thinking`"),
        (json!({ "output_config": { "format": { "type": "xml" } } }), "`output_config`"),
        (json!({ "output_format": { "type": "json_schema", "schema": { "type": 5 } } }), "`output_format`"),
        (
            json!({ "context_management": { "edits": [{ "type": "compact_20260112" }] } }),
            "`context_management.edits[0]`",
        ),
        (json!({ "context_management": { "edits": [{}] } }), "`context_management`"),
    ];
    for (fields, place) in wrong {
        let error = error(&server.post(MESSAGES, &question(fields.clone())), 400);
        assert_eq!(error["type"], "invalid_request_error");
        assert!(error["message"].as_str().unwrap().contains(place), "{fields}: {error}");
    }
}

#[test]
fn every_error_has_the_official_shape() {
    let server = Running::with(|config| config.limits.body = 10_000);
    let kind = |answer: Answer, status: u16| error(&answer, status)["type"].as_str().unwrap().to_owned();
    assert_eq!(kind(server.send("POST", MESSAGES, &[JSON], b"{"), 400), "invalid_request_error");
    let strict = Running::with(|config| config.strict_model = true);
    assert_eq!(kind(strict.post(MESSAGES, &question(json!({ "model": "claude" }))), 404), "not_found_error");
    assert_eq!(kind(server.get("/v1/messages/batches"), 404), "not_found_error");
    assert_eq!(kind(server.get(MESSAGES), 405), "invalid_request_error");
    assert_eq!(
        kind(server.post(MESSAGES, &question(json!({ "x": "y".repeat(20_000) }))), 413),
        "request_too_large"
    );
    assert_eq!(
        kind(server.send("POST", MESSAGES, &[("content-type", "image/png")], b"{}"), 415),
        "invalid_request_error"
    );
    let long = question(json!({ "messages": [{ "role": "user", "content": "word ".repeat(600) }] }));
    let message = error(&server.post(MESSAGES, &long), 400)["message"].clone();
    assert!(message.as_str().unwrap().starts_with("prompt is too long: "), "{message}");
    let full = Running::with(|config| config.limits.requests = 0);
    let refused = full.post(MESSAGES, &question(json!({})));
    assert!(refused.header("retry-after").is_some());
    assert_eq!(kind(refused, 503), "overloaded_error");

    let locked = Running::with(|config| config.keys = Keys::new(["one"]));
    let ask = |path: &str, headers: &[(&str, &str)]| {
        locked.send(
            "POST",
            path,
            &[&[JSON, VERSION], headers].concat(),
            question(json!({})).to_string().as_bytes(),
        )
    };
    for path in [MESSAGES, COUNT, "/v1/messages/nothing"] {
        assert_eq!(kind(ask(path, &[]), 401), "authentication_error");
        assert_eq!(kind(ask(path, &[("x-api-key", "two")]), 401), "authentication_error");
    }
    ask(MESSAGES, &[("x-api-key", "one")]).json();
    ask(COUNT, &[("authorization", "Bearer one")]).json();
    assert_eq!(kind(locked.send("GET", "/v1/models", &[VERSION], b""), 401), "authentication_error");
    locked.get("/v1/models").error(401);
}

#[test]
fn unknown_fields_are_ignored_by_name() {
    let server = Running::with_template(TOOLS);
    let mut tools = weather();
    tools[0]["strict"] = true.into();
    tools[0]["examples"] = json!([{}]);
    tools[0]["type"] = "custom".into();
    tools[0]["cache_control"] = json!({ "type": "ephemeral" });
    let body = question(json!({
        "max_tokens": 1, "colour": "blue", "metadata": { "user_id": "me" }, "service_tier": "auto", "tools": tools,
        "tool_choice": { "type": "auto", "disable_parallel_tool_use": true },
        "output_config": { "effort": "low", "task_budget": {} },
    }));
    for path in [MESSAGES, COUNT] {
        let answer =
            server.send("POST", path, &[JSON, VERSION, ("anthropic-beta", "x")], body.to_string().as_bytes());
        answer.json();
        let names = "tools[].examples, output_config.task_budget, colour";
        assert_eq!(answer.header("x-ignored-fields"), Some(names));
    }
}

/// Claude Code asks for this with each question.
#[test]
fn earlier_reasoning_may_be_cleared() {
    let server = Running::with_template(TOOLS);
    let edits = json!([{ "type": "clear_thinking_20251015", "keep": "all" }]);
    for path in [MESSAGES, COUNT] {
        let answer = server.post(path, &question(json!({ "context_management": { "edits": edits } })));
        assert_eq!(answer.header("x-ignored-fields"), Some("context_management.edits[0]"));
        answer.json();
        server.post(path, &question(json!({ "context_management": { "edits": [] } }))).json();
    }
}

#[test]
fn empty_system_prompts_and_those_for_accounts_are_left_out() {
    let server = Running::with_template(TOOLS);
    let count = |system: Json| {
        server.post(COUNT, &question(json!({ "system": system }))).json()["input_tokens"].as_u64().unwrap()
    };
    let block = |text: &str| json!({ "type": "text", "text": text });
    let billing = "x-anthropic-billing-header: cc_version=2.1.197.f2c; cc_entrypoint=cli;";
    let none = count(Json::Null);
    assert_eq!([count(json!("")), count(json!([])), count(json!([block(billing)]))], [none; 3]);
    let brief = count(json!([block("Be brief.")]));
    assert!(brief > none);
    assert_eq!(count(json!([block(billing), block("Be brief.")])), brief);
}
