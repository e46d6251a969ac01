//! Answers: streamed or whole, of one or several choices, with log-probabilities and constraints.

use serde_json::{Value as Json, json};

use crate::client::{Running, TOOLS};

pub(crate) fn question() -> Json {
    json!({
        "model": "demo",
        "messages": [{ "role": "user", "content": "What is the capital of Italy?" }],
        "temperature": 0,
        "max_tokens": 24,
    })
}

pub(crate) fn with(mut body: Json, more: Json) -> Json {
    for (name, value) in more.as_object().expect("an object") {
        body[name] = value.clone();
    }
    body
}

#[test]
fn a_chat_answers_as_a_whole_and_in_pieces() {
    let server = Running::new();
    let whole = server.post("/v1/chat/completions", &question()).json();
    let text = whole["choices"][0]["message"]["content"].as_str().expect("an answer").to_owned();
    assert_eq!(text, "The capital of Italy is Rome.");
    assert_eq!(whole["object"], "chat.completion");
    assert_eq!(whole["choices"][0]["finish_reason"], "stop");
    assert_eq!(whole["choices"][0]["logprobs"], Json::Null);
    let usage = &whole["usage"];
    let total = usage["prompt_tokens"].as_u64().unwrap() + usage["completion_tokens"].as_u64().unwrap();
    assert_eq!(usage["total_tokens"], total);

    let options = json!({ "stream": true, "stream_options": { "include_usage": true } });
    let events = server.post("/v1/chat/completions", &with(question(), options)).events();
    assert_eq!(events[0]["choices"][0]["delta"], json!({ "role": "assistant", "content": null }));
    let pieces = events.iter().filter_map(|event| event["choices"][0]["delta"]["content"].as_str());
    assert_eq!(pieces.collect::<String>(), text);
    let (last, end) = (&events[events.len() - 1], &events[events.len() - 2]);
    assert_eq!((&last["choices"], &last["usage"]["total_tokens"]), (&json!([]), &json!(total)));
    assert_eq!(end["choices"][0]["delta"], json!({}));
    assert_eq!(end["choices"][0]["finish_reason"], "stop");
    let finished = events.iter().filter(|event| event["choices"][0]["finish_reason"].is_string());
    assert_eq!(finished.count(), 1);
    assert!(events.iter().all(|event| event["id"] == events[0]["id"]));
}

#[test]
fn a_stream_tells_its_pace_if_asked() {
    let server = Running::new();
    let options = json!({ "stream": true, "timings_per_token": true });
    let events = server.post("/v1/chat/completions", &with(question(), options)).events();
    let counts: Vec<u64> =
        events.iter().filter_map(|event| event["timings"]["predicted_n"].as_u64()).collect();
    assert!(counts.len() > 3 && counts.is_sorted() && counts[0] == 1, "{counts:?}");
    let end = &events[events.len() - 1]["timings"];
    assert!(
        end["prompt_n"].as_u64().unwrap() > 0 && end["predicted_per_second"].as_f64().unwrap() > 0.0,
        "{end}"
    );
    let untold = server.post("/v1/chat/completions", &with(question(), json!({ "stream": true }))).events();
    assert!(untold.iter().all(|event| event.get("timings").is_none()));
}

#[test]
fn all_choices_are_counted_and_their_prompt_once() {
    let server = Running::new();
    let body =
        with(question(), json!({ "n": 3, "temperature": 1, "seed": 5, "max_tokens": 8, "ignore_eos": true }));
    let answer = server.post("/v1/chat/completions", &body).json();
    let choices = answer["choices"].as_array().expect("choices");
    assert_eq!(choices.iter().map(|choice| choice["index"].as_u64().unwrap()).collect::<Vec<_>>(), [0, 1, 2]);
    assert_eq!(answer["usage"]["completion_tokens"], 24);
    assert!(choices.iter().all(|choice| choice["finish_reason"] == "length"));
    // Each has a seed of its own, and the same as a request of that seed.
    let third = with(body.clone(), json!({ "n": 1, "seed": 7 }));
    let third = server.post("/v1/chat/completions", &third).json();
    assert_eq!(third["choices"][0]["message"], choices[2]["message"]);
    let streamed = server.post("/v1/chat/completions", &with(body, json!({ "stream": true }))).events();
    for (index, choice) in choices.iter().enumerate() {
        let own = streamed.iter().filter(|event| event["choices"][0]["index"] == index);
        let pieces = own.filter_map(|event| event["choices"][0]["delta"]["content"].as_str());
        assert_eq!(pieces.collect::<String>(), choice["message"]["content"].as_str().unwrap());
    }
}

