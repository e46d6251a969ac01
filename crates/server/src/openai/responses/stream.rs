//! The answer as a stream of events, each of which has a number.

use serde_json::{Value as Json, json};

use super::items::{Change, Item, Kind};
use super::object::Object;
use crate::answer::Answers;
use crate::app::Admission;
use crate::sse::{Events, Gone};

/// Writes the answer as it comes. The admission is held until the end.
pub(super) async fn write(
    mut object: Object,
    mut answers: Answers,
    events: Events,
    _admission: Admission,
) -> Result<(), Gone> {
    let mut stream = Stream { events, sent: 0 };
    stream.response("created", &object).await?;
    stream.response("in_progress", &object).await?;
    loop {
        match answers.next().await {
            Ok(Some(delta)) => {
                for change in object.push(delta.kind) {
                    stream.change(&object.output.items, change).await?;
                }
            }
            Ok(None) => break,
            Err(error) => {
                object.fail(error);
                break;
            }
        }
    }
    stream.response(object.state.name(), &object).await
}

struct Stream {
    events: Events,
    sent: usize,
}

impl Stream {
    /// The next event.
    async fn send(&mut self, name: &str, mut json: Json) -> Result<(), Gone> {
        json["type"] = name.into();
        json["sequence_number"] = self.sent.into();
        self.sent += 1;
        self.events.event(name, &json).await
    }

    async fn response(&mut self, state: &str, object: &Object) -> Result<(), Gone> {
        self.send(&format!("response.{state}"), json!({ "response": object.json() })).await
    }

    /// The events of a change.
    async fn change(&mut self, items: &[Item], change: Change) -> Result<(), Gone> {
        match change {
            Change::Begun { index } => {
                let Some(item) = items.get(index).map(Item::begun) else { return Ok(()) };
                self.item("response.output_item.added", index, &item).await?;
                self.part("response.content_part.added", index, &item).await
            }
            Change::More { index, text, logprobs } => {
                let Some(item) = items.get(index) else { return Ok(()) };
                let mut event = at(index, item);
                event["delta"] = text.into();
                if item.kind == Kind::Message {
                    event["logprobs"] = logprobs.into();
                }
                self.send(&format!("response.{}.delta", text_name(&item.kind)), event).await
            }
            Change::Ended { index } => {
                let Some(item) = items.get(index) else { return Ok(()) };
                self.text_done(index, item).await?;
                self.part("response.content_part.done", index, item).await?;
                self.item("response.output_item.done", index, item).await
            }
        }
    }

    async fn item(&mut self, name: &str, index: usize, item: &Item) -> Result<(), Gone> {
        self.send(name, json!({ "output_index": index, "item": item.json() })).await
    }

    async fn part(&mut self, name: &str, index: usize, item: &Item) -> Result<(), Gone> {
        let Some(part) = item.part() else { return Ok(()) };
        let mut event = at(index, item);
        event["part"] = part;
        self.send(name, event).await
    }

    async fn text_done(&mut self, index: usize, item: &Item) -> Result<(), Gone> {
        let mut event = at(index, item);
        match &item.kind {
            Kind::Reasoning => event["text"] = item.text.as_str().into(),
            Kind::Message => {
                event["text"] = item.text.as_str().into();
                event["logprobs"] = item.logprobs.clone().into();
            }
            Kind::Call { name, .. } => {
                event["name"] = name.as_str().into();
                event["arguments"] = item.text.as_str().into();
            }
        }
        self.send(&format!("response.{}.done", text_name(&item.kind)), event).await
    }
}

/// Where in the output an event belongs.
fn at(index: usize, item: &Item) -> Json {
    let mut place = json!({ "output_index": index, "item_id": item.id });
    if !matches!(item.kind, Kind::Call { .. }) {
        place["content_index"] = 0.into();
    }
    place
}

/// The events' name for the text of an item.
fn text_name(kind: &Kind) -> &'static str {
    match kind {
        Kind::Reasoning => "reasoning_text",
        Kind::Message => "output_text",
        Kind::Call { .. } => "function_call_arguments",
    }
}
