//! ollama's protocol, in the shapes of its documentation and of its client for Python.

use serde_json::{Value as Json, json};
use server::Keys;

use crate::client::{Answer, Running, TOOLS};

const CHAT: &str = "/api/chat";
const GENERATE: &str = "/api/generate";

fn with(mut body: Json, more: Json) -> Json {
    for (name, value) in more.as_object().expect("an object") {
        body[name] = value.clone();
    }
    body
}

fn question(more: Json) -> Json {
    let messages = json!([{ "role": "user", "content": "What is the capital of Italy?" }]);
    with(
        json!({ "model": "demo", "messages": messages, "options": { "temperature": 0, "num_predict": 24 } }),
        more,
    )
}

fn whole(server: &Running, path: &str, body: &Json) -> Json {
    server.post(path, &with(body.clone(), json!({ "stream": false }))).json()
}

/// JSON may have any number of spaces, and small models like them.
fn few_spaces() -> Json {
    json!({ "temperature": 0, "frequency_penalty": 2, "num_predict": 100 })
}

/// The lines of a stream.
fn lines(answer: &Answer) -> Vec<Json> {
    assert_eq!(answer.status, 200, "{}", answer.body);
    assert_eq!(answer.header("content-type"), Some("application/x-ndjson"));
    assert!(answer.body.ends_with('\n'));
    answer.body.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
}

/// The message of an error, in ollama's shape.
fn error(answer: &Answer, status: u16) -> String {
    assert_eq!(answer.status, status, "{}", answer.body);
    let json: Json = serde_json::from_str(&answer.body).expect("JSON");
    assert_eq!(json.as_object().expect("an object").len(), 1, "{json}");
    json["error"].as_str().expect("a message").to_owned()
}

/// Texts of all lines at `pointer`, in order.
fn pieces(lines: &[Json], pointer: &str) -> String {
    lines.iter().filter_map(|line| line.pointer(pointer)?.as_str()).collect()
}

fn check_figures(last: &Json) {
    for name in ["total_duration", "prompt_eval_count", "prompt_eval_duration", "eval_count", "eval_duration"]
    {
        assert!(last[name].as_u64().is_some_and(|n| n > 0), "{name} of {last}");
    }
    assert_eq!(last["load_duration"], 0);
    assert!(last["created_at"].as_str().expect("a time").ends_with('Z'));
}

#[test]
fn a_chat_answers_in_lines_or_as_a_whole() {
    let server = Running::new();
    let answer = whole(&server, CHAT, &question(json!({})));
    assert_eq!(answer["message"], json!({ "role": "assistant", "content": "The capital of Italy is Rome." }));
    assert_eq!((&answer["model"], &answer["done"]), (&json!("demo"), &json!(true)));
    assert_eq!(answer["done_reason"], "stop");
    check_figures(&answer);

    let streamed = lines(&server.post(CHAT, &question(json!({}))));
    assert_eq!(pieces(&streamed, "/message/content"), "The capital of Italy is Rome.");
    let (last, others) = streamed.split_last().expect("lines");
    assert!(others.len() > 1 && others.iter().all(|line| line["done"] == false), "{others:?}");
    assert!(others.iter().all(|line| line.get("done_reason").is_none()));
    assert_eq!(last["message"], json!({ "role": "assistant", "content": "" }));
    assert_eq!((&last["done"], &last["done_reason"]), (&json!(true), &json!("stop")));
    check_figures(last);
    for count in ["prompt_eval_count", "eval_count"] {
        assert_eq!(last[count], answer[count]);
    }
    let openai = json!({ "messages": question(json!({}))["messages"], "temperature": 0, "max_tokens": 24 });
    let usage = server.post("/v1/chat/completions", &openai).json()["usage"].clone();
    assert_eq!(answer["prompt_eval_count"], usage["prompt_tokens"]);
    assert_eq!(answer["eval_count"], usage["completion_tokens"]);
}

