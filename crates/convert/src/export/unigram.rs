//! Unigram.

use base64::Engine;
use gguf::Array;
use serde_json::{Value, json};
use tokenizer::Kind;

use super::vocabulary::Vocabulary;
use super::{Error, Parts, replace_matches, sequence};

pub(super) fn parts(vocabulary: &Vocabulary) -> Result<Parts, Error> {
    let Some(unknown) = vocabulary.tokenizer.special_ids().roles.get("unk").copied() else {
        return Err(vocabulary.inexpressible("no token stands for unknown characters".to_owned()));
    };
    let scores = vocabulary.scores()?;
    let used = vocabulary.used();
    let vocab: Vec<Value> = vocabulary
        .tokens()
        .take(used)
        .zip(&scores)
        .map(|(token, score)| json!([token.text, score]))
        .collect();
    let charsmap = charsmap(vocabulary)?.map(|bytes| base64::engine::general_purpose::STANDARD.encode(bytes));
    let mut normalizers = Vec::new();
    if let Some(charsmap) = &charsmap {
        normalizers.push(json!({ "type": "Precompiled", "precompiled_charsmap": charsmap }));
    }
    let adds_space = vocabulary.tokenizer.facts().add_space_prefix.value();
    if vocabulary.metadata.bool("tokenizer.ggml.remove_extra_whitespaces")?.unwrap_or(false) {
        normalizers.extend([
            replace_matches(r"\A +| +\z", ""),
            replace_matches(" +", "▁"),
            json!({ "type": "Prepend", "prepend": "▁" }),
        ]);
    } else {
        if adds_space {
            normalizers.push(json!({ "type": "Prepend", "prepend": "▁" }));
            // Not before spaces alone.
            normalizers.push(replace_matches(r"\A▁(?= *\z)", ""));
        }
        normalizers.push(replace_matches(" ", "▁"));
    }
    let mut normalizer = sequence("normalizers", normalizers);
    if let (Some(object), Some(charsmap)) = (normalizer.as_object_mut(), charsmap) {
        // Where llama.cpp's converter looks for it.
        object.insert("precompiled_charsmap".to_owned(), charsmap.into());
    }
    Ok(Parts {
        normalizer,
        pre_tokenizer: Value::Null,
        decoder: json!({ "type": "Metaspace", "replacement": "▁", "prepend_scheme": if adds_space { "always" } else { "never" }, "split": false }),
        model: json!({ "type": "Unigram", "unk_id": unknown, "vocab": vocab, "byte_fallback": false }),
    })
}

/// Whether a special or unused token has a lower score than all others: the package `tokenizers` gives unknown characters
/// an even lower one, llama.cpp counts normal tokens only.
pub(super) fn has_lower_scores(vocabulary: &Vocabulary) -> Result<bool, Error> {
    let scores = vocabulary.scores()?;
    let lowest = |only_normal: bool| {
        let tokens = vocabulary.tokens().take(vocabulary.used());
        let tokens = tokens.filter(|token| !only_normal || token.kind == Kind::Normal);
        tokens.filter_map(|token| scores.get(token.id as usize)).copied().fold(f32::MAX, f32::min)
    };
    Ok(lowest(false) < lowest(true))
}

fn charsmap(vocabulary: &Vocabulary) -> Result<Option<Vec<u8>>, Error> {
    Ok(match vocabulary.metadata.array("tokenizer.ggml.precompiled_charsmap")? {
        Some(Array::U8(bytes)) => Some(bytes.clone()),
        Some(Array::I8(bytes)) => Some(bytes.iter().map(|byte| byte.cast_unsigned()).collect()),
        _ => None,
    })
}
