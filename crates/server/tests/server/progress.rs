//! How far a prompt is, while it is computed.

use serde_json::{Value as Json, json};

use crate::client::Running;

/// `total`, `cache` and `processed` of each progress.
fn told(events: &[Json]) -> Vec<[u64; 3]> {
    let numbers = |progress: &Json| {
        ["total", "cache", "processed"].map(|name| progress[name].as_u64().expect("a number"))
    };
    events.iter().filter_map(|event| event.get("prompt_progress")).map(numbers).collect()
}

#[test]
fn progress_is_told_before_the_answer() {
    let server = Running::new();
    let messages = json!([{ "role": "user", "content": "word ".repeat(100) }]);
    let body = json!({
        "messages": messages, "max_tokens": 3, "stream": true, "return_progress": true, "timings_per_token": true,
        "stream_options": { "include_usage": true },
    });
    for is_again in [false, true] {
        let events = server.post("/v1/chat/completions", &body).events();
        let told = told(&events);
        let usage = &events.last().expect("events")["usage"];
        let (total, cached) = (&usage["prompt_tokens"], &usage["prompt_tokens_details"]["cached_tokens"]);
        assert_eq!(told[0], [total.as_u64().unwrap(), cached.as_u64().unwrap(), cached.as_u64().unwrap()]);
        assert_eq!(cached.as_u64().unwrap() > 0, is_again);
        assert!(told.is_sorted_by(|a, b| a[..2] == b[..2] && a[2] < b[2]), "{told:?}");
        assert_eq!(told.last().expect("progress")[2], told[0][0]);
        assert_eq!(told.len() > 2, !is_again, "64 tokens of a prompt are a step: {told:?}");
        let last_progress = events.iter().rposition(|event| event.get("prompt_progress").is_some());
        let first_text = events.iter().position(|event| event["choices"][0]["delta"]["content"].is_string());
        assert!(last_progress < first_text);
        assert!(events.last().expect("events")["timings"]["predicted_n"].is_u64());
    }
    let quiet = json!({ "messages": messages, "max_tokens": 3, "stream": true });
    assert_eq!(told(&server.post("/v1/chat/completions", &quiet).events()), Vec::<[u64; 3]>::new());
    // An answer of one token ends with the step that computes the prompt.
    let body = json!({ "prompt": "one two", "n_predict": 1, "stream": true, "return_progress": true });
    let answer = server.post("/completion", &body);
    let data = answer.body.lines().filter_map(|line| line.strip_prefix("data: "));
    let events: Vec<Json> = data.map(|event| serde_json::from_str(event).expect("JSON")).collect();
    let progress = told(&events);
    assert_eq!((progress[0][2], progress[1][2]), (0, progress[0][0]));
    assert_eq!(events.last().expect("events")["stop"], true);
}
