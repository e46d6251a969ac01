//! What requests ask for: conversations as items, what is refused, what is ignored.

use serde_json::{Value as Json, json};

use super::{RESPONSES, TEMPLATE, question, text, weather};
use crate::client::Running;

/// The same conversation, in the shapes of both endpoints, is the same prompt.
#[test]
fn items_become_the_messages_of_a_chat() {
    let server = Running::with_template(TEMPLATE);
    let function = json!({ "name": "weather", "description": "Rain?", "parameters": { "type": "object" } });
    let mut tool = function.clone();
    tool["type"] = "function".into();
    let call = |id: &str| json!({ "id": id, "type": "function", "function": { "name": "weather", "arguments": "{\"place\":\"Rome\"}" } });
    let chat = json!({
        "messages": [
            { "role": "system", "content": "Be brief." },
            { "role": "user", "content": [{ "type": "text", "text": "One." }, { "type": "text", "text": "Two." }] },
            { "role": "assistant", "content": "Let me look.", "reasoning_content": "Rome?", "tool_calls": [call("a"), call("b")] },
            { "role": "tool", "tool_call_id": "a", "content": "Rain." },
            { "role": "tool", "tool_call_id": "b", "content": [{ "type": "text", "text": "Sun." }] },
            { "role": "assistant", "content": "No." },
            { "role": "assistant", "content": "Both." },
            { "role": "system", "content": "Be kind." },
            { "role": "user", "content": "Thanks." },
        ],
        "tools": [{ "type": "function", "function": function }],
        "temperature": 0,
        "max_tokens": 8,
    });
    let call = |id: &str| json!({ "type": "function_call", "id": "fc_1", "status": "completed", "call_id": id, "name": "weather", "arguments": "{\"place\":\"Rome\"}" });
    let items = json!({
        "instructions": "Be brief.",
        "input": [
            { "role": "user", "content": [{ "type": "input_text", "text": "One." }, { "type": "input_text", "text": "Two." }] },
            { "type": "reasoning", "id": "rs_0", "summary": [], "encrypted_content": "gAAA" },
            { "type": "reasoning", "id": "rs_1", "summary": [], "content": [{ "type": "reasoning_text", "text": "Rome?" }] },
            { "type": "message", "role": "assistant", "content": [{ "type": "output_text", "text": "Let me look.", "annotations": [] }] },
            call("a"),
            call("b"),
            { "type": "function_call_output", "call_id": "a", "output": "Rain." },
            { "type": "function_call_output", "call_id": "b", "output": [{ "type": "input_text", "text": "Sun." }] },
            { "type": "message", "role": "assistant", "content": [{ "type": "refusal", "refusal": "No." }] },
            { "type": "message", "role": "assistant", "content": "Both." },
            { "type": "message", "role": "developer", "content": "Be kind." },
            { "role": "user", "content": "Thanks." },
        ],
        "tools": [tool],
        "temperature": 0,
        "max_output_tokens": 8,
    });
    let chat = server.post("/v1/chat/completions", &chat).json();
    let response = server.post(RESPONSES, &items).json();
    assert_eq!(response["usage"]["input_tokens"], chat["usage"]["prompt_tokens"]);
    // All but the last page, or what is left of it, is found in the cache.
    let cached = response["usage"]["input_tokens_details"]["cached_tokens"].as_u64().unwrap();
    assert!(cached + 32 >= response["usage"]["input_tokens"].as_u64().unwrap(), "{response}");
    assert_eq!(text(&response), chat["choices"][0]["message"]["content"]);
}

