//! What a prompt ends with, how long it is, and what it is.

use serde_json::{Value as Json, json};

use crate::client::Running;

const TEMPLATE: &str = "{% for message in messages %}[{{ message.role }}]{{ message.content }}{% endfor %}\
                        {% if add_generation_prompt %}[assistant]{% endif %}";

#[test]
fn an_answer_is_begun_or_continued_or_neither() {
    let server = Running::with_template_and(TEMPLATE, |_| {});
    let question = json!([{ "role": "user", "content": "a" }]);
    let begun = json!([{ "role": "user", "content": "a" }, { "role": "assistant", "content": "b" }]);
    let body = |messages: &Json, add: Json, go_on: Json| json!({ "messages": messages, "add_generation_prompt": add, "continue_final_message": go_on });
    let none = Json::Null;
    for (messages, add, go_on, expected) in [
        (&question, none.clone(), none.clone(), "[user]a[assistant]"),
        (&question, json!(true), json!(false), "[user]a[assistant]"),
        (&question, json!(false), none.clone(), "[user]a"),
        (&begun, none.clone(), none.clone(), "[user]a[assistant]b"),
        (&begun, json!(false), json!(true), "[user]a[assistant]b"),
        (&begun, none.clone(), json!(true), "[user]a[assistant]b"),
        (&begun, none.clone(), json!(false), "[user]a[assistant]b[assistant]"),
        (&begun, json!(false), json!(false), "[user]a[assistant]b"),
    ] {
        let answer = server.post("/apply-template", &body(messages, add, go_on)).json();
        assert_eq!(answer["prompt"], expected);
    }
    for (messages, add) in [(&begun, json!(true)), (&question, none)] {
        let error = server.post("/v1/chat/completions", &body(messages, add, json!(true))).error(400);
        assert_eq!(error["param"], "continue_final_message");
    }
}

#[test]
fn the_prompt_is_counted_and_shown() {
    let server = Running::new();
    let messages = json!([{ "role": "user", "content": "What is the capital of Italy?" }]);
    let body = json!({ "messages": messages, "max_tokens": 2, "verbose": true });
    let chat = server.post("/v1/chat/completions", &body).json();
    let prompt = server.post("/apply-template", &json!({ "messages": messages })).json()["prompt"].clone();
    let shown = chat["__verbose"]["prompt"].as_str().expect("a prompt");
    assert!(shown.ends_with(prompt.as_str().expect("a prompt")), "{shown:?}");
    for path in ["/v1/chat/completions/input_tokens", "/chat/completions/input_tokens"] {
        let counted = server.post(path, &json!({ "messages": messages })).json();
        assert_eq!(counted["input_tokens"], chat["usage"]["prompt_tokens"]);
    }
    let responses = server.post("/v1/responses/input_tokens", &json!({ "input": messages })).json();
    assert_eq!(
        responses,
        json!({ "object": "response.input_tokens", "input_tokens": chat["usage"]["prompt_tokens"] })
    );
    assert!(server.post("/v1/chat/completions", &json!({ "messages": messages, "max_tokens": 2 })).json()["__verbose"].is_null());
    let streamed = json!({ "messages": messages, "max_tokens": 2, "verbose": true, "stream": true });
    let events = server.post("/v1/chat/completions", &streamed).events();
    assert_eq!(events.last().expect("events")["__verbose"], chat["__verbose"]);
}
