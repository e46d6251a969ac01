//! The sequence of tokens that `trace` and `logits` compute.

use std::path::PathBuf;

use gguf::Gguf;

use crate::load;
use crate::run::PromptFile;
use crate::values::TokenIds;

/// A sequence of tokens: one of these.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Prompt")]
#[group(required = true, multiple = false)]
pub(crate) struct SequenceArgs {
    /// Token ids, such as 1,15043
    #[arg(long, value_name = "IDS")]
    tokens: Option<TokenIds>,
    /// Text, taken as it is without a chat template, after BOS where the file says so
    #[arg(short, long, value_name = "TEXT", allow_hyphen_values = true)]
    prompt: Option<String>,
    /// Read that text from a file, without a newline at its end; - is stdin
    #[arg(short, long, value_name = "FILE")]
    file: Option<PathBuf>,
}

impl SequenceArgs {
    /// Its tokens in the vocabulary of `model`.
    pub(crate) fn tokens(&self, model: &Gguf) -> anyhow::Result<Vec<u32>> {
        match (&self.tokens, &self.prompt, &self.file) {
            (Some(TokenIds(tokens)), ..) => Ok(tokens.clone()),
            (_, Some(text), _) => load::raw_tokens(model, text),
            (.., Some(file)) => load::raw_tokens(model, &PromptFile::open(file)?.read(None)?),
            (None, None, None) => Ok(Vec::new()),
        }
    }
}