#[test]
fn options_are_obeyed() {
    let server = Running::new();
    let options = json!({ "num_predict": 3, "temperature": 0 });
    let short = whole(&server, CHAT, &question(json!({ "options": options })));
    assert_eq!((&short["done_reason"], &short["eval_count"]), (&json!("length"), &json!(3)));
    let options = json!({ "stop": [" Rome"], "temperature": 0, "num_predict": -1 });
    let stopped = whole(&server, CHAT, &question(json!({ "options": options })));
    assert_eq!(stopped["message"]["content"], "The capital of Italy is");
    assert_eq!(stopped["done_reason"], "stop");
    let draw = |seed: u32| {
        let options = json!({ "seed": seed, "temperature": 10, "top_k": 0, "top_p": 1, "min_p": 0, "typical_p": 1,
            "repeat_penalty": 1.1, "repeat_last_n": -1, "presence_penalty": 0.1, "frequency_penalty": 0.1, "num_predict": 8 });
        whole(&server, CHAT, &question(json!({ "options": options })))["message"].clone()
    };
    assert_eq!(draw(1), draw(1));
    assert!((2..9).any(|seed| draw(seed) != draw(1)));
}

#[test]
fn fields_and_options_that_nobody_reads_are_named() {
    let server = Running::new();
    let options = json!({ "num_ctx": 8192, "num_gpu": 1, "num_predict": 2 });
    let body = question(
        json!({ "options": options, "keep_alive": "5m", "colour": "blue", "stream": false, "think": false }),
    );
    let answer = server.post(CHAT, &body);
    answer.json();
    let ignored = answer.header("x-ignored-fields").expect("a header");
    let mut names: Vec<&str> = ignored.split(", ").collect();
    names.sort_unstable();
    assert_eq!(names, ["colour", "options.num_ctx", "options.num_gpu"]);
}

#[test]
fn generate_uses_the_template_unless_told_otherwise() {
    let server = Running::new();
    let body = json!({ "model": "demo:latest", "prompt": "What is the capital of Italy?", "options": { "temperature": 0 } });
    let answer = whole(&server, GENERATE, &body);
    assert_eq!(answer["response"], "The capital of Italy is Rome.");
    assert_eq!((&answer["model"], &answer["done_reason"]), (&json!("demo:latest"), &json!("stop")));
    check_figures(&answer);
    let streamed = lines(&server.post(GENERATE, &body));
    assert_eq!(pieces(&streamed, "/response"), "The capital of Italy is Rome.");
    assert_eq!(streamed.last().expect("lines")["eval_count"], answer["eval_count"]);

    // A system message is one of the conversation.
    let system = with(body.clone(), json!({ "system": "You know much." }));
    let count = whole(&server, GENERATE, &system)["prompt_eval_count"].as_u64();
    assert!(count > answer["prompt_eval_count"].as_u64());

    let options = json!({ "temperature": 0, "num_predict": 4 });
    let raw =
        json!({ "model": "demo", "prompt": "The capital of Spain is", "raw": true, "options": options });
    let completion = json!({ "prompt": "The capital of Spain is", "temperature": 0, "max_tokens": 4 });
    let completion = server.post("/v1/completions", &completion).json();
    assert_eq!(whole(&server, GENERATE, &raw)["response"], completion["choices"][0]["text"]);
}

#[test]
fn a_call_without_a_prompt_loads_the_model() {
    let server = Running::new();
    let answer = server.post(GENERATE, &json!({ "model": "demo", "keep_alive": -1 })).json();
    assert_eq!((&answer["response"], &answer["done_reason"]), (&json!(""), &json!("load")));
    let answer = server.post(CHAT, &json!({ "model": "demo", "messages": [] })).json();
    assert_eq!(answer["message"], json!({ "role": "assistant", "content": "" }));
    assert_eq!((&answer["done"], &answer["done_reason"]), (&json!(true), &json!("load")));
    let strict = Running::with(|config| config.strict_model = true);
    error(&strict.post(GENERATE, &json!({ "model": "llama3" })), 404);
}

