//! Tool calls that the model may write among other text, and reasoning before an answer that is constrained.

use serde_json::{Value as Json, json};

use crate::answers::{question, with};
use crate::client::{Running, TOOLS, demo};

const PATH: &str = "/v1/chat/completions";

/// Functionary's format, in which a call begins with the tool's name.
const NAMES_FIRST: &str = "{% if tools %}{{ tools | tojson }}{% endif %}{% for m in messages %}{{ m.content or '' }}\
    {% for c in m.tool_calls or [] %}>>>{{ c.function.name }}\n{{ c.function.arguments | tojson }}{% endfor %}\
    {{ eos_token }}{% endfor %}{% if add_generation_prompt %}>>>{% endif %}{# >>>all #}";

/// Qwen3-Coder's format, in which texts are no JSON.
const IN_TAGS: &str = "{% if tools %}{{ tools | tojson }}{% endif %}{% for m in messages %}{{ m.content or '' }}\
    {% for c in m.tool_calls or [] %}<tool_call>\n<function={{ c.function.name }}>\
    {% for k, v in c.function.arguments | items %}\n<parameter={{ k }}>\n{{ v }}\n</parameter>{% endfor %}\n\
    </function>\n</tool_call>{% endfor %}{{ eos_token }}{% endfor %}";

/// A template that opens reasoning.
const THINKING: &str = "{% for m in messages %}{{ m.role }}: {{ m.content }}{{ eos_token }}{% endfor %}\
    {% if add_generation_prompt %}assistant: <think>\n{% endif %}{# </think> #}";

fn id(text: &str) -> String {
    let engine = demo();
    let tokenizer = engine.model().tokenizer();
    let mut ids = 0..tokenizer.vocab_size() as u32;
    ids.find(|id| tokenizer.token_bytes(*id) == Some(text.as_bytes())).expect("a token").to_string()
}

/// A question with a tool called `a`, where the model is made to write `a` and a line break.
fn calling(schema: &Json) -> Json {
    let function = json!({ "name": "a", "parameters": schema });
    let mut body = question();
    body["tools"] = json!([{ "type": "function", "function": function }]);
    body["logit_bias"] = json!({ id("a"): 100, id("\n"): 60 });
    with(body, json!({ "temperature": 0, "repeat_penalty": 100, "repeat_last_n": 3, "max_tokens": 60 }))
}

fn cities() -> Json {
    json!({ "type": "object", "properties": { "city": { "enum": ["Rome", "Oslo"] } }, "required": ["city"] })
}

#[test]
fn a_call_that_the_model_begins_has_its_schema() {
    let server = Running::with_template(NAMES_FIRST);
    let answer = server.post(PATH, &calling(&cities())).json();
    let call = &answer["choices"][0]["message"]["tool_calls"][0]["function"];
    assert_eq!(call["name"], "a", "{answer}");
    let arguments: Json = call["arguments"].as_str().expect("a text").parse().expect("JSON");
    assert!(["Rome", "Oslo"].contains(&arguments["city"].as_str().expect("a city")), "{answer}");
}

#[test]
fn a_schema_that_cannot_be_enforced_leaves_the_arguments_open_unless_it_is_strict() {
    let server = Running::with_template(NAMES_FIRST);
    let mut schema = cities();
    schema["not"] = json!({ "required": ["country"] });
    let mut body = calling(&schema);
    let answer = server.post(PATH, &body).json();
    let call = &answer["choices"][0]["message"]["tool_calls"][0]["function"];
    assert_eq!(call["name"], "a", "{answer}");
    body["tools"][0]["function"]["strict"] = true.into();
    let error = server.post(PATH, &body).error(400);
    assert_eq!(error["param"], "tools");
    assert!(error["message"].as_str().expect("a text").contains("`not`"), "{error}");
}

#[test]
fn what_a_format_cannot_enforce_is_an_error_for_strict_tools_only() {
    let server = Running::with_template(IN_TAGS);
    let mut schema = cities();
    schema["properties"]["code"] = json!({ "type": "string", "pattern": "^[A-Z]+$" });
    let mut body = with(calling(&schema), json!({ "max_tokens": 1 }));
    let other = json!({ "name": "b", "parameters": cities(), "strict": true });
    let first = body["tools"][0].take();
    body["tools"] = json!([first, { "type": "function", "function": other }]);
    for choice in ["auto", "required"] {
        body["tools"][0]["function"]["strict"] = false.into();
        body["tool_choice"] = choice.into();
        server.post(PATH, &body).json();
        body["tools"][0]["function"]["strict"] = true.into();
        let error = server.post(PATH, &body).error(400);
        assert_eq!(error["param"], "tools");
        let text = error["message"].as_str().expect("a text");
        assert!(["\"a\"", "`pattern`", "/properties/code"].iter().all(|part| text.contains(part)), "{text}");
    }
}

