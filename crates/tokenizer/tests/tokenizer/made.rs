//! Small vocabularies made by hand.

use gguf::{Array, Metadata, Value};

pub(crate) const NORMAL: i32 = 1;
pub(crate) const UNKNOWN: i32 = 2;
pub(crate) const CONTROL: i32 = 3;
pub(crate) const USER_DEFINED: i32 = 4;
pub(crate) const BYTE: i32 = 6;

fn with_tokens(model: &str, tokens: &[(String, i32)]) -> Metadata {
    let mut metadata = Metadata::default();
    metadata.insert("tokenizer.ggml.model", Value::String(model.into()));
    let texts = tokens.iter().map(|(text, _)| text.clone()).collect();
    metadata.insert("tokenizer.ggml.tokens", Value::Array(Array::String(texts)));
    let kinds = tokens.iter().map(|&(_, kind)| kind).collect();
    metadata.insert("tokenizer.ggml.token_type", Value::Array(Array::I32(kinds)));
    metadata
}

/// Ids: unknown 0, BOS 1, EOS 2, bytes 3 to 258, then `more` with its scores.
pub(crate) fn spm(more: &[(&str, f32, i32)]) -> Metadata {
    let mut tokens =
        vec![("<unk>".to_owned(), UNKNOWN), ("<s>".to_owned(), CONTROL), ("</s>".to_owned(), CONTROL)];
    tokens.extend((0..256).map(|byte| (format!("<0x{byte:02X}>"), BYTE)));
    let mut scores = vec![0.0; tokens.len()];
    for &(text, score, kind) in more {
        tokens.push((text.to_owned(), kind));
        scores.push(score);
    }
    let mut metadata = with_tokens("llama", &tokens);
    metadata.insert("tokenizer.ggml.scores", Value::Array(Array::F32(scores)));
    metadata
}

/// `model` is `bert` or `t5`. Ids: padding 0, EOS 1, unknown 2, then `more` with its scores.
pub(crate) fn pieces(model: &str, more: &[(&str, f32, i32)]) -> Metadata {
    let first = [("<pad>", 0.0, CONTROL), ("</s>", 0.0, CONTROL), ("<unk>", 0.0, UNKNOWN)];
    let all = first.iter().chain(more);
    let tokens: Vec<_> = all.clone().map(|&(text, _, kind)| (text.to_owned(), kind)).collect();
    let mut metadata = with_tokens(model, &tokens);
    let scores = all.map(|&(_, score, _)| score).collect();
    metadata.insert("tokenizer.ggml.scores", Value::Array(Array::F32(scores)));
    metadata.insert("tokenizer.ggml.unknown_token_id", Value::U32(2));
    metadata
}

/// BPE of characters. Ids: `<0x00>` to `<0xFF>`, then what each merge makes, then `more`.
pub(crate) fn gemma4(merges: &[&str], more: &[(&str, i32)]) -> Metadata {
    let mut tokens: Vec<_> = (0..256).map(|byte| (format!("<0x{byte:02X}>"), BYTE)).collect();
    tokens.extend(merges.iter().map(|rule| (rule.replace(' ', ""), NORMAL)));
    tokens.extend(more.iter().map(|&(text, kind)| (text.to_owned(), kind)));
    let mut metadata = with_tokens("gemma4", &tokens);
    let merges = merges.iter().map(|&rule| rule.to_owned()).collect();
    metadata.insert("tokenizer.ggml.merges", Value::Array(Array::String(merges)));
    metadata
}

/// Ids: bytes 0 to 255, then what each merge makes, then `more`.
pub(crate) fn bpe(pre: &str, merges: &[&str], more: &[(&str, i32)]) -> Metadata {
    let printable = |byte: &u32| matches!(byte, 0x21..=0x7e | 0xa1..=0xac | 0xae..=0xff);
    let mut others = 256..;
    let alphabet =
        (0..256u32).map(|byte| if printable(&byte) { byte } else { others.next().expect("endless") });
    let mut tokens: Vec<_> =
        alphabet.map(|c| (char::from_u32(c).expect("Latin").to_string(), NORMAL)).collect();
    tokens.extend(merges.iter().map(|rule| (rule.replace(' ', ""), NORMAL)));
    tokens.extend(more.iter().map(|&(text, kind)| (text.to_owned(), kind)));
    let mut metadata = with_tokens("gpt2", &tokens);
    metadata.insert("tokenizer.ggml.pre", Value::String(pre.into()));
    let merges = merges.iter().map(|&rule| rule.to_owned()).collect();
    metadata.insert("tokenizer.ggml.merges", Value::Array(Array::String(merges)));
    metadata
}
