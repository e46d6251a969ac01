//! Answers: whole and streamed, their ends and their counts.

use std::io::Read;

use serde_json::{Value as Json, json};

use super::{
    COUNT, JSON, MESSAGES, TOOLS, VERSION, error, events, forced, message, prompt_tokens, question, weather,
};
use crate::client::Running;

#[test]
fn an_answer_has_the_official_shape() {
    let server = Running::new();
    let answer = server.post(MESSAGES, &question(json!({})));
    assert!(answer.header("request-id").is_some_and(|id| id.starts_with("req_")));
    let mut first = answer.json();
    assert!(first["id"].take().as_str().is_some_and(|id| id.starts_with("msg_")));
    let usage = first["usage"].take();
    let expected = json!({
        "id": null, "type": "message", "role": "assistant", "model": "demo",
        "content": [{ "type": "text", "text": "The capital of Italy is Rome." }],
        "stop_reason": "end_turn", "stop_sequence": null, "usage": null,
    });
    assert_eq!(first, expected);
    assert_eq!(
        (&usage["cache_read_input_tokens"], &usage["cache_creation_input_tokens"]),
        (&json!(0), &json!(0))
    );
    let same = json!({ "messages": question(json!({}))["messages"], "max_tokens": 24, "temperature": 0 });
    let openai = server.post("/v1/chat/completions", &same).json()["usage"].clone();
    assert_eq!(usage["input_tokens"], openai["prompt_tokens"]);
    assert_eq!(usage["output_tokens"], openai["completion_tokens"]);
    message(&server, question(json!({})));
}

#[test]
fn what_is_cached_is_counted_apart() {
    let server = Running::new();
    let content = "A long question. ".repeat(30);
    let body = question(json!({ "messages": [{ "role": "user", "content": content }], "max_tokens": 2 }));
    let [first, second] = [(); 2].map(|()| server.post(MESSAGES, &body).json());
    assert_eq!(first["usage"]["cache_read_input_tokens"], 0);
    assert!(second["usage"]["cache_read_input_tokens"].as_u64().unwrap() > 32, "{second}");
    assert_eq!(prompt_tokens(&first), prompt_tokens(&second));
    let streamed = events(&server.post(
        MESSAGES,
        &question(json!({
            "messages": body["messages"], "max_tokens": 2, "stream": true,
        })),
    ));
    assert_eq!(streamed[0]["message"]["usage"]["input_tokens"], prompt_tokens(&first));
    let end = streamed.iter().find(|event| event["type"] == "message_delta").expect("an end");
    assert_eq!(prompt_tokens(end), prompt_tokens(&first));
    assert_eq!(end["usage"]["output_tokens"], 2);
}

#[test]
fn an_answer_says_why_it_has_ended() {
    let server = Running::new();
    let short = message(&server, question(json!({ "max_tokens": 3 })));
    assert_eq!((&short["stop_reason"], &short["usage"]["output_tokens"]), (&json!("max_tokens"), &json!(3)));
    let stopped = message(&server, question(json!({ "stop_sequences": ["Paris", " is Rome"] })));
    assert_eq!(stopped["content"], json!([{ "type": "text", "text": "The capital of Italy" }]));
    assert_eq!(
        (&stopped["stop_reason"], &stopped["stop_sequence"]),
        (&json!("stop_sequence"), &json!(" is Rome"))
    );
    let endless = json!({ "max_tokens": 4000, "ignore_eos": true, "stop_sequences": [] });
    assert_eq!(message(&server, question(endless))["stop_reason"], "model_context_window_exceeded");
}

/// The end of a turn that is text, no token, is a stop string of the server's own.
#[test]
fn the_end_of_a_turn_is_no_stop_sequence() {
    let template = "{% for message in messages %}{{ '<|' + message.role + '|>\n' + message.content }}\
                    {% if message.role == 'assistant' %}{{ ' is Rome' }}{% else %}{{ eos_token }}{% endif %}{{ '\n' }}\
                    {% endfor %}{% if add_generation_prompt %}{{ '<|assistant|>\n' }}{% endif %}";
    let server = Running::with_template(template);
    let answer = message(&server, question(json!({ "stop_sequences": ["Paris"] })));
    assert_eq!(answer["content"][0]["text"], "The capital of Italy ");
    assert_eq!((&answer["stop_reason"], &answer["stop_sequence"]), (&json!("end_turn"), &Json::Null));
}

#[test]
fn system_and_blocks_are_one_conversation() {
    let server = Running::new();
    let text = |text: &str| json!({ "type": "text", "text": text, "cache_control": { "type": "ephemeral" } });
    let plain = json!({ "system": "Be brief.", "messages": [
        { "role": "user", "content": "Hello" },
        { "role": "assistant", "content": "Hi." },
        { "role": "user", "content": "What is the capital of Italy?" },
    ] });
    let blocks = json!({ "system": [text("Be brief.")], "messages": [
        { "role": "user", "content": [text("Hello")] },
        { "role": "assistant", "content": [text("Hi.")] },
        { "role": "user", "content": [text("What is the capital of Italy?")] },
    ] });
    let roles = json!({ "messages": [
        { "role": "system", "content": "Be brief." },
        { "role": "user", "content": "Hello" },
        { "role": "assistant", "content": "Hi." },
        { "role": "user", "content": "What is the capital of Italy?" },
    ] });
    let [plain, blocks, same] = [plain, blocks, roles.clone()].map(|body| message(&server, question(body)));
    assert_eq!((&plain["content"], prompt_tokens(&plain)), (&blocks["content"], prompt_tokens(&blocks)));
    assert_eq!(prompt_tokens(&plain), prompt_tokens(&same));
    let openai = server.post("/v1/chat/completions", &question(roles)).json();
    assert_eq!(openai["usage"]["prompt_tokens"], prompt_tokens(&plain));
    assert_eq!(openai["choices"][0]["message"]["content"], plain["content"][0]["text"]);

    // Turns of one role are one turn.
    let several = json!({ "messages": [
        { "role": "user", "content": "What is" }, { "role": "user", "content": [text("the capital"), text("of Italy?")] },
    ] });
    let once = json!({ "messages": [{ "role": "user", "content": "What is\nthe capital\nof Italy?" }] });
    let count = |body: Json| server.post(COUNT, &question(body)).json()["input_tokens"].clone();
    assert_eq!(count(several), count(once));
}