#[test]
fn an_answer_has_the_format_that_was_asked_for() {
    let server = Running::new();
    let schema = json!({
        "type": "object",
        "properties": { "city": { "enum": ["Rome", "Paris"] } },
        "required": ["city"],
        "additionalProperties": false,
    });
    for path in [CHAT, GENERATE] {
        let body = question(json!({ "prompt": "Where?", "format": schema, "options": few_spaces() }));
        let answer = whole(&server, path, &body);
        let text = answer.pointer("/message/content").unwrap_or(&answer["response"]);
        let city: Json = serde_json::from_str(text.as_str().expect("a text")).expect("JSON");
        assert!(["Rome", "Paris"].contains(&city["city"].as_str().expect("a city")), "{city}");
    }
    let body = question(json!({ "format": "json", "options": { "num_predict": 12, "seed": 1 } }));
    let text = whole(&server, CHAT, &body)["message"]["content"].clone();
    assert!(text.as_str().expect("a text").trim_start().starts_with('{'), "{text}");
    assert!(error(&server.post(CHAT, &question(json!({ "format": "xml" }))), 400).contains("format"));
}

#[test]
fn tools_are_called_with_objects() {
    let server = Running::with_template(TOOLS);
    let cities = json!({ "type": "object", "properties": { "city": { "enum": ["Rome", "Oslo"] } }, "required": ["city"] });
    let function = json!({ "name": "weather", "description": "The weather now.", "parameters": cities });
    let tools = json!([{ "type": "function", "function": function }]);
    let body = question(
        json!({ "tools": tools, "tool_choice": "required", "parallel_tool_calls": false, "options": few_spaces() }),
    );
    let answer = whole(&server, CHAT, &body);
    let calls = answer["message"]["tool_calls"].as_array().unwrap_or_else(|| panic!("{answer}")).clone();
    assert_eq!(calls.len(), 1, "{answer}");
    let function = &calls[0]["function"];
    assert_eq!((&function["name"], &function["index"]), (&json!("weather"), &json!(0)));
    assert!(["Rome", "Oslo"].contains(&function["arguments"]["city"].as_str().expect("a city")));
    assert_eq!((&answer["message"]["content"], &answer["done_reason"]), (&json!(""), &json!("stop")));
    let streamed = lines(&server.post(CHAT, &body));
    let pieces = streamed.iter().filter_map(|line| line["message"]["tool_calls"].as_array());
    let functions: Vec<&Json> = pieces.flatten().map(|call| &call["function"]).collect();
    assert_eq!(functions, [function]);

    // The next turn has the call and its result.
    let mut next = body;
    let messages = next["messages"].as_array_mut().expect("messages");
    messages.push(answer["message"].clone());
    messages.push(json!({ "role": "tool", "tool_name": "weather", "content": "sunny" }));
    next["tool_choice"] = "none".into();
    whole(&server, CHAT, &next);
    let generic = Running::new().post(CHAT, &question(json!({ "tools": tools })));
    assert_eq!(generic.header("x-tool-format"), Some("generic"));
}

/// A template that begins the reasoning.
const THINKS: &str = "{%- for message in messages %}{{ message.role + ': ' + message.content + '\\n' }}{% endfor %}\
    {%- if add_generation_prompt %}assistant: {% if enable_thinking is defined and not enable_thinking %}<think>\n\n</think>\n\n\
    {% else %}<think>\n{% endif %}{% endif %}";

#[test]
fn reasoning_is_apart_and_can_be_turned_off() {
    let server = Running::with_template(THINKS);
    let options = json!({ "num_predict": 8, "temperature": 0 });
    let with_reasoning = whole(&server, CHAT, &question(json!({ "think": true, "options": options })));
    let message = &with_reasoning["message"];
    let thinking = message["thinking"].as_str().expect("a thought");
    assert!(!thinking.is_empty() && message["content"] == "", "{message}");
    let streamed = lines(&server.post(CHAT, &question(json!({ "think": "low", "options": options }))));
    assert_eq!(pieces(&streamed, "/message/thinking"), thinking);
    let body = json!({ "prompt": "What is the capital of Italy?", "options": options });
    assert_eq!(whole(&server, GENERATE, &body)["thinking"], thinking);
    let without = whole(&server, CHAT, &question(json!({ "think": false, "options": options })));
    assert!(without["message"].get("thinking").is_none(), "{without}");
    let show = server.post("/api/show", &json!({ "model": "demo" })).json();
    assert!(show["capabilities"].as_array().expect("a list").contains(&json!("thinking")));
    assert!(error(&server.post(CHAT, &question(json!({ "think": "much" }))), 400).contains("think"));
    assert!(error(&Running::new().post(CHAT, &question(json!({ "think": true }))), 400).contains("think"));
}

