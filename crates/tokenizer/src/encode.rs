//! Encoding: special tokens are found first, and the model encodes the text between them.

use crate::Tokenizer;
use crate::finder::TokenFinder;
use crate::merge::Merger;
use crate::tokenizer::Model;

/// How to encode a text.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Encode {
    /// Add BOS and EOS tokens if the file asks for them; WordPiece always has CLS and SEP in their place.
    pub add_special: bool,
    /// Encode the texts of special tokens as these tokens. Never set this for user input.
    pub parse_special: bool,
}

/// A part of a prompt, for [`Tokenizer::encode_parts`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part<'a> {
    /// Text, in which special tokens are not parsed.
    Text(&'a str),
    /// A token.
    Token(u32),
}

impl Tokenizer {
    /// The ids of `text`.
    ///
    /// User-defined tokens are always parsed. If the text starts with the BOS token, it is added nevertheless;
    /// [`Tokenizer::encode_parts`] avoids the second one.
    pub fn encode(&self, text: &str, options: Encode) -> Vec<u32> {
        let mut encoder = Encoder::new(self);
        if options.add_special {
            encoder.ids.extend(self.bos_to_add());
        }
        encoder.text(text, if options.parse_special { &self.special } else { &self.user_defined });
        if options.add_special {
            encoder.ids.extend(self.eos_to_add());
        }
        encoder.ids
    }

    /// The ids of texts and tokens in sequence, such as a rendered chat template.
    ///
    /// With `add_special`, BOS and EOS tokens are added if the file asks for them and they are not the first or last
    /// part. Adjacent texts are encoded separately.
    pub fn encode_parts<'a>(&self, parts: impl IntoIterator<Item = Part<'a>>, add_special: bool) -> Vec<u32> {
        let mut encoder = Encoder::new(self);
        let mut parts = parts.into_iter().peekable();
        if add_special
            && let Some(bos) = self.bos_to_add()
            && parts.peek() != Some(&Part::Token(bos))
        {
            encoder.ids.push(bos);
        }
        let mut last = None;
        for part in parts {
            match part {
                Part::Text(text) => encoder.text(text, &self.user_defined),
                Part::Token(id) => encoder.token(id),
            }
            last = Some(part);
        }
        if add_special
            && let Some(eos) = self.eos_to_add()
            && last != Some(Part::Token(eos))
        {
            encoder.ids.push(eos);
        }
        encoder.ids
    }
}

struct Encoder<'a> {
    tokenizer: &'a Tokenizer,
    merger: Merger,
    ids: Vec<u32>,
    /// Nothing precedes, or a token does: SentencePiece inserts a space before text here.
    after_token: bool,
    /// The last token drops the white space after it.
    strip: bool,
}

const WHITE_SPACE: [char; 6] = [' ', '\t', '\n', '\u{b}', '\u{c}', '\r'];

impl Encoder<'_> {
    fn new(tokenizer: &Tokenizer) -> Encoder<'_> {
        Encoder { tokenizer, merger: Merger::default(), ids: Vec::new(), after_token: true, strip: false }
    }

    fn token(&mut self, id: u32) {
        self.ids.push(id);
        self.after_token = true;
        self.strip = self.tokenizer.strips.after.contains(&id);
    }

    fn text(&mut self, text: &str, finder: &TokenFinder) {
        let mut start = 0;
        loop {
            if self.strip {
                let rest = text[start..].trim_start_matches(WHITE_SPACE);
                start = text.len() - rest.len();
            }
            let found = finder.find(text, start);
            let mut before = &text[start..found.map_or(text.len(), |(_, place)| place.0)];
            if found.is_some_and(|(id, _)| self.tokenizer.strips.before.contains(&id)) {
                before = before.trim_end_matches(WHITE_SPACE);
            }
            self.plain_text(before);
            let Some((id, (_, end))) = found else { return };
            self.token(id);
            start = end;
        }
    }

    fn plain_text(&mut self, text: &str) {
        if text.is_empty() {
            return;
        }
        let (merger, ids) = (&mut self.merger, &mut self.ids);
        match &self.tokenizer.model {
            Model::SentencePiece(model) => {
                let space_before = self.after_token && self.tokenizer.inserts_space();
                model.encode(text, space_before, merger, ids);
            }
            Model::WordPiece(model) => model.encode(text, ids),
            Model::Unigram(model) => model.encode(text, ids),
            Model::BytePair(model) => model.encode(text, merger, ids),
        }
        self.after_token = false;
        self.strip = false;
    }
}

#[cfg(test)]
mod tests {
    use gguf::{Array, Metadata, Value};

    use super::*;

    /// A word too long to merge as a whole is cut between characters, and nothing is lost.
    #[test]
    fn a_long_word_is_cut_between_characters() {
        let tokens = ["<unk>", "<s>", "</s>", "▁", "a", "aa", "é", "😀"].map(str::to_owned);
        let mut metadata: Metadata = [("tokenizer.ggml.model", "llama")].into_iter().collect();
        metadata.insert("tokenizer.ggml.tokens", Value::Array(Array::String(tokens.into())));
        metadata.insert("tokenizer.ggml.add_space_prefix", Value::Bool(false));
        let tokenizer = Tokenizer::from_metadata(&metadata).expect("a good tokenizer");
        for text in ["a".repeat(15), "aé".repeat(9), "😀".repeat(5), "aa😀".repeat(8)] {
            let ids = tokenizer.encode(&text, Encode::default());
            assert_eq!(tokenizer.decode(&ids), text);
        }
        // 7 and 7 and 1.
        assert_eq!(tokenizer.encode(&"a".repeat(15), Encode::default()), [5, 5, 5, 4, 5, 5, 5, 4, 4]);
    }
}