#[test]
fn templates_find_what_clients_leave_out_of_tools() {
    let reading = "{{ tool | tojson }}{{ tool.function.description + tool.function.parameters.type }}\
        {{ tool.function.parameters.properties | items | list | length }}";
    let server = Running::with_template(&TOOLS.replace("{{ tool | tojson }}", reading));
    for function in [json!({ "name": "f" }), json!({ "name": "f", "description": null, "parameters": {} })] {
        let tools = json!([{ "type": "function", "function": function }]);
        let messages = json!([{ "role": "user", "content": "Hi" }]);
        server.post(PATH, &json!({ "messages": messages, "tools": tools, "max_tokens": 1 })).json();
    }
}

/// OpenAI's clients send back what they got.
#[test]
fn refusals_are_texts() {
    let server = Running::new();
    let ask = |refused: Json| {
        let first = json!({ "role": "user", "content": "Hi" });
        let messages = json!([first, { "role": "assistant", "content": [refused] }, first]);
        server.post(PATH, &json!({ "messages": messages, "max_tokens": 1 })).json()["usage"]["prompt_tokens"]
            .clone()
    };
    assert_eq!(
        ask(json!({ "type": "refusal", "refusal": "No, never." })),
        ask(json!({ "type": "text", "text": "No, never." }))
    );
}

#[test]
fn arguments_are_streamed_as_they_come() {
    let server = Running::with_template(NAMES_FIRST);
    let body = calling(&cities());
    let whole = server.post(PATH, &body).json();
    let whole = &whole["choices"][0]["message"];
    let events = server.post(PATH, &with(body, json!({ "stream": true }))).events();
    let deltas: Vec<&Json> = events.iter().map(|event| &event["choices"][0]["delta"]).collect();
    let text = |field: fn(&Json) -> &Json| -> String {
        deltas.iter().filter_map(|delta| field(delta).as_str()).collect()
    };
    let arguments: Vec<&str> =
        deltas.iter().filter_map(|delta| delta["tool_calls"][0]["function"]["arguments"].as_str()).collect();
    assert!(arguments.iter().filter(|piece| !piece.is_empty()).count() > 1, "{arguments:?}");
    let calls: String = whole["tool_calls"]
        .as_array()
        .expect("calls")
        .iter()
        .filter_map(|call| call["function"]["arguments"].as_str())
        .collect();
    assert_eq!(arguments.concat(), calls);
    assert_eq!(text(|delta| &delta["content"]), whole["content"].as_str().unwrap_or_default());
}

#[test]
fn a_call_that_the_end_cuts_leaves_no_marks() {
    let server = Running::with_template(NAMES_FIRST);
    let body = with(calling(&cities()), json!({ "max_tokens": 8 }));
    let answer = server.post(PATH, &body).json();
    let choice = &answer["choices"][0];
    assert_eq!(choice["finish_reason"], "length");
    assert_eq!(choice["message"]["tool_calls"][0]["function"]["name"], "a", "{answer}");
    assert!(choice["message"]["content"].is_null(), "{answer}");
}

#[test]
fn a_model_may_reason_before_an_answer_with_a_schema() {
    let server = Running::with_template(THINKING);
    let schema = json!({ "type": "object", "properties": { "n": { "const": 1 } }, "required": ["n"], "additionalProperties": false });
    let format = json!({ "type": "json_schema", "json_schema": { "name": "x", "schema": schema } });
    let body = with(question(), json!({ "response_format": format, "max_tokens": 30, "temperature": 0 }));
    let choice = &server.post(PATH, &body).json()["choices"][0];
    let message = &choice["message"];
    assert!(message["reasoning_content"].as_str().is_some_and(|text| !text.is_empty()), "{choice}");
    // It does not end before it has answered.
    assert_eq!((&choice["finish_reason"], &message["content"]), (&json!("length"), &json!("")));
}

