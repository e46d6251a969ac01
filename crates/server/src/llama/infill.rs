//! `/infill`: the text between two texts, by a model that was trained for it.

use axum::response::Response;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;
use tokenizer::Encode;

use super::LLAMA;
use super::completion::{self, Manner};
use crate::error::{ApiError, Kind};
use crate::fields::{Group, Read, at_most};
use crate::http::Routes;
use crate::models::Served;
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
    fn bytes(&self) -> usize {
        let files: usize = self.input_extra.iter().map(|file| file.text.len()).sum();
        self.input_prefix.len() + self.input_suffix.len() + self.prompt.len() + files
    }

    /// Other files as Qwen2.5-Coder's report gives them (Hui et al. 2024), then prefix, suffix and the gap's beginning. This takes a
    /// while and must not block the threads of the async runtime.
    fn prompt(self, served: &Served, marks: &Marks) -> Vec<u32> {
        let tokenizer = served.tokenizer();
        let mut prompt = served.file.encode_prompt("", true);
        let mut add = |mark: Option<u32>, text: &str| {
            prompt.extend(mark);
            prompt.extend(tokenizer.encode(text, Encode { add_special: false, parse_special: false }));
        };
        if !self.input_extra.is_empty() {
            if marks.repository.is_some() {
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
            if marks.file.is_some() {
                add(marks.file, "file\n");
            }
        }
        add(Some(marks.prefix), &self.input_prefix);
        add(Some(marks.suffix), &self.input_suffix);
        add(Some(marks.middle), &self.prompt);
        prompt
    }
}

/// The tokens by which a model is asked.
struct Marks {
    prefix: u32,
    suffix: u32,
    middle: u32,
    repository: Option<u32>,
    file: Option<u32>,
}

impl Marks {
    /// Fails if the model has none.
    fn new(served: &Served) -> Result<Marks, ApiError> {
        let roles = &served.tokenizer().special_ids().roles;
        let one = |role: &str| roles.get(role).copied();
        let need = |role: &str, what: &str| {
            one(role).ok_or_else(|| {
                let message =
                    format!("infill is not supported by this model: it has no token for the {what}");
                ApiError::new(Kind::Unsupported, message).at("model")
            })
        };
        Ok(Marks {
            prefix: need("fim_pre", "prefix")?,
            suffix: need("fim_suf", "suffix")?,
            middle: need("fim_mid", "middle")?,
            repository: one("fim_rep"),
            file: one("fim_sep"),
        })
    }
}

async fn handle(read: Read<(Gap, Manner)>) -> Result<Response, ApiError> {
    let served = read.served().await?;
    let (gap, manner) = read.body;
    let marks = Marks::new(&served)?;
    at_most("input_extra", &gap.input_extra, MAX_FILES)?;
    let fits = served.model.check_text(gap.bytes());
    fits.map_err(|error| ApiError::from_model(error, "input_prefix", "response_format"))?;
    let encoding = served.clone();
    let prompt = read.app.blocking(move || gap.prompt(&encoding, &marks)).await?;
    completion::answer(Prompts::ids(prompt), manner, &read.app, served, &read.client).await
}
