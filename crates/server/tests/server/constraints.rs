//! Fields that constrain an answer, whoever invented them: the answer obeys, or the request is refused. None is ignored.

use serde_json::{Value as Json, json};

use crate::client::{Answer, Running};

/// Endpoints that write text, and the places of the text in their answers.
const ENDPOINTS: [(&str, &str); 7] = [
    ("/v1/chat/completions", "/choices/0/message/content"),
    ("/v1/completions", "/choices/0/text"),
    ("/v1/responses", "/output/0/content/0/text"),
    ("/v1/messages", "/content/0/text"),
    ("/api/chat", "/message/content"),
    ("/api/generate", "/response"),
    ("/completion", "/content"),
];

fn post(server: &Running, path: &str, fields: &Json) -> Answer {
    let (messages, options) =
        (json!([{ "role": "user", "content": "Hi" }]), json!({ "num_predict": 40, "temperature": 0 }));
    let mut body = match path {
        "/v1/chat/completions" | "/v1/messages" => json!({ "messages": messages, "max_tokens": 40 }),
        "/v1/responses" => json!({ "input": "Hi", "max_output_tokens": 40 }),
        "/api/chat" => json!({ "messages": messages, "options": options, "stream": false }),
        "/api/generate" => json!({ "prompt": "Hi", "options": options, "stream": false }),
        _ => json!({ "prompt": "Hi", "max_tokens": 40 }),
    };
    for (name, value) in fields.as_object().expect("an object") {
        body[name] = value.clone();
    }
    server.post(path, &body)
}

#[test]
fn every_name_of_a_constraint_holds_at_every_endpoint() {
    let server = Running::new();
    let schema = json!({ "enum": ["yes", "no"] });
    let (gbnf, lark, regex) = ("root ::= \"yes\" | \"no\"", "start: \"yes\" | \"no\"", "yes|no");
    let fields = [
        json!({ "structured_outputs": { "choice": ["yes", "no"] } }),
        json!({ "structured_outputs": { "regex": regex, "whitespace_pattern": null } }),
        json!({ "structured_outputs": { "grammar": gbnf } }),
        json!({ "structured_outputs": { "json": schema } }),
        json!({ "guided_choice": ["yes", "no"] }),
        json!({ "guided_regex": regex }),
        json!({ "guided_grammar": gbnf }),
        json!({ "guided_grammar": lark }),
        json!({ "guided_json": schema }),
        json!({ "guided_json": schema.to_string() }),
        json!({ "json_schema": schema }),
        json!({ "json_schema": schema.to_string() }),
        json!({ "regex": regex }),
        json!({ "ebnf": gbnf }),
        json!({ "grammar": gbnf }),
        json!({ "response_format": { "type": "json_schema", "json_schema": { "name": "a", "schema": schema } } }),
        json!({ "response_format": { "type": "json_schema", "schema": schema } }),
        json!({ "response_format": { "type": "json_object", "schema": schema } }),
        json!({ "response_format": { "type": "regex", "pattern": regex } }),
        json!({ "response_format": { "type": "regex", "value": regex } }),
        json!({ "response_format": { "type": "grammar", "grammar": gbnf } }),
        json!({ "extra_body": { "guided_choice": ["yes", "no"] } }),
    ];
    for (path, pointer) in ENDPOINTS {
        for fields in &fields {
            let answer = post(&server, path, fields).json();
            let text = answer.pointer(pointer).and_then(Json::as_str).unwrap_or_else(|| panic!("{answer}"));
            assert!(["yes", "no"].contains(&text.trim_matches('"')), "{path} {fields}: {text}");
        }
    }
}

#[test]
fn constraints_that_cannot_hold_are_refused() {
    let server = Running::new();
    let schema = json!({ "type": "object" });
    let fields = [
        json!({ "structured_outputs": { "structural_tag": "{}" } }),
        json!({ "structured_outputs": { "whitespace_pattern": " " } }),
        json!({ "structured_outputs": { "json": "{" } }),
        json!({ "structured_outputs": "json" }),
        json!({ "structural_tag": "{}" }),
        json!({ "guided_whitespace_pattern": " " }),
        json!({ "guided_choice": "yes" }),
        json!({ "guided_grammar": "yes" }),
        json!({ "guided_json": "no schema" }),
        json!({ "response_schema": schema }),
        json!({ "bad_words": ["a"] }),
        json!({ "allowed_token_ids": [1, 2] }),
        json!({ "grammar": "root ::= \"a\"", "grammar_lazy": true }),
        json!({ "response_format": { "type": "structural_tag" } }),
        json!({ "response_format": { "type": "json_object", "json_schema": schema } }),
        json!({ "response_format": { "type": "regex" } }),
        json!({ "guided_choice": ["a"], "regex": "a" }),
        json!({ "grammar": { "type": "json", "value": schema } }),
    ];
    for (path, _) in ENDPOINTS {
        for fields in &fields {
            let answer = post(&server, path, fields);
            assert_eq!(answer.status, 400, "{path} {fields}: {}", answer.body);
        }
    }
    // The name of another protocol.
    for (path, field) in [
        ("/v1/chat/completions", "format"),
        ("/v1/messages", "format"),
        ("/completion", "format"),
        ("/api/chat", "output_format"),
        ("/v1/chat/completions", "text"),
    ] {
        assert_eq!(post(&server, path, &json!({ field: schema })).status, 400, "{path} {field}");
    }
    let options = json!({ "options": { "grammar": "root ::= [" } });
    assert_eq!(post(&server, "/api/generate", &options).status, 400);
}

#[test]
fn unset_constraints_constrain_nothing() {
    let fields = json!({
        "structured_outputs": {}, "guided_choice": [], "guided_json": null, "guided_json_object": false, "regex": "",
        "grammar": "", "json_schema": "", "response_format": { "type": "text" }, "temperature": 0,
    });
    let server = Running::new();
    let answer = post(&server, "/v1/chat/completions", &fields);
    assert_eq!(answer.header("x-ignored-fields"), None);
    let free = post(&server, "/v1/chat/completions", &json!({ "temperature": 0 })).json();
    assert_eq!(answer.json()["choices"], free["choices"]);
}

#[test]
fn choices_are_texts() {
    let server = Running::new();
    for text in [
        r"a+b? (c) [d] {e} ^$ \ . | * ~ # & - / ' % @ ! = : ; , < > _ `",
        "\"quoted\"",
        "naïve 中",
        "two\nlines",
    ] {
        let answer =
            post(&server, "/v1/completions", &json!({ "guided_choice": [text], "max_tokens": 200 })).json();
        assert_eq!(answer["choices"][0]["text"], text);
    }
}