/// A call within which an answer ends is none that a client should make.
#[test]
fn a_call_that_is_cut_is_no_complete_one() {
    let server = Running::with_template(NAMES_FIRST);
    let mut body = calling(&cities());
    let name = |answer: &Json| answer["choices"][0]["message"]["tool_calls"][0]["function"]["name"].clone();
    // The value of the key follows it.
    body["stop"] = json!(["city\""]);
    let cut = server.post(PATH, &body).json();
    assert_eq!((name(&cut), &cut["choices"][0]["finish_reason"]), (json!("a"), &json!("stop")), "{cut}");
    let events = server.post(PATH, &with(body.clone(), json!({ "stream": true }))).events();
    let reasons = events.iter().filter_map(|event| event["choices"][0]["finish_reason"].as_str());
    assert_eq!(reasons.collect::<Vec<_>>(), ["stop"]);
}

/// Wherever a limit cuts a call, and whatever the protocol: its marks are not content.
#[test]
fn a_limit_within_a_call_shows_no_marks() {
    for template in [TOOLS, IN_TAGS] {
        let server = Running::with_template(template);
        let messages = json!([{ "role": "user", "content": "Hi" }]);
        let function = json!({ "name": "weather", "description": "", "parameters": cities() });
        let tools = json!([{ "type": "function", "function": function }]);
        let chat =
            json!({ "messages": messages, "tools": tools, "tool_choice": "required", "temperature": 0 });
        let responses = json!({
            "input": messages,
            "tools": [with(function.clone(), json!({ "type": "function", "strict": false }))],
            "tool_choice": "required",
        });
        let anthropic = json!({
            "messages": messages,
            "tools": [{ "name": "weather", "input_schema": cities() }],
            "tool_choice": { "type": "any" },
        });
        for limit in 1..24 {
            let max = json!({ "max_tokens": limit });
            let answer = server.post(PATH, &with(chat.clone(), max.clone())).json();
            let choice = &answer["choices"][0];
            assert_eq!(
                choice["message"]["content"].as_str().unwrap_or_default(),
                "",
                "{limit} tokens: {choice}"
            );
            assert_eq!(choice["finish_reason"], "length");
            let events =
                server.post(PATH, &with(chat.clone(), json!({ "stream": true, "max_tokens": limit })));
            let streamed = events.events();
            let content =
                streamed.iter().filter_map(|event| event["choices"][0]["delta"]["content"].as_str());
            assert_eq!(content.collect::<String>(), "", "{limit} tokens");

            let body = with(responses.clone(), json!({ "max_output_tokens": limit }));
            let answer = server.post("/v1/responses", &body).json();
            let items = answer["output"].as_array().expect("items");
            assert!(items.iter().all(|item| item["type"] == "function_call"), "{limit} tokens: {answer}");
            let body = with(anthropic.clone(), max);
            let answer = server.post("/v1/messages", &body).json();
            let blocks = answer["content"].as_array().expect("blocks");
            assert!(blocks.iter().all(|block| block["type"] == "tool_use"), "{limit} tokens: {answer}");
            let body = with(chat.clone(), json!({ "stream": false, "options": { "num_predict": limit } }));
            let answer = server.post("/api/chat", &body).json();
            assert_eq!(answer["message"]["content"], "", "{limit} tokens: {answer}");
            assert_eq!(answer["message"]["tool_calls"], Json::Null, "{limit} tokens: {answer}");
        }
    }
}

#[test]
fn tools_of_services_are_left_out() {
    let server = Running::with_template(TOOLS);
    let function = json!({ "type": "function", "function": { "name": "a", "parameters": cities() } });
    let tools = json!([{ "type": "web_search" }, function, { "type": "custom", "custom": { "name": "p" } }]);
    let messages = json!([{ "role": "user", "content": "Hi" }]);
    for (path, tokens) in [(PATH, "/usage/prompt_tokens"), ("/api/chat", "/prompt_eval_count")] {
        let ask = |tools: &Json, more: Json| {
            let body = json!({ "messages": messages, "tools": tools, "max_tokens": 1, "options": { "num_predict": 1 }, "stream": false });
            server.post(path, &with(body, more))
        };
        let (mixed, own) = (ask(&tools, json!({})), ask(&json!([function]), json!({})));
        let ignored = mixed.header("x-ignored-fields").expect("names");
        assert!(ignored.contains("tools[0], tools[2]"), "{ignored}");
        assert_eq!(mixed.json().pointer(tokens), own.json().pointer(tokens));
        let alone = json!([{ "type": "web_search" }]);
        assert_eq!(ask(&alone, json!({})).status, 200);
        for choice in [json!("required"), json!({ "type": "function", "function": { "name": "web_search" } })]
        {
            assert_eq!(ask(&alone, json!({ "tool_choice": choice })).status, 400, "{path} {choice}");
        }
    }
    let options = json!({ "web_search_options": {}, "prediction": { "type": "content", "content": "x" } });
    let answer = server.post(PATH, &with(question(), options));
    assert_eq!(answer.header("x-ignored-fields"), Some("prediction, web_search_options"));
}

