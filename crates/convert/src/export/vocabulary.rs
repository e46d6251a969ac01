//! The tokens of a GGUF file for export.

use std::collections::HashMap;

use gguf::Metadata;
use serde_json::{Value, json};
use tokenizer::{Kind, Tokenizer};

use super::Error;
use crate::tokenizer::padding;

pub(super) struct Vocabulary<'a> {
    pub(super) metadata: &'a Metadata,
    pub(super) tokenizer: &'a Tokenizer,
}

/// The name of the tokenizers whose texts are in GPT-2's byte alphabet.
const BYTE_LEVEL: &str = "byte-level BPE";

#[derive(Clone, Copy)]
pub(super) struct Token<'a> {
    pub(super) id: u32,
    pub(super) text: &'a str,
    pub(super) kind: Kind,
}

impl Token<'_> {
    /// Whether text is searched for it before anything else.
    pub(super) fn is_added(&self) -> bool {
        !self.text.is_empty() && (self.kind.is_special() || self.kind == Kind::UserDefined)
    }

    /// Whether merging can produce it.
    pub(super) fn is_mergeable(&self) -> bool {
        !self.text.is_empty() && !self.kind.is_special() && self.kind != Kind::Byte
    }

    /// Whether it only makes the vocabulary as large as the model's.
    pub(super) fn is_padding(&self) -> bool {
        self.kind == Kind::Unused && self.text == padding(self.id as usize)
    }
}

impl<'a> Vocabulary<'a> {
    pub(super) fn tokens(&self) -> impl Iterator<Item = Token<'a>> + use<'a> {
        let tokenizer = self.tokenizer;
        let size = u32::try_from(tokenizer.vocab_size()).unwrap_or(u32::MAX);
        (0..size).filter_map(move |id| {
            Some(Token { id, text: tokenizer.token_text(id)?, kind: tokenizer.kind(id)? })
        })
    }

    /// Number of tokens up to the last one that is not padding.
    pub(super) fn used(&self) -> usize {
        self.tokens().filter(|token| !token.is_padding()).last().map_or(0, |token| token.id as usize + 1)
    }

    /// Ids by text, without padding. Of tokens with the same text, one that is searched for counts, and else the last.
    pub(super) fn ids(&self) -> HashMap<&'a str, u32> {
        let mut ids = HashMap::new();
        let tokens = || self.tokens().filter(|token| !token.is_padding() && !token.text.is_empty());
        for token in tokens().filter(|token| !token.is_added()).chain(tokens().filter(Token::is_added)) {
            ids.insert(token.text, token.id);
        }
        ids
    }

    pub(super) fn added(&self) -> Vec<Value> {
        let ids = self.ids();
        let added = self.tokens().filter(|token| token.is_added() && ids.get(token.text) == Some(&token.id));
        added.map(|token| self.added_token(&token, true)).collect()
    }

    pub(super) fn added_token(&self, token: &Token, with_id: bool) -> Value {
        let (lstrip, rstrip) = self.tokenizer.strips(token.id);
        let types = self.metadata.i32s("tokenizer.ggml.token_type").ok().flatten().unwrap_or_default();
        // A role makes a user-defined token a control token.
        let is_user_defined = types.get(token.id as usize) == Some(&4);
        // Of text in GPT-2's byte alphabet, llama.cpp's converter takes what is not normalised for bytes.
        let looks_like_bytes = !token.text.is_ascii() && token.text.chars().all(|c| c <= '\u{143}');
        let normalized = looks_like_bytes && self.tokenizer.facts().model == BYTE_LEVEL;
        let mut value = json!({
            "content": token.text,
            "single_word": false,
            "lstrip": lstrip,
            "rstrip": rstrip,
            "normalized": normalized,
            "special": token.kind.is_special() && !is_user_defined,
        });
        if let Some(object) = value.as_object_mut().filter(|_| with_id) {
            object.insert("id".to_owned(), token.id.into());
        }
        value
    }

    /// Fails unless the bytes of all texts have tokens such as `<0x0A>`.
    pub(super) fn check_bytes(&self, ids: &HashMap<&str, u32>) -> Result<(), Error> {
        match text_bytes().find(|byte| !ids.contains_key(format!("<0x{byte:02X}>").as_str())) {
            Some(byte) => Err(self.inexpressible(format!("there is no token <0x{byte:02X}>"))),
            None => Ok(()),
        }
    }

    pub(super) fn inexpressible(&self, why: String) -> Error {
        Error::Inexpressible { kind: self.tokenizer.facts().model, why }
    }

    /// The scores by id; none if the file has none.
    pub(super) fn scores(&self) -> Result<Vec<f32>, Error> {
        let scores = self.metadata.f32s("tokenizer.ggml.scores")?;
        Ok(scores.map_or_else(|| vec![0.0; self.tokenizer.vocab_size()], <[f32]>::to_vec))
    }

    /// The text of the token with a role, if text is searched for it.
    pub(super) fn role(&self, role: &str) -> Option<Token<'a>> {
        let id = *self.tokenizer.special_ids().roles.get(role)?;
        let token = Token { id, text: self.tokenizer.token_text(id)?, kind: self.tokenizer.kind(id)? };
        Some(token).filter(|token| token.is_added())
    }
}

/// The bytes that occur in UTF-8.
pub(super) fn text_bytes() -> impl Iterator<Item = u8> {
    (0..=u8::MAX).filter(|byte| !matches!(byte, 0xc0 | 0xc1 | 0xf5..))
}
