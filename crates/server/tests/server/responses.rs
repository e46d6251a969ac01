//! `/v1/responses`: whole answers and events in the shape that OpenAI's clients read, and what is refused.

use serde_json::{Value as Json, json};

use crate::client::Running;

const RESPONSES: &str = "/v1/responses";

/// ChatML with tools as Hermes writes them. An effort opens reasoning.
const TEMPLATE: &str = r#"
{%- if tools %}<|im_start|>system
{% for tool in tools %}{{ tool | tojson }}
{% endfor %}Call one as <tool_call>{"name": …, "arguments": …}</tool_call><|im_end|>
{% endif %}
{%- for message in messages %}<|im_start|>{{ message.role }}
{% if message.reasoning_content %}<think>
{{ message.reasoning_content }}
</think>
{% endif %}{{ message.content }}
{%- for call in message.tool_calls or [] %}
<tool_call>
{"name": "{{ call.function.name }}", "arguments": {{ call.function.arguments | tojson }}}
</tool_call>
{%- endfor %}<|im_end|>
{% endfor %}
{%- if add_generation_prompt %}<|im_start|>assistant
{% if reasoning_effort %}<think>
{% endif %}{% endif %}"#;

fn question(more: Json) -> Json {
    let mut body = json!({
        "model": "demo",
        "input": "What is the capital of Italy?",
        "temperature": 0,
        "max_output_tokens": 24,
    });
    for (name, value) in more.as_object().expect("an object") {
        body[name] = value.clone();
    }
    body
}

/// The model repeats white space wherever a grammar lets it, unless what it repeats becomes less likely.
fn forced() -> Json {
    json!({ "frequency_penalty": 2, "max_output_tokens": 120 })
}

fn weather() -> Json {
    let place = json!({ "type": "string", "enum": ["Rome", "Paris"] });
    json!({
        "type": "function",
        "name": "weather",
        "description": "Tells the weather.",
        "parameters": {
            "type": "object",
            "properties": { "place": place },
            "required": ["place"],
            "additionalProperties": false,
        },
        "strict": true,
    })
}

/// The events of a stream, which are numbered and have their own names.
fn events(server: &Running, mut body: Json) -> Vec<Json> {
    body["stream"] = true.into();
    let answer = server.post(RESPONSES, &body);
    assert_eq!(answer.status, 200, "{}", answer.body);
    assert_eq!(answer.header("content-type"), Some("text/event-stream"));
    let blocks = answer.body.split("\n\n").filter(|block| !block.is_empty() && !block.starts_with(':'));
    let events: Vec<Json> = blocks
        .map(|block| {
            let (name, data) = block.split_once('\n').expect("two lines");
            let event: Json = serde_json::from_str(data.strip_prefix("data: ").expect("data")).expect("JSON");
            assert_eq!(name.strip_prefix("event: "), event["type"].as_str());
            event
        })
        .collect();
    for (number, event) in events.iter().enumerate() {
        assert_eq!(event["sequence_number"], number, "{event}");
    }
    events
}

fn names(events: &[Json]) -> Vec<&str> {
    let mut names: Vec<&str> = events.iter().filter_map(|event| event["type"].as_str()).collect();
    names.dedup();
    names
}

/// The response at the end of a stream, each item of which agrees with the events before it.
fn streamed(server: &Running, body: Json) -> Json {
    let events = events(server, body);
    let (last, events) = events.split_last().expect("events");
    let response = &last["response"];
    assert_eq!(last["type"], format!("response.{}", response["status"].as_str().expect("a status")));
    for (event, name) in events.iter().zip(["response.created", "response.in_progress"]) {
        assert_eq!(event["type"], name);
        let begun = &event["response"];
        assert_eq!((&begun["id"], &begun["status"]), (&response["id"], &json!("in_progress")));
        assert_eq!((&begun["output"], &begun["usage"]), (&json!([]), &Json::Null));
    }
    let output = response["output"].as_array().expect("items");
    let mut rest = &events[2..];
    for (index, item) in output.iter().enumerate() {
        let is_done = |event: &Json| event["type"] == "response.output_item.done";
        let length = rest.iter().position(is_done).expect("the end of the item") + 1;
        let (own, others) = rest.split_at(length);
        check_item(index, item, own);
        rest = others;
    }
    assert!(rest.is_empty(), "{rest:?}");
    response.clone()
}

