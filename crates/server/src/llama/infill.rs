//! `/infill`: the text between two texts, by a model that was trained for it.

use axum::response::Response;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;
use tokenizer::Encode;

use super::LLAMA;
use super::completion::{self, Manner};
use crate::error::ApiError;
use crate::fields::{Group, Read, at_most};
use crate::http::Routes;
use crate::models::Served;
use crate::prompts::Prompts;

/// Other files, at most.
const MAX_FILES: usize = 1024;

/// Another file of the project.
#[derive(Deserialize, JsonSchema)]
#[schemars(inline)]
struct File {
    #[serde(default)]
    filename: Option<String>,
    text: String,
}

/// The gap to be filled in.
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

    /// Other files as Qwen2.5-Coder's report gives them (Hui et al. 2024), then prefix, suffix and the gap's beginning. Takes a while:
    /// not for the threads of the runtime.
    fn prompt(self, served: &Served, marks: &Marks) -> Vec<u32> {
        let tokenizer = served.tokenizer();
        let text = |text: &str| tokenizer.encode(text, Encode { add_special: false, parse_special: false });
        let mut prompt = served.file().encode_prompt("", true);
        if !self.input_extra.is_empty() {
            if let Some(repository) = marks.repository {
                prompt.push(repository);
                prompt.extend(text("project\n"));
            }
            for File { filename, text: contents } in &self.input_extra {
                let name = filename.as_deref().unwrap_or("file");
                match marks.file {
                    Some(mark) => {
                        prompt.push(mark);
                        prompt.extend(text(&format!("{name}\n")));
                    }
                    None => prompt.extend(text("\n\n")),
                }
                prompt.extend(text(contents));
            }
            if let Some(mark) = marks.file {
                prompt.push(mark);
                prompt.extend(text("file\n"));
            }
        }
        prompt.push(marks.prefix);
        prompt.extend(text(&self.input_prefix));
        prompt.push(marks.suffix);
        prompt.extend(text(&self.input_suffix));
        prompt.push(marks.middle);
        prompt.extend(text(&self.prompt));
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
    fn of(served: &Served) -> Result<Marks, ApiError> {
        let roles = &served.tokenizer().special_ids().roles;
        let one = |role: &str| roles.get(role).copied();
        let need = |role: &str, what: &str| {
            one(role).ok_or_else(|| {
                let message =
                    format!("infill is not supported by this model: it has no token for the {what}");
                ApiError::unsupported("model", message)
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
    let marks = Marks::of(&served)?;
    at_most("input_extra", &gap.input_extra, MAX_FILES)?;
    let fits = served.model.check_text(gap.bytes());
    fits.map_err(|error| ApiError::from_model(error, "input_prefix", "response_format"))?;
    let encoding = served.clone();
    let prompt = read.app.blocking(move || gap.prompt(&encoding, &marks)).await?;
    completion::answer(Prompts::ids(prompt), manner, &read.app, served, &read.client).await
}