#[test]
fn log_probabilities_have_the_shape_of_each_endpoint() {
    let server = Running::new();
    let body = with(question(), json!({ "logprobs": true, "top_logprobs": 2 }));
    let answer = server.post("/v1/chat/completions", &body).json();
    let content = answer["choices"][0]["logprobs"]["content"].as_array().expect("tokens").clone();
    assert_eq!(content.len() as u64, answer["usage"]["completion_tokens"].as_u64().unwrap());
    for token in &content {
        assert!(token["logprob"].as_f64().unwrap() <= 0.0);
        assert_eq!(token["top_logprobs"].as_array().unwrap().len(), 2);
        assert_eq!(
            token["top_logprobs"][0]["token"], token["token"],
            "the most likely one, at temperature 0"
        );
    }
    let streamed = server.post("/v1/chat/completions", &with(body, json!({ "stream": true }))).events();
    let pieces = streamed.iter().filter_map(|event| event["choices"][0]["logprobs"]["content"].as_array());
    assert_eq!(pieces.flatten().collect::<Vec<_>>(), content.iter().collect::<Vec<_>>());

    let body =
        json!({ "prompt": "The capital of France is", "max_tokens": 3, "temperature": 0, "logprobs": 2 });
    let answer = server.post("/v1/completions", &body).json();
    let logprobs = &answer["choices"][0]["logprobs"];
    for field in ["tokens", "token_logprobs", "top_logprobs", "text_offset"] {
        assert_eq!(logprobs[field].as_array().expect(field).len(), 3, "{logprobs}");
    }
    assert_eq!(logprobs["text_offset"][0], 0);
    // A token that is none of the most likely ones is there as well.
    let warm =
        json!({ "max_tokens": 20, "temperature": 9, "min_p": 0, "top_p": 1, "top_k": 0, "logprobs": 1 });
    let warm = with(body.clone(), warm);
    let warm = server.post("/v1/completions", &warm).json()["choices"][0]["logprobs"].clone();
    let top = warm["top_logprobs"].as_array().expect("tokens");
    for (number, top) in top.iter().enumerate() {
        let token = warm["tokens"][number].as_str().expect("a text");
        assert_eq!(top[token], warm["token_logprobs"][number], "{top}");
    }
    assert!(top.iter().any(|top| top.as_object().is_some_and(|top| top.len() == 2)), "{warm}");
    // Text that is held back, as it may begin a stop string, is where it is all the same.
    let first = logprobs["tokens"][0].as_str().expect("a text");
    let held = with(body, json!({ "stop": [format!("{first} and more")] }));
    let held = server.post("/v1/completions", &held).json();
    assert_eq!(held["choices"][0]["logprobs"]["text_offset"], logprobs["text_offset"]);
    let text: String = logprobs["tokens"].as_array().unwrap().iter().filter_map(Json::as_str).collect();
    assert_eq!(answer["choices"][0]["text"], text);
}

#[test]
fn several_prompts_are_answered_in_order() {
    let server = Running::new();
    let body = |prompt: Json| json!({ "prompt": prompt, "max_tokens": 4, "temperature": 0 });
    let alone = ["1 + 1 =", "The capital of Spain is"].map(|prompt| {
        server.post("/v1/completions", &body(json!(prompt))).json()["choices"][0]["text"].clone()
    });
    let both = server.post("/v1/completions", &body(json!(["1 + 1 =", "The capital of Spain is"]))).json();
    let texts: Vec<&Json> =
        both["choices"].as_array().unwrap().iter().map(|choice| &choice["text"]).collect();
    assert_eq!(texts, alone.iter().collect::<Vec<_>>());
}