#[test]
fn log_probabilities_come_with_the_text() {
    let server = Running::new();
    let body = question(json!({ "logprobs": true, "top_logprobs": 2 }));
    let answer = whole(&server, CHAT, &body);
    let logprobs = answer["logprobs"].as_array().expect("tokens");
    assert_eq!(logprobs.len() as u64, answer["eval_count"].as_u64().expect("a count"));
    for token in logprobs {
        assert_eq!(token["top_logprobs"].as_array().expect("tokens").len(), 2);
        assert_eq!(token["top_logprobs"][0]["token"], token["token"]);
        assert!(token["logprob"].as_f64().expect("a number") <= 0.0);
    }
    let streamed = lines(&server.post(CHAT, &body));
    let pieces = streamed.iter().filter_map(|line| line["logprobs"].as_array()).flatten();
    assert_eq!(pieces.collect::<Vec<_>>(), logprobs.iter().collect::<Vec<_>>());
}

#[test]
fn models_are_listed_and_shown() {
    let server = Running::new();
    let listed = server.get("/api/tags").json()["models"][0].clone();
    assert_eq!((&listed["name"], &listed["model"]), (&json!("demo:latest"), &json!("demo:latest")));
    assert_eq!(listed["size"], demo_model::EMBEDDED.len());
    assert_eq!(listed["digest"].as_str().expect("a digest").len(), 64);
    assert!(listed["modified_at"].as_str().expect("a time").ends_with('Z'));
    let details = &listed["details"];
    assert_eq!((&details["format"], &details["family"]), (&json!("gguf"), &json!("llama")));
    assert_eq!((&details["families"], &details["quantization_level"]), (&json!(["llama"]), &json!("Q6_K")));
    assert!(details["parameter_size"].as_str().expect("a size").ends_with('M'), "{details}");
    let running = server.get("/api/ps").json()["models"][0].clone();
    for name in ["name", "digest", "size", "details"] {
        assert_eq!(running[name], listed[name]);
    }
    assert_eq!((&running["context_length"], &running["size_vram"]), (&json!(512), &json!(0)));

    let shown = server.post("/api/show", &json!({ "model": "demo" })).json();
    assert_eq!(shown["details"], *details);
    assert_eq!(shown["capabilities"], json!(["completion", "tools"]));
    assert_eq!(shown["template"], server.get("/props").json()["chat_template"]);
    let info = &shown["model_info"];
    assert_eq!(info["general.architecture"], "llama");
    assert!(info["general.parameter_count"].as_u64().is_some_and(|n| n > 1000));
    assert_eq!(info.get("tokenizer.ggml.tokens"), Some(&Json::Null));
    let all = server.post("/api/show", &json!({ "name": "demo", "verbose": true })).json();
    assert!(all["model_info"]["tokenizer.ggml.tokens"].as_array().is_some_and(|tokens| tokens.len() > 100));
    let tools = Running::with_template(TOOLS).post("/api/show", &json!({ "model": "demo" })).json();
    assert_eq!(tools["capabilities"], json!(["completion", "tools"]));
}

