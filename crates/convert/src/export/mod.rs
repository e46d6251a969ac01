//! The tokenizer of a GGUF file in Hugging Face's format.

mod bpe;
mod config;
mod sentencepiece;
mod spm;
mod tokenizer_json;
mod unigram;
mod vocabulary;
mod wordpiece;

use std::io::Write;
use std::path::{Path, PathBuf};

use gguf::Gguf;
use gguf::output::Target;
use serde_json::{Value, json};
use tokenizer::Tokenizer;

use vocabulary::{Token, Vocabulary};

/// Why a tokenizer cannot be exported.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
#[expect(missing_docs, reason = "the messages explain the variants")]
pub enum Error {
    #[error(transparent)]
    Tokenizer(#[from] tokenizer::Error),
    #[error(transparent)]
    WrongType(#[from] gguf::WrongType),
    #[error(transparent)]
    Out(#[from] gguf::output::Error),
    #[error("cannot write {}: {source}", path.display())]
    Write { path: PathBuf, source: std::io::Error },
    #[error("this {kind} tokenizer cannot be written in Hugging Face's format: {why}")]
    Inexpressible { kind: &'static str, why: String },
    #[error(
        "this {kind} tokenizer cannot be written in Hugging Face's format: of {text} it would make the tokens \
         {found:?} instead of {expected:?}"
    )]
    Differs { kind: &'static str, text: String, found: Vec<u32>, expected: Vec<u32> },
    #[error("this {kind} tokenizer cannot be written in Hugging Face's format: {source}")]
    Library { kind: &'static str, source: Box<dyn std::error::Error + Send + Sync> },
}

/// What was written.
#[derive(Debug)]
#[non_exhaustive]
pub struct Exported {
    /// The files.
    pub files: Vec<PathBuf>,
    /// What the Python packages do in another way than this program, in sentences.
    pub differences: Vec<String>,
}

/// Writes the tokenizer of `gguf` to the folder `dir`, which is created: `tokenizer.json`, `tokenizer_config.json`,
/// `config.json`, and for SentencePiece `tokenizer.model`.
/// Fails if the format cannot express the tokenizer exactly, or a file is in the way.
pub fn export_tokenizer(gguf: &Gguf, dir: &Path) -> Result<Exported, Error> {
    let metadata = gguf.metadata();
    let tokenizer = Tokenizer::from_metadata(metadata)?;
    let vocabulary = Vocabulary { metadata, tokenizer: &tokenizer };
    let pretty = |value: Value| format!("{value:#}\n").into_bytes();
    let mut files = vec![
        ("tokenizer.json", tokenizer_json::text(&vocabulary)?),
        ("tokenizer_config.json", pretty(config::tokenizer_config(&vocabulary)?)),
        ("config.json", pretty(config::config(&vocabulary)?)),
    ];
    files.extend(sentencepiece::model(&vocabulary)?.map(|model| ("tokenizer.model", model)));
    std::fs::create_dir_all(dir).map_err(|source| Error::Write { path: dir.to_owned(), source })?;
    let mut targets = Vec::new();
    for (name, bytes) in files {
        let path = dir.join(name);
        targets.push((Target::new(&path, "file of a tokenizer", |path| is_one(path, name))?, path, bytes));
    }
    let mut written = Vec::new();
    for (target, path, bytes) in targets {
        let mut file = target.create()?;
        file.write_all(&bytes).map_err(|source| Error::Write { path: path.clone(), source })?;
        file.finish()?;
        written.push(path);
    }
    Ok(Exported { files: written, differences: differences(&vocabulary)? })
}

fn is_one(path: &Path, name: &str) -> bool {
    let Ok(bytes) = std::fs::read(path) else { return false };
    if name.ends_with(".json") {
        return serde_json::from_slice::<Value>(&bytes).is_ok_and(|value| value.is_object());
    }
    // The first piece of a model.
    bytes.starts_with(b"\n")
}

fn differences(vocabulary: &Vocabulary) -> Result<Vec<String>, Error> {
    let is_unigram = vocabulary.metadata.str("tokenizer.ggml.model")? == Some("t5");
    let strips = |token: Token| vocabulary.tokenizer.strips(token.id) != (false, false);
    let differences = [
        (
            is_unigram,
            "Of two ways to spell a text that have the same sum of scores, the package `tokenizers` takes the one that rounding \
             favours, this program the first.",
        ),
        (
            vocabulary.metadata.contains("tokenizer.ggml.precompiled_charsmap"),
            "The package `tokenizers` normalises each character together with its marks, SentencePiece and this program the \
             longest text that has a rule.",
        ),
        (
            is_unigram && unigram::has_lower_scores(vocabulary)?,
            "The package `tokenizers` avoids unknown characters at any price, because the vocabulary has an unused token with a \
             very low score.",
        ),
        (
            vocabulary.tokens().any(strips),
            "Beside some special tokens, the package `tokenizers` drops all white space of Unicode, this program that of ASCII.",
        ),
    ];
    Ok(differences.into_iter().filter(|(is_there, _)| *is_there).map(|(_, text)| text.to_owned()).collect())
}

struct Parts {
    normalizer: Value,
    pre_tokenizer: Value,
    decoder: Value,
    model: Value,
}

/// Steps, as one; `name` is that of their list.
fn sequence(name: &str, steps: impl IntoIterator<Item = Value>) -> Value {
    let steps: Vec<Value> = steps.into_iter().collect();
    json!({ "type": "Sequence", name: steps })
}

/// The decoders of texts in characters, with tokens for bytes.
fn byte_fallback() -> [Value; 3] {
    [replace("▁", " "), json!({ "type": "ByteFallback" }), json!({ "type": "Fuse" })]
}

fn replace(text: &str, content: &str) -> Value {
    json!({ "type": "Replace", "pattern": { "String": text }, "content": content })
}

fn replace_matches(pattern: &str, content: &str) -> Value {
    json!({ "type": "Replace", "pattern": { "Regex": pattern }, "content": content })
}

/// Makes what matches a regular expression a word.
fn isolate(pattern: &str) -> Value {
    json!({ "type": "Split", "pattern": { "Regex": pattern }, "behavior": "Isolated", "invert": false })
}
