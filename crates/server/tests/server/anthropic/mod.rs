//! Anthropic's protocol: what its tests share.

mod answers;
mod mistakes;
mod tools;

use serde_json::{Value as Json, json};

use crate::client::{Answer, Running};

const MESSAGES: &str = "/v1/messages";
const COUNT: &str = "/v1/messages/count_tokens";
const JSON: (&str, &str) = ("content-type", "application/json");
const VERSION: (&str, &str) = ("anthropic-version", "2023-06-01");

/// The demo model's template, with tools as Hermes has them.
const TOOLS: &str = r#"{%- if tools -%}
{{- '<|system|>\nTools: ' ~ (tools | tojson) ~ ' Call them in <tool_call></tool_call>.' ~ eos_token ~ '\n' -}}
{%- endif -%}
{%- for message in messages -%}
{%- if message.role == 'tool' -%}
{{- '<|user|>\n<tool_response>\n' ~ message.content ~ '\n</tool_response>' -}}
{%- else -%}
{{- '<|' ~ message.role ~ '|>\n' ~ message.content -}}
{%- for call in message.tool_calls or [] -%}
{{- '\n<tool_call>\n{"name": "' ~ call.function.name ~ '", "arguments": ' ~ (call.function.arguments | tojson) ~ '}\n</tool_call>' -}}
{%- endfor -%}
{%- endif -%}
{{- eos_token ~ '\n' -}}
{%- endfor -%}
{%- if add_generation_prompt %}{{ '<|assistant|>\n' }}{% endif -%}"#;

/// The demo model's template, with reasoning as Qwen has it.
const THINKING: &str = "{%- for message in messages -%}
{{- '<|' ~ message.role ~ '|>\n' -}}
{%- if message.reasoning_content %}{{ '<think>\n' ~ message.reasoning_content ~ '\n</think>\n\n' }}{% endif -%}
{{- message.content ~ eos_token ~ '\n' -}}
{%- endfor -%}
{%- if add_generation_prompt %}{{ '<|assistant|>\n' }}{% if enable_thinking %}{{ '<think>\n' }}{% endif %}{% endif -%}";

fn question(more: Json) -> Json {
    let mut body = json!({
        "model": "demo",
        "max_tokens": 24,
        "temperature": 0,
        "messages": [{ "role": "user", "content": "What is the capital of Italy?" }],
    });
    for (name, value) in more.as_object().expect("an object") {
        body[name] = value.clone();
    }
    body
}

/// A question whose answer a grammar forces. A model this small writes white space wherever it may, unless what it repeats
/// becomes less likely.
fn forced(more: Json) -> Json {
    let mut body = question(more);
    (body["frequency_penalty"], body["max_tokens"]) = (json!(2), json!(200));
    body
}

fn weather() -> Json {
    let schema = json!({
        "type": "object",
        "properties": { "city": { "enum": ["Rome", "Oslo"] } },
        "required": ["city"],
        "additionalProperties": false,
    });
    json!([{ "name": "weather", "description": "The weather of a city.", "input_schema": schema }])
}

/// The error of an answer with this status.
fn error(answer: &Answer, status: u16) -> Json {
    assert_eq!(answer.status, status, "{}", answer.body);
    let json: Json = serde_json::from_str(&answer.body).expect("JSON");
    assert_eq!(json["type"], "error");
    assert!(json["request_id"].as_str().is_some_and(|id| id.starts_with("req_")), "{json}");
    assert_eq!(answer.header("request-id"), json["request_id"].as_str());
    assert!(json["error"]["message"].as_str().is_some_and(|message| !message.is_empty()), "{json}");
    json["error"].clone()
}

