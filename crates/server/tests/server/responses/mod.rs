//! `/v1/responses`: whole answers and events in the shape that OpenAI's clients read, and what is refused.

mod events;
mod requests;

use serde_json::{Value as Json, json};

use self::events::{both, events, names};
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
    // An expression is about the content, but of an answer that has begun about all that follows.
    let begun = json!([{ "role": "user", "content": "Where?" }, { "role": "assistant", "content": "so" }]);
    let own = json!({ "input": begun, "reasoning": { "effort": "low" }, "guided_regex": regex, "max_output_tokens": 64 });
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
    for token in response["output"][0]["content"][0]["logprobs"].as_array().expect("a list") {
        assert!(token["logprob"].as_f64().unwrap() <= 0.0);
        assert_eq!(token["top_logprobs"].as_array().expect("a list").len(), 2);
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
    server.post(RESPONSES, &body).error(400);
}
