//! Log-probabilities in the two shapes of OpenAI.

use serde_json::{Map, Value as Json, json};

use crate::answer::{Chosen, token_text};
use crate::models::Served;

/// Smallest log-probability that is written: JSON has no infinity.
const LEAST: f32 = -9999.0;

/// A token of an answer, in the shape that chats, llama-server and ollama share.
pub(crate) fn of_token(served: &Served, chosen: &Chosen) -> Json {
    let one = |token: u32, logprob: f32| {
        let (text, bytes) = token_text(served, token);
        json!({ "token": text, "logprob": logprob.max(LEAST), "bytes": bytes, "id": token })
    };
    let mut shape = one(chosen.token, chosen.logprobs.token);
    let top = chosen.logprobs.top.iter().map(|&(token, logprob)| one(token, logprob));
    shape["top_logprobs"] = top.collect();
    shape
}

/// A token of an answer with the probability by which it was drawn, in llama-server's shape.
pub(crate) fn of_draw(served: &Served, chosen: &Chosen) -> Json {
    let one = |token: u32, logprob: f32| {
        let (text, bytes) = token_text(served, token);
        json!({ "token": text, "prob": logprob.exp(), "bytes": bytes, "id": token })
    };
    let mut shape = one(chosen.token, chosen.logprobs.token);
    let top = chosen.logprobs.top.iter().map(|&(token, logprob)| one(token, logprob));
    shape["top_probs"] = top.collect();
    shape
}

/// Log-probabilities of a completion: tokens, of each its own and the most likely ones, and where its text begins.
#[derive(Clone, Debug, Default)]
pub(super) struct OfCompletion {
    tokens: Vec<String>,
    token_logprobs: Vec<Option<f32>>,
    top_logprobs: Vec<Option<Map<String, Json>>>,
    text_offset: Vec<usize>,
}

impl OfCompletion {
    /// Adds the first token of a prompt, which follows nothing.
    pub(super) fn begin(&mut self, served: &Served, token: u32) {
        self.tokens.push(token_text(served, token).0);
        self.token_logprobs.push(None);
        self.top_logprobs.push(None);
        self.text_offset.push(0);
    }

    /// Adds a token whose text begins at `offset`, in characters.
    pub(super) fn push(&mut self, served: &Served, chosen: &Chosen, offset: usize) {
        let top = chosen.logprobs.top.iter();
        let top = top.map(|&(token, logprob)| (token_text(served, token).0, logprob.max(LEAST).into()));
        let mut top: Map<String, Json> = top.collect();
        let (text, logprob) = (token_text(served, chosen.token).0, chosen.logprobs.token.max(LEAST));
        // The token itself is one of them, also where others are more likely.
        top.entry(text.clone()).or_insert(logprob.into());
        self.tokens.push(text);
        self.token_logprobs.push(Some(logprob));
        self.top_logprobs.push(Some(top));
        self.text_offset.push(offset);
    }

    pub(super) fn json(&self) -> Json {
        json!({
            "tokens": self.tokens,
            "token_logprobs": self.token_logprobs,
            "top_logprobs": self.top_logprobs,
            "text_offset": self.text_offset,
        })
    }
}
