//! The tokenizer of a checkpoint, as metadata of a GGUF file.
//!
//! Keys and values are those of llama.cpp's converter.

mod bpe;
mod folder;
mod hf;
mod older;
mod pre;
mod sentencepiece;
mod special;
mod spm;
mod template;
mod tokenizer_json;
mod unigram;
mod vocabulary;

use std::path::Path;

use gguf::Metadata;
use serde_json::Value;

use crate::error::{Error, invalid};
use bpe::Roles;
use folder::Folder;
use tokenizer_json::TokenizerJson;
pub(crate) use vocabulary::padding;

/// The way in which the tokenizer of a class of models becomes metadata: `set_vocab` of llama.cpp's converter.
/// `crates/convert/src/families` says which class has which.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// BPE.
    Bpe,
    /// BPE with a vocabulary whose size is a multiple of this.
    PaddedBpe(u32),
    /// SentencePiece if there is a `tokenizer.model`, else BPE.
    SentencePieceOrBpe,
    /// SentencePiece from `tokenizer.model` or from a `tokenizer.json` with byte fallback, else BPE.
    Llama,
    /// SentencePiece if there is a `tokenizer.model`, else BPE; `pad_vocab_size_multiple` is this unless the
    /// configuration has it.
    Mamba2(u32),
    /// SentencePiece, no space before text.
    Gemma2,
    /// SentencePiece without a space before text if there is a `tokenizer.model`, else BPE.
    Gemma3,
    /// BPE of characters.
    Gemma4,
    /// SentencePiece.
    Ernie,
    /// SentencePiece with the added tokens of all files, or BPE if the tokenizer's class is GPT-2's.
    Phi3,
    /// BPE; BOS, EOS and UNK are `<|endoftext|>`, `<|user|>` ends a turn.
    Glm4,
    /// BPE; BOS is `[gMASK]`, `<|user|>` and `<|observation|>` end a turn or message.
    Glm4Moe,
    /// BPE; BOS is 127959.
    HunyuanMoe,
    /// BPE; BOS, EOS and SEP are added.
    ModernBert,
    /// WordPiece.
    WordPiece,
    /// BPE if there is a `tokenizer.json`, else WordPiece.
    Roberta,
    /// Unigram, of `sentencepiece.bpe.model` or `tokenizer.json`.
    Unigram,
    /// Unigram or WordPiece, whichever `tokenizer.json` has.
    NomicBert,
    /// WordPiece or BPE, by the tokenizer's class.
    JinaBertV2,
}

const ADD_SPACE: &str = "tokenizer.ggml.add_space_prefix";

