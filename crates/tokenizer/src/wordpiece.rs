//! WordPiece: words are the longest tokens one after the other.
//!
//! Source: llama.cpp's `llm_tokenizer_wpm`. Its vocabularies write the start of a word as `▁`, instead of `##` before
//! everything else.

use gguf::Metadata;
use regex_syntax::hir::{Class, HirKind};

use crate::Error;
use crate::prefixes::Prefixes;
use crate::vocab::{SPACE, Vocab};

pub(crate) struct WordPiece {
    pieces: Prefixes,
    /// Replaces words that no tokens spell.
    unknown: Option<u32>,
    lowercase: bool,
    strip_accents: bool,
    /// Characters of this category are words.
    punctuation: Category,
    /// Dropped with `strip_accents`.
    marks: Category,
    /// Dropped.
    control: Category,
}

impl WordPiece {
    pub(crate) fn new(metadata: &Metadata, vocab: &Vocab, unknown: Option<u32>) -> Result<WordPiece, Error> {
        let pieces = vocab.iter().filter(|(_, _, kind)| kind.is_mergeable());
        let lowercase = metadata.bool("tokenizer.ggml.normalizer.lowercase")?.unwrap_or(true);
        let strip_accents = metadata.bool("tokenizer.ggml.normalizer.strip_accents")?;
        Ok(WordPiece {
            pieces: Prefixes::new(pieces.map(|(id, text, _)| (text, id)))?,
            unknown,
            lowercase,
            strip_accents: strip_accents.unwrap_or(lowercase),
            punctuation: Category::new(r"[\p{P}$+<=>^`|~]"),
            marks: Category::new(r"\p{M}"),
            control: Category::new(r"[\p{Cc}\p{Cf}\p{Co}]"),
        })
    }

    pub(crate) fn encode(&self, text: &str, ids: &mut Vec<u32>) {
        let mut word = String::from(SPACE);
        for c in text.chars() {
            let c = if self.strip_accents { without_marks(c) } else { c };
            if c.is_whitespace() {
                self.end_word(&mut word, ids);
                continue;
            }
            let is_mark = self.strip_accents && self.marks.has(c);
            if is_mark || matches!(c, '\0' | char::REPLACEMENT_CHARACTER) || self.control.has(c) {
                continue;
            }
            let spelled = if self.lowercase { c.to_lowercase().next().unwrap_or(c) } else { c };
            if self.punctuation.has(c) || is_chinese(c) {
                self.end_word(&mut word, ids);
                word.push(spelled);
                self.end_word(&mut word, ids);
            } else {
                word.push(spelled);
            }
        }
        self.end_word(&mut word, ids);
    }

    /// Encodes `word`, a [`SPACE`] and characters, and removes the characters.
    fn end_word(&self, word: &mut String, ids: &mut Vec<u32>) {
        let mut rest = word.as_bytes();
        if rest.len() > SPACE.len_utf8() {
            let before = ids.len();
            while !rest.is_empty() {
                let Some((length, id)) = self.pieces.of(rest).last() else { break };
                ids.push(id);
                rest = &rest[length..];
            }
            if !rest.is_empty() {
                ids.truncate(before);
                ids.extend(self.unknown);
            }
        }
        word.truncate(SPACE.len_utf8());
    }
}

/// The first character of the canonical decomposition: a letter without its marks, the first jamo of a syllable.
fn without_marks(c: char) -> char {
    let mut first = None;
    unicode_normalization::char::decompose_canonical(c, |part| first = first.or(Some(part)));
    first.unwrap_or(c)
}

/// The ranges of BERT's tokenizer; its Rust version, and llama.cpp, start one of them at U+2B920 instead of U+2B820.
fn is_chinese(c: char) -> bool {
    matches!(u32::from(c),
        0x3400..=0x4dbf | 0x4e00..=0x9fff | 0xf900..=0xfaff | 0x20000..=0x2a6df | 0x2a700..=0x2b81f
        | 0x2b920..=0x2ceaf | 0x2f800..=0x2fa1f)
}

/// Characters, as sorted ranges.
struct Category(Vec<(char, char)>);

impl Category {
    /// The characters that match `class`, a class of a regular expression.
    fn new(class: &'static str) -> Category {
        let parsed = regex_syntax::parse(class).map(regex_syntax::hir::Hir::into_kind);
        let Ok(HirKind::Class(Class::Unicode(class))) = parsed else {
            unreachable!("{class} is a class with ranges")
        };
        Category(class.iter().map(|range| (range.start(), range.end())).collect())
    }

    fn has(&self, c: char) -> bool {
        let after = self.0.partition_point(|(start, _)| *start <= c);
        after.checked_sub(1).is_some_and(|before| c <= self.0[before].1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_are_dropped_from_letters() {
        for (c, expected) in [('é', 'e'), ('ǖ', 'u'), ('각', 'ᄀ'), ('a', 'a'), ('ﬁ', 'ﬁ'), ('Å', 'A')]
        {
            assert_eq!(without_marks(c), expected);
        }
    }
}