/// The events of a stream, each of which is named by its type.
fn events(answer: &Answer) -> Vec<Json> {
    assert_eq!(answer.status, 200, "{}", answer.body);
    assert_eq!(answer.header("content-type"), Some("text/event-stream"));
    let events = answer.body.split("\n\n").filter(|event| !event.is_empty() && !event.starts_with(':'));
    let read = |event: &str| {
        let (name, data) = event.split_once('\n').expect("two lines");
        let json: Json = serde_json::from_str(data.strip_prefix("data: ").expect("data")).expect("JSON");
        assert_eq!(name.strip_prefix("event: "), json["type"].as_str());
        json
    };
    events.map(read).collect()
}

/// The message that the events of a stream build, as the official clients do.
fn built(events: &[Json]) -> Json {
    let mut message = events[0]["message"].clone();
    let mut open: Option<(usize, String)> = None;
    assert_eq!((&events[0]["type"], &events[1]["type"]), (&json!("message_start"), &json!("ping")));
    for event in &events[2..] {
        let index = event["index"].as_u64().map(|index| index as usize);
        let more = |message: &mut Json, field: &str, text: &Json| {
            let all =
                message["content"][index.expect("an index")][field].as_str().expect("a text").to_owned();
            message["content"][index.expect("an index")][field] =
                (all + text.as_str().expect("a text")).into();
        };
        match event["type"].as_str().expect("a text") {
            "content_block_start" => {
                assert_eq!((&open, index), (&None, message["content"].as_array().map(Vec::len)));
                open = index.map(|index| (index, String::new()));
                message["content"].as_array_mut().expect("an array").push(event["content_block"].clone());
            }
            "content_block_delta" => {
                let (at, json) = open.as_mut().expect("an open block");
                assert_eq!(index, Some(*at));
                let delta = &event["delta"];
                match delta["type"].as_str().expect("a text") {
                    "text_delta" => more(&mut message, "text", &delta["text"]),
                    "thinking_delta" => more(&mut message, "thinking", &delta["thinking"]),
                    "signature_delta" => more(&mut message, "signature", &delta["signature"]),
                    "input_json_delta" => json.push_str(delta["partial_json"].as_str().expect("a text")),
                    other => panic!("{other}"),
                }
            }
            "content_block_stop" => {
                let (at, json) = open.take().expect("an open block");
                assert_eq!(index, Some(at));
                if !json.is_empty() {
                    message["content"][at]["input"] = serde_json::from_str(&json).expect("JSON");
                }
            }
            "message_delta" => {
                assert_eq!(open, None);
                for field in ["stop_reason", "stop_sequence"] {
                    message[field] = event["delta"][field].clone();
                }
                for (field, value) in event["usage"].as_object().expect("an object") {
                    message["usage"][field] = value.clone();
                }
            }
            "message_stop" => assert_eq!(event, events.last().expect("an end")),
            other => panic!("{other}"),
        }
    }
    assert_eq!(events.last().expect("an end")["type"], "message_stop");
    message
}

/// The message of a whole answer, which is that of a streamed one.
fn message(server: &Running, body: Json) -> Json {
    let whole = server.post(MESSAGES, &body).json();
    let mut body = body;
    body["stream"] = true.into();
    let streamed = built(&events(&server.post(MESSAGES, &body)));
    let without_chance = |message: &Json| {
        let mut message = message.clone();
        let usage = message["usage"].take();
        let prompt = ["input_tokens", "cache_read_input_tokens", "cache_creation_input_tokens"]
            .map(|field| usage[field].as_u64().expect("a number"));
        message["usage"] = json!([prompt.iter().sum::<u64>(), usage["output_tokens"]]);
        message["id"].take();
        for block in message["content"].as_array_mut().expect("an array") {
            block["id"].take();
        }
        message
    };
    assert_eq!(without_chance(&whole), without_chance(&streamed));
    whole
}

fn prompt_tokens(message: &Json) -> u64 {
    let usage = &message["usage"];
    usage["input_tokens"].as_u64().expect("a number")
        + usage["cache_read_input_tokens"].as_u64().expect("a number")
}
