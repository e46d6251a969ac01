//! Pieces of an answer, and the answer that they make.

use serde_json::Value as Json;

use crate::message::{FunctionCall, ToolCall};

/// A piece of an answer.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the texts of the variants say what their fields are")]
pub enum Delta {
    Reasoning(String),
    Content(String),
    /// A call begins. Calls count from 0; `id` is the model's, if it writes one before the arguments.
    ToolCallBegin {
        index: usize,
        name: String,
        id: Option<String>,
    },
    ToolCallArguments {
        index: usize,
        json: String,
    },
    ToolCallEnd {
        index: usize,
    },
    /// The call is none: its arguments are broken or end with the answer. `text` is content. Never follows [`Calls::Whole`].
    ToolCallBroken {
        index: usize,
        text: String,
    },
    /// The answer was cut within the call: its arguments are the beginning of an object, or empty.
    ToolCallCut {
        index: usize,
    },
}

/// When calls are passed on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Calls {
    /// Each one when it is complete or cut, with an id that follows its arguments. What is no call never was one.
    #[default]
    Whole,
    /// While their arguments are generated.
    Streamed,
}

/// An answer, made of its pieces.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Answer {
    /// Reasoning before the answer.
    pub reasoning: String,
    /// The answer.
    pub content: String,
    /// The tools that the model calls. Their arguments are JSON texts of objects.
    pub tool_calls: Vec<ToolCall>,
}

impl Answer {
    /// Appends the pieces of another one.
    pub fn append(&mut self, more: &Answer) {
        self.reasoning.push_str(&more.reasoning);
        self.content.push_str(&more.content);
        self.tool_calls.extend_from_slice(&more.tool_calls);
    }

    /// Appends a piece. Pieces of a call must follow its beginning.
    pub fn push(&mut self, delta: Delta) {
        match delta {
            Delta::Reasoning(text) => self.reasoning.push_str(&text),
            Delta::Content(text) => self.content.push_str(&text),
            Delta::ToolCallBegin { name, id, .. } => {
                let function = FunctionCall { name, arguments: Json::String(String::new()) };
                self.tool_calls.push(ToolCall { id, kind: "function".into(), function });
            }
            Delta::ToolCallArguments { json, .. } => {
                let call = self.tool_calls.last_mut();
                if let Some(Json::String(arguments)) = call.map(|call| &mut call.function.arguments) {
                    arguments.push_str(&json);
                }
            }
            Delta::ToolCallEnd { .. } | Delta::ToolCallCut { .. } => {}
            Delta::ToolCallBroken { text, .. } => {
                self.tool_calls.pop();
                self.content.push_str(&text);
            }
        }
    }
}

impl FromIterator<Delta> for Answer {
    fn from_iter<T: IntoIterator<Item = Delta>>(deltas: T) -> Answer {
        let mut answer = Answer::default();
        deltas.into_iter().for_each(|delta| answer.push(delta));
        answer
    }
}
