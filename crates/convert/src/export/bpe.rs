//! BPE of bytes and of characters.

use std::collections::{HashMap, HashSet};

use serde_json::{Value, json};
use tokenizer::{Kind, PreTokenizerRow};

use super::vocabulary::{Vocabulary, text_bytes};
use super::{Error, Parts, byte_fallback, isolate, replace, sequence};
use crate::splits;

pub(super) fn parts(vocabulary: &Vocabulary) -> Result<Parts, Error> {
    let name = vocabulary.tokenizer.facts().pre_tokenizer.as_deref().unwrap_or_default();
    let row = tokenizer::pre_tokenizer(name);
    let row =
        row.ok_or_else(|| vocabulary.inexpressible(format!("its pre-tokenizer is {}", gguf::quoted(name))))?;
    let ids = vocabulary.ids();
    let merges = merges(vocabulary, row, &ids)?;
    let model = json!({
        "type": "BPE",
        "dropout": null,
        "unk_token": null,
        "continuing_subword_prefix": null,
        "end_of_word_suffix": null,
        "fuse_unk": false,
        "byte_fallback": row.characters,
        "ignore_merges": row.whole_words,
        "vocab": ids,
        "merges": merges,
    });
    let splits = row.patterns.iter().map(|pattern| isolate(&splits::exported(pattern)));
    if row.characters {
        vocabulary.check_bytes(&ids)?;
        return Ok(Parts {
            normalizer: replace(" ", "▁"),
            pre_tokenizer: sequence("pretokenizers", splits),
            decoder: sequence("decoders", byte_fallback()),
            model,
        });
    }
    let bytes =
        json!({ "type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": false });
    let missing = missing_bytes(&ids);
    if !missing.is_empty() && row.whole_words {
        return Err(vocabulary.inexpressible(format!("there are no tokens for the bytes {missing:?}")));
    }
    // Bytes without a token are lost, and what is around them is not merged.
    let drop = json!({
        "type": "Split", "pattern": { "Regex": format!("[{missing}]") }, "behavior": "Removed", "invert": false,
    });
    let drop = Some(drop).filter(|_| !missing.is_empty());
    Ok(Parts {
        normalizer: Value::Null,
        pre_tokenizer: sequence("pretokenizers", splits.chain([bytes.clone()]).chain(drop)),
        decoder: bytes,
        model,
    })
}

/// The merges that can happen. Each must make a token of two tokens, which the library requires.
fn merges<'a>(
    vocabulary: &Vocabulary<'a>,
    row: &PreTokenizerRow,
    ids: &HashMap<&str, u32>,
) -> Result<Vec<[&'a str; 2]>, Error> {
    let missing = missing_bytes(ids);
    let possible: HashSet<char> = text_bytes().map(alphabet).filter(|c| !missing.contains(*c)).collect();
    let can_occur = |text: &str| row.characters || text.chars().all(|c| possible.contains(&c));
    let rules = vocabulary.metadata.strings("tokenizer.ggml.merges")?.unwrap_or_default();
    let (mut merges, mut known, mut result) =
        (Vec::with_capacity(rules.len()), HashSet::new(), String::new());
    for rule in rules {
        let Some((left, right)) = rule.split_once(' ') else { continue };
        if !can_occur(left) || !can_occur(right) || !known.insert((left, right)) {
            continue;
        }
        result.clear();
        result.extend([left, right]);
        for part in [left, right, &result] {
            let id = ids.get(part).ok_or_else(|| {
                let (part, rule) = (gguf::quoted(part), gguf::quoted(rule));
                vocabulary.inexpressible(format!("the merge {rule} needs {part}, which is not a token"))
            })?;
            // Text that spells such a token is searched for it before; other spellings would become it.
            let is_spelled = part.bytes().all(|byte| byte.is_ascii_graphic());
            if vocabulary.tokenizer.kind(*id).is_some_and(|kind| kind.is_special() || kind == Kind::Byte)
                && !is_spelled
            {
                let (part, rule) = (gguf::quoted(part), gguf::quoted(rule));
                return Err(
                    vocabulary.inexpressible(format!("the merge {rule} has the control token {part}"))
                );
            }
        }
        merges.push([left, right]);
    }
    Ok(merges)
}

/// The characters of bytes that have no token.
fn missing_bytes(ids: &HashMap<&str, u32>) -> String {
    let mut spelled = [0; 2];
    text_bytes().map(alphabet).filter(|c| !ids.contains_key(&*c.encode_utf8(&mut spelled))).collect()
}

/// The character for a byte in GPT-2's alphabet: itself if it is printable, else the next one from U+0100.
fn alphabet(byte: u8) -> char {
    match byte {
        0x21..=0x7e | 0xa1..=0xac | 0xae.. => char::from(byte),
        0..=0x20 => char::from_u32(0x100 + u32::from(byte)).unwrap_or_default(),
        0x7f..=0xa0 => char::from_u32(0x121 + u32::from(byte - 0x7f)).unwrap_or_default(),
        0xad => '\u{143}',
    }
}
