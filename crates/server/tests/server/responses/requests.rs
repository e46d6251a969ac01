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
        (json!({ "include": ["nonsense"] }), "include[0]"),
        (json!({ "n": 2 }), "n"),
        (json!({ "tool_choice": { "type": "file_search" }, "tools": [weather()] }), "tool_choice"),
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
        (json!({ "input": [{ "role": "user" }] }), "input[0].content"),
        (json!({ "input": user(json!([{ "type": "input_text" }])) }), "input[1].content[0]"),
        (json!({ "input": [output] }), "input[0].call_id"),
        (json!({ "input": [thought] }), "input"),
        (json!({ "input": [{ "type": "item_reference", "id": "msg_1" }] }), "input"),
        (json!({ "tools": [{ "type": "web_search" }], "tool_choice": "required" }), "tool_choice"),
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

/// Sessions that began with another provider go on here.
#[test]
fn histories_of_other_providers_are_read() {
    let server = Running::with_template(TEMPLATE);
    let count = |items: Json| {
        let user = json!({ "role": "user", "content": "Hi" });
        let items: Vec<Json> = [user.clone()]
            .into_iter()
            .chain(items.as_array().expect("a list").clone())
            .chain([user])
            .collect();
        let answer =
            server.post("/v1/responses/input_tokens", &json!({ "input": items, "tools": [weather()] }));
        (answer.json()["input_tokens"].clone(), answer.header("x-ignored-fields").map(str::to_owned))
    };
    let call = |name: &str, arguments: &str| json!({ "type": "function_call", "call_id": "c", "name": name, "arguments": arguments });
    let output = |output: &str| json!({ "type": "function_call_output", "call_id": "c", "output": output });
    let kept = [
        (
            json!([{ "type": "custom_tool_call", "call_id": "c", "name": "patch", "input": "*** Begin", "status": "completed" },
                { "type": "custom_tool_call_output", "call_id": "c", "output": "ok" }]),
            json!([call("patch", r#"{"input":"*** Begin"}"#), output("ok")]),
        ),
        (
            json!([{ "type": "local_shell_call", "call_id": "c", "status": "completed", "action": { "type": "exec", "command": ["ls"] } },
                { "type": "function_call_output", "call_id": "c", "output": "ok" }]),
            json!([call("local_shell", r#"{"type":"exec","command":["ls"]}"#), output("ok")]),
        ),
        (
            json!([{ "type": "local_shell_call", "id": "c", "call_id": null, "status": "completed", "action": { "a": 1 } },
                { "type": "local_shell_call_output", "id": "c", "output": "ok" }]),
            json!([call("local_shell", r#"{"a":1}"#), output("ok")]),
        ),
        (
            json!([{ "type": "shell_call", "call_id": "c", "action": { "commands": ["ls"] } },
                { "type": "shell_call_output", "call_id": "c", "output": [{ "stdout": "ok" }] }]),
            json!([call("shell", r#"{"commands":["ls"]}"#), output(r#"[{"stdout":"ok"}]"#)]),
        ),
        (
            json!([{ "type": "mcp_call", "id": "c", "name": "f", "server_label": "s", "arguments": "{}", "output": "ok" }]),
            json!([call("f", "{}"), output("ok")]),
        ),
    ];
    for (items, same) in kept {
        assert_eq!(count(items.clone()), (count(same).0, None), "{items}");
    }
    let kept = [
        json!({ "type": "function_call", "id": "c", "name": "weather", "arguments": { "place": "Rome" } }),
        json!({ "type": "function_call_output", "call_id": "c", "output": null }),
    ];
    let same = json!([call("weather", r#"{"place":"Rome"}"#), output("")]);
    assert_eq!(count(json!(kept)), (count(same).0, None));
    let said = |content: Json| json!([{ "type": "message", "role": "assistant", "content": content }]);
    let text = json!({ "type": "output_text", "text": "Yes." });
    let more = said(json!([{ "type": "output_audio", "data": "" }, text]));
    assert_eq!(count(more), (count(said(json!([text]))).0, Some("input[1].content[0]".to_owned())));
    count(said(Json::Null));
    // A result whose call is left out is a text.
    let reference = json!({ "type": "item_reference", "id": "fc_1" });
    let orphan = count(json!([reference, output("Rain.")]));
    assert_eq!(
        orphan,
        (count(json!([{ "role": "user", "content": "Rain." }])).0, Some("input[1]".to_owned()))
    );
    let none = count(json!([])).0;
    for item in [
        json!({ "type": "web_search_call", "status": "completed", "action": { "type": "search", "query": "x" } }),
        json!({ "type": "file_search_call", "id": "f", "queries": [] }),
        json!({ "type": "computer_call", "call_id": "c", "action": {} }),
        json!({ "type": "mcp_call", "id": "c", "name": "f", "arguments": "{}", "status": "in_progress" }),
        json!({ "type": "image_generation_call", "id": "i", "result": "aGk=" }),
        json!({ "type": "mcp_list_tools", "server_label": "s", "tools": [] }),
        json!({ "type": "compaction", "encrypted_content": "x" }),
        json!({ "type": "item_reference", "id": "msg_1" }),
        json!({ "type": "reasoning", "summary": [], "encrypted_content": "x" }),
        json!({ "type": "an_item_of_next_year" }),
        // Cut before it was run.
        json!({ "type": "function_call", "call_id": "c", "name": "weather", "arguments": "{\"pla", "status": "incomplete" }),
    ] {
        assert_eq!(count(json!([item])), (none.clone(), Some("input[1]".to_owned())), "{item}");
    }
}

#[test]
fn an_answer_that_was_interrupted_while_it_reasoned_goes_on() {
    let server = Running::with_template(TEMPLATE);
    let user = |text: &str| json!({ "role": "user", "content": text });
    let reasoning = json!({ "type": "reasoning", "status": "incomplete", "summary": [], "content": [{ "type": "reasoning_text", "text": "Hm." }] });
    let ask = |items: Json| {
        let answer =
            server.post(RESPONSES, &json!({ "input": items, "max_output_tokens": 2, "temperature": 0 }));
        (
            answer.json()["usage"]["input_tokens"].as_u64(),
            answer.header("x-ignored-fields").map(str::to_owned),
        )
    };
    let (alone, _) = ask(json!([user("Hi")]));
    assert_eq!(ask(json!([user("Hi"), reasoning])), (alone, Some("input[1]".to_owned())));
    // Another question follows: it has been reasoned.
    let (longer, named) = ask(json!([user("Hi"), reasoning, user("Stop.")]));
    assert!(longer > ask(json!([user("Hi"), user("Stop.")])).0 && named.is_none(), "{named:?}");
    // The text that has begun is continued.
    let begun = json!({ "type": "message", "role": "assistant", "status": "incomplete", "content": [{ "type": "output_text", "text": "We" }] });
    let continued = ask(json!([user("Hi"), begun])).0;
    assert_eq!(ask(json!([user("Hi"), reasoning, begun])), (continued, Some("input[1]".to_owned())));
}

#[test]
fn a_request_may_have_tools_of_services_only() {
    let server = Running::with_template(TEMPLATE);
    let tools =
        json!([{ "type": "web_search" }, { "type": "mcp", "server_label": "x" }, { "type": "local_shell" }]);
    let include = json!(["web_search_call.action.sources", "reasoning.encrypted_content"]);
    let answer = server.post(RESPONSES, &question(json!({ "tools": tools, "include": include })));
    assert_eq!(answer.header("x-ignored-fields"), Some("include[0], tools[0], tools[1], tools[2]"));
    answer.json();
}
