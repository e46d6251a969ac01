//! Keeps user text from being read as special tokens.
//!
//! A template returns one string, in which its own special tokens look the same as message text. A guard character
//! that occurs nowhere else is therefore inserted into messages wherever they spell a special token, after its first
//! character. It stays during rendering and the search for special tokens, and is then removed, so that the text is
//! unchanged.

use aho_corasick::{AhoCorasick, AhoCorasickKind, MatchKind};

use crate::Error;
use crate::prompt::Segment;

/// The special tokens of a vocabulary.
#[derive(Debug)]
pub(crate) struct SpecialTokens {
    tokens: Vec<(u32, String)>,
    /// Finds all matches, overlapping ones included; pattern indices are those of `tokens`.
    every: AhoCorasick,
    /// Finds leftmost-longest matches.
    longest: AhoCorasick,
}

/// What is guarded.
#[derive(Clone, Copy)]
pub(crate) enum Strength {
    /// Text that spells a special token.
    Tokens,
    /// Every character that can start a special token. No template can turn such text into a special token, whatever
    /// it removes; but it cannot find a `</think>` in it either.
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
        Ok(SpecialTokens { tokens, every, longest })
    }

    /// A character that occurs in none of `texts`.
    pub(crate) fn choose_guard<'a>(texts: impl IntoIterator<Item = &'a str>) -> Result<char, Error> {
        // Noncharacters first, then private use characters.
        let candidates = || ('\u{fdd0}'..='\u{fdef}').chain('\u{f0000}'..='\u{fffff}');
        let used: std::collections::HashSet<char> =
            texts.into_iter().flat_map(str::chars).filter(|&c| c >= '\u{fdd0}').collect();
        let free = candidates().find(|c| !used.contains(c));
        free.ok_or_else(|| Error::NoGuard { tried: candidates().count() })
    }

    /// Inserts `guard` into `text`.
    pub(crate) fn guard(&self, text: &str, guard: char, strength: Strength) -> String {
        let mut starts: Vec<usize> = match strength {
            Strength::Tokens => self.every.find_overlapping_iter(text).map(|found| found.start()).collect(),
            Strength::Characters => {
                let firsts: Vec<char> =
                    self.tokens.iter().filter_map(|(_, text)| text.chars().next()).collect();
                text.match_indices(firsts.as_slice()).map(|(start, _)| start).collect()
            }
        };
        starts.sort_unstable();
        starts.dedup();
        let mut guarded = String::with_capacity(text.len() + starts.len() * guard.len_utf8());
        let mut rest = 0;
        for start in starts {
            let end = start + text[start..].chars().next().map_or(0, char::len_utf8);
            guarded.push_str(&text[rest..end]);
            guarded.push(guard);
            rest = end;
        }
        guarded.push_str(&text[rest..]);
        guarded
    }

    /// Splits `text` at special tokens and removes `guard`.
    pub(crate) fn split(&self, text: &str, guard: char) -> Vec<Segment> {
        let mut segments = Vec::new();
        let push_text = |segments: &mut Vec<Segment>, text: &str| {
            let text: String = text.chars().filter(|&c| c != guard).collect();
            if !text.is_empty() {
                segments.push(Segment::Text(text));
            }
        };
        let mut rest = 0;
        for found in self.longest.find_iter(text) {
            if let Some((id, token)) = self.tokens.get(found.pattern().as_usize()) {
                push_text(&mut segments, &text[rest..found.start()]);
                segments.push(Segment::Token { id: *id, text: token.clone() });
                rest = found.end();
            }
        }
        push_text(&mut segments, &text[rest..]);
        segments
    }
}
