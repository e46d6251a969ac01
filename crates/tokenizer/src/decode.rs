//! From ids to text.

use std::borrow::Borrow;

use crate::Tokenizer;
use crate::vocab::Kind;

impl Tokenizer {
    /// The bytes that token `id` stands for, a special token for its own text. They need not be whole
    /// characters. `None` outside the vocabulary.
    pub fn token_bytes(&self, id: u32) -> Option<&[u8]> {
        self.pieces.get(id)
    }

    /// The text of `ids`, without control tokens.
    ///
    /// Bytes that are no UTF-8 and ids outside the vocabulary become U+FFFD. When SentencePiece puts a
    /// space before text, the first id loses one leading space; after a BOS token none is lost, as in
    /// llama.cpp.
    pub fn decode(&self, ids: &[u32]) -> String {
        let mut detokenizer = Detokenizer::new(self);
        let mut text: String = ids.iter().map(|&id| detokenizer.push(id)).collect();
        text.push_str(&detokenizer.finish());
        text
    }
}

/// Turns ids into text as they come, in whole characters.
#[derive(Clone, Debug)]
pub struct Detokenizer<T> {
    tokenizer: T,
    /// The next token may lose a leading space.
    at_start: bool,
    /// The beginning of a character, at most three bytes.
    partial: Vec<u8>,
}

impl<T: Borrow<Tokenizer>> Detokenizer<T> {
    /// For ids that begin a text: the texts of all [`push`](Self::push)es and of
    /// [`finish`](Self::finish) together are what [`Tokenizer::decode`] returns.
    pub fn new(tokenizer: T) -> Detokenizer<T> {
        Detokenizer { tokenizer, at_start: true, partial: Vec::new() }
    }

    /// For ids that go on after others, such as what a model generates after its prompt: a leading
    /// space is kept.
    pub fn continuing(tokenizer: T) -> Detokenizer<T> {
        Detokenizer { at_start: false, ..Detokenizer::new(tokenizer) }
    }

    /// Takes the next id and returns the characters that it completes.
    pub fn push(&mut self, id: u32) -> String {
        let tokenizer = self.tokenizer.borrow();
        let starts = std::mem::replace(&mut self.at_start, false);
        let Some(mut bytes) = tokenizer.token_bytes(id) else {
            return self.finish() + "\u{fffd}";
        };
        if tokenizer.kind(id).is_some_and(Kind::is_special) {
            return String::new();
        }
        if starts && tokenizer.drops_leading_space() {
            bytes = bytes.strip_prefix(b" ").unwrap_or(bytes);
        }
        self.partial.extend_from_slice(bytes);
        self.take_whole_characters()
    }

    /// Returns U+FFFD when the text ends within a character, otherwise nothing.
    pub fn finish(&mut self) -> String {
        let rest = String::from_utf8_lossy(&self.partial).into_owned();
        self.partial.clear();
        rest
    }

    /// Takes out of `partial` all but a beginning of a character that later bytes may complete.
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

/// Whether more bytes could make a character of `bytes`.
fn may_be_completed(bytes: &[u8]) -> bool {
    std::str::from_utf8(bytes).is_err_and(|error| error.error_len().is_none())
}