/// The events of an item: it begins, grows and ends.
fn check_item(index: usize, item: &Json, events: &[Json]) {
    let (text, field) = match item["type"].as_str().expect("a type") {
        "reasoning" => ("reasoning_text", "text"),
        "message" => ("output_text", "text"),
        "function_call" => ("function_call_arguments", "arguments"),
        other => panic!("an item of the type {other}"),
    };
    let has_part = field == "text";
    for event in events {
        assert_eq!(event["output_index"], index, "{event}");
        if event.get("item").is_none() {
            assert_eq!(event["item_id"], item["id"], "{event}");
            assert_eq!(event.get("content_index"), has_part.then_some(&json!(0)), "{event}");
        }
    }
    let (delta, done) = (format!("response.{text}.delta"), format!("response.{text}.done"));
    let part = ["response.content_part.added", "response.content_part.done"];
    let expected: Vec<&str> = match has_part {
        true => {
            vec!["response.output_item.added", part[0], &delta, &done, part[1], "response.output_item.done"]
        }
        false => vec!["response.output_item.added", &delta, &done, "response.output_item.done"],
    };
    assert_eq!(names(events), expected);

    let (first, last) = (&events[0]["item"], &events[events.len() - 1]["item"]);
    assert_eq!(last, item);
    let mut begun = item.clone();
    begun["status"] = "in_progress".into();
    begun[if has_part { "content" } else { "arguments" }] = if has_part { json!([]) } else { json!("") };
    assert_eq!(first, &begun);
    let whole = if has_part { &item["content"][0] } else { item };
    let of = |name: &str| events.iter().filter(|event| event["type"] == name).cloned().collect::<Vec<_>>();
    let pieces: String = of(&delta).iter().filter_map(|event| event["delta"].as_str()).collect();
    let done = &of(&done)[0];
    assert_eq!((&done[field], &json!(pieces)), (&whole[field], &whole[field]));
    if has_part {
        assert_eq!(of(part[0])[0]["part"]["text"], "");
        assert_eq!(&of(part[1])[0]["part"], whole);
    }
    if text == "output_text" {
        let logprobs =
            of(&delta).into_iter().flat_map(|event| event["logprobs"].as_array().expect("a list").clone());
        assert_eq!(Json::from_iter(logprobs), whole["logprobs"]);
        assert_eq!(done["logprobs"], whole["logprobs"]);
    }
}

/// Ids are new, clocks move on, and the second one finds its prompt in the cache.
fn without_ids(mut response: Json) -> Json {
    for field in ["id", "created_at", "completed_at"] {
        response[field] = Json::Null;
    }
    response["usage"]["input_tokens_details"]["cached_tokens"] = Json::Null;
    for item in response["output"].as_array_mut().expect("items") {
        for field in
            ["id", "call_id"].into_iter().filter(|field| item.get(field).is_some()).collect::<Vec<_>>()
        {
            item[field] = Json::Null;
        }
    }
    response
}

/// The response of a call, which is the same as a whole and as a stream.
fn both(server: &Running, body: Json) -> Json {
    let response = server.post(RESPONSES, &body).json();
    assert_eq!(without_ids(response.clone()), without_ids(streamed(server, body)));
    response
}

fn text(response: &Json) -> &str {
    response["output"][0]["content"][0]["text"].as_str().expect("a text")
}

