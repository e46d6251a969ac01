//! Keeps user text from being read as special tokens.
//!
//! A template's own special tokens look the same as message text in its output. A guard character that occurs nowhere else is
//! therefore inserted into messages that spell a special token, after its first character, until special tokens are found.

use std::collections::HashSet;
use std::sync::Arc;

use aho_corasick::{AhoCorasick, AhoCorasickKind, MatchKind};

use crate::Error;
use crate::prompt::Segment;

#[derive(Debug)]
pub(crate) struct SpecialTokens {
    /// Ids and texts.
    pub(crate) tokens: Arc<[(u32, String)]>,
    /// Finds all matches, overlapping ones included; pattern indices are those of `tokens`.
    every: AhoCorasick,
    longest: AhoCorasick,
    firsts: HashSet<char>,
}

#[derive(Clone, Copy)]
pub(crate) enum Strength {
    /// Text that spells a special token.
    Tokens,
    /// Every character that can start a special token: whatever a template removes, but then it cannot find a `</think>` either.
    Characters,
}

impl SpecialTokens {
    pub(crate) fn new(mut tokens: Vec<(u32, String)>) -> Result<SpecialTokens, Error> {
        tokens.retain(|(_, text)| !text.is_empty());
        let texts = || tokens.iter().map(|(_, text)| text);
        // An automaton that is built in linear time: the tokens come from the file.
        let build = |kind| {
            let mut builder = AhoCorasick::builder();
            builder.match_kind(kind).kind(Some(AhoCorasickKind::ContiguousNFA)).build(texts())
        };
        let (every, longest) = (build(MatchKind::Standard)?, build(MatchKind::LeftmostLongest)?);
        let firsts = texts().filter_map(|text| text.chars().next()).collect();
        Ok(SpecialTokens { tokens: tokens.into(), every, longest, firsts })
    }

    /// A character that occurs in none of `texts`.
    pub(crate) fn choose_guard<'a>(texts: impl IntoIterator<Item = &'a str>) -> Result<char, Error> {
        // Noncharacters first, then private use characters.
        let mut candidates = ('\u{fdd0}'..='\u{fdef}').chain('\u{f0000}'..='\u{fffff}');
        let used: HashSet<char> =
            texts.into_iter().flat_map(str::chars).filter(|&c| c >= '\u{fdd0}').collect();
        candidates.find(|c| !used.contains(c)).ok_or(Error::NoGuard)
    }

    pub(crate) fn guard(&self, text: &str, guard: char, strength: Strength) -> String {
        let starts: HashSet<usize> =
            self.every.find_overlapping_iter(text).map(|found| found.start()).collect();
        let mut guarded = String::with_capacity(text.len());
        for (at, c) in text.char_indices() {
            guarded.push(c);
            let is_guarded = match strength {
                Strength::Tokens => starts.contains(&at),
                Strength::Characters => self.firsts.contains(&c),
            };
            guarded.extend(is_guarded.then_some(guard));
        }
        guarded
    }

    /// Splits `text` at special tokens and removes `guard`.
    pub(crate) fn split(&self, text: &str, guard: char) -> Vec<Segment> {
        let mut segments = Vec::new();
        let mut rest = 0;
        for found in self.longest.find_iter(text) {
            let (id, token) = &self.tokens[found.pattern()];
            segments.push(Segment::Text(text[rest..found.start()].replace(guard, "")));
            segments.push(Segment::Token { id: *id, text: token.clone() });
            rest = found.end();
        }
        segments.push(Segment::Text(text[rest..].replace(guard, "")));
        segments.retain(|segment| *segment != Segment::Text(String::new()));
        segments
    }
}
