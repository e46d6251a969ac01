//! The tokens of `trace` and `logits`.

use std::path::PathBuf;

use gguf::Gguf;

use crate::load;
use crate::run::{TextFile, without_newline};
use crate::values::TokenIds;

#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Prompt")]
#[group(required = true, multiple = false)]
pub(crate) struct SequenceArgs {
    /// Token ids, such as 1,15043
    #[arg(long, value_name = "IDS")]
    tokens: Option<TokenIds>,
    /// Text, without a chat template, after BOS if the model says so
    #[arg(short, long, value_name = "TEXT", allow_hyphen_values = true)]
    prompt: Option<String>,
    /// File with the text, without a final newline; - is stdin
    #[arg(short, long, value_name = "FILE")]
    file: Option<PathBuf>,
}

impl SequenceArgs {
    /// Its tokens in the vocabulary of `model`.
    pub(crate) fn tokens(&self, model: &Gguf) -> anyhow::Result<Vec<u32>> {
        match (&self.tokens, &self.prompt, &self.file) {
            (Some(TokenIds(tokens)), ..) => Ok(tokens.clone()),
            (_, Some(text), _) => load::raw_tokens(model, text),
            (.., Some(file)) => load::raw_tokens(model, &without_newline(TextFile::open(file)?.whole()?)),
            (None, None, None) => Ok(Vec::new()),
        }
    }
}
