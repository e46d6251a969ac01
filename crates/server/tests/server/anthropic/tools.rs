//! Tools and thinking.

use serde_json::{Value as Json, json};

use super::{COUNT, MESSAGES, THINKING, TOOLS, forced, message, prompt_tokens, question, weather};
use crate::client::Running;

#[test]
fn tools_are_called_and_their_results_read() {
    let server = Running::with_template(TOOLS);
    let tools = json!({ "tools": weather() });
    for choice in [json!({ "type": "any" }), json!({ "type": "tool", "name": "weather" })] {
        let mut body = forced(tools.clone());
        body["tool_choice"] = choice;
        body["tool_choice"]["disable_parallel_tool_use"] = true.into();
        let mut answer = message(&server, body.clone());
        assert_eq!((&answer["stop_reason"], &answer["stop_sequence"]), (&json!("tool_use"), &Json::Null));
        let call = answer["content"][0].take();
        assert_eq!((&call["type"], &call["name"]), (&json!("tool_use"), &json!("weather")));
        assert_eq!(answer["content"].as_array().map(Vec::len), Some(1));
        let city = call["input"]["city"].as_str().expect("a city");
        assert!(["Rome", "Oslo"].contains(&city), "{call}");
        let id = call["id"].as_str().expect("an id");
        assert!(id.starts_with("toolu_"), "{id}");

        // The same conversation in OpenAI's shape has the same prompt and answer.
        let result = json!({ "type": "tool_result", "tool_use_id": id, "content": [{ "type": "text", "text": "Sunny" }] });
        let said = [json!({ "type": "text", "text": "Let me see." }), call.clone()];
        let mut next = question(tools.clone());
        let messages = next["messages"].as_array_mut().unwrap();
        messages.push(json!({ "role": "assistant", "content": said }));
        messages.push(json!({ "role": "user", "content": [result, { "type": "text", "text": "Well?" }] }));
        let answer = message(&server, next.clone());
        let function = json!({ "name": "weather", "arguments": call["input"].to_string() });
        let calls = json!([{ "id": id, "type": "function", "function": function }]);
        let tool = &weather()[0];
        let function = json!({
            "name": "weather", "description": tool["description"], "parameters": tool["input_schema"],
        });
        let openai = json!({
            "temperature": 0, "max_tokens": 24, "tools": [{ "type": "function", "function": function }],
            "messages": [
                next["messages"][0],
                { "role": "assistant", "content": "Let me see.", "tool_calls": calls },
                { "role": "tool", "tool_call_id": id, "name": "weather", "content": "Sunny" },
                { "role": "user", "content": "Well?" },
            ],
        });
        let openai = server.post("/v1/chat/completions", &openai).json();
        assert_eq!(openai["usage"]["prompt_tokens"], prompt_tokens(&answer));
        assert_eq!(openai["choices"][0]["message"]["content"], answer["content"][0]["text"]);
        // A result that is an error says so.
        let longer = server.post(COUNT, &next).json()["input_tokens"].as_u64();
        next["messages"][2]["content"][0]["is_error"] = true.into();
        assert!(server.post(COUNT, &next).json()["input_tokens"].as_u64() > longer);
    }
    let mut body = question(tools);
    body["tool_choice"] = json!({ "type": "none" });
    let without = prompt_tokens(&message(&server, body));
    assert_eq!(without, prompt_tokens(&message(&server, question(json!({})))));
}

#[test]
fn thinking_is_a_block_of_its_own() {
    let server = Running::with_template(THINKING);
    let thinks =
        |thinking: Json| message(&server, question(json!({ "thinking": thinking, "max_tokens": 24 })));
    for thinking in [json!({ "type": "enabled", "budget_tokens": 1024 }), json!({ "type": "adaptive" })] {
        let answer = thinks(thinking);
        let block = &answer["content"][0];
        assert_eq!((&block["type"], &block["signature"]), (&json!("thinking"), &json!("")));
        assert!(block["thinking"].as_str().is_some_and(|text| !text.is_empty()), "{answer}");
        assert!(
            answer["usage"]["output_tokens_details"]["thinking_tokens"].as_u64().unwrap() > 0,
            "{answer}"
        );
    }
    let omitted = thinks(json!({ "type": "adaptive", "display": "omitted" }));
    assert_eq!(omitted["content"], json!([{ "type": "thinking", "thinking": "", "signature": "" }]));
    assert_eq!(thinks(json!({ "type": "disabled" }))["content"][0]["text"], "The capital of Italy is Rome.");
    let body = question(json!({ "thinking": { "type": "enabled", "budget_tokens": 1024 }, "max_tokens": 2 }));
    assert_eq!(server.post(MESSAGES, &body).header("x-ignored-fields"), Some("thinking.budget_tokens"));

    // What was thought before is part of the conversation.
    let count = |content: Json| {
        let messages = json!([
            { "role": "user", "content": "Hello" },
            { "role": "assistant", "content": content },
            { "role": "user", "content": "And now?" },
        ]);
        server.post(COUNT, &json!({ "messages": messages })).json()["input_tokens"].as_u64()
    };
    let text = json!({ "type": "text", "text": "Hi." });
    let thinking = json!({ "type": "thinking", "thinking": "They greet me.", "signature": "" });
    let redacted = json!({ "type": "redacted_thinking", "data": "…" });
    assert!(count(json!([thinking, text])) > count(json!([text])));
    assert_eq!(count(json!([redacted, text])), count(json!([text])));
}

