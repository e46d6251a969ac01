//! Blocks of an answer, and the events that build them one after the other.

use chat::Delta as Part;
use serde::Serialize;
use serde_json::{Value as Json, json};

use crate::id;

/// A part of an answer.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(super) enum Block {
    Thinking { thinking: String, signature: String },
    Text { text: String },
    ToolUse { id: String, name: String, input: Json },
}

/// More of a block.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "type")]
pub(super) enum More {
    #[serde(rename = "thinking_delta")]
    Thinking { thinking: String },
    #[serde(rename = "signature_delta")]
    Signature { signature: String },
    #[serde(rename = "text_delta")]
    Text { text: String },
    #[serde(rename = "input_json_delta")]
    InputJson { partial_json: String },
}

/// A step in building the blocks. Only the last one is open.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "type")]
pub(super) enum Event {
    #[serde(rename = "content_block_start")]
    Start { index: usize, content_block: Block },
    #[serde(rename = "content_block_delta")]
    Delta { index: usize, delta: More },
    #[serde(rename = "content_block_stop")]
    Stop { index: usize },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Thinking,
    Text,
    ToolUse,
}

/// Turns what the model writes into events.
#[derive(Debug)]
pub(super) struct Blocks {
    /// Without it, thinking blocks are empty.
    shows_thinking: bool,
    open: Option<Kind>,
    /// Blocks that have ended: the number of the one that is open.
    ended: usize,
}

impl Blocks {
    pub(super) fn new(shows_thinking: bool) -> Blocks {
        Blocks { shows_thinking, open: None, ended: 0 }
    }

    /// The events of a piece of the answer.
    pub(super) fn push(&mut self, part: Part) -> Vec<Event> {
        match part {
            Part::Reasoning(thinking) => {
                let empty = Block::Thinking { thinking: String::new(), signature: String::new() };
                let more = self.shows_thinking.then_some(More::Thinking { thinking });
                self.within(Kind::Thinking, empty, more)
            }
            Part::Content(text) | Part::ToolCallBroken { text, .. } => {
                self.within(Kind::Text, Block::Text { text: String::new() }, Some(More::Text { text }))
            }
            Part::ToolCallBegin { name, .. } => {
                let mut events = self.end();
                let call = Block::ToolUse { id: id::new("toolu_"), name, input: json!({}) };
                events.extend(self.within(Kind::ToolUse, call, None));
                events
            }
            Part::ToolCallArguments { json, .. } => {
                vec![self.more(More::InputJson { partial_json: json })]
            }
            Part::ToolCallEnd { .. } | Part::ToolCallCut { .. } => self.end(),
        }
    }

    /// `more` of a block of this kind, which is begun as `empty` unless it is open.
    fn within(&mut self, kind: Kind, empty: Block, more: Option<More>) -> Vec<Event> {
        let mut events = Vec::new();
        if self.open != Some(kind) {
            events = self.end();
            self.open = Some(kind);
            events.push(Event::Start { index: self.ended, content_block: empty });
        }
        events.extend(more.map(|more| self.more(more)));
        events
    }

    fn more(&self, delta: More) -> Event {
        Event::Delta { index: self.ended, delta }
    }

    /// Ends the block that is open.
    pub(super) fn end(&mut self) -> Vec<Event> {
        let Some(kind) = self.open.take() else { return Vec::new() };
        let index = self.ended;
        self.ended += 1;
        // Nobody signs what the model thinks, but clients wait for it.
        let signature = More::Signature { signature: String::new() };
        let signed = (kind == Kind::Thinking).then_some(Event::Delta { index, delta: signature });
        signed.into_iter().chain([Event::Stop { index }]).collect()
    }
}

/// The blocks that events build.
#[derive(Debug, Default)]
pub(super) struct Content {
    blocks: Vec<Block>,
    /// The input of the call that is open.
    json: String,
}

impl Content {
    pub(super) fn push(&mut self, event: Event) {
        match (event, self.blocks.last_mut()) {
            (Event::Start { content_block, .. }, _) => self.blocks.push(content_block),
            (Event::Delta { delta, .. }, Some(block)) => match (delta, block) {
                (More::Thinking { thinking: more }, Block::Thinking { thinking: text, .. })
                | (More::Text { text: more }, Block::Text { text }) => text.push_str(&more),
                (More::InputJson { partial_json }, _) => self.json.push_str(&partial_json),
                _ => {}
            },
            (Event::Stop { .. }, Some(Block::ToolUse { input, .. })) => {
                let json = std::mem::take(&mut self.json);
                // All pieces of a call's arguments together are an object, unless the answer was cut.
                *input = serde_json::from_str(&json).unwrap_or_else(|_| complete_members(&json));
            }
            (Event::Delta { .. } | Event::Stop { .. }, _) => {}
        }
    }

    pub(super) fn json(&self) -> Json {
        json!(self.blocks)
    }
}