#[test]
fn what_is_not_supported_is_refused_by_its_place() {
    let server = Running::with_template(TEMPLATE);
    let user =
        |content: Json| json!([{ "role": "user", "content": "Hi" }, { "role": "user", "content": content }]);
    let output = json!({ "type": "function_call_output", "call_id": "a", "output": "Rain." });
    let thought = json!({ "type": "reasoning", "summary": [{ "type": "summary_text", "text": "Well." }] });
    let unsupported = [
        (json!({ "store": true }), "store"),
        (json!({ "previous_response_id": "resp_1" }), "previous_response_id"),
        (json!({ "conversation": "conv_1" }), "conversation"),
        (json!({ "background": true }), "background"),
        (json!({ "prompt": { "id": "pmpt_1" } }), "prompt"),
        (json!({ "truncation": "auto" }), "truncation"),
        (json!({ "include": ["file_search_call.results"] }), "include[0]"),
        (json!({ "n": 2 }), "n"),
        (json!({ "tools": [{ "type": "web_search" }] }), "tools[0]"),
        (json!({ "tools": [{ "type": "mcp", "server_label": "x" }] }), "tools[0]"),
        (json!({ "tool_choice": { "type": "file_search" }, "tools": [weather()] }), "tool_choice"),
        (json!({ "input": [{ "type": "item_reference", "id": "msg_1" }] }), "input[0]"),
        (json!({ "input": [{ "type": "computer_call", "id": "cu_1" }] }), "input[0]"),
        (
            json!({ "input": user(json!([{ "type": "input_image", "image_url": "http://127.0.0.1:1/x.png" }])) }),
            "input[1].content[0]",
        ),
        (
            json!({ "input": user(json!([{ "type": "input_text", "text": "" }, { "type": "input_file" }])) }),
            "input[1].content[1]",
        ),
    ];
    let invalid = [
        (json!({ "input": null }), "input"),
        (json!({ "input": [] }), "input"),
        (json!({ "input": 5 }), "input"),
        (json!({ "input": [{ "role": "robot", "content": "Hi" }] }), "input[0]"),
        (json!({ "input": [{ "role": "user" }] }), "input[0]"),
        (json!({ "input": user(json!([{ "type": "input_text" }])) }), "input[1].content[0]"),
        (json!({ "input": [output] }), "input[0].call_id"),
        (json!({ "input": [thought] }), "input[0]"),
        (json!({ "input": [{ "role": "assistant", "content": "Hi" }] }), "input"),
        (json!({ "input": "word ".repeat(600) }), "input"),
        // No message comes of it.
        (json!({ "input": [{ "type": "reasoning", "summary": [], "encrypted_content": "gAAA" }] }), "input"),
        (json!({ "max_output_tokens": 4, "min_tokens": 5 }), "min_tokens"),
        (json!({ "max_output_tokens": -2 }), "max_output_tokens"),
        (json!({ "top_logprobs": 2 }), "top_logprobs"),
        (json!({ "temperature": "hot" }), "temperature"),
        (json!({ "metadata": { "a": 1 } }), "metadata"),
        (json!({ "truncation": "perhaps" }), "truncation"),
        (json!({ "text": { "format": { "type": "xml" } } }), "text.format"),
        (json!({ "text": { "format": { "type": "json_schema", "name": "x" } } }), "text.format"),
        (json!({ "text": { "format": { "type": "json_object" } }, "guided_regex": "a" }), "guided_regex"),
        (json!({ "tools": [{ "type": "function" }] }), "tools[0]"),
        (json!({ "tool_choice": "perhaps" }), "tool_choice"),
        (json!({ "tool_choice": "required" }), "tool_choice"),
        (
            json!({ "tool_choice": { "type": "function", "name": "time" }, "tools": [weather()] }),
            "tool_choice",
        ),
        (
            json!({ "tool_choice": { "type": "allowed_tools", "mode": "auto", "tools": [{ "name": "time" }] } }),
            "tool_choice",
        ),
    ];
    for (fields, param) in unsupported.iter().chain(&invalid) {
        for is_stream in [false, true] {
            let mut body = question(fields.clone());
            body["stream"] = is_stream.into();
            let error = server.post(RESPONSES, &body).error(400);
            assert_eq!(&error["param"], param, "{fields}: {error}");
        }
    }
    for (fields, _) in unsupported {
        let error = server.post(RESPONSES, &question(fields)).error(400);
        assert_eq!(error["code"], "unsupported_parameter", "{error}");
    }
}

#[test]
fn harmless_fields_are_accepted_and_unknown_ones_named() {
    let server = Running::new();
    let own = json!({
        "store": false, "previous_response_id": null, "background": false, "truncation": "disabled",
        "include": ["reasoning.encrypted_content"], "service_tier": "auto", "prompt_cache_key": "k",
        "safety_identifier": "s", "stream_options": { "include_obfuscation": false }, "max_tool_calls": 3,
        "prompt_cache_retention": "24h", "reasoning": { "effort": null, "summary": "auto" }, "seed": 3,
        "top_k": 5, "colour": "blue",
    });
    let answer = server.post(RESPONSES, &question(own));
    assert_eq!(answer.header("x-ignored-fields"), Some("colour"));
    let response = answer.json();
    assert_eq!((&response["prompt_cache_key"], &response["safety_identifier"]), (&json!("k"), &json!("s")));
}

/// Codex sends such tools besides its own, and does without them.
#[test]
fn tools_of_services_are_left_out_beside_functions() {
    let server = Running::with_template(TEMPLATE);
    let namespace = json!({ "type": "namespace", "name": "agents", "tools": [weather()] });
    let tools = json!([{ "type": "web_search" }, weather(), namespace]);
    for path in [RESPONSES, "/v1/responses/input_tokens"] {
        let answer = server.post(path, &question(json!({ "tools": tools, "tool_choice": "auto" })));
        assert_eq!(answer.header("x-ignored-fields"), Some("tools[0], tools[2]"));
        let found = answer.json();
        if path == RESPONSES {
            assert_eq!((&found["tools"][0]["name"], &found["tools"][1]), (&weather()["name"], &Json::Null));
        }
    }
    let allowed =
        json!({ "type": "allowed_tools", "mode": "auto", "tools": [{ "type": "web_search" }, weather()] });
    server.post(RESPONSES, &question(json!({ "tools": tools, "tool_choice": allowed }))).json();
}
