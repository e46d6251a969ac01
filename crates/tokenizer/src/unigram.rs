//! Unigram: the tokens with the highest sum of scores that spell the text.
//!
//! Source: llama.cpp's `llm_tokenizer_ugm`, after SentencePiece's `unigram_model.cc`. The best way to spell each
//! beginning of the text follows from those of shorter ones (Viterbi).

use gguf::Metadata;

use crate::Error;
use crate::charsmap::Charsmap;
use crate::merge::MAX_WORD;
use crate::prefixes::Prefixes;
use crate::vocab::{Kind, SPACE, Vocab, scores};

/// How much more an unknown character costs than the worst token.
const UNKNOWN_PENALTY: f32 = 10.0;

/// The id of an unknown character if the vocabulary has no token for it.
const NO_TOKEN: u32 = u32::MAX;

pub(crate) struct Unigram {
    charsmap: Option<Charsmap>,
    space_before: bool,
    /// White space at both ends is dropped, and in between it is one space.
    merges_spaces: bool,
    pieces: Prefixes,
    scores: Vec<f32>,
    unknown: u32,
    unknown_score: f32,
}

/// The best way to spell a beginning of the text.
#[derive(Clone, Copy)]
struct Best {
    score: f64,
    id: u32,
    start: u32,
}

impl Unigram {
    /// `unknown` replaces characters that no token spells.
    pub(crate) fn new(
        metadata: &Metadata,
        vocab: &Vocab,
        unknown: Option<u32>,
        space_before: bool,
    ) -> Result<Unigram, Error> {
        let mut scores = scores(metadata, vocab.len())?.map_or(vec![0.0; vocab.len()], <[f32]>::to_vec);
        if let Some(index) = scores.iter().position(|score| score.is_infinite()) {
            return Err(Error::BadScore { index });
        }
        let normal = vocab.kinds.iter().zip(&scores).filter(|(kind, _)| **kind == Kind::Normal);
        let lowest = normal.map(|(_, &score)| score).fold(f32::MAX, f32::min);
        for (score, kind) in scores.iter_mut().zip(&vocab.kinds) {
            if *kind == Kind::UserDefined {
                *score = 0.0;
            }
        }
        let is_piece = |kind| matches!(kind, Kind::Normal | Kind::UserDefined | Kind::Unused);
        let pieces = vocab.iter().filter(|(_, _, kind)| is_piece(*kind)).map(|(id, text, _)| (text, id));
        Ok(Unigram {
            charsmap: Charsmap::from_metadata(metadata)?,
            space_before,
            merges_spaces: metadata.bool("tokenizer.ggml.remove_extra_whitespaces")?.unwrap_or(false),
            pieces: Prefixes::new(pieces)?,
            scores,
            unknown: unknown.unwrap_or(NO_TOKEN),
            unknown_score: lowest - UNKNOWN_PENALTY,
        })
    }

    pub(crate) fn encode(&self, text: &str, ids: &mut Vec<u32>) {
        let normalized = self.normalize(text);
        let mut rest = normalized.as_str();
        while !rest.is_empty() {
            let (part, after) = rest.split_at(rest.floor_char_boundary(MAX_WORD.max(4)));
            self.encode_normalized(part, ids);
            rest = after;
        }
    }

    /// Replaces what the file says, and spaces by [`SPACE`].
    fn normalize(&self, text: &str) -> String {
        let mut normalized = String::with_capacity(text.len() + text.len() / 2);
        let (mut in_word, mut has_space_before) = (false, !self.space_before);
        let mut push = |c: char| match c {
            ' ' => {
                in_word = false;
                if !self.merges_spaces {
                    normalized.push(SPACE);
                }
            }
            c => {
                if !std::mem::replace(&mut in_word, true) && (self.merges_spaces || !has_space_before) {
                    normalized.push(SPACE);
                    has_space_before = true;
                }
                normalized.push(c);
            }
        };
        let mut rest = text;
        while let Some(first) = rest.chars().next() {
            match self.charsmap.as_ref().and_then(|charsmap| charsmap.longest(rest)) {
                Some((length, replacement)) => {
                    replacement.chars().for_each(&mut push);
                    rest = &rest[length..];
                }
                None => {
                    push(first);
                    rest = &rest[first.len_utf8()..];
                }
            }
        }
        normalized
    }

    fn encode_normalized(&self, text: &str, ids: &mut Vec<u32>) {
        let unreached = Best { score: f64::MIN, id: self.unknown, start: 0 };
        let mut best = vec![unreached; text.len() + 1];
        best[0].score = 0.0;
        for (start, c) in text.char_indices() {
            let before = best[start].score;
            let mut extend = |length: usize, id: u32, score: f32| {
                let score = before + f64::from(score);
                // At most `MAX_WORD`.
                let start_of_token = start as u32;
                let at_end = &mut best[start + length];
                if score > at_end.score {
                    *at_end = Best { score, id, start: start_of_token };
                }
            };
            let mut is_token = false;
            for (length, id) in self.pieces.of(&text.as_bytes()[start..]) {
                is_token |= length == c.len_utf8();
                extend(length, id, self.scores[id as usize]);
            }
            if !is_token {
                extend(c.len_utf8(), self.unknown, self.unknown_score);
            }
        }
        let first = ids.len();
        let (mut end, mut after) = (text.len(), None);
        while end > 0 {
            let Best { id, start, .. } = best[end];
            // Neighbouring unknown characters are one token.
            let goes_on = id == self.unknown && after == Some(id);
            if !goes_on && id != NO_TOKEN {
                ids.push(id);
            }
            (end, after) = (start as usize, Some(id));
        }
        ids[first..].reverse();
    }
}
