//! SentencePiece: characters are merged by the scores of the resulting tokens.
//!
//! Source: llama.cpp's `llm_tokenizer_spm`. The adjacent pair that forms the token with the highest score is merged
//! first, the leftmost of equal ones. Characters that end up in no token are encoded as bytes.

use gguf::Metadata;

use crate::Error;
use crate::merge::{MAX_WORD, Merger, Symbol, both};
use crate::vocab::{Pieces, SPACE, Vocab, byte_tokens, scores};

/// The id of a character that is not a token.
const NO_TOKEN: u32 = u32::MAX;

pub(crate) struct SentencePiece {
    pieces: Pieces,
    /// By id; the lowest merges first.
    ranks: Vec<u32>,
    bytes: Box<[Option<u32>; 256]>,
    /// No token contains a [`SPACE`] after another character, so words never merge with each other.
    words_stand_alone: bool,
}

impl SentencePiece {
    /// `unknown` replaces bytes without a token.
    pub(crate) fn new(
        metadata: &Metadata,
        vocab: &Vocab,
        unknown: Option<u32>,
    ) -> Result<SentencePiece, Error> {
        let ranks = match scores(metadata, vocab.len())? {
            None => vec![rank(0.0); vocab.len()],
            Some(scores) => scores.iter().map(|&score| rank(score)).collect(),
        };
        let mut pieces = Pieces::with_capacity(vocab.len());
        let mut words_stand_alone = true;
        for (id, text, kind) in vocab.iter() {
            if kind.is_mergeable() && !text.is_empty() {
                pieces.insert(text.as_bytes(), id);
                words_stand_alone &= !text.trim_start_matches(SPACE).contains(SPACE);
            }
        }
        let written = byte_tokens(vocab);
        let bytes = Box::new(std::array::from_fn(|byte| {
            let itself = || u8::try_from(byte).ok().and_then(|byte| pieces.get(&[byte]));
            written[byte].or_else(itself).or(unknown)
        }));
        Ok(SentencePiece { pieces, ranks, bytes, words_stand_alone })
    }

    pub(crate) fn encode(&self, text: &str, space_before: bool, merger: &mut Merger, ids: &mut Vec<u32>) {
        let mut spelled = String::with_capacity(text.len() + 16);
        if space_before {
            spelled.push(SPACE);
        }
        spelled.extend(text.chars().map(|c| if c == ' ' { SPACE } else { c }));

        let mut rest = spelled.as_str();
        while !rest.is_empty() {
            let end = if self.words_stand_alone { word_end(rest) } else { rest.len() };
            let end = rest.floor_char_boundary(end.min(MAX_WORD));
            let (word, after) = rest.split_at(end);
            self.encode_word(word, merger, ids);
            rest = after;
        }
    }

    fn encode_word(&self, word: &str, merger: &mut Merger, ids: &mut Vec<u32>) {
        for (start, c) in word.char_indices() {
            let end = start + c.len_utf8();
            let piece = &word.as_bytes()[start..end];
            merger.push(self.pieces.get(piece).unwrap_or(NO_TOKEN), end);
        }
        let join = |left: &Symbol, right: &Symbol| {
            let id = self.pieces.get(&word.as_bytes()[both(left, right)])?;
            Some((self.ranks[id as usize], id))
        };
        merger.merge(join, |symbol| {
            if symbol.id == NO_TOKEN {
                let bytes = &word.as_bytes()[symbol.range()];
                ids.extend(bytes.iter().filter_map(|&byte| self.bytes[usize::from(byte)]));
            } else {
                ids.push(symbol.id);
            }
        });
    }
}

/// End of the first word of `text`: before the first [`SPACE`] that follows another character.
fn word_end(text: &str) -> usize {
    let spaces = text.len() - text.trim_start_matches(SPACE).len();
    text[spaces..].find(SPACE).map_or(text.len(), |end| spaces + end)
}

/// Orders like scores, the highest first.
fn rank(score: f32) -> u32 {
    let bits = (score + 0.0).to_bits(); // + 0.0: both zeros are one score
    let negative = bits >> 31 == 1;
    if negative { bits } else { !bits & !(1 << 31) }
}