#[test]
fn an_answer_that_has_begun_is_continued() {
    let server = Running::new();
    let asked = question(json!({}))["messages"][0].clone();
    let begun = json!({ "messages": [asked, { "role": "assistant", "content": "The capital of Italy" }] });
    assert_eq!(message(&server, question(begun))["content"][0]["text"], " is Rome.");
    let thinking = json!([{ "type": "thinking", "thinking": "Hm.", "signature": "" }, { "type": "text", "text": "The" }]);
    let begun = json!({ "messages": [asked, { "role": "assistant", "content": thinking }] });
    let answer = server.post(MESSAGES, &question(begun));
    assert_eq!(answer.header("x-ignored-fields"), Some("messages[].thinking"));
    let without = json!({ "messages": [asked, { "role": "assistant", "content": "The" }] });
    assert_eq!(answer.json()["content"], message(&server, question(without))["content"]);
}

#[test]
fn a_schema_is_kept() {
    let server = Running::new();
    let schema = json!({
        "type": "object",
        "properties": { "city": { "enum": ["Rome", "Paris"] } },
        "required": ["city"],
        "additionalProperties": false,
    });
    let format = json!({ "type": "json_schema", "schema": schema });
    for fields in [json!({ "output_config": { "format": format } }), json!({ "output_format": format })] {
        let answer = message(&server, forced(fields));
        let json: Json = serde_json::from_str(answer["content"][0]["text"].as_str().unwrap()).expect("JSON");
        assert!(["Rome", "Paris"].contains(&json["city"].as_str().unwrap()), "{json}");
    }
}

#[test]
fn tokens_are_counted_without_an_answer() {
    let server = Running::with_template(TOOLS);
    let bodies = [
        json!({}),
        json!({ "system": "Be brief." }),
        json!({ "tools": weather(), "system": "Be brief." }),
        json!({ "thinking": { "type": "adaptive" } }),
        json!({ "messages": [{ "role": "user", "content": "Hi" }, { "role": "assistant", "content": "Hello," }] }),
    ];
    for body in bodies {
        let body = question(body);
        let mut counted = body.clone();
        counted.as_object_mut().unwrap().remove("max_tokens");
        let answer = server.post(COUNT, &counted);
        assert_eq!(
            answer.json(),
            json!({ "input_tokens": prompt_tokens(&server.post(MESSAGES, &body).json()) })
        );
        assert_eq!(answer.header("x-ignored-fields"), None);
    }
    let long = json!({ "messages": [{ "role": "user", "content": "word ".repeat(600) }] });
    assert!(
        server.post(COUNT, &long).json()["input_tokens"].as_u64().unwrap() > 512,
        "more than the context"
    );
    let tools = question(json!({ "tools": weather() }));
    // The template of the demo model writes no tools: they are in the system message.
    let server = Running::new();
    let answer = server.post(MESSAGES, &tools);
    assert_eq!(answer.header("x-tool-format"), Some("generic"));
    assert_eq!(server.post(COUNT, &tools).json()["input_tokens"], prompt_tokens(&answer.json()));
}

#[test]
fn models_are_listed_in_the_shape_of_the_client() {
    let server = Running::new();
    let get = |path: &str| server.send("GET", path, &[VERSION], b"");
    let models = get("/v1/models").json();
    let model = &models["data"][0];
    assert_eq!(
        (&models["first_id"], &models["last_id"], &models["has_more"]),
        (&json!("demo"), &json!("demo"), &json!(false))
    );
    assert_eq!(
        (&model["type"], &model["id"], &model["display_name"]),
        (&json!("model"), &json!("demo"), &json!("demo"))
    );
    let created = model["created_at"].as_str().expect("a time");
    assert!(created.starts_with("20") && created.ends_with('Z') && created.contains('T'), "{created}");
    assert_eq!(&get("/v1/models/demo").json(), model);
    assert_eq!(error(&get("/v1/models/claude"), 404)["type"], "not_found_error");
    assert_eq!(server.get("/v1/models").json()["object"], "list");
    server.get("/v1/models/claude").error(404);
}

#[test]
fn who_leaves_is_forgotten() {
    let server = Running::new();
    let body = question(json!({ "stream": true, "max_tokens": 450, "ignore_eos": true }));
    let mut stream = server.open("POST", MESSAGES, &[JSON], body.to_string().as_bytes());
    stream.read_exact(&mut [0; 200]).expect("the beginning of the answer");
    drop(stream);
    server.until("vllm:num_requests_running", 0.0);
    server.until("vllm:kv_cache_usage_perc", 0.0);
}
