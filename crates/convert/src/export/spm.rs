//! SentencePiece's BPE as a BPE with merges.

use std::collections::{HashMap, HashSet};

use serde_json::json;

use super::vocabulary::{Token, Vocabulary};
use super::{Error, Parts, byte_fallback, replace, sequence};

/// Maximum length of a piece in bytes, five times the length of real ones.
const MAX_PIECE: usize = 512;

pub(super) fn parts(vocabulary: &Vocabulary) -> Result<Parts, Error> {
    let ids = vocabulary.ids();
    vocabulary.check_bytes(&ids)?;
    let merges = merges(vocabulary, &ids)?;
    let adds_space = vocabulary.tokenizer.facts().add_space_prefix.value();
    let prepend = json!({ "type": "Prepend", "prepend": "▁" });
    let strip = json!({ "type": "Strip", "content": " ", "start": 1, "stop": 0 });
    let normalizers = adds_space.then_some(prepend).into_iter().chain([replace(" ", "▁")]);
    Ok(Parts {
        normalizer: sequence("normalizers", normalizers),
        pre_tokenizer: serde_json::Value::Null,
        decoder: sequence("decoders", byte_fallback().into_iter().chain(adds_space.then_some(strip))),
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

/// The pairs of tokens that make a token, in the order in which they are merged: those of high scores first.
fn merges<'a>(vocabulary: &Vocabulary<'a>, ids: &HashMap<&str, u32>) -> Result<Vec<Pair<'a>>, Error> {
    let scores = vocabulary.scores()?;
    let score = |token: &Token| scores.get(token.id as usize).copied().unwrap_or_default();
    let mut pieces: Vec<Token> =
        vocabulary.tokens().filter(|token| ids.get(token.text) == Some(&token.id)).collect();
    pieces.retain(Token::is_mergeable);
    let texts: HashSet<&str> = pieces.iter().map(|piece| piece.text).collect();
    pieces.sort_by(|a, b| score(b).total_cmp(&score(a)));
    let mut merges = Vec::new();
    for equal in pieces.chunk_by(|a, b| score(a) == score(b)) {
        let mut pairs = Vec::new();
        for piece in equal {
            if piece.text.len() > MAX_PIECE {
                let (id, len) = (piece.id, piece.text.len());
                let why = format!("token {id} has {len} bytes, at most {MAX_PIECE} are supported");
                return Err(vocabulary.inexpressible(why));
            }
            let splits = piece.text.char_indices().skip(1).map(|(at, _)| piece.text.split_at(at));
            pairs.extend(splits.filter(|(left, right)| texts.contains(left) && texts.contains(right)));
        }
        merges.extend(ordered(pairs).map_err(|(left, right)| {
            let (left, right) = (gguf::quoted(left), gguf::quoted(right));
            vocabulary.inexpressible(format!(
                "tokens of the same score are made of {left} and {right} in both orders, and the leftmost is merged first"
            ))
        })?);
    }
    Ok(merges)
}

type Pair<'a> = (&'a str, &'a str);

/// Pairs of which the leftmost is merged first, as pairs of which the first is: (a, b) before (b, c), because only pairs with a
/// common token overlap. Fails with pairs that have no such order.
fn ordered(mut pairs: Vec<Pair>) -> Result<Vec<Pair>, Pair> {
    if pairs.len() < 2 {
        return Ok(pairs);
    }
    // Number of the pairs that must precede those that begin with a token.
    let mut before: HashMap<&str, usize> =
        pairs.iter().flat_map(|(a, b)| [*a, *b]).map(|text| (text, 0)).collect();
    let mut after: HashMap<&str, Vec<&str>> = HashMap::new();
    for (a, b) in pairs.iter().filter(|(a, b)| a != b) {
        before.entry(b).and_modify(|count| *count += 1);
        after.entry(a).or_default().push(b);
    }
    let mut ready: Vec<&str> =
        before.iter().filter(|(_, count)| **count == 0).map(|(text, _)| *text).collect();
    // Runs of one character grow from the left, so that a shorter run is only at their end: any order will do.
    let mut runs: Vec<&str> = before.keys().copied().filter(|text| is_run(text)).collect();
    runs.sort_by_key(|text| text.len());
    let mut ranks: HashMap<&str, usize> = HashMap::new();
    while ranks.len() < before.len() {
        let Some(text) = ready.pop().or_else(|| runs.pop()) else {
            let stuck =
                pairs.iter().find(|(a, b)| a != b && !ranks.contains_key(a) && !ranks.contains_key(b));
            return Err(*stuck.or(pairs.first()).unwrap_or(&("", "")));
        };
        let rank = ranks.len();
        if ranks.contains_key(text) {
            continue;
        }
        ranks.insert(text, rank);
        for next in after.get(text).into_iter().flatten() {
            if let Some(count) = before.get_mut(next) {
                *count = count.saturating_sub(1);
                if *count == 0 {
                    ready.push(next);
                }
            }
        }
    }
    pairs.sort_by_key(|(a, b)| (ranks.get(a).copied(), a != b));
    Ok(pairs)
}

/// Whether `text` is one character, once or more.
fn is_run(text: &str) -> bool {
    let mut chars = text.chars();
    let first = chars.next();
    chars.all(|c| Some(c) == first)
}
