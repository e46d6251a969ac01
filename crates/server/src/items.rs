//! The items of an answer: from what the model writes to reasoning, messages and calls, one after the other.

use chat::Delta as Part;
use serde_json::Value as Json;

use crate::id;

/// An item of an answer, as far as it has come.
pub(crate) struct Item {
    pub(crate) id: String,
    pub(crate) kind: Kind,
    pub(crate) status: Status,
    /// Its text; the arguments' JSON if it is a call.
    pub(crate) text: String,
    /// Log-probabilities of a message's tokens.
    pub(crate) logprobs: Vec<Json>,
}

impl Item {
    pub(crate) fn begun(id: String, kind: Kind) -> Item {
        Item { id, kind, status: Status::InProgress, text: String::new(), logprobs: Vec::new() }
    }
}

#[derive(Clone, PartialEq, Eq)]
pub(crate) enum Kind {
    Reasoning,
    Message,
    /// `id` is the model's.
    Call {
        id: Option<String>,
        name: String,
    },
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Status {
    InProgress,
    Completed,
    Incomplete,
}

/// A change of the item number `index`. Items do not overlap: one ends before the next begins.
pub(crate) enum Change {
    Begun { index: usize },
    More { index: usize, text: String, logprobs: Vec<Json> },
    Ended { index: usize },
}

/// The items: only the last one may be in progress.
#[derive(Default)]
pub(crate) struct Items {
    pub(crate) list: Vec<Item>,
    /// Log-probabilities of tokens that no item has yet.
    tokens: Vec<Json>,
}

impl Items {
    /// Adds the log-probabilities of a token, whose text follows.
    pub(crate) fn push_token(&mut self, logprobs: Json) {
        self.tokens.push(logprobs);
    }

    pub(crate) fn push(&mut self, part: Part) -> Vec<Change> {
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
            Part::ToolCallBegin { name, id, .. } => self.begin(Kind::Call { id, name }, &mut changes),
            Part::ToolCallArguments { json, .. } => self.write(json, &mut changes),
            Part::ToolCallEnd { .. } => changes.extend(self.end(Status::Completed)),
            Part::ToolCallCut { .. } => changes.extend(self.end(Status::Incomplete)),
        }
        changes
    }

    pub(crate) fn end(&mut self, status: Status) -> Option<Change> {
        let (index, item) = self.open()?;
        item.status = status;
        Some(Change::Ended { index })
    }

    /// Whether there are calls, and the answer does not end within one.
    pub(crate) fn has_calls(&self) -> bool {
        let is_call = |item: &Item| matches!(item.kind, Kind::Call { .. });
        let is_complete = |item: &Item| item.status == Status::Completed;
        self.list.iter().any(|item| is_call(item) && is_complete(item))
            && self.list.last().is_some_and(|last| !is_call(last) || is_complete(last))
    }

    /// The item in progress, and its number.
    fn open(&mut self) -> Option<(usize, &mut Item)> {
        let (index, last) = self.list.iter_mut().enumerate().next_back()?;
        (last.status == Status::InProgress).then_some((index, last))
    }

    /// The status of the item in progress when another follows: a call that was completed is not in progress any more.
    pub(crate) fn left(&self) -> Status {
        match self.list.last() {
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

    pub(crate) fn begin(&mut self, kind: Kind, changes: &mut Vec<Change>) {
        changes.extend(self.end(self.left()));
        changes.push(Change::Begun { index: self.list.len() });
        self.list.push(Item::begun(id::new(""), kind));
    }

    fn write(&mut self, text: String, changes: &mut Vec<Change>) {
        let mut tokens = std::mem::take(&mut self.tokens);
        let Some((index, item)) = self.open() else { return };
        if item.text.is_empty() {
            // Before the first text are tokens of marks.
            let mut length = 0;
            let first = tokens.iter().rposition(|token| {
                length += token["bytes"].as_array().map_or(0, Vec::len);
                length >= text.len()
            });
            tokens.drain(..first.unwrap_or(0));
        }
        tokens.retain(|_| item.kind == Kind::Message);
        item.text.push_str(&text);
        item.logprobs.extend_from_slice(&tokens);
        changes.push(Change::More { index, text, logprobs: tokens });
    }
}