/// The members of an object whose text was cut that are complete. A number at the end may go on.
fn complete_members(json: &str) -> Json {
    let (mut depth, mut in_string, mut is_escaped) = (0, false, false);
    // Where the last member that another follows ends.
    let mut end = 0;
    for (at, byte) in json.bytes().enumerate() {
        match (in_string, byte) {
            (true, _) if is_escaped => is_escaped = false,
            (true, b'\\') => is_escaped = true,
            (_, b'"') => in_string = !in_string,
            (false, b'{' | b'[') => depth += 1,
            (false, b'}' | b']') => depth -= 1,
            (false, b',') if depth == 1 => end = at,
            _ => {}
        }
    }
    let all = Some(json).filter(|json| !json.ends_with(|last: char| last.is_ascii_digit()));
    let closed = |members: &str| serde_json::from_str(&format!("{members}}}")).ok();
    all.and_then(closed).or_else(|| closed(&json[..end])).unwrap_or_else(|| json!({}))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn events(shows_thinking: bool) -> Vec<Event> {
        let mut blocks = Blocks::new(shows_thinking);
        let call = |index, city: &str| {
            let (begin, rest) = (r#"{"city": "#.to_owned(), format!("\"{city}\"}}"));
            [
                Part::ToolCallBegin { index, name: "weather".into(), id: None },
                Part::ToolCallArguments { index, json: begin },
                Part::ToolCallArguments { index, json: rest },
                Part::ToolCallEnd { index },
            ]
        };
        let said = ["Let", " me see."].map(|text| Part::Content(text.into()));
        let thought = ["Two", " cities."].map(|text| Part::Reasoning(text.into()));
        let deltas = thought.into_iter().chain(said).chain(call(0, "Rome")).chain(call(1, "Oslo"));
        let deltas = deltas.chain([Part::Content("Wait.".into())]);
        let mut events: Vec<Event> = deltas.flat_map(|delta| blocks.push(delta)).collect();
        events.extend(blocks.end());
        events
    }

    #[test]
    fn blocks_follow_each_other_and_never_overlap() {
        let (mut open, mut next) = (None, 0);
        for event in events(true) {
            match event {
                Event::Start { index, .. } => {
                    assert_eq!((open, index), (None, next));
                    (open, next) = (Some(index), next + 1);
                }
                Event::Delta { index, .. } => assert_eq!(open, Some(index)),
                Event::Stop { index } => assert_eq!(open.take(), Some(index)),
            }
        }
        assert_eq!((open, next), (None, 5));
    }

    #[test]
    fn what_is_cut_is_an_object_of_what_is_complete() {
        for (cut, expected) in [
            ("", json!({})),
            ("{", json!({})),
            (r#"{"a": "#, json!({})),
            (r#"{"a": "x, y"#, json!({})),
            (r#"{"a": "x\", y", "b"#, json!({ "a": "x\", y" })),
            (r#"{"a": 1, "b": "x""#, json!({ "a": 1, "b": "x" })),
            (r#"{"a": true, "b": [2]"#, json!({ "a": true, "b": [2] })),
            (r#"{"a": true, "b": 12"#, json!({ "a": true })),
            (r#"{"a": true, "b": 1e"#, json!({ "a": true })),
            (r#"{"a": {"b": "x""#, json!({})),
            (r#"{"a": {"b": 1}, "#, json!({ "a": { "b": 1 } })),
            (r#"{"é"#, json!({})),
            (r#"{"a": [1, 2, {"b": 3, "#, json!({})),
            (r#"{"a": [1, {"b": 3}], "c": {"d": 4, "e"#, json!({ "a": [1, { "b": 3 }] })),
        ] {
            assert_eq!(complete_members(cut), expected, "{cut}");
        }
    }

    #[test]
    fn events_build_the_whole_answer() {
        let mut content = Content::default();
        events(true).into_iter().for_each(|event| content.push(event));
        let mut json = content.json();
        for index in [2, 3] {
            let id = json[index]["id"].take();
            assert!(id.as_str().is_some_and(|id| id.starts_with("toolu_")), "{id}");
        }
        let call = |city: &str| json!({ "type": "tool_use", "id": null, "name": "weather", "input": { "city": city } });
        let expected = json!([
            { "type": "thinking", "thinking": "Two cities.", "signature": "" },
            { "type": "text", "text": "Let me see." },
            call("Rome"),
            call("Oslo"),
            { "type": "text", "text": "Wait." },
        ]);
        assert_eq!(json, expected);
    }

    #[test]
    fn thinking_is_signed_and_may_be_omitted() {
        let signed = |shows_thinking| json!(events(shows_thinking)[..4]);
        let start = json!({ "type": "content_block_start", "index": 0,
            "content_block": { "type": "thinking", "thinking": "", "signature": "" } });
        let delta = |delta: Json| json!({ "type": "content_block_delta", "index": 0, "delta": delta });
        let signature = delta(json!({ "type": "signature_delta", "signature": "" }));
        let thinking = |text: &str| delta(json!({ "type": "thinking_delta", "thinking": text }));
        assert_eq!(signed(true), json!([start, thinking("Two"), thinking(" cities."), signature]));
        let stop = json!({ "type": "content_block_stop", "index": 0 });
        let text = json!({ "type": "content_block_start", "index": 1, "content_block": { "type": "text", "text": "" } });
        assert_eq!(signed(false), json!([start, signature, stop, text]));
    }
}
