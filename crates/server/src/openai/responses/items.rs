//! The items of an answer: from what the model writes to reasoning, messages and calls, one after the other.

use chat::Delta as Part;
use engine::Logprobs;
use serde_json::{Value as Json, json};

use crate::id;
use crate::models::Served;
use crate::openai::logprobs;

/// An item of the output, as far as it has come.
#[derive(Clone, Debug)]
pub(super) struct Item {
    pub(super) id: String,
    pub(super) kind: Kind,
    pub(super) status: Status,
    /// Its text; the arguments' JSON if it is a call.
    pub(super) text: String,
    /// Log-probabilities of a message's tokens.
    pub(super) logprobs: Vec<Json>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Reasoning,
    Message,
    Call { call_id: String, name: String },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Status {
    InProgress,
    Completed,
    /// It was cut.
    Incomplete,
}

/// A change of the item number `index`. Items do not overlap: one ends before the next begins.
#[derive(Debug)]
pub(super) enum Change {
    Begun { index: usize },
    More { index: usize, text: String, logprobs: Vec<Json> },
    Ended { index: usize },
}

/// A token of which log-probabilities are known, and which no item has yet.
struct Token {
    /// Bytes of its text.
    length: usize,
    logprobs: Json,
}

/// The output: only its last item may be in progress.
#[derive(Default)]
pub(super) struct Output {
    pub(super) items: Vec<Item>,
    tokens: Vec<Token>,
}

impl Output {
    /// Adds the log-probabilities of a token, whose text follows.
    pub(super) fn push_token(&mut self, served: &Served, id: u32, logprobs: &Logprobs) {
        self.tokens.push(Token::new(served, id, logprobs));
    }

    /// Adds a part of the answer.
    pub(super) fn push(&mut self, part: Part) -> Vec<Change> {
        let mut changes = Vec::new();
        match part {
            Part::Reasoning(text) => {
                self.enter(Kind::Reasoning, &mut changes);
                self.write(text, &mut changes);
            }
            // A broken call is content.
            Part::Content(text) | Part::ToolCallBroken { text, .. } => {
                self.enter(Kind::Message, &mut changes);
                self.write(text, &mut changes);
            }
            Part::ToolCallBegin { name, id, .. } => {
                let call_id = id.unwrap_or_else(|| id::new("call_"));
                self.begin(Kind::Call { call_id, name }, &mut changes);
            }
            Part::ToolCallArguments { json, .. } => self.write(json, &mut changes),
            Part::ToolCallEnd { .. } => self.end(Status::Completed, &mut changes),
            Part::ToolCallCut { .. } => self.end(Status::Incomplete, &mut changes),
        }
        changes
    }

    /// Ends the output, which `is_cut` if the model had more to say.
    pub(super) fn finish(&mut self, is_cut: bool) -> Vec<Change> {
        let mut changes = Vec::new();
        let says_nothing = self.items.iter().all(|item| item.kind == Kind::Reasoning);
        if says_nothing && !is_cut {
            self.begin(Kind::Message, &mut changes);
        }
        let status = if is_cut { Status::Incomplete } else { self.left() };
        self.end(status, &mut changes);
        changes
    }

    /// Marks the item in progress as one that will not be completed.
    pub(super) fn cut(&mut self) {
        self.end(Status::Incomplete, &mut Vec::new());
    }

    /// The items as JSON.
    pub(super) fn json(&self) -> Vec<Json> {
        self.items.iter().map(Item::json).collect()
    }

    /// The item in progress, and its number.
    fn open(&mut self) -> Option<(usize, &mut Item)> {
        let (index, last) = self.items.iter_mut().enumerate().next_back()?;
        (last.status == Status::InProgress).then_some((index, last))
    }

    /// The status of the item in progress when another follows: a call that was completed is not in progress any more.
    fn left(&self) -> Status {
        match self.items.last() {
            Some(Item { kind: Kind::Call { .. }, .. }) => Status::Incomplete,
            _ => Status::Completed,
        }
    }

    /// Begins an item unless one of this kind is in progress.
    fn enter(&mut self, kind: Kind, changes: &mut Vec<Change>) {
        if self.open().is_none_or(|(_, item)| item.kind != kind) {
            self.begin(kind, changes);
        }
    }

    fn begin(&mut self, kind: Kind, changes: &mut Vec<Change>) {
        self.end(self.left(), changes);
        let id = id::new(kind.prefix());
        let item = Item { id, kind, status: Status::InProgress, text: String::new(), logprobs: Vec::new() };
        changes.push(Change::Begun { index: self.items.len() });
        self.items.push(item);
    }

    fn write(&mut self, text: String, changes: &mut Vec<Change>) {
        let mut tokens = std::mem::take(&mut self.tokens);
        let Some((index, item)) = self.open() else { return };
        if item.text.is_empty() {
            // Before the first text are tokens of marks.
            let mut length = 0;
            let first = tokens.iter().rposition(|token| {
                length += token.length;
                length >= text.len()
            });
            tokens.drain(..first.unwrap_or(0));
        }
        let is_message = item.kind == Kind::Message;
        let logprobs = tokens.into_iter().filter(|_| is_message).map(|token| token.logprobs);
        let logprobs: Vec<Json> = logprobs.collect();
        item.text.push_str(&text);
        item.logprobs.extend_from_slice(&logprobs);
        changes.push(Change::More { index, text, logprobs });
    }

    fn end(&mut self, status: Status, changes: &mut Vec<Change>) {
        if let Some((index, item)) = self.open() {
            item.status = status;
            changes.push(Change::Ended { index });
        }
    }
}

impl Token {
    fn new(served: &Served, id: u32, logprobs: &Logprobs) -> Token {
        let logprobs = logprobs::token_json(served, id, logprobs);
        Token { length: logprobs["bytes"].as_array().map_or(0, Vec::len), logprobs }
    }
}

impl Kind {
    fn prefix(&self) -> &'static str {
        match self {
            Kind::Reasoning => "rs_",
            Kind::Message => "msg_",
            Kind::Call { .. } => "fc_",
        }
    }
}

impl Item {
    /// The item as it was when it began.
    pub(super) fn begun(&self) -> Item {
        let (id, kind) = (self.id.clone(), self.kind.clone());
        Item { id, kind, status: Status::InProgress, text: String::new(), logprobs: Vec::new() }
    }

    pub(super) fn json(&self) -> Json {
        let status = match self.status {
            Status::InProgress => "in_progress",
            Status::Completed => "completed",
            Status::Incomplete => "incomplete",
        };
        let content: Vec<Json> =
            self.part().into_iter().filter(|_| self.status != Status::InProgress).collect();
        match &self.kind {
            Kind::Reasoning => json!({
                "id": self.id,
                "type": "reasoning",
                "status": status,
                "summary": [],
                "content": content,
            }),
            Kind::Message => json!({
                "id": self.id,
                "type": "message",
                "status": status,
                "role": "assistant",
                "content": content,
            }),
            Kind::Call { call_id, name } => json!({
                "id": self.id,
                "type": "function_call",
                "status": status,
                "call_id": call_id,
                "name": name,
                "arguments": self.text,
            }),
        }
    }

    /// The only part of its content. A call has none.
    pub(super) fn part(&self) -> Option<Json> {
        match self.kind {
            Kind::Reasoning => Some(json!({ "type": "reasoning_text", "text": self.text })),
            Kind::Message => Some(json!({
                "type": "output_text",
                "text": self.text,
                "annotations": [],
                "logprobs": self.logprobs,
            })),
            Kind::Call { .. } => None,
        }
    }
}