/// Reads the tokenizer of the checkpoint in `folder`: the keys `tokenizer.*`.
///
/// `config` is `config.json` merged with its `text_config`. `pre_tokenizer` names the pre-tokenizer of a BPE; otherwise it
/// is found.
pub fn read(
    folder: &Path,
    kind: Kind,
    config: &Value,
    pre_tokenizer: Option<&str>,
) -> Result<Metadata, Error> {
    let folder = &Folder(folder);
    let mut metadata = Metadata::default();
    let size = vocab_size(folder, kind, config)?;
    let bpe =
        |roles: Roles, metadata: &mut Metadata| bpe::write(folder, pre_tokenizer, size, roles, metadata);
    let out = &mut metadata;
    match kind {
        Kind::Bpe | Kind::PaddedBpe(_) => bpe(&[], out)?,
        Kind::SentencePieceOrBpe | Kind::Mamba2(_) => {
            if !spm::write(folder, size, out)? {
                bpe(&[], out)?;
            }
        }
        Kind::Llama => {
            if folder.has("tekken.json") && !folder.has("tokenizer.json") {
                let why =
                    "tokenizers of Mistral's own format are not supported, expected tokenizer.json beside it";
                return Err(Error::invalid(folder.path("tekken.json"), why));
            }
            if let Some(adds) = folder.tokenizer_config()?.add_prefix_space {
                out.insert(ADD_SPACE, adds);
            }
            if !spm::write(folder, size, out)? && !spm::write_byte_fallback(folder, out)? {
                bpe(&[], out)?;
            }
            match size.unwrap_or(32000) {
                // Code Llama.
                32016 => drop(out.insert("tokenizer.ggml.eot_token_id", 32010u32)),
                // Granite.
                49152 => drop(out.insert("tokenizer.ggml.add_bos_token", false)),
                _ => {}
            }
        }
        Kind::Gemma2 => {
            sentencepiece(folder, size, out)?;
            out.insert(ADD_SPACE, false);
        }
        Kind::Gemma3 => {
            if spm::write(folder, size, out)? {
                out.insert(ADD_SPACE, false);
            } else {
                bpe(&[], out)?;
            }
        }
        Kind::Gemma4 => bpe::write_gemma4(folder, config, out)?,
        Kind::Ernie => {
            sentencepiece(folder, size, out)?;
            if let Some(adds) = folder.tokenizer_config()?.add_prefix_space {
                out.insert(ADD_SPACE, adds);
            }
        }
        Kind::Phi3 => {
            if folder.tokenizer_config()?.tokenizer_class.as_deref() == Some("GPT2Tokenizer") {
                bpe(&[], out)?;
            } else {
                spm::write_phi3(folder, size, out)?;
            }
        }
        Kind::Glm4 => bpe(
            &[
                ("eos", "<|endoftext|>"),
                ("eot", "<|user|>"),
                ("unk", "<|endoftext|>"),
                ("bos", "<|endoftext|>"),
            ],
            out,
        )?,
        Kind::Glm4Moe => bpe(
            &[("bos", "[gMASK]"), ("eot", "<|user|>"), ("unk", "<|endoftext|>"), ("eom", "<|observation|>")],
            out,
        )?,
        Kind::HunyuanMoe => {
            bpe(&[], out)?;
            out.insert("tokenizer.ggml.bos_token_id", 127_959u32);
        }
        Kind::ModernBert => {
            for role in ["bos", "eos", "sep"] {
                out.insert(format!("tokenizer.ggml.add_{role}_token"), true);
            }
            bpe(&[], out)?;
        }
        Kind::WordPiece => bpe::write_word_piece(folder, pre_tokenizer, size, out)?,
        Kind::Roberta => {
            if folder.has("tokenizer.json") {
                bpe(&[], out)?;
            } else {
                bpe::write_word_piece(folder, pre_tokenizer, size, out)?;
            }
        }
        Kind::Unigram => unigram::write(folder, size, out)?,
        Kind::NomicBert => {
            let json: Option<TokenizerJson> = folder.json("tokenizer.json")?;
            let missing = || folder.missing("tokenizer.json");
            if json.ok_or_else(missing)?.model.is("Unigram") {
                unigram::write(folder, size, out)?;
            } else {
                bpe::write_word_piece(folder, pre_tokenizer, size, out)?;
            }
        }
        Kind::JinaBertV2 => match folder.tokenizer_config()?.class() {
            Some("BertTokenizer") => bpe::write_word_piece(folder, pre_tokenizer, size, out)?,
            _ => bpe(&[], out)?,
        },
    }
    Ok(metadata)
}

/// Writes the keys of a SentencePiece model, which must be there.
fn sentencepiece(folder: &Folder, size: Option<usize>, metadata: &mut Metadata) -> Result<(), Error> {
    if spm::write(folder, size, metadata)? {
        return Ok(());
    }
    Err(folder.missing(spm::MODEL))
}

/// The size of the vocabulary: that of the configuration, rounded up where the kind does.
fn vocab_size(folder: &Folder, kind: Kind, config: &Value) -> Result<Option<usize>, Error> {
    let count = |key: &str| match config.get(key) {
        None | Some(Value::Null) => Ok(None),
        Some(value) => match value.as_u64().and_then(|count| usize::try_from(count).ok()) {
            Some(count) if count <= vocabulary::MAX_TOKENS => Ok(Some(count)),
            _ => {
                let (place, found) = (format!("`{key}`"), format!("{value:.40}"));
                let expected = format!("a number from 0 to {}", vocabulary::MAX_TOKENS);
                Err(invalid(&folder.path("config.json"), place, found, expected))
            }
        },
    };
    let multiple = match kind {
        Kind::PaddedBpe(multiple) => multiple as usize,
        Kind::Mamba2(multiple) => count("pad_vocab_size_multiple")?.unwrap_or(multiple as usize),
        _ => 1,
    };
    Ok(count("vocab_size")?.map(|size| size.next_multiple_of(multiple.max(1))))
}
