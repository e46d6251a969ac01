//! SentencePiece's BPE as a BPE with merges.

use std::collections::HashMap;

use serde_json::json;

use super::bpe::sequence;
use super::error::Error;
use super::parts::Parts;
use super::vocabulary::{Token, Vocabulary};

/// Maximum length of a piece in bytes: five times that of real ones.
const MAX_PIECE: usize = 512;

/// The parts of a `tokenizer.json`.
pub(super) fn parts(vocabulary: &Vocabulary) -> Result<Parts, Error> {
    let ids = vocabulary.ids();
    vocabulary.check_bytes(&ids)?;
    let merges = merges(vocabulary, &ids)?;
    let adds_space = vocabulary.tokenizer.facts().add_space_prefix.value();
    let replace = |pattern: &str, content: &str| json!({ "type": "Replace", "pattern": { "String": pattern }, "content": content });
    let prepend = json!({ "type": "Prepend", "prepend": "▁" });
    let strip = json!({ "type": "Strip", "content": " ", "start": 1, "stop": 0 });
    let normalizers = adds_space.then_some(prepend).into_iter().chain([replace(" ", "▁")]);
    let decoders = [replace("▁", " "), json!({ "type": "ByteFallback" }), json!({ "type": "Fuse" })];
    Ok(Parts {
        normalizer: sequence("normalizers", normalizers),
        pre_tokenizer: serde_json::Value::Null,
        decoder: sequence("decoders", decoders.into_iter().chain(adds_space.then_some(strip))),
        model: json!({
            "type": "BPE",
            "dropout": null,
            "unk_token": vocabulary.role("unk").map(|token| token.text),
            "continuing_subword_prefix": null,
            "end_of_word_suffix": null,
            "fuse_unk": true,
            "byte_fallback": true,
            "ignore_merges": false,
            "vocab": ids,
            "merges": merges,
        }),
    })
}

/// The pairs of tokens that make a token, those of high scores first.
fn merges<'a>(vocabulary: &Vocabulary<'a>, ids: &HashMap<&str, u32>) -> Result<Vec<[&'a str; 2]>, Error> {
    let scores = vocabulary.scores()?;
    let score = |token: &Token| scores.get(token.id as usize).copied().unwrap_or_default();
    let mut pieces: Vec<Token> =
        vocabulary.tokens().filter(|token| ids.get(token.text) == Some(&token.id)).collect();
    // By descending score; those of equal scores keep the order of their ids.
    pieces.retain(Token::is_mergeable);
    pieces.sort_by(|a, b| score(b).total_cmp(&score(a)));
    let is_piece = |text: &str| {
        ids.get(text)
            .and_then(|id| vocabulary.tokenizer.kind(*id))
            .is_some_and(|kind| !kind.is_special() && kind != tokenizer::Kind::Byte)
    };
    let mut merges = Vec::new();
    let mut last: Option<Token> = None;
    for piece in pieces {
        if piece.text.len() > MAX_PIECE {
            let why = format!(
                "token {} has {} bytes, at most {MAX_PIECE} are supported",
                piece.id,
                piece.text.len()
            );
            return Err(vocabulary.inexpressible(why));
        }
        let before = merges.len();
        for (at, _) in piece.text.char_indices().skip(1) {
            let (left, right) = piece.text.split_at(at);
            if is_piece(left) && is_piece(right) {
                merges.push([left, right]);
            }
        }
        if merges.len() > before && piece.kind != tokenizer::Kind::UserDefined {
            if let Some(last) = last.filter(|last| score(last) == score(&piece)) {
                let (a, b) = (gguf::quoted(last.text), gguf::quoted(piece.text));
                return Err(vocabulary.inexpressible(format!(
                    "the tokens {a} and {b} have the same score, so that the leftmost is merged first, and not one of them"
                )));
            }
            last = Some(piece);
        }
    }
    Ok(merges)
}