/// OpenAI's form of tools before there were any.
#[test]
fn functions_are_called_in_the_older_form() {
    let server = Running::with_template(TOOLS);
    let function = json!({ "name": "a", "parameters": cities() });
    let force = json!({ "temperature": 0, "frequency_penalty": 2, "max_tokens": 200 });
    let body = with(question(), json!({ "functions": [function], "function_call": { "name": "a" } }));
    let body = with(body, force.clone());
    let answer = server.post(PATH, &body).json();
    let choice = &answer["choices"][0];
    let call = &choice["message"]["function_call"];
    assert_eq!((&call["name"], &choice["finish_reason"]), (&json!("a"), &json!("function_call")), "{answer}");
    assert_eq!(choice["message"].get("tool_calls"), None);
    let arguments: Json = call["arguments"].as_str().expect("a text").parse().expect("JSON");
    assert!(arguments["city"].is_string(), "{answer}");

    let events = server.post(PATH, &with(body.clone(), json!({ "stream": true }))).events();
    let deltas = || events.iter().map(|event| &event["choices"][0]["delta"]["function_call"]);
    let joined = |field: &str| deltas().filter_map(|delta| delta[field].as_str()).collect::<String>();
    assert_eq!((joined("name"), json!(joined("arguments"))), ("a".to_owned(), call["arguments"].clone()));
    assert_eq!(events.last().expect("events")["choices"][0]["finish_reason"], "function_call");

    // What it called and what came of it is read again.
    let mut next = body.clone();
    next["function_call"] = "none".into();
    let messages = next["messages"].as_array_mut().expect("messages");
    messages.push(choice["message"].clone());
    messages.push(json!({ "role": "function", "name": "a", "content": "Rain." }));
    server.post(PATH, &next).json();
    // One form at a time, and a choice needs something to choose from.
    let tool = json!({ "type": "function", "function": function });
    assert_eq!(server.post(PATH, &with(body, json!({ "tools": [tool] }))).error(400)["param"], "functions");
    let none = with(question(), json!({ "function_call": { "name": "a" } }));
    server.post(PATH, &none).error(400);
}

/// A tool is named as the client wrote it, also behind others that are left out.
#[test]
fn a_wrong_tool_is_named_by_its_place() {
    let server = Running::with_template(TOOLS);
    let search = json!({ "type": "web_search" });
    let hi = json!([{ "role": "user", "content": "Hi" }]);
    let wrong = json!({ "type": "array" });
    for (path, body, place) in [
        (
            PATH,
            json!({ "tools": [search, { "function": { "name": "a", "parameters": wrong } }] }),
            "tools[1].function.parameters",
        ),
        (
            PATH,
            json!({ "tools": [search, { "type": "function", "function": {} }] }),
            "tools[1].function.name",
        ),
        (
            PATH,
            json!({ "functions": [{ "name": "a" }, { "name": "b", "parameters": wrong }] }),
            "functions[1].parameters",
        ),
        (
            "/api/chat",
            json!({ "tools": [search, { "function": { "name": "a", "parameters": wrong } }] }),
            "tools[1].function.parameters",
        ),
        (
            "/v1/responses",
            json!({ "input": "Hi", "tools": [search, { "type": "function", "name": "a", "parameters": wrong }] }),
            "tools[1].parameters",
        ),
        (
            "/v1/responses",
            json!({ "input": "Hi", "tools": [search, { "type": "function", "name": "a b" }] }),
            "tools[1].name",
        ),
        (
            "/v1/messages",
            json!({ "max_tokens": 1, "tools": [search, { "name": "a", "input_schema": wrong }] }),
            "tools[1].input_schema",
        ),
    ] {
        let body = if path == "/v1/responses" { body } else { with(body, json!({ "messages": hi })) };
        let answer = server.post(path, &body);
        assert!(answer.status == 400 && answer.body.contains(place), "{path}: {}", answer.body);
    }
}
