//! Tokens that are found in text by their own text.

use aho_corasick::{AhoCorasick, AhoCorasickKind, Input, MatchKind};

use crate::Error;
use crate::vocab::{Kind, TOKENS, Vocab, last_of_each_text};

/// Longest text of a token that is found in text, in bytes; ten times that of real ones.
const MAX_FOUND_BYTES: usize = 1024;

/// Most states of the search; a vocabulary with 65,536 codes for sound needs less than half of them.
const MAX_STATES: usize = 1 << 19;

/// The number of different beginnings of `tokens`, which are sorted: as many states has their search.
fn n_prefixes(tokens: &[(&str, u32)]) -> usize {
    let shared = |a: &str, b: &str| a.bytes().zip(b.bytes()).take_while(|(a, b)| a == b).count();
    let before = std::iter::once("").chain(tokens.iter().map(|(text, _)| *text));
    tokens.iter().zip(before).map(|((text, _), before)| text.len() - shared(text, before)).sum()
}

/// Finds tokens by their text, the leftmost first and of those the longest.
///
/// (llama.cpp looks for the longest of all tokens first, then for the next; the two differ only where
/// tokens overlap, and this is how Hugging Face's tokenizers, which models are trained with, do it.)
pub(crate) struct TokenFinder {
    /// `None` when there are no tokens to find.
    automaton: Option<AhoCorasick>,
    /// By pattern of the automaton.
    ids: Vec<u32>,
}

impl TokenFinder {
    /// Finds the tokens whose kind satisfies `wanted`.
    pub(crate) fn new(vocab: &Vocab, wanted: impl Fn(Kind) -> bool) -> Result<TokenFinder, Error> {
        let tokens = vocab.iter().filter(|(_, text, kind)| wanted(*kind) && !text.is_empty());
        let tokens = last_of_each_text(tokens.map(|(id, text, _)| (text, id)).collect());
        if tokens.is_empty() {
            return Ok(TokenFinder { automaton: None, ids: Vec::new() });
        }
        if let Some((text, id)) = tokens.iter().find(|(text, _)| text.len() > MAX_FOUND_BYTES) {
            return Err(Error::LongToken { id: *id, length: text.len(), most: MAX_FOUND_BYTES });
        }
        let states = n_prefixes(&tokens);
        if states > MAX_STATES {
            let unit = "bytes of special and user-defined tokens, shared beginnings counted once";
            return Err(Error::TooLarge { key: TOKENS, found: states, unit, most: MAX_STATES });
        }
        let mut builder = AhoCorasick::builder();
        // A DFA, which would be chosen for few tokens, takes time quadratic in their length to build.
        builder.match_kind(MatchKind::LeftmostLongest).kind(Some(AhoCorasickKind::ContiguousNFA));
        let automaton = builder.build(tokens.iter().map(|(text, _)| text))?;
        Ok(TokenFinder { automaton: Some(automaton), ids: tokens.iter().map(|&(_, id)| id).collect() })
    }

    /// The first token at or after byte `start` of `text`, with the bytes it takes up.
    pub(crate) fn find(&self, text: &str, start: usize) -> Option<(u32, (usize, usize))> {
        let found = self.automaton.as_ref()?.find(Input::new(text).range(start..))?;
        let id = self.ids.get(found.pattern().as_usize())?;
        Some((*id, (found.start(), found.end())))
    }
}
