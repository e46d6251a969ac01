//! `/infill`: what stands between two texts, by a model that was trained for it.

use std::sync::Arc;

use axum::extract::{Extension, Request, State};
use axum::response::Response;
use serde::Deserialize;
use tokenizer::Encode;

use super::completion;
use crate::app::App;
use crate::error::ApiError;
use crate::fields::Fields;
use crate::http::{Client, call};
use crate::models::Served;
use crate::prompts::Prompts;

/// Other files, at most.
pub(crate) const MAX_FILES: usize = 1024;

/// Another file of the project.
#[derive(Deserialize)]
struct File {
    #[serde(default)]
    filename: Option<String>,
    text: String,
}

/// What is to be filled in.
struct Gap {
    prefix: String,
    suffix: String,
    /// What the gap begins with.
    begun: String,
    files: Vec<File>,
}

impl Gap {
    fn read(fields: &mut Fields) -> Result<Gap, ApiError> {
        Ok(Gap {
            prefix: fields.require("input_prefix")?,
            suffix: fields.require("input_suffix")?,
            begun: fields.take("prompt")?.unwrap_or_default(),
            files: fields.list("input_extra", MAX_FILES)?.unwrap_or_default(),
        })
    }

    fn bytes(&self) -> usize {
        let of_files: usize = self.files.iter().map(|file| file.text.len()).sum();
        self.prefix.len() + self.suffix.len() + self.begun.len() + of_files
    }

    /// Other files as Qwen2.5-Coder's report gives them (Hui et al. 2024), then prefix, suffix and what is begun. Takes a while:
    /// not for the threads of the runtime.
    fn prompt(self, served: &Served, marks: &Marks) -> Vec<u32> {
        let tokenizer = served.tokenizer();
        let text = |text: &str| tokenizer.encode(text, Encode { add_special: false, parse_special: false });
        let mut prompt = served.file().encode_prompt("", true);
        if !self.files.is_empty() {
            if let Some(repository) = marks.repository {
                prompt.push(repository);
                prompt.extend(text("project\n"));
            }
            for File { filename, text: of_file } in &self.files {
                let name = filename.as_deref().unwrap_or("file");
                match marks.file {
                    Some(mark) => {
                        prompt.push(mark);
                        prompt.extend(text(&format!("{name}\n")));
                    }
                    None => prompt.extend(text("\n\n")),
                }
                prompt.extend(text(of_file));
            }
            if let Some(mark) = marks.file {
                prompt.push(mark);
                prompt.extend(text("file\n"));
            }
        }
        prompt.push(marks.prefix);
        prompt.extend(text(&self.prefix));
        prompt.push(marks.suffix);
        prompt.extend(text(&self.suffix));
        prompt.push(marks.middle);
        prompt.extend(text(&self.begun));
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

pub(super) async fn handle(
    State(app): State<Arc<App>>,
    Extension(client): Extension<Client>,
    request: Request,
) -> Result<Response, ApiError> {
    let (mut fields, served) = call(&app, request).await?;
    let marks = Marks::of(&served)?;
    let gap = Gap::read(&mut fields)?;
    let fits = served.model.check_text(gap.bytes());
    fits.map_err(|error| ApiError::of_model(error, "input_prefix", "response_format"))?;
    let encoding = served.clone();
    let prompt = app.blocking(move || gap.prompt(&encoding, &marks)).await?;
    completion::answer(fields, Prompts::ids(prompt), &app, served, &client).await
}