/// Tools that Anthropic runs, or knows how they are called, and what they left in a history, mean nothing here.
#[test]
fn tools_of_services_and_their_blocks_are_left_out() {
    let server = Running::with_template(TOOLS);
    let mut tools = weather();
    for kind in [
        "web_search_20250305",
        "bash_20250124",
        "text_editor_20250728",
        "computer_20250124",
        "code_execution_20250825",
    ] {
        tools.as_array_mut().expect("a list").push(json!({ "type": kind, "name": kind }));
    }
    let asked = |more: Json| {
        let answer = server.post(MESSAGES, &question(more));
        (prompt_tokens(&answer.json()), answer.header("x-ignored-fields").unwrap_or_default().to_owned())
    };
    let (own, none) = asked(json!({ "tools": weather() }));
    assert_eq!(none, "");
    let more = json!({ "tools": tools, "mcp_servers": [{ "type": "url" }], "container": "c" });
    let named = "tools[1], tools[2], tools[3], tools[4], tools[5], container, mcp_servers";
    assert_eq!(asked(more), (own, named.to_owned()));
    let alone = json!([{ "type": "web_search_20250305", "name": "web_search" }]);
    assert_eq!(asked(json!({ "tools": alone })), (asked(json!({})).0, "tools[0]".to_owned()));

    let said = |answer: Json, question: Json| {
        asked(json!({ "messages": [
            { "role": "user", "content": "Hi" }, { "role": "assistant", "content": answer }, { "role": "user", "content": question },
        ] }))
    };
    let text = json!({ "type": "text", "text": "b" });
    let plain = said(json!([text]), json!("Go on."));
    let blocks = [
        json!({ "type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": { "query": "x" } }),
        json!({ "type": "web_search_tool_result", "tool_use_id": "srvtoolu_1", "content": [] }),
        json!({ "type": "code_execution_tool_result", "tool_use_id": "srvtoolu_1", "content": {} }),
        json!({ "type": "mcp_tool_use", "id": "mcptoolu_1", "name": "f", "server_name": "s", "input": {} }),
        json!({ "type": "mcp_tool_result", "tool_use_id": "mcptoolu_1", "content": [] }),
        json!({ "type": "redacted_thinking", "data": "x" }),
        json!({ "type": "a_block_of_next_year" }),
    ];
    for block in blocks {
        assert_eq!(
            said(json!([block, text]), json!("Go on.")),
            (plain.0, "messages[1].content[0]".to_owned()),
            "{block}"
        );
    }
    let upload =
        json!([{ "type": "container_upload", "file_id": "f" }, { "type": "text", "text": "Go on." }]);
    assert_eq!(said(json!([text]), upload), (plain.0, "messages[2].content[0]".to_owned()));
    // Text stays text, wherever it is.
    let longer = |blocks: Json| said(json!([text]), blocks).0 > plain.0;
    let go_on = json!({ "type": "text", "text": "Go on." });
    let source = json!({ "type": "text", "media_type": "text/plain", "data": "Rome is a city." });
    assert!(longer(json!([{ "type": "document", "title": "Rome", "source": source }, go_on])));
    let content = json!([{ "type": "text", "text": "Rome is a city." }]);
    assert!(longer(
        json!([{ "type": "document", "source": { "type": "content", "content": content } }, go_on])
    ));
    assert!(longer(
        json!([{ "type": "search_result", "source": "a", "title": "b", "content": content }, go_on])
    ));
}