#[test]
fn structured_answers_are_what_was_asked_for() {
    let server = Running::new();
    let schema = json!({
        "type": "object",
        "properties": { "city": { "enum": ["Rome", "Paris"] }, "n": { "type": "integer", "maximum": 99 } },
        "required": ["city", "n"],
        "additionalProperties": false,
    });
    let format = json!({ "type": "json_schema", "json_schema": { "name": "answer", "schema": schema } });
    for seed in 0..5 {
        let body = with(
            question(),
            json!({ "response_format": format.clone(), "temperature": 1, "seed": seed, "max_tokens": 80 }),
        );
        let answer = server.post("/v1/chat/completions", &body).json();
        let content = answer["choices"][0]["message"]["content"].as_str().expect("an answer");
        if answer["choices"][0]["finish_reason"] == "stop" {
            let json: Json = serde_json::from_str(content).expect("JSON");
            assert!(["Rome", "Paris"].contains(&json["city"].as_str().unwrap()), "{json}");
            assert!(json["n"].is_i64(), "{json}");
        }
    }
    // Without `additionalProperties`, as Pydantic writes it, an object has the same properties; other clients write it elsewhere.
    let mut unsaid = schema.clone();
    unsaid.as_object_mut().expect("an object").remove("additionalProperties");
    let content = |format: Json| {
        let more = json!({ "response_format": format, "temperature": 1, "seed": 1, "max_tokens": 80 });
        let answer = server.post("/v1/chat/completions", &with(question(), more)).json();
        answer["choices"][0]["message"]["content"].clone()
    };
    let expected = content(format);
    for same in [
        json!({ "type": "json_schema", "json_schema": { "schema": unsaid } }),
        json!({ "type": "json_object", "schema": unsaid }),
        json!({ "type": "json_object", "value": unsaid }),
    ] {
        assert_eq!(content(same.clone()), expected, "{same}");
    }
    let body =
        json!({ "prompt": "It was in ", "guided_regex": "1[0-9]{3}", "max_tokens": 16, "temperature": 1 });
    let year = server.post("/v1/completions", &body).json();
    let year: u32 = year["choices"][0]["text"].as_str().unwrap().parse().expect("a year");
    assert!((1000..2000).contains(&year));
}

#[test]
fn an_answer_that_has_begun_is_continued() {
    let server = Running::new();
    let mut body = question();
    body["messages"]
        .as_array_mut()
        .unwrap()
        .push(json!({ "role": "assistant", "content": "The capital of Italy" }));
    let answer = server.post("/v1/chat/completions", &body).json();
    assert_eq!(answer["choices"][0]["message"]["content"], " is Rome.");
}

#[test]
fn models_and_health_are_told() {
    let server = Running::new();
    let models = server.get("/v1/models").json();
    assert_eq!((&models["object"], &models["data"][0]["id"]), (&json!("list"), &json!("demo")));
    assert_eq!(models["data"][0]["capabilities"], json!(["completion", "chat"]));
    assert_eq!(models["data"][0]["meta"]["n_params"], 6_820_096);
    assert_eq!(server.get("/v1/models/demo").json()["id"], "demo");
    assert_eq!(server.get("/v1/models/gpt-4").error(404)["code"], "model_not_found");
    assert_eq!(server.get("/health").json()["status"], "ok");
    assert_eq!(server.get("/ready").json()["status"], "ready");
    assert_eq!(server.get("/props").json()["n_ctx"], 512);
    let tokens = server.post("/tokenize", &json!({ "content": "Hello world" })).json();
    assert_eq!(server.post("/detokenize", &tokens).json()["content"], "Hello world");
    let prompt = server.post("/apply-template", &question()).json();
    assert!(prompt["prompt"].as_str().unwrap().contains("What is the capital of Italy?"));
    let page = server.get("/");
    assert!(page.body.contains("<html") && page.header("content-security-policy").is_some());
    assert_eq!(server.get("/page/main.js").header("content-type"), Some("text/javascript; charset=utf-8"));
    assert_eq!(server.get("/page/../Cargo.toml").status, 404);
}

