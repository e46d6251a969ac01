//! The response object: who answers, what was asked, how far the answer has come.

use std::sync::Arc;

use rustorch::{DeltaKind, End};
use serde_json::{Value as Json, json};

use super::items::{Change, Output};
use crate::error::ApiError;
use crate::id;
use crate::models::Served;
use crate::openai::finish_reason;

/// A response, as far as it has come.
pub(super) struct Object {
    id: String,
    created_at: i64,
    served: Arc<Served>,
    /// The fields of the call that it repeats.
    repeated: Json,
    pub(super) output: Output,
    pub(super) state: State,
}

/// How far a response has come.
pub(super) enum State {
    InProgress,
    /// `is_cut` if the model had more to say.
    Ended {
        is_cut: bool,
        end: End,
    },
    Failed(ApiError),
}

impl State {
    pub(super) fn name(&self) -> &'static str {
        match self {
            State::InProgress => "in_progress",
            State::Ended { is_cut: false, .. } => "completed",
            State::Ended { is_cut: true, .. } => "incomplete",
            State::Failed(_) => "failed",
        }
    }
}

impl Object {
    pub(super) fn new(served: Arc<Served>, repeated: Json) -> Object {
        Object {
            id: id::new("resp_"),
            created_at: id::now(),
            served,
            repeated,
            output: Output::default(),
            state: State::InProgress,
        }
    }

    /// Adds what the engine has generated.
    pub(super) fn push(&mut self, kind: DeltaKind) -> Vec<Change> {
        match kind {
            DeltaKind::Token { id, logprobs: Some(logprobs), .. } => {
                self.output.push_token(&self.served, id, &logprobs);
                Vec::new()
            }
            DeltaKind::Part(part) => self.output.push(part),
            DeltaKind::End(end) => {
                let is_cut = finish_reason(&end.reason) == "length";
                self.state = State::Ended { is_cut, end };
                self.output.finish(is_cut)
            }
            _ => Vec::new(),
        }
    }

    /// Ends with an error.
    pub(super) fn fail(&mut self, error: ApiError) {
        self.output.cut();
        self.state = State::Failed(error);
    }

    pub(super) fn json(&self) -> Json {
        let completed_at = matches!(self.state, State::Ended { is_cut: false, .. }).then(id::now);
        let (incomplete_details, error, usage) = match &self.state {
            State::InProgress => (None, None, None),
            State::Ended { is_cut, end } => {
                (is_cut.then(|| json!({ "reason": "max_output_tokens" })), None, Some(usage(end)))
            }
            State::Failed(error) => {
                (None, Some(json!({ "code": "server_error", "message": error.message })), None)
            }
        };
        let mut json = self.repeated.clone();
        json["id"] = self.id.as_str().into();
        json["object"] = "response".into();
        json["created_at"] = self.created_at.into();
        json["completed_at"] = completed_at.into();
        json["status"] = self.state.name().into();
        json["incomplete_details"] = incomplete_details.into();
        json["error"] = error.into();
        json["model"] = self.served.name.as_str().into();
        json["output"] = self.output.json().into();
        json["usage"] = usage.into();
        json
    }
}

fn usage(End { usage, reasoning_tokens, .. }: &End) -> Json {
    json!({
        "input_tokens": usage.prompt_tokens,
        "input_tokens_details": { "cached_tokens": usage.reused_tokens, "cache_write_tokens": 0 },
        "output_tokens": usage.generated_tokens,
        "output_tokens_details": { "reasoning_tokens": reasoning_tokens },
        "total_tokens": usage.prompt_tokens + usage.generated_tokens,
    })
}
