//! SentencePiece's BPE, which merges by scores.

use std::path::Path;

use gguf::{Metadata, quoted};

use super::folder::Folder;
use super::hf::HfTokenizer;
use super::sentencepiece::Model;
use super::special::Special;
use super::tokenizer_json::TokenizerJson;
use super::vocabulary::{MAX_TOKENS, TokenType, Vocabulary, looks_special};
use crate::error::{Error, invalid};

pub(super) const MODEL: &str = "tokenizer.model";

/// The score of added tokens.
const ADDED: f32 = -1000.0;

/// Writes the keys of `tokenizer.model`; false if there is none (`_set_vocab_sentencepiece`).
pub(super) fn write(folder: &Folder, size: Option<usize>, metadata: &mut Metadata) -> Result<bool, Error> {
    let Some(mut vocabulary) = pieces(folder, size.filter(|&size| size > 0))? else { return Ok(false) };
    let config = folder.tokenizer_config()?;
    for (id, added) in config.added(folder)? {
        let is_control = added.special.unwrap_or(false) || looks_special(&added.content);
        let (text, kind) = if is_control {
            (added.content.clone(), TokenType::Control)
        } else {
            (added.content.replace('▁', " "), TokenType::UserDefined)
        };
        add(&mut vocabulary, id, text, kind);
    }
    finish(folder, vocabulary, metadata)?;
    Ok(true)
}

/// The vocabulary of `tokenizer.model` and `added_tokens.json`.
fn pieces(folder: &Folder, size: Option<usize>) -> Result<Option<Vocabulary>, Error> {
    let Some(bytes) = folder.bytes(MODEL)? else { return Ok(None) };
    let path = folder.path(MODEL);
    let mut vocabulary = of_model(&path, Model::read(&path, &bytes)?, size)?;
    for (text, id) in folder.added_tokens()? {
        add(&mut vocabulary, id, text, TokenType::UserDefined);
    }
    Ok(Some(vocabulary))
}

/// Writes the keys of Phi 3, whose added tokens are in all files (`Phi3MiniModel.set_vocab`).
pub(super) fn write_phi3(folder: &Folder, size: Option<usize>, metadata: &mut Metadata) -> Result<(), Error> {
    let mut vocabulary = pieces(folder, size)?.ok_or_else(|| folder.missing(MODEL))?;
    let kind = |special| if special { TokenType::Control } else { TokenType::UserDefined };
    let config = folder.tokenizer_config()?;
    for (id, added) in config.added(folder)? {
        add(&mut vocabulary, id, added.content.clone(), kind(added.special.unwrap_or(false)));
    }
    let json: Option<TokenizerJson> = folder.json("tokenizer.json")?;
    for added in json.iter().flat_map(|json| &json.added_tokens) {
        add(&mut vocabulary, added.id, added.content.clone(), kind(added.special));
    }
    finish(folder, vocabulary, metadata)
}

/// Writes the keys of a `tokenizer.json` with byte fallback; false if it is of another kind
/// (`_set_vocab_llama_hf`).
pub(super) fn write_byte_fallback(folder: &Folder, metadata: &mut Metadata) -> Result<bool, Error> {
    let Some(json) = folder.json::<TokenizerJson>("tokenizer.json")? else { return Ok(false) };
    if !has_byte_fallback(&json) {
        return Ok(false);
    }
    drop(json);
    let tokenizer = HfTokenizer::load(folder)?;
    let Some(vocabulary) = byte_fallback_vocabulary(&tokenizer)? else { return Ok(false) };
    finish(folder, vocabulary, metadata)?;
    Ok(true)
}

fn has_byte_fallback(json: &TokenizerJson) -> bool {
    let decodes_in_steps = json.decoder.as_ref().is_some_and(|decoder| decoder.r#type == "Sequence");
    json.model.is("BPE") && json.model.byte_fallback == Some(true) && decodes_in_steps
}

/// The vocabulary of a BPE of characters with byte fallback, if it is one (`LlamaHfVocab`). Scores are unknown.
pub(super) fn byte_fallback_vocabulary(tokenizer: &HfTokenizer) -> Result<Option<Vocabulary>, Error> {
    if !has_byte_fallback(&tokenizer.json) {
        return Ok(None);
    }
    let mut vocabulary = Vocabulary::default();
    let base = tokenizer.base_size();
    for (expected, (id, text)) in (0u32..).zip(tokenizer.texts()) {
        if id != expected {
            let place = format!("the id before that of {}", quoted(&text));
            return Err(invalid(&tokenizer.path, place, "unused", "ids without gaps"));
        }
        let kind = if tokenizer.has_role(&text) {
            if (id as usize) < base && is_byte(&text) { TokenType::Byte } else { TokenType::Control }
        } else if (id as usize) >= base {
            TokenType::UserDefined
        } else if is_byte(&text) {
            TokenType::Byte
        } else {
            TokenType::Normal
        };
        vocabulary.push(text, kind);
    }
    vocabulary.scores = Some(vec![ADDED; vocabulary.len()]);
    Ok(Some(vocabulary))
}

/// Whether a token is a byte, such as `<0x0A>`.
fn is_byte(text: &str) -> bool {
    let digits = text.strip_prefix("<0x").and_then(|rest| rest.strip_suffix('>'));
    digits.is_some_and(|digits| digits.len() == 2 && digits.bytes().all(|digit| digit.is_ascii_hexdigit()))
}

/// The pieces of a model, and unused tokens up to `size`.
pub(super) fn of_model(path: &Path, model: Model, size: Option<usize>) -> Result<Vocabulary, Error> {
    let size = size.unwrap_or(model.pieces.len());
    if size > MAX_TOKENS {
        return Err(invalid(path, "`vocab_size` of config.json", size, format!("at most {MAX_TOKENS}")));
    }
    let mut vocabulary = Vocabulary::unused(size);
    if model.pieces.len() > size {
        let (path, pieces) = (path.display(), model.pieces.len());
        tracing::warn!(
            "{path} has {pieces} pieces, but the model has {size} tokens; the last pieces are ignored"
        );
    }
    for (id, piece) in model.pieces.into_iter().take(size).enumerate() {
        vocabulary.set(id, piece.text, piece.kind, piece.score);
    }
    Ok(vocabulary)
}

/// Replaces a token by an added one.
fn add(vocabulary: &mut Vocabulary, id: u32, text: String, kind: TokenType) {
    let size = vocabulary.len();
    match usize::try_from(id).ok().filter(|&id| id < size) {
        Some(id) => vocabulary.set(id, text, kind, ADDED),
        None => {
            tracing::warn!("the added token {id} is outside the vocabulary of {size} tokens; it is ignored")
        }
    }
}

fn finish(folder: &Folder, vocabulary: Vocabulary, metadata: &mut Metadata) -> Result<(), Error> {
    let size = vocabulary.len();
    vocabulary.write("llama", Some("default"), metadata);
    let json: Option<TokenizerJson> = folder.json("tokenizer.json")?;
    Special::load(folder, json.as_ref(), Some(size))?.write(metadata);
    Ok(())
}
