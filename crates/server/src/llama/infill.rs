//! `/infill`: the text between two texts, by a model that was trained for it.

use axum::response::Response;
use rustorch::PromptPiece;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;

use super::LLAMA;
use super::completion::{self, Manner};
use crate::error::ApiError;
use crate::fields::{Group, Read, at_most};
use crate::http::Routes;
use crate::infill::{Marks, plain};
use crate::prompts::Prompts;

const MAX_FILES: usize = 1024;

/// Another file of the project.
#[derive(Deserialize, JsonSchema)]
struct File {
    #[serde(default)]
    filename: Option<String>,
    text: String,
}

#[derive(Deserialize, JsonSchema)]
struct Gap {
    /// The text before the gap.
    input_prefix: String,
    /// The text after it.
    input_suffix: String,
    /// The beginning of the gap's text.
    #[serde(default)]
    prompt: String,
    /// Other files.
    #[serde(default)]
    #[schemars(length(max = MAX_FILES))]
    input_extra: Vec<File>,
}

impl Group for Gap {}

pub(super) fn routes() -> Routes {
    let fill = LLAMA
        .endpoint(
            "fill",
            &["/infill"],
            "Writes the text between two texts, by a model that was trained for it",
        )
        .reads("InfillCall", json!({ "input_prefix": "a", "input_suffix": "b", "n_predict": 4 }))
        .answers("#LlamaCompletions")
        .answers_as("text/event-stream", "#LlamaPiece");
    Routes::default().post(fill, handle)
}

impl Gap {
    /// Other files as Qwen2.5-Coder's report gives them (Hui et al. 2024), then prefix, suffix and the gap's beginning.
    fn prompt(&self, marks: &Marks) -> Vec<PromptPiece> {
        let mut files = Vec::new();
        let mut add = |mark: Option<u32>, text: &str| {
            files.extend(mark.map(|mark| PromptPiece::Tokens(vec![mark])));
            files.push(plain(text));
        };
        if !self.input_extra.is_empty() && marks.repository.is_some() {
            add(marks.repository, "project\n");
        }
        for File { filename, text } in &self.input_extra {
            if marks.file.is_some() {
                add(marks.file, &format!("{}\n", filename.as_deref().unwrap_or("file")));
            } else {
                add(None, "\n\n");
            }
            add(None, text);
        }
        if !self.input_extra.is_empty() && marks.file.is_some() {
            add(marks.file, "file\n");
        }
        let mut prompt = marks.prompt(files, [plain(&self.input_prefix)], &self.input_suffix);
        prompt.push(plain(&self.prompt));
        prompt
    }
}

async fn handle(read: Read<(Gap, Manner)>) -> Result<Response, ApiError> {
    let served = read.served().await?;
    let (gap, manner) = read.body;
    at_most("input_extra", &gap.input_extra, MAX_FILES)?;
    let prompt = gap.prompt(&Marks::new(&served, "model")?);
    let prompts = Prompts::pieces(prompt);
    completion::answer("input_prefix", prompts, manner, &read.app, served, &read.client).await
}
