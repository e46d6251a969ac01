//! BPE of bytes and of characters, and WordPiece.

use gguf::{Metadata, quoted};
use serde::Deserialize;
use serde_json::Value;
use tokenizers::AddedToken;

use super::folder::Folder;
use super::hf::HfTokenizer;
use super::pre;
use super::special::Special;
use super::vocabulary::{MAX_TOKENS, TokenType, Vocabulary, looks_special, padding};
use crate::error::{Error, invalid};

/// Default special tokens: a role, such as `bos`, and the text of its token in `tokenizer.json`. A file may name another token.
pub(super) type Roles = &'static [(&'static str, &'static str)];

/// Writes the keys of a BPE (`_set_vocab_gpt2`); without `pre_tokenizer`, it is found, and without `size` the files have it.
pub(super) fn write(
    folder: &Folder,
    pre_tokenizer: Option<&str>,
    size: Option<usize>,
    roles: Roles,
    metadata: &mut Metadata,
) -> Result<(), Error> {
    let mut tokenizer = HfTokenizer::load(folder)?;
    let path = tokenizer.path.clone();
    let merges = tokenizer.merges(folder)?;
    if let Some(found) = tokenizer.json.model.r#type.as_deref().filter(|found| *found != "BPE") {
        return Err(invalid(&path, "`model.type`", quoted(found), "`BPE` for this architecture"));
    }
    let pre = pre::name(&tokenizer, pre_tokenizer)?;
    vocabulary(&tokenizer, size)?.write("gpt2", Some(&pre), metadata);
    let mut special = Special::load(folder, tokenizer.file(), None)?;
    special.merges = merges;
    for (role, text) in roles {
        let (place, expected) = ("the list of added tokens", "the tokens of this architecture");
        let missing = || invalid(&path, place, format!("without {text}"), expected);
        special.set(role, tokenizer.added_id(text).ok_or_else(missing)?);
    }
    special.write(metadata);
    Ok(())
}

/// Writes the keys of a BERT (`BertModel.set_vocab`).
pub(super) fn write_word_piece(
    folder: &Folder,
    pre_tokenizer: Option<&str>,
    size: Option<usize>,
    metadata: &mut Metadata,
) -> Result<(), Error> {
    let tokenizer = HfTokenizer::load(folder)?;
    let pre = match pre::name(&tokenizer, pre_tokenizer) {
        // WordPiece always splits in the same way, whatever the key says.
        Err(Error::PreTokenizer { .. }) => "default".to_owned(),
        other => other?,
    };
    let mut vocabulary = vocabulary(&tokenizer, size)?;
    for (text, kind) in vocabulary.texts.iter_mut().zip(&vocabulary.types) {
        if *kind != TokenType::Control {
            *text = match text.strip_prefix("##") {
                Some(inside) => inside.to_owned(),
                None => format!("▁{text}"),
            };
        }
    }
    let size = vocabulary.len();
    vocabulary.write("bert", Some(&pre), metadata);
    Special::load(folder, tokenizer.file(), Some(size))?.write(metadata);
    if tokenizer.file().is_none() && tokenizer.config.entries.get("do_lower_case") == Some(&false.into()) {
        // llama.cpp's converter does not say so, and llama.cpp lower-cases unless it is said.
        metadata.insert("tokenizer.ggml.normalizer.lowercase", false);
    }
    Ok(())
}

/// Writes the keys of Gemma 4 (`Gemma4Model.set_vocab`).
pub(super) fn write_gemma4(folder: &Folder, config: &Value, metadata: &mut Metadata) -> Result<(), Error> {
    /// Always visible, so that what follows can be read from the text.
    const VISIBLE: &str =
        r#"<|channel> <channel|> <|tool_call> <tool_call|> <|tool_response> <tool_response|> <|"|>"#;
    let mut tokenizer = HfTokenizer::load(folder)?;
    let merges = tokenizer.merges(folder)?;
    let mut vocabulary = super::spm::byte_fallback_vocabulary(&tokenizer)?.ok_or_else(|| {
        invalid(&tokenizer.path, "the tokenizer", "another", "a BPE of characters with byte fallback")
    })?;
    for (text, kind) in vocabulary.texts.iter().zip(&mut vocabulary.types) {
        if VISIBLE.split(' ').any(|visible| visible == text) {
            *kind = TokenType::UserDefined;
        }
    }
    vocabulary.write("gemma4", None, metadata);
    let mut special = Special::load(folder, tokenizer.file(), None)?;
    special.merges = merges;
    special.write(metadata);
    metadata.insert("tokenizer.ggml.add_space_prefix", false);
    metadata.insert("tokenizer.ggml.add_bos_token", true);
    let class = config.pointer("/architectures/0").and_then(Value::as_str);
    if class == Some("Gemma4UnifiedForConditionalGeneration") {
        #[derive(Default, Deserialize)]
        struct Generation {
            suppress_tokens: Option<Vec<i32>>,
        }
        let generation: Generation = folder.json("generation_config.json")?.unwrap_or_default();
        if let Some(tokens) = generation.suppress_tokens.filter(|tokens| !tokens.is_empty()) {
            metadata.insert("tokenizer.ggml.suppress_tokens", tokens);
        }
    }
    Ok(())
}

/// The vocabulary with the types of added tokens (`get_vocab_base`).
fn vocabulary(tokenizer: &HfTokenizer, size: Option<usize>) -> Result<Vocabulary, Error> {
    let mut texts = tokenizer.texts();
    let added = tokenizer.added();
    let size = size.unwrap_or(texts.len());
    if size > MAX_TOKENS {
        return Err(invalid(&tokenizer.path, "`vocab_size`", size, format!("at most {MAX_TOKENS}")));
    }
    if let Some((id, text)) = texts.last_key_value().filter(|(id, _)| **id as usize >= size) {
        let place = format!("the id of {}", quoted(text));
        return Err(invalid(&tokenizer.path, place, id, format!("an id below {size}, the `vocab_size`")));
    }
    let mut vocabulary = Vocabulary::default();
    for id in 0..size {
        let key = u32::try_from(id).unwrap_or(u32::MAX);
        match (texts.remove(&key), added.get(&key)) {
            (None, _) => vocabulary.push(padding(id), TokenType::Unused),
            (Some(text), None) => vocabulary.push(text, TokenType::Normal),
            (Some(text), Some(added)) => {
                let (text, kind) = added_token(tokenizer, text, added)?;
                vocabulary.push(text, kind);
            }
        }
    }
    Ok(vocabulary)
}

/// Text and type of an added token. llama.cpp looks for the text as it is, so it is written as text has it.
fn added_token(
    tokenizer: &HfTokenizer,
    text: String,
    added: &AddedToken,
) -> Result<(String, TokenType), Error> {
    let text = if added.normalized { text } else { tokenizer.respell(&text)? };
    if added.special || looks_special(&text) {
        Ok((text, TokenType::Control))
    } else {
        Ok((text.replace('▁', " "), TokenType::UserDefined))
    }
}
