//! Unigram, as XLM-RoBERTa has it (`_xlmroberta_set_vocab`).

use base64::Engine;
use gguf::Metadata;

use super::folder::{Folder, token_text};
use super::hf::HfTokenizer;
use super::sentencepiece::Model;
use super::special::Special;
use super::spm;
use super::tokenizer_json::{Normalizer, TokenizerJson, Vocab};
use super::vocabulary::{TokenType, Vocabulary};
use crate::error::{Error, invalid};

const MODEL: &str = "sentencepiece.bpe.model";

/// A vocabulary with the way in which SentencePiece normalises text.
struct Unigram {
    vocabulary: Vocabulary,
    adds_space: bool,
    removes_spaces: bool,
    charsmap: Vec<u8>,
}

pub(super) fn write(folder: &Folder, size: Option<usize>, metadata: &mut Metadata) -> Result<(), Error> {
    let unigram = match folder.bytes(MODEL)? {
        Some(bytes) => of_model(folder, &bytes, size)?,
        None => of_json(folder, size)?,
    };
    let size = unigram.vocabulary.len();
    unigram.vocabulary.write("t5", Some("default"), metadata);
    metadata.insert("tokenizer.ggml.add_space_prefix", unigram.adds_space);
    metadata.insert("tokenizer.ggml.remove_extra_whitespaces", unigram.removes_spaces);
    if !unigram.charsmap.is_empty() {
        metadata.insert("tokenizer.ggml.precompiled_charsmap", unigram.charsmap);
    }
    let json: Option<TokenizerJson> = folder.json("tokenizer.json")?;
    Special::load(folder, json.as_ref(), Some(size))?.write(metadata);
    Ok(())
}

/// Of a model of SentencePiece. `transformers` counts its tokens from another start.
fn of_model(folder: &Folder, bytes: &[u8], size: Option<usize>) -> Result<Unigram, Error> {
    const FIRST: [(&str, TokenType); 4] = [
        ("<s>", TokenType::Control),
        ("<pad>", TokenType::Control),
        ("</s>", TokenType::Control),
        ("<unk>", TokenType::Unknown),
    ];
    let path = folder.path(MODEL);
    let mut model = Model::read(&path, bytes)?;
    if !model.is_unigram {
        return Err(invalid(&path, "`model_type`", "another", "unigram"));
    }
    let charsmap = std::mem::take(&mut model.precompiled_charsmap);
    let (adds_space, removes_spaces) = (model.add_dummy_prefix, model.remove_extra_whitespaces);
    let size = size.unwrap_or(0).max(model.pieces.len());
    if size < FIRST.len() {
        return Err(invalid(&path, "the list of pieces", format!("{size} long"), "at least 4 pieces"));
    }
    let mut vocabulary = spm::of_model(&path, model, Some(size))?;
    // One more at the start, one less at the end.
    vocabulary.rotate();
    for (id, (text, kind)) in FIRST.into_iter().enumerate() {
        vocabulary.set(id, text.to_owned(), kind, 0.0);
    }
    Ok(Unigram { vocabulary, adds_space, removes_spaces, charsmap })
}

/// Of a `tokenizer.json`.
fn of_json(folder: &Folder, size: Option<usize>) -> Result<Unigram, Error> {
    let tokenizer = HfTokenizer::load(folder)?;
    let path = tokenizer.path.clone();
    let wrong = || invalid(&path, "`model.vocab`", "another", "tokens and scores of a unigram model");
    let json = &tokenizer.json;
    let Vocab::Scores(tokens) = &json.model.vocab else { return Err(wrong()) };
    let mut vocabulary = Vocabulary::unused(size.unwrap_or(0).max(tokens.len()));
    let stated = tokenizer.config.entries.get("unk_token").and_then(token_text);
    let unknown = stated.and_then(|text| tokenizer.added_id(text)).or(json.model.unk_id).unwrap_or(3);
    let added = tokenizer.added();
    let texts = tokenizer.texts();
    for (id, (text, score)) in (0u32..).zip(tokens) {
        let text = texts.get(&id).unwrap_or(text);
        let kind = match id {
            id if id == unknown => TokenType::Unknown,
            _ if tokenizer.has_role(text) => TokenType::Control,
            id if added.contains_key(&id) => TokenType::UserDefined,
            _ => TokenType::Normal,
        };
        // Within the precision of the file's own format.
        vocabulary.set(id as usize, text.clone(), kind, *score as f32);
    }
    let config = &tokenizer.config;
    let charsmap = json.normalizer.as_ref().and_then(Normalizer::charsmap).unwrap_or_default();
    let charsmap = base64::engine::general_purpose::STANDARD
        .decode(charsmap)
        .map_err(|error| invalid(&path, "`precompiled_charsmap`", error, "bytes in base 64"))?;
    Ok(Unigram {
        vocabulary,
        adds_space: config.add_prefix_space.unwrap_or(config.class() == Some("XLMRobertaTokenizer")),
        removes_spaces: config.clean_up_tokenization_spaces.unwrap_or(false),
        charsmap,
    })
}
