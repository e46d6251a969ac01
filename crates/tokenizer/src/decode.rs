//! Decoding.

use std::borrow::Borrow;

use crate::Tokenizer;
use crate::vocab::Kind;

impl Tokenizer {
    /// The bytes of token `id`; for a special token, the bytes of its text. They may be part of a character. `None` outside the
    /// vocabulary.
    pub fn token_bytes(&self, id: u32) -> Option<&[u8]> {
        self.pieces.get(id)
    }

    /// The text of `ids`, without control tokens.
    ///
    /// Invalid UTF-8 and ids outside the vocabulary become U+FFFD. If SentencePiece inserts a space before text, one
    /// leading space of the first token is removed; after a BOS token none is, as in llama.cpp.
    pub fn decode(&self, ids: &[u32]) -> String {
        let mut detokenizer = Detokenizer::new(self);
        let mut text: String = ids.iter().map(|&id| detokenizer.push(id)).collect();
        text.push_str(&detokenizer.finish());
        text
    }
}

/// Decodes ids one at a time, in whole characters.
#[derive(Clone, Debug)]
pub struct Detokenizer<T> {
    tokenizer: T,
    /// A leading space of the next token may be removed.
    at_start: bool,
    /// An incomplete character, at most three bytes.
    partial: Vec<u8>,
}

impl<T: Borrow<Tokenizer>> Detokenizer<T> {
    /// For a whole text: the results of [`push`](Self::push) and [`finish`](Self::finish) concatenate to that of
    /// [`Tokenizer::decode`].
    pub fn new(tokenizer: T) -> Detokenizer<T> {
        Detokenizer { tokenizer, at_start: true, partial: Vec::new() }
    }

    /// For ids that follow others, such as generated ones: a leading space is kept.
    pub fn continuing(tokenizer: T) -> Detokenizer<T> {
        Detokenizer { at_start: false, ..Detokenizer::new(tokenizer) }
    }

    /// For ids that follow those of a prompt. An answer after special tokens only is the start of a text.
    pub fn following(tokenizer: T, prompt: &[u32]) -> Detokenizer<T> {
        let begins = prompt.iter().all(|&id| tokenizer.borrow().kind(id).is_some_and(Kind::is_special));
        Detokenizer { at_start: begins, ..Detokenizer::new(tokenizer) }
    }

    /// Decodes the next id and returns the characters that it completes.
    pub fn push(&mut self, id: u32) -> String {
        let tokenizer = self.tokenizer.borrow();
        let starts = std::mem::replace(&mut self.at_start, false);
        let Some(mut bytes) = tokenizer.token_bytes(id) else {
            return self.finish() + "\u{fffd}";
        };
        if tokenizer.kind(id).is_some_and(Kind::is_special) {
            return String::new();
        }
        if starts && tokenizer.inserts_space() {
            bytes = bytes.strip_prefix(b" ").unwrap_or(bytes);
        }
        self.partial.extend_from_slice(bytes);
        self.take_whole_characters()
    }

    /// Returns U+FFFD if the text ends within a character, otherwise nothing.
    pub fn finish(&mut self) -> String {
        let rest = String::from_utf8_lossy(&self.partial).into_owned();
        self.partial.clear();
        rest
    }

    /// Removes all but an incomplete character at the end from `partial`.
    fn take_whole_characters(&mut self) -> String {
        let mut text = String::new();
        let mut done = 0;
        for chunk in self.partial.utf8_chunks() {
            text.push_str(chunk.valid());
            done += chunk.valid().len();
            let is_last = done + chunk.invalid().len() == self.partial.len();
            if is_last && may_be_completed(chunk.invalid()) {
                break;
            }
            done += chunk.invalid().len();
            if !chunk.invalid().is_empty() {
                text.push(char::REPLACEMENT_CHARACTER);
            }
        }
        self.partial.drain(..done);
        text
    }
}

/// Whether more bytes could complete `bytes` to a character.
fn may_be_completed(bytes: &[u8]) -> bool {
    std::str::from_utf8(bytes).is_err_and(|error| error.error_len().is_none())
}
