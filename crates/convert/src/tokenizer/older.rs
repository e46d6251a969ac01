//! Checkpoints without `tokenizer.json`: what it would be.

use gguf::quoted;
use indexmap::IndexMap;
use serde_json::{Value, json};

use super::folder::{Folder, TokenizerConfig};
use super::vocabulary::MAX_TOKENS;
use crate::error::{Error, invalid};
use crate::splits;

/// The `tokenizer.json` of a folder that has the files of an older tokenizer, and the name of that with the vocabulary.
pub(super) fn tokenizer_json(
    folder: &Folder,
    config: &TokenizerConfig,
) -> Result<(&'static str, Vec<u8>), Error> {
    let (name, json) = if folder.has("vocab.json") {
        ("vocab.json", byte_level(folder, config)?)
    } else if folder.has("vocab.txt") {
        ("vocab.txt", word_piece(folder, config)?)
    } else {
        let expected = "tokenizer.json, or vocab.json and merges.txt, or vocab.txt";
        return Err(folder.missing(expected));
    };
    Ok((name, json.to_string().into_bytes()))
}

/// `vocab.json` and `merges.txt`: GPT-2's tokenizer, with the splits of Qwen 2 for its class.
fn byte_level(folder: &Folder, config: &TokenizerConfig) -> Result<Value, Error> {
    let vocab: IndexMap<String, u32> = folder.json("vocab.json")?.unwrap_or_default();
    let merges = merges(folder)?;
    if merges.is_empty() {
        return Err(folder.missing("merges.txt beside vocab.json"));
    }
    let adds_space = config.add_prefix_space.unwrap_or(false);
    let is_qwen = config.class() == Some("Qwen2Tokenizer");
    let bytes = json!({
        "type": "ByteLevel", "add_prefix_space": adds_space, "trim_offsets": true, "use_regex": !is_qwen,
    });
    let qwen = tokenizer::pre_tokenizer("qwen2").map(|row| splits::exported(&row.patterns.concat()));
    let split =
        json!({ "type": "Split", "pattern": { "Regex": qwen }, "behavior": "Isolated", "invert": false });
    let pre_tokenizers = if is_qwen { vec![split, bytes.clone()] } else { vec![bytes.clone()] };
    Ok(json!({
        "normalizer": is_qwen.then(|| json!({ "type": "NFC" })),
        "pre_tokenizer": { "type": "Sequence", "pretokenizers": pre_tokenizers },
        "decoder": bytes,
        "model": { "type": "BPE", "vocab": vocab, "merges": merges },
    }))
}

pub(super) fn merges(folder: &Folder) -> Result<Vec<String>, Error> {
    const NAME: &str = "merges.txt";
    let text = folder.text(NAME)?.unwrap_or_default();
    let mut merges = Vec::new();
    for (index, line) in text.lines().enumerate() {
        if index == 0 && line.starts_with('#') || line.trim().is_empty() {
            continue;
        }
        let mut parts = line.split_whitespace();
        match (parts.next(), parts.next(), parts.next()) {
            (Some(left), Some(right), None) => merges.push(format!("{left} {right}")),
            _ => {
                let path = folder.path(NAME);
                tracing::warn!("{}, line {}: not a merge; it is ignored", path.display(), index + 1);
            }
        }
        if merges.len() > MAX_TOKENS {
            let expected = format!("at most {MAX_TOKENS} merges");
            return Err(invalid(&folder.path(NAME), "the list", "longer", expected));
        }
    }
    Ok(merges)
}

/// `vocab.txt`: BERT's tokenizer.
fn word_piece(folder: &Folder, config: &TokenizerConfig) -> Result<Value, Error> {
    let path = folder.path("vocab.txt");
    let text = folder.text("vocab.txt")?.unwrap_or_default();
    let mut vocab = IndexMap::new();
    for (line, id) in text.lines().zip(0u32..) {
        if id as usize == MAX_TOKENS {
            return Err(invalid(&path, "the list", "longer", format!("at most {MAX_TOKENS} tokens")));
        }
        if vocab.insert(line, id).is_some() {
            let place = format!("line {}", u64::from(id) + 1);
            return Err(invalid(&path, place, format!("a second {}", quoted(line)), "different tokens"));
        }
    }
    let [sep, cls] = ["[SEP]", "[CLS]"].map(|text| vocab.get(text).map(|id| json!([text, id])));
    let flag = |name: &str, default| config.entries.get(name).and_then(Value::as_bool).or(default);
    Ok(json!({
        "normalizer": {
            "type": "BertNormalizer",
            "clean_text": true,
            "handle_chinese_chars": flag("tokenize_chinese_chars", Some(true)),
            "strip_accents": flag("strip_accents", None),
            "lowercase": flag("do_lower_case", Some(true)),
        },
        "pre_tokenizer": { "type": "BertPreTokenizer" },
        "post_processor": sep.zip(cls).map(|(sep, cls)| json!({ "type": "BertProcessing", "sep": sep, "cls": cls })),
        "decoder": { "type": "WordPiece", "prefix": "##", "cleanup": true },
        "model": {
            "type": "WordPiece", "vocab": vocab, "unk_token": "[UNK]",
            "continuing_subword_prefix": "##", "max_input_chars_per_word": 100,
        },
    }))
}
