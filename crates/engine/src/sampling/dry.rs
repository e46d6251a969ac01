//! DRY, "don't repeat yourself": penalises tokens that would extend a repetition, the more the longer it is.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};

use tokenizer::{Encode, Tokenizer};

use super::last;
use crate::candidates::{self, Candidate};
use crate::params::Params;

/// llama.cpp's logarithm of the largest f32: bounds the exponent of the penalty.
const MAX_LOG: f64 = 88.722_84;

/// Maximum number of tokens after the first one of a sequence breaker.
const MAX_TAIL: usize = 20;

/// Lists of sequence breakers that are kept.
const KEPT: usize = 8;

/// For each token in which a breaker can begin, the tokens that can follow to complete it.
type Tails = HashMap<u32, Vec<Vec<u32>>>;

/// Sequence breakers in the tokens of one vocabulary. To find them takes a while; the last lists are kept.
#[derive(Debug, Default)]
pub(crate) struct Breakers(Mutex<VecDeque<(Vec<String>, Arc<Tails>)>>);

impl Breakers {
    /// Those of `texts`.
    pub(crate) fn of(&self, texts: &[String], tokenizer: &Tokenizer) -> Arc<Tails> {
        let lock = || self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, found)) = lock().iter().find(|(list, _)| list == texts) {
            return found.clone();
        }
        let found = Arc::new(breakers(texts, tokenizer));
        let mut kept = lock();
        kept.push_back((texts.to_vec(), found.clone()));
        let surplus = kept.len().saturating_sub(KEPT);
        kept.drain(..surplus);
        found
    }

    /// Whether those of `texts` are known.
    #[cfg(test)]
    pub(crate) fn has(&self, texts: &[String]) -> bool {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).iter().any(|(list, _)| list == texts)
    }
}

#[derive(Clone, Debug)]
pub(super) struct DryPenalty {
    multiplier: f64,
    base: f64,
    allowed_length: usize,
    last_n: usize,
    breakers: Arc<Tails>,
}

impl DryPenalty {
    pub(super) fn new(params: &Params, breakers: &Breakers, tokenizer: &Tokenizer) -> DryPenalty {
        DryPenalty {
            multiplier: params.dry_multiplier.into(),
            base: params.dry_base.into(),
            allowed_length: params.dry_allowed_length,
            last_n: last(params.dry_penalty_last_n),
            breakers: breakers.of(&params.dry_sequence_breakers, tokenizer),
        }
    }

    pub(super) fn apply(&self, tokens: &[u32], kept: &mut [Candidate]) {
        let tokens = &tokens[tokens.len().saturating_sub(self.last_n)..];
        if tokens.len() <= self.allowed_length {
            return;
        }
        let limit = self.after_breaker(tokens);
        if limit < self.allowed_length {
            return;
        }
        let mut longest: HashMap<u32, usize> = HashMap::new();
        for (k, repeated) in suffix_lengths(tokens).into_iter().enumerate().skip(1) {
            let (repeated, next) = (repeated.min(limit), tokens[tokens.len() - k]);
            if repeated >= self.allowed_length && !self.is_breaker(next) {
                let length = longest.entry(next).or_default();
                *length = repeated.max(*length);
            }
        }
        let max_exponent =
            if self.base > 1.000_001 { (MAX_LOG / self.base.ln()) as usize } else { usize::MAX };
        candidates::change(kept, &longest, |logit, &length| {
            let exponent = (length - self.allowed_length).min(max_exponent);
            (f64::from(logit) - self.multiplier * self.base.powf(exponent as f64)) as f32
        });
    }

    /// Whether the token contains a sequence breaker.
    fn is_breaker(&self, token: u32) -> bool {
        self.breakers.get(&token).is_some_and(|tails| tails.iter().any(Vec::is_empty))
    }

    /// Number of tokens after the last sequence breaker, or of all tokens.
    fn after_breaker(&self, tokens: &[u32]) -> usize {
        let ends = |(i, token): (usize, &u32)| {
            let rest = &tokens[i + 1..];
            let tails = self.breakers.get(token)?.iter().filter(|tail| rest.starts_with(tail));
            Some(rest.len() - tails.map(Vec::len).max()?)
        };
        tokens.iter().enumerate().rev().find_map(ends).unwrap_or(tokens.len())
    }
}

/// For each `k`, how many tokens before the last `k` equal the last tokens (Z-algorithm on the reversed sequence).
fn suffix_lengths(tokens: &[u32]) -> Vec<usize> {
    let n = tokens.len();
    let back = |i: usize| tokens[n - 1 - i];
    let mut lengths = vec![n; n];
    let (mut left, mut right) = (0, 0);
    for k in 1..n {
        let mut length = if k < right { lengths[k - left].min(right - k) } else { 0 };
        while k + length < n && back(length) == back(k + length) {
            length += 1;
        }
        if k + length > right {
            (left, right) = (k, k + length);
        }
        lengths[k] = length;
    }
    lengths
}

/// The tokens in which each of `texts` can begin, with the tokens that complete it: none if the token contains it whole.
fn breakers(texts: &[String], tokenizer: &Tokenizer) -> Tails {
    let mut breakers = Tails::new();
    for text in texts {
        for id in 0..tokenizer.vocab_size() as u32 {
            let piece = tokenizer.token_bytes(id).unwrap_or_default();
            let tails = breakers.entry(id).or_default();
            if piece.windows(text.len()).any(|window| window == text.as_bytes()) {
                tails.push(Vec::new());
                continue;
            }
            // The ends of the piece that are beginnings of the text.
            for len in (1..text.len().min(piece.len() + 1)).filter(|&len| text.is_char_boundary(len)) {
                if piece.ends_with(&text.as_bytes()[..len]) {
                    let options = Encode { add_special: false, parse_special: false };
                    let mut tail = tokenizer.encode(&text[len..], options);
                    tail.truncate(MAX_TAIL);
                    tails.push(tail);
                }
            }
        }
    }
    breakers.retain(|_, tails| !tails.is_empty());
    breakers
}
