//! Search for the texts of tokens.

use aho_corasick::{AhoCorasick, AhoCorasickKind, Input, MatchKind};

use crate::Error;
use crate::vocab::{Kind, TOKENS, Vocab, searchable};

/// Maximum number of automaton states: twice what a vocabulary with 65,536 audio codes needs.
const MAX_STATES: usize = 1 << 19;

/// Number of distinct prefixes of the sorted `tokens`, which is the number of automaton states.
fn n_prefixes(tokens: &[(&str, u32)]) -> usize {
    let shared = |a: &str, b: &str| a.bytes().zip(b.bytes()).take_while(|(a, b)| a == b).count();
    let before = std::iter::once("").chain(tokens.iter().map(|(text, _)| *text));
    tokens.iter().zip(before).map(|((text, _), before)| text.len() - shared(text, before)).sum()
}

/// Finds tokens by their text, leftmost-longest like Hugging Face's tokenizers, which models are trained with.
///
/// llama.cpp searches the longest token first, which differs only for overlapping tokens.
pub(crate) struct TokenFinder {
    automaton: Option<AhoCorasick>,
    ids: Vec<u32>,
}

impl TokenFinder {
    pub(crate) fn new(vocab: &Vocab, includes: impl Fn(Kind) -> bool) -> Result<TokenFinder, Error> {
        let tokens = vocab.iter().filter(|(_, _, kind)| includes(*kind));
        let tokens = searchable(tokens.map(|(id, text, _)| (text, id)))?;
        if tokens.is_empty() {
            return Ok(TokenFinder { automaton: None, ids: Vec::new() });
        }
        let states = n_prefixes(&tokens);
        if states > MAX_STATES {
            let unit = "bytes of special and user-defined tokens, shared prefixes counted once";
            return Err(Error::TooLarge { key: TOKENS, found: states, unit, most: MAX_STATES });
        }
        let mut builder = AhoCorasick::builder();
        // Building a DFA, the default for few tokens, takes time quadratic in their length.
        builder.match_kind(MatchKind::LeftmostLongest).kind(Some(AhoCorasickKind::ContiguousNFA));
        let automaton = builder.build(tokens.iter().map(|(text, _)| text))?;
        Ok(TokenFinder { automaton: Some(automaton), ids: tokens.iter().map(|&(_, id)| id).collect() })
    }

    /// The first token at or after byte `start` of `text`, and its start and end.
    pub(crate) fn find(&self, text: &str, start: usize) -> Option<(u32, (usize, usize))> {
        let found = self.automaton.as_ref()?.find(Input::new(text).range(start..))?;
        let id = self.ids.get(found.pattern().as_usize())?;
        Some((*id, (found.start(), found.end())))
    }
}