#[test]
fn an_echoed_prompt_has_the_log_probabilities_of_its_tokens() {
    let server = Running::new();
    let prompt = "The capital of Italy is";
    let body = json!({ "content": prompt, "add_special": true });
    let ids = server.post("/tokenize", &body).json()["tokens"].as_array().expect("ids").clone();
    let ask = |more: Json| {
        let body = json!({ "model": "demo", "prompt": ids, "temperature": 0, "logprobs": 3 });
        server.post("/v1/completions", &with(body, more))
    };
    let scored = ask(json!({ "echo": true, "max_tokens": 0 })).json();
    let choice = &scored["choices"][0];
    assert_eq!(choice["text"], prompt);
    let logprobs = &choice["logprobs"];
    for field in ["tokens", "token_logprobs", "top_logprobs", "text_offset"] {
        assert_eq!(logprobs[field].as_array().expect("a list").len(), ids.len(), "{field}");
    }
    assert_eq!((&logprobs["token_logprobs"][0], &logprobs["top_logprobs"][0]), (&Json::Null, &Json::Null));
    // The prediction of each token is that of a prompt which ends before it.
    for number in 1..ids.len() {
        let before = ask(json!({ "prompt": ids[..number], "max_tokens": 1, "ignore_eos": true })).json();
        let expected = &before["choices"][0]["logprobs"]["top_logprobs"][0];
        for (token, logprob) in expected.as_object().expect("tokens") {
            let found = logprobs["top_logprobs"][number][token].as_f64().expect("the same tokens");
            assert!((found - logprob.as_f64().expect("a number")).abs() < 1e-3, "{number} {token}");
        }
    }
    let offset = logprobs["text_offset"][ids.len() - 1].as_u64().expect("an offset") as usize;
    assert_eq!(prompt[offset..], *logprobs["tokens"][ids.len() - 1].as_str().expect("a token"));

    let whole = ask(json!({ "echo": true, "max_tokens": 4, "n": 2, "seed": 1 })).json();
    let alone = ask(json!({ "max_tokens": 4 })).json();
    let text = format!("{prompt}{}", alone["choices"][0]["text"].as_str().expect("a text"));
    for choice in whole["choices"].as_array().expect("choices") {
        assert_eq!(choice["text"], text);
        assert_eq!(choice["logprobs"]["tokens"].as_array().expect("tokens").len(), ids.len() + 4);
    }
    let events = ask(json!({ "echo": true, "max_tokens": 4, "stream": true })).events();
    let pieces = events.iter().filter_map(|event| event["choices"][0]["text"].as_str());
    assert_eq!(pieces.collect::<String>(), text);
    let lists = events.iter().filter_map(|event| event["choices"][0]["logprobs"]["tokens"].as_array());
    assert_eq!(lists.map(Vec::len).sum::<usize>(), ids.len() + 4);
    // Without log-probabilities it is the text alone.
    let body = json!({ "prompt": prompt, "echo": true, "max_tokens": 0 });
    assert_eq!(server.post("/v1/completions", &body).json()["choices"][0]["text"], prompt);
}

/// A model with tools may call one, or answer in the format that was asked for.
#[test]
fn tools_and_a_format_go_together() {
    let server = Running::with_template(TOOLS);
    let function = json!({ "name": "weather", "parameters": { "type": "object", "properties": { "city": { "enum": ["Rome"] } }, "required": ["city"] } });
    let schema = json!({ "type": "object", "properties": { "sunny": { "type": "boolean" } }, "required": ["sunny"], "additionalProperties": false });
    let options = json!({
        "tools": [{ "type": "function", "function": function }],
        "response_format": { "type": "json_schema", "json_schema": { "name": "x", "schema": schema } },
        "temperature": 0, "frequency_penalty": 2, "max_tokens": 100,
    });
    for seed in 0..4 {
        let more = json!({ "temperature": 1, "seed": seed });
        let answer =
            server.post("/v1/chat/completions", &with(with(question(), options.clone()), more)).json();
        let message = &answer["choices"][0]["message"];
        match message["tool_calls"][0]["function"]["arguments"].as_str() {
            Some(arguments) => {
                assert_eq!(arguments.parse::<Json>().expect("JSON"), json!({ "city": "Rome" }))
            }
            None => {
                let text: Json = message["content"].as_str().expect("a text").parse().expect("JSON");
                assert!(text["sunny"].is_boolean(), "{text}");
            }
        }
    }
}