#[test]
fn clients_see_that_it_is_there() {
    let server = Running::new();
    let version = server.get("/api/version").json();
    assert_eq!(version["version"].as_str().expect("a version").split('.').count(), 3);
    assert_eq!(server.send("HEAD", "/", &[], b"").status, 200);
    let client = ("user-agent", "ollama-python/0.6.3");
    assert!(server.send("GET", "/", &[client], b"").body.contains("<html"));
    // What curl sends by default, as in ollama's documentation; but not from a page.
    let form = ("content-type", "application/x-www-form-urlencoded");
    let body = question(json!({ "stream": false })).to_string();
    server.send("POST", CHAT, &[form], body.as_bytes()).json();
    let from_page = [form, ("origin", "https://evil.example")];
    error(&server.send("POST", CHAT, &from_page, body.as_bytes()), 403);
}

#[test]
fn errors_are_one_sentence() {
    let server = Running::new();
    let image = json!([{ "role": "user", "content": "What is this?", "images": ["aGk="] }]);
    let wrong = [
        (CHAT, question(json!({ "messages": image })), "messages[0].images"),
        (CHAT, question(json!({ "options": { "temperature": "hot" } })), "temperature"),
        (CHAT, question(json!({ "options": 5 })), "options"),
        (CHAT, question(json!({ "messages": [{ "content": "Hi" }] })), "messages"),
        (CHAT, question(json!({ "top_logprobs": 21 })), "top_logprobs"),
        (GENERATE, json!({ "prompt": "Hi", "images": ["aGk="] }), "images"),
        (GENERATE, json!({ "prompt": "Hi", "suffix": "there" }), "suffix"),
        (GENERATE, json!({ "prompt": "Hi", "template": "{{ .Prompt }}" }), "template"),
        (GENERATE, json!({ "prompt": "Hi", "context": [1, 2, 3] }), "context"),
        (GENERATE, json!({ "prompt": "Hi", "raw": true, "system": "Be brief." }), "system"),
    ];
    for (path, body, field) in wrong {
        let message = error(&server.post(path, &body), 400);
        assert!(message.contains(&format!("`{field}`")), "{message}");
    }
    let empty = json!({ "prompt": "Hi", "images": [], "suffix": "", "template": "", "context": [], "system": "", "options": null });
    whole(&server, GENERATE, &with(empty, json!({ "options": { "num_predict": 2 } })));
    let long = question(json!({ "messages": [{ "role": "user", "content": "word ".repeat(600) }] }));
    assert!(error(&server.post(CHAT, &long), 400).contains("512"));
    error(&server.send("POST", CHAT, &[], b"{"), 400);
    let strict = Running::with(|config| config.strict_model = true);
    assert!(error(&strict.post(CHAT, &question(json!({ "model": "llama3" }))), 404).contains("llama3"));
    error(&server.get("/api/nothing"), 404);
    error(&server.get(CHAT), 405);
    error(&server.send("POST", CHAT, &[("content-type", "image/png")], b"{}"), 415);
    for path in ["/api/pull", "/api/push", "/api/create", "/api/copy", "/api/blobs/sha256:0"] {
        assert!(error(&server.post(path, &json!({ "model": "demo" })), 501).contains(path));
    }
    error(&server.send("DELETE", "/api/delete", &[], b"{}"), 501);
    let closed = Running::with(|config| config.keys = Keys::new(["one"]));
    error(&closed.get("/api/tags"), 401);
    let full = Running::with(|config| config.limits.requests = 0);
    error(&full.post(CHAT, &question(json!({}))), 503);
}

/// oterm and Codex list models in this protocol, and chat in another.
#[test]
fn other_protocols_know_the_names_of_its_lists() {
    let server = Running::with(|config| config.strict_model = true);
    let name = server.get("/api/tags").json()["models"][0]["name"].clone();
    let messages = json!([{ "role": "user", "content": "Hi" }]);
    let body = json!({ "model": name, "messages": messages, "input": "Hi", "prompt": "Hi", "max_tokens": 4 });
    for path in ["/v1/chat/completions", "/v1/completions", "/v1/messages"] {
        server.post(path, &body).json();
    }
    server.get(&format!("/v1/models/{}", name.as_str().expect("a name"))).json();
    server.post("/v1/completions", &json!({ "model": "demo:7b", "prompt": "Hi" })).error(404);
}
