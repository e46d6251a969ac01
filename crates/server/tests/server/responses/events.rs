//! Events of a stream, and what holds for all of them.

use serde_json::{Value as Json, json};

use super::RESPONSES;
use crate::client::Running;

/// The events of a stream, which are numbered and have their own names.
pub(super) fn events(server: &Running, mut body: Json) -> Vec<Json> {
    body["stream"] = true.into();
    let answer = server.post(RESPONSES, &body);
    assert_eq!(answer.status, 200, "{}", answer.body);
    assert_eq!(answer.header("content-type"), Some("text/event-stream"));
    let blocks = answer.body.split("\n\n").filter(|block| !block.is_empty() && !block.starts_with(':'));
    let events: Vec<Json> = blocks
        .map(|block| {
            let (name, data) = block.split_once('\n').expect("two lines");
            let event: Json = serde_json::from_str(data.strip_prefix("data: ").expect("data")).expect("JSON");
            assert_eq!(name.strip_prefix("event: "), event["type"].as_str());
            event
        })
        .collect();
    for (number, event) in events.iter().enumerate() {
        assert_eq!(event["sequence_number"], number, "{event}");
    }
    events
}

pub(super) fn names(events: &[Json]) -> Vec<&str> {
    let mut names: Vec<&str> = events.iter().filter_map(|event| event["type"].as_str()).collect();
    names.dedup();
    names
}

/// The response at the end of a stream, each item of which agrees with the events before it.
fn streamed(server: &Running, body: Json) -> Json {
    let events = events(server, body);
    let (last, events) = events.split_last().expect("events");
    let response = &last["response"];
    assert_eq!(last["type"], format!("response.{}", response["status"].as_str().expect("a status")));
    for (event, name) in events.iter().zip(["response.created", "response.in_progress"]) {
        assert_eq!(event["type"], name);
        let begun = &event["response"];
        assert_eq!((&begun["id"], &begun["status"]), (&response["id"], &json!("in_progress")));
        assert_eq!((&begun["output"], &begun["usage"]), (&json!([]), &Json::Null));
    }
    let output = response["output"].as_array().expect("items");
    let mut rest = &events[2..];
    for (index, item) in output.iter().enumerate() {
        let is_done = |event: &Json| event["type"] == "response.output_item.done";
        let length = rest.iter().position(is_done).expect("the end of the item") + 1;
        let (own, others) = rest.split_at(length);
        check_item(index, item, own);
        rest = others;
    }
    assert!(rest.is_empty(), "{rest:?}");
    response.clone()
}

/// The events of an item: it begins, grows and ends.
fn check_item(index: usize, item: &Json, events: &[Json]) {
    let (text, field) = match item["type"].as_str().expect("a type") {
        "reasoning" => ("reasoning_text", "text"),
        "message" => ("output_text", "text"),
        "function_call" => ("function_call_arguments", "arguments"),
        other => panic!("an item of the type {other}"),
    };
    let has_part = field == "text";
    for event in events {
        assert_eq!(event["output_index"], index, "{event}");
        if event.get("item").is_none() {
            assert_eq!(event["item_id"], item["id"], "{event}");
            assert_eq!(event.get("content_index"), has_part.then_some(&json!(0)), "{event}");
        }
    }
    let (delta, done) = (format!("response.{text}.delta"), format!("response.{text}.done"));
    let part = ["response.content_part.added", "response.content_part.done"];
    let expected: Vec<&str> = match has_part {
        true => {
            vec!["response.output_item.added", part[0], &delta, &done, part[1], "response.output_item.done"]
        }
        false => vec!["response.output_item.added", &delta, &done, "response.output_item.done"],
    };
    assert_eq!(names(events), expected);

    let (first, last) = (&events[0]["item"], &events[events.len() - 1]["item"]);
    assert_eq!(last, item);
    let mut begun = item.clone();
    begun["status"] = "in_progress".into();
    begun[if has_part { "content" } else { "arguments" }] = if has_part { json!([]) } else { json!("") };
    assert_eq!(first, &begun);
    let whole = if has_part { &item["content"][0] } else { item };
    let of = |name: &str| events.iter().filter(|event| event["type"] == name).cloned().collect::<Vec<_>>();
    let pieces: String = of(&delta).iter().filter_map(|event| event["delta"].as_str()).collect();
    let done = &of(&done)[0];
    assert_eq!((&done[field], &json!(pieces)), (&whole[field], &whole[field]));
    if has_part {
        assert_eq!(of(part[0])[0]["part"]["text"], "");
        assert_eq!(&of(part[1])[0]["part"], whole);
    }
    if text == "output_text" {
        let logprobs =
            of(&delta).into_iter().flat_map(|event| event["logprobs"].as_array().cloned()).flatten();
        assert_eq!(Json::from_iter(logprobs), whole["logprobs"]);
        assert_eq!(done["logprobs"], whole["logprobs"]);
    }
}

/// Ids are new, clocks move on, and the second one finds its prompt in the cache.
fn without_ids(mut response: Json) -> Json {
    for field in ["id", "created_at", "completed_at"] {
        response[field] = Json::Null;
    }
    response["usage"]["input_tokens_details"]["cached_tokens"] = Json::Null;
    for item in response["output"].as_array_mut().expect("items") {
        for field in
            ["id", "call_id"].into_iter().filter(|field| item.get(field).is_some()).collect::<Vec<_>>()
        {
            item[field] = Json::Null;
        }
    }
    response
}

/// The response of a call, which is the same as a whole and as a stream.
pub(super) fn both(server: &Running, body: Json) -> Json {
    let response = server.post(RESPONSES, &body).json();
    assert_eq!(without_ids(response.clone()), without_ids(streamed(server, body)));
    response
}