#[test]
fn a_response_has_the_fields_that_clients_read() {
    let server = Running::new();
    let own = json!({ "metadata": { "a": "b" }, "user": "me", "top_p": 0.9, "instructions": "Be brief." });
    let response = both(&server, question(own));
    assert_eq!(response["object"], "response");
    assert!(response["id"].as_str().unwrap().starts_with("resp_"));
    assert!(response["completed_at"].as_i64() >= response["created_at"].as_i64());
    let expected = json!({
        "status": "completed", "error": null, "incomplete_details": null, "model": "demo", "store": false,
        "instructions": "Be brief.", "metadata": { "a": "b" }, "user": "me", "max_output_tokens": 24,
        "temperature": 0.0, "top_p": 0.9, "top_logprobs": 0, "truncation": "disabled", "tools": [],
        "tool_choice": "auto", "parallel_tool_calls": true, "background": false, "previous_response_id": null,
        "text": { "format": { "type": "text" }, "verbosity": null },
        "reasoning": { "effort": null, "summary": null },
    });
    for (name, value) in expected.as_object().expect("fields") {
        assert_eq!(&response[name], value, "{name}");
    }
    let item = &response["output"][0];
    assert!(item["id"].as_str().unwrap().starts_with("msg_"));
    let part = json!({ "type": "output_text", "text": text(&response), "annotations": [], "logprobs": [] });
    let expected = json!({
        "id": item["id"], "type": "message", "status": "completed", "role": "assistant", "content": [part],
    });
    assert_eq!(response["output"], json!([expected]));
    let usage = &response["usage"];
    let (prompt, generated) =
        (usage["input_tokens"].as_u64().unwrap(), usage["output_tokens"].as_u64().unwrap());
    assert!(prompt > 0 && generated > 0);
    assert_eq!(usage["total_tokens"], prompt + generated);
    assert_eq!(usage["input_tokens_details"]["cached_tokens"], 0);
    assert_eq!(usage["output_tokens_details"]["reasoning_tokens"], 0);
}

#[test]
fn events_come_in_order() {
    let server = Running::new();
    let events = events(&server, question(json!({})));
    let expected = [
        "response.created",
        "response.in_progress",
        "response.output_item.added",
        "response.content_part.added",
        "response.output_text.delta",
        "response.output_text.done",
        "response.content_part.done",
        "response.output_item.done",
        "response.completed",
    ];
    assert_eq!(names(&events), expected);
    assert_eq!(text(&events[events.len() - 1]["response"]), "The capital of Italy is Rome.");
}

#[test]
fn a_limit_makes_a_response_incomplete() {
    let server = Running::new();
    let response = both(&server, question(json!({ "max_output_tokens": 3, "ignore_eos": true })));
    assert_eq!(response["status"], "incomplete");
    assert_eq!(response["incomplete_details"], json!({ "reason": "max_output_tokens" }));
    assert_eq!(response["completed_at"], Json::Null);
    assert_eq!(response["output"][0]["status"], "incomplete");
    assert_eq!(response["usage"]["output_tokens"], 3);
}

#[test]
fn reasoning_is_an_item_before_the_message() {
    let server = Running::with_template(TEMPLATE);
    let regex = "[a-z]{2,8} [a-z]{2,8}\n</think>\n\nIt is [a-z]{2,8}\\.";
    let own = json!({ "reasoning": { "effort": "low" }, "guided_regex": regex, "max_output_tokens": 64 });
    let response = both(&server, question(own.clone()));
    let output = response["output"].as_array().expect("items");
    assert_eq!(output.iter().map(|item| &item["type"]).collect::<Vec<_>>(), ["reasoning", "message"]);
    assert_eq!((&output[0]["summary"], &output[0]["status"]), (&json!([]), &json!("completed")));
    assert_eq!(output[0]["content"][0]["type"], "reasoning_text");
    assert!(output[0]["content"][0]["text"].as_str().unwrap().split(' ').count() == 2, "{response}");
    assert!(output[1]["content"][0]["text"].as_str().unwrap().starts_with("It is "), "{response}");
    assert_eq!(response["reasoning"]["effort"], "low");
    assert!(response["usage"]["output_tokens_details"]["reasoning_tokens"].as_u64().unwrap() > 1);

    // Log-probabilities are those of the message alone.
    let mut own = own;
    own["include"] = json!(["message.output_text.logprobs"]);
    let response = both(&server, question(own));
    assert_eq!(tokens(&response["output"][1]), response["output"][1]["content"][0]["text"].as_str().unwrap());

    let cut = both(&server, question(json!({ "reasoning": { "effort": "low" }, "max_output_tokens": 4 })));
    assert_eq!(cut["output"].as_array().expect("items").len(), 1);
    assert_eq!(cut["output"][0]["status"], "incomplete");
}

/// The tokens of a message that have log-probabilities.
fn tokens(item: &Json) -> String {
    let logprobs = item["content"][0]["logprobs"].as_array().expect("tokens");
    logprobs.iter().map(|token| token["token"].as_str().expect("a token")).collect()
}

