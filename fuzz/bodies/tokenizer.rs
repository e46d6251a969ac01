//! What the fuzz target `tokenizer` does with bytes, and a test of the tokenizer crate with many of them.

use gguf::{Array, Metadata, Value};
use tokenizer::{Encode, Tokenizer};

const PRE_TOKENIZERS: [&str; 9] =
    ["gpt-2", "llama-bpe", "qwen2", "deepseek-coder", "none such", "afmoe", "superbpe", "jais-2", "tiny_aya"];

/// A vocabulary and a text: four bytes that choose, then strings separated by zeros. The first is the text, the
/// others are tokens or, with a space in them, merges.
pub(crate) fn tokenize(data: &[u8]) {
    let Some((&[kind, pre, kinds, scores], data)) = data.split_first_chunk() else { return };
    let data = String::from_utf8_lossy(data);
    let mut strings = data.split('\0');
    let text = strings.next().unwrap_or_default();
    let (mut tokens, mut merges) = (bytes(kind), Vec::new());
    let made = tokens.len();
    for string in strings {
        if string.contains(' ') { merges.push(string.to_owned()) } else { tokens.push(string.to_owned()) }
    }
    let plain = kinds == 0;
    let kind_of = |index: usize| match index {
        index if index < made => {
            if kind & 1 == 0 {
                6
            } else {
                1
            }
        }
        _ if plain => 1,
        index => (index as i32).wrapping_mul(i32::from(kinds)) % 8,
    };
    let score_of = |index: usize| (index as f32 * f32::from(scores)).sin();

    let mut metadata = Metadata::default();
    let model = match kind >> 2 & 3 {
        0 if kind & 1 == 0 => "llama",
        0 => "gpt2",
        1 => "bert",
        2 => "t5",
        _ => "gemma4",
    };
    if model == "t5" {
        let charsmap = text.as_bytes().iter().rev().copied().collect();
        metadata.insert("tokenizer.ggml.precompiled_charsmap", Value::Array(Array::U8(charsmap)));
    }
    let pre = PRE_TOKENIZERS[usize::from(pre) % PRE_TOKENIZERS.len()];
    metadata.insert("tokenizer.ggml.model", Value::String(model.into()));
    metadata.insert("tokenizer.ggml.pre", Value::String(pre.into()));
    let numbers = 0..tokens.len();
    metadata.insert(
        "tokenizer.ggml.token_type",
        Value::Array(Array::I32(numbers.clone().map(kind_of).collect())),
    );
    metadata.insert("tokenizer.ggml.scores", Value::Array(Array::F32(numbers.map(score_of).collect())));
    metadata.insert("tokenizer.ggml.tokens", Value::Array(Array::String(tokens)));
    metadata.insert("tokenizer.ggml.merges", Value::Array(Array::String(merges)));

    let tokenizer = match Tokenizer::from_metadata(&metadata) {
        Ok(tokenizer) => tokenizer,
        Err(error) => return assert!(!error.to_string().is_empty()),
    };
    for (add_special, parse_special) in [(false, false), (true, false), (false, true), (true, true)] {
        let ids = tokenizer.encode(text, Encode { add_special, parse_special });
        assert!(ids.iter().all(|&id| (id as usize) < tokenizer.vocab_size()));
        let decoded = tokenizer.decode(&ids);
        // With a token for each byte nothing is lost.
        if plain && model == "gpt2" && kind & 2 == 0 && !add_special {
            assert_eq!(decoded, text, "{ids:?}");
        }
    }
}

/// A token for each byte, unless `kind` says that there are none.
fn bytes(kind: u8) -> Vec<String> {
    let printable = |byte: &u32| matches!(byte, 0x21..=0x7e | 0xa1..=0xac | 0xae..=0xff);
    let mut others = 256..;
    let mut letter =
        |byte: u32| char::from_u32(if printable(&byte) { byte } else { others.next().unwrap_or(0) });
    match kind & 3 {
        0 => (0..256).map(|byte| format!("<0x{byte:02X}>")).collect(),
        1 => (0..256).filter_map(|byte| letter(byte).map(String::from)).collect(),
        _ => Vec::new(),
    }
}
