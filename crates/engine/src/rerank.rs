//! The prompt of a reranker: a query and a document.

use tokenizer::{Encode, Part};

use crate::{Error, Model};

/// The key of the template of rerankers that are language models, with `{query}` and `{document}`.
const TEMPLATE: &str = "tokenizer.chat_template.rerank";

/// Text or a token of the template.
enum Piece {
    Text(String),
    Token(u32),
}

impl Model {
    /// The tokens by which a reranker scores `document` for `query`, as llama.cpp's server makes them: the file's template
    /// for rerankers, or BOS, query, EOS, SEP, document, EOS, each special token if the file asks for it. Special tokens
    /// come from the template alone.
    ///
    /// # Errors
    /// If the template is not a string.
    pub fn rerank_tokens(&self, query: &str, document: &str) -> Result<Vec<u32>, Error> {
        let tokenizer = self.tokenizer();
        let metadata = self.file().metadata();
        if let Some(template) = metadata.str(TEMPLATE)? {
            let pieces = self.pieces(template, query, document);
            let parts = pieces.iter().map(|piece| match piece {
                Piece::Text(text) => Part::Text(text),
                Piece::Token(id) => Part::Token(*id),
            });
            return Ok(tokenizer.encode_parts(parts, false));
        }
        let text = |text: &str| tokenizer.encode(text, Encode { add_special: false, parse_special: false });
        let (ids, facts) = (tokenizer.special_ids(), tokenizer.facts());
        let sep = ids.roles.get("sep").copied();
        let eos = ids.eos().or(sep).filter(|_| facts.add_eos.value());
        let sep = sep.filter(|_| facts.add_sep.value());
        let mut tokens: Vec<u32> = tokenizer.bos_to_add().into_iter().collect();
        tokens.extend(text(query));
        tokens.extend(eos.into_iter().chain(sep));
        tokens.extend(text(document));
        tokens.extend(eos);
        Ok(tokens)
    }

    /// The template with `query` and `document` inserted; its special tokens are tokens.
    fn pieces(&self, template: &str, query: &str, document: &str) -> Vec<Piece> {
        let special: Vec<(u32, &str)> = self.tokenizer().special_tokens().collect();
        let (mut pieces, mut text, mut rest) = (Vec::new(), String::new(), template);
        while let Some(next) = rest.chars().next() {
            let longest = special.iter().filter(|(_, token)| !token.is_empty() && rest.starts_with(token));
            if let Some(after) = rest.strip_prefix("{query}") {
                text += query;
                rest = after;
            } else if let Some(after) = rest.strip_prefix("{document}") {
                text += document;
                rest = after;
            } else if let Some((id, token)) = longest.max_by_key(|(_, token)| token.len()) {
                pieces.push(Piece::Text(std::mem::take(&mut text)));
                pieces.push(Piece::Token(*id));
                rest = &rest[token.len()..];
            } else {
                text.push(next);
                rest = &rest[next.len_utf8()..];
            }
        }
        pieces.push(Piece::Text(text));
        pieces.retain(|piece| !matches!(piece, Piece::Text(text) if text.is_empty()));
        pieces
    }
}
