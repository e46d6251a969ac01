//! Log-probabilities in the two shapes of OpenAI.

use engine::Logprobs;
use serde::Serialize;
use serde_json::{Map, Value as Json, json};

use crate::answer::token_text;
use crate::models::Served;

/// Smallest log-probability that is written: JSON has no infinity.
const LEAST: f32 = -9999.0;

/// The [shapes](crate::openapi::shape) of counts, times and probabilities.
pub(super) fn shapes() -> [(&'static str, Json); 3] {
    let token = json!({ "token": "string", "logprob": "number", "bytes": ["integer"], "id": "integer" });
    let mut tokens = token.clone();
    tokens["top_logprobs"] = json!([token]);
    let number = "number";
    let timings = json!({
        "predicted_n": number, "predicted_ms": number, "predicted_per_token_ms": number, "predicted_per_second": number,
        "cache_n?": number, "prompt_n?": number, "prompt_ms?": number, "prompt_per_token_ms?": number,
        "prompt_per_second?": number, "draft_n?": number, "draft_n_accepted?": number,
    });
    let usage = json!({
        "prompt_tokens": "integer", "completion_tokens": "integer", "total_tokens": "integer",
        "prompt_tokens_details": { "cached_tokens": "integer" },
        "completion_tokens_details": { "reasoning_tokens": "integer" },
    });
    [("TokenLogprobs", tokens), ("Timings", timings), ("Usage", usage)]
}

/// A token of an answer, in the shape that chats, llama-server and ollama share.
pub(crate) fn token_json(served: &Served, id: u32, logprobs: &Logprobs) -> Json {
    tokens_json(served, id, logprobs, ["logprob", "top_logprobs"], |logprob| logprob.max(LEAST))
}

/// A token of an answer with the probability by which it was drawn, in llama-server's shape.
pub(crate) fn draw_json(served: &Served, id: u32, logprobs: &Logprobs) -> Json {
    tokens_json(served, id, logprobs, ["prob", "top_probs"], f32::exp)
}

fn tokens_json(
    served: &Served,
    id: u32,
    logprobs: &Logprobs,
    [own, top]: [&str; 2],
    value: fn(f32) -> f32,
) -> Json {
    let one = |token: u32, logprob: f32| {
        let (text, bytes) = token_text(served, token);
        json!({ "token": text, own: value(logprob), "bytes": bytes, "id": token })
    };
    let mut shape = one(id, logprobs.token);
    shape[top] = logprobs.top.iter().map(|&(token, logprob)| one(token, logprob)).collect();
    shape
}

/// Log-probabilities of a completion: tokens, of each its own and the most likely ones, and where its text begins.
#[derive(Default, Serialize)]
pub(super) struct CompletionLogprobs {
    tokens: Vec<String>,
    token_logprobs: Vec<Option<f32>>,
    top_logprobs: Vec<Option<Map<String, Json>>>,
    text_offset: Vec<usize>,
}

impl CompletionLogprobs {
    /// Adds the first token of a prompt, which follows nothing.
    pub(super) fn begin(&mut self, served: &Served, token: u32) {
        self.tokens.push(token_text(served, token).0);
        self.token_logprobs.push(None);
        self.top_logprobs.push(None);
        self.text_offset.push(0);
    }

    /// Adds a token whose text begins at `offset`, in characters.
    pub(super) fn push(&mut self, served: &Served, id: u32, logprobs: &Logprobs, offset: usize) {
        let one = |token: u32, logprob: f32| (token_text(served, token).0, logprob.max(LEAST));
        let top = logprobs.top.iter().map(|&(token, logprob)| one(token, logprob));
        let (text, logprob) = one(id, logprobs.token);
        let top = by_text(top, (&text, logprob));
        self.tokens.push(text);
        self.token_logprobs.push(Some(logprob));
        self.top_logprobs.push(Some(top));
        self.text_offset.push(offset);
    }
}

/// The likeliest tokens, likeliest first, and the chosen one by their texts.
///
/// Tokens that are a part of a character share one text: of those the chosen one counts, else the likeliest.
fn by_text(top: impl Iterator<Item = (String, f32)>, (chosen, logprob): (&str, f32)) -> Map<String, Json> {
    let mut texts = Map::new();
    for (text, logprob) in top {
        texts.entry(text).or_insert(logprob.into());
    }
    texts.insert(chosen.to_owned(), logprob.into());
    texts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn among_tokens_with_one_text_the_chosen_one_counts_else_the_likeliest() {
        let top = || {
            [("\u{fffd}", -0.5), ("\u{fffd}", -1.5), ("a", -2.5)]
                .map(|(text, logprob)| (text.to_owned(), logprob))
        };
        let texts = |chosen| Json::from(by_text(top().into_iter(), chosen));
        assert_eq!(texts(("\u{fffd}", -9.5)), json!({ "\u{fffd}": -9.5, "a": -2.5 }));
        assert_eq!(texts(("b", -9.5)), json!({ "\u{fffd}": -0.5, "a": -2.5, "b": -9.5 }));
        assert_eq!(texts(("a", -2.5)), json!({ "\u{fffd}": -0.5, "a": -2.5 }));
    }
}