#[test]
fn log_probabilities_are_those_of_the_text() {
    let server = Running::new();
    let own = json!({ "include": ["message.output_text.logprobs"], "top_logprobs": 2 });
    let response = both(&server, question(own));
    assert_eq!(response["top_logprobs"], 2);
    assert_eq!(tokens(&response["output"][0]).trim_start(), text(&response));
    for token in response["output"][0]["content"][0]["logprobs"].as_array().unwrap() {
        assert!(token["logprob"].as_f64().unwrap() <= 0.0);
        assert_eq!(token["top_logprobs"].as_array().unwrap().len(), 2);
    }
}

#[test]
fn a_format_is_kept() {
    let server = Running::new();
    let schema = json!({
        "type": "object",
        "properties": { "city": { "enum": ["Rome", "Paris"] } },
        "required": ["city"],
        "additionalProperties": false,
    });
    let format = json!({ "type": "json_schema", "name": "answer", "schema": schema, "strict": true });
    let mut own = forced();
    own["text"] = json!({ "format": format, "verbosity": "low" });
    let response = both(&server, question(own));
    let answer: Json = serde_json::from_str(text(&response)).expect("JSON");
    assert!(["Rome", "Paris"].contains(&answer["city"].as_str().unwrap()), "{answer}");
    assert_eq!(response["text"]["format"], format);
}

#[test]
fn a_function_is_called_and_answered() {
    let server = Running::with_template(TEMPLATE);
    let named = json!({ "type": "function", "name": "weather" });
    let allowed = json!({ "type": "allowed_tools", "mode": "required", "tools": [named] });
    let other = json!({ "type": "function", "name": "time" });
    for choice in [json!("required"), named, allowed] {
        let tools = json!([weather(), other]);
        let mut own = forced();
        (own["tools"], own["tool_choice"]) = (tools.clone(), choice.clone());
        let response = both(&server, question(own));
        assert_eq!((&response["tool_choice"], &response["tools"][0]), (&choice, &weather()));
        let call = &response["output"][0];
        assert_eq!((&call["type"], &call["status"]), (&json!("function_call"), &json!("completed")));
        assert!(call["call_id"].as_str().unwrap().starts_with("call_"), "{call}");
        if choice != "required" {
            assert_eq!(call["name"], "weather");
            let arguments: Json = serde_json::from_str(call["arguments"].as_str().unwrap()).expect("JSON");
            assert!(["Rome", "Paris"].contains(&arguments["place"].as_str().unwrap()), "{arguments}");
        }

        let result =
            json!({ "type": "function_call_output", "call_id": call["call_id"], "output": "It rains." });
        let own =
            json!({ "input": [{ "role": "user", "content": "And now?" }, call, result], "tools": tools });
        let next = both(&server, question(own));
        assert!(next["usage"]["input_tokens"].as_u64() > Some(100));
    }
    let none = both(&server, question(json!({ "tools": [weather()], "tool_choice": "none" })));
    assert_eq!(none["output"][0]["type"], "message");
}

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
        (json!({ "tools": [weather(), { "type": "web_search" }] }), "tools[1]"),
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
        (json!({ "max_output_tokens": 0 }), "max_output_tokens"),
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

/// A grammar that permits only what `logit_bias` rules out makes a request fail after it has begun.
#[test]
fn an_error_after_the_beginning_ends_the_stream() {
    let server = Running::new();
    let vocabulary = server.get("/v1/models").json()["data"][0]["meta"]["n_vocab"].as_u64().expect("a size");
    let is_mark = |id: &u64| {
        let text = server.post("/detokenize", &json!({ "tokens": [id] })).json();
        text["content"].as_str().is_some_and(|text| text.trim().starts_with('~'))
    };
    let bias: serde_json::Map<String, Json> =
        (0..vocabulary).filter(is_mark).map(|id| (id.to_string(), json!(-100))).collect();
    let body = question(json!({ "guided_regex": "ab?~", "logit_bias": bias }));
    let events = events(&server, body.clone());
    let last = events.last().expect("events");
    assert_eq!((&last["type"], &last["response"]["status"]), (&json!("response.failed"), &json!("failed")));
    assert_eq!(last["response"]["error"]["code"], "server_error");
    assert!(last["response"]["error"]["message"].is_string());
    assert_eq!(last["response"]["output"][0]["status"], "incomplete");
    server.post(RESPONSES, &body).error(500);
}
