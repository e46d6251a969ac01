//! Prompts for the text between two texts, by models that were trained for it.

use rustorch::PromptPiece;

use crate::error::{ApiError, Kind};
use crate::models::Served;

/// The tokens by which a model is asked.
pub(crate) struct Marks {
    /// The beginning of every prompt.
    begin: Vec<u32>,
    prefix: u32,
    suffix: u32,
    middle: u32,
    pub(crate) repository: Option<u32>,
    pub(crate) file: Option<u32>,
}

impl Marks {
    /// Fails if the model has none; the error names the field `param`.
    pub(crate) fn new(served: &Served, param: &str) -> Result<Marks, ApiError> {
        let roles = &served.tokenizer().special_ids().roles;
        let one = |role: &str| roles.get(role).copied();
        let need = |role: &str, what: &str| {
            one(role).ok_or_else(|| {
                let message =
                    format!("infill is not supported by this model: it has no token for the {what}");
                ApiError::new(Kind::Unsupported, format!("`{param}`: {message}")).at(param)
            })
        };
        Ok(Marks {
            begin: served.file.encode_prompt("", true),
            prefix: need("fim_pre", "prefix")?,
            suffix: need("fim_suf", "suffix")?,
            middle: need("fim_mid", "middle")?,
            repository: one("fim_rep"),
            file: one("fim_sep"),
        })
    }

    /// The prompt for the text between `before` and `after`, behind other `files`.
    pub(crate) fn prompt(
        &self,
        files: Vec<PromptPiece>,
        before: impl IntoIterator<Item = PromptPiece>,
        after: &str,
    ) -> Vec<PromptPiece> {
        let mut prompt = vec![PromptPiece::Tokens(self.begin.clone())];
        prompt.extend(files);
        prompt.push(PromptPiece::Tokens(vec![self.prefix]));
        prompt.extend(before);
        prompt.push(PromptPiece::Tokens(vec![self.suffix]));
        prompt.push(plain(after));
        prompt.push(PromptPiece::Tokens(vec![self.middle]));
        prompt
    }
}

/// Text in which names of special tokens are text.
pub(crate) fn plain(text: &str) -> PromptPiece {
    PromptPiece::Text { text: text.to_owned(), parse_special: false }
}
