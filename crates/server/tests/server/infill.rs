//! Infilling, by the demo model with a vocabulary that has the tokens for it.

use engine::Model;
use gguf::Gguf;
use serde_json::{Value as Json, json};

use crate::client::{Running, engine};

/// The demo model, of whose vocabulary the first three tokens of five letters become marks.
fn model() -> Model {
    let mut file = demo_model::EMBEDDED.to_vec();
    let list = b"tokenizer.ggml.tokens";
    let mut from = file.windows(list.len()).position(|bytes| bytes == list).expect("a vocabulary");
    for mark in [b"<PRE>", b"<SUF>", b"<MID>"] {
        let is_token = |bytes: &[u8]| {
            bytes.starts_with(&5u64.to_le_bytes()) && bytes[8..].iter().all(u8::is_ascii_lowercase)
        };
        let at = file[from..].windows(13).position(is_token).expect("a token of five letters") + from;
        file[at + 8..at + 13].copy_from_slice(mark);
        from = at + 13;
    }
    Model::new(Gguf::from_bytes(file.into()).expect("a good file")).expect("a good model")
}

fn gap(more: Json) -> Json {
    let mut body = json!({ "input_prefix": "x = ", "input_suffix": ";", "n_predict": 2, "temperature": 0 });
    for (name, value) in more.as_object().expect("an object") {
        body[name] = value.clone();
    }
    body
}

#[test]
fn a_gap_is_asked_for_by_its_marks() {
    let server = Running::serve(vec![("demo".into(), engine(model(), None).into())], |_| {});
    let prompt = |more: Json| server.post("/infill", &gap(more)).json()["prompt"].clone();
    assert_eq!(prompt(json!({})), "<s><PRE>x = <SUF>;<MID>");
    // What is text stays text.
    assert_eq!(prompt(json!({ "prompt": "<MID>" })), "<s><PRE>x = <SUF>;<MID><MID>");
    let ids = |text: &str| {
        let body = gap(json!({ "prompt": text, "response_fields": ["tokens_evaluated"] }));
        server.post("/infill", &body).json()["tokens_evaluated"].as_u64().expect("a count")
    };
    assert!(ids("<MID>") > ids("a"));
    let files = json!([{ "filename": "a.c", "text": "int a;" }, { "text": "int b;" }]);
    assert_eq!(prompt(json!({ "input_extra": files })), "<s>\n\nint a;\n\nint b;<PRE>x = <SUF>;<MID>");
    for (fields, param) in [
        (json!({ "input_prefix": null }), "input_prefix"),
        (json!({ "input_suffix": 1 }), "input_suffix"),
        (json!({ "prompt": [1] }), "prompt"),
        (json!({ "input_extra": [{ "filename": "a.c" }] }), "input_extra"),
        (json!({ "input_extra": [{ "filename": 1, "text": "a" }] }), "input_extra"),
    ] {
        let answer = server.post("/infill", &gap(fields));
        let error: Json = serde_json::from_str(&answer.body).expect("JSON");
        assert_eq!((answer.status, &error["error"]["param"]), (400, &json!(param)), "{error}");
    }
}

#[test]
fn a_model_without_marks_does_not_fill_in() {
    let answer = Running::new().post("/infill", &gap(json!({})));
    let error: Json = serde_json::from_str(&answer.body).expect("JSON");
    assert_eq!((answer.status, &error["error"]["type"]), (400, &json!("invalid_request_error")));
}

/// `suffix` of OpenAI's older endpoint and of ollama's asks for the same.
#[test]
fn a_suffix_makes_the_prompt_one_of_a_gap() {
    let server = Running::serve(vec![("demo".into(), engine(model(), None).into())], |_| {});
    let gap = server.post("/infill", &gap(json!({}))).json();
    let body = json!({ "prompt": "x = ", "suffix": ";", "max_tokens": 2, "temperature": 0 });
    let answer = server.post("/v1/completions", &body).json();
    assert_eq!(answer["choices"][0]["text"], gap["content"]);
    assert_eq!(answer["usage"]["prompt_tokens"], gap["tokens_evaluated"]);
    let several = json!({ "prompt": ["x = ", "y"], "suffix": ";", "max_tokens": 2, "temperature": 0 });
    let several = server.post("/v1/completions", &several).json();
    assert_eq!(several["choices"][0]["text"], gap["content"]);
    let options = json!({ "num_predict": 2, "temperature": 0 });
    for raw in [false, true] {
        let body =
            json!({ "prompt": "x = ", "suffix": ";", "raw": raw, "stream": false, "options": options });
        let answer = server.post("/api/generate", &body).json();
        assert_eq!(answer["response"], gap["content"]);
        assert_eq!(answer["prompt_eval_count"], gap["tokens_evaluated"]);
    }
    let echo = json!({ "prompt": "x = ", "suffix": ";", "echo": true });
    assert_eq!(server.post("/v1/completions", &echo).error(400)["param"], "echo");
    // Without marks there is no gap; an empty suffix is none.
    let plain = Running::new();
    assert_eq!(plain.post("/v1/completions", &body).error(400)["param"], "suffix");
    plain.post("/v1/completions", &json!({ "prompt": "x", "suffix": "", "max_tokens": 2 })).json();
}
