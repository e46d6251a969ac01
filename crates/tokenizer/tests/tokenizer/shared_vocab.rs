//! Real vocabularies: the expected ids of llama.cpp's own test data.

use std::collections::BTreeMap;
use std::path::Path;

use tokenizer::{Encode, Tokenizer};

fn metadata(path: &Path) -> gguf::Metadata {
    gguf::Gguf::open(path).unwrap_or_else(|error| panic!("{}: {error}", path.display())).metadata().clone()
}

/// The `.inp` and `.out` beside a vocabulary.
fn check(name: &str) {
    let Some(path) = testkit::shared(&format!("vocab/ggml-vocab-{name}.gguf")) else { return };
    let tokenizer = Tokenizer::from_metadata(&metadata(&path)).expect("a good tokenizer");
    let beside = |extension: &str| {
        std::fs::read_to_string(format!("{}.{extension}", path.display())).expect("test data")
    };
    let (texts, ids) = (beside("inp"), beside("out"));
    let texts: Vec<&str> = texts.split("\n__ggml_vocab_test__\n").collect();
    let ids: Vec<Vec<u32>> = ids
        .lines()
        .map(|line| line.split_whitespace().map(|id| id.parse().expect("a number")).collect())
        .collect();
    assert!(texts.len() > 20 && ids.len() >= texts.len() - 1, "{} texts, {} lines", texts.len(), ids.len());
    for (text, expected) in texts.iter().zip(&ids) {
        assert_eq!(&tokenizer.encode(text, Encode::default()), expected, "{name}: {text:?}");
    }
}

#[test]
fn llama_spm() {
    check("llama-spm");
}

#[test]
fn phi_3() {
    check("phi-3");
}

#[test]
fn llama_bpe() {
    check("llama-bpe");
}

#[test]
fn qwen2() {
    check("qwen2");
}

#[test]
fn gpt_2() {
    check("gpt-2");
}

#[test]
fn deepseek_coder() {
    check("deepseek-coder");
}

/// A vocabulary with every pre-tokenizer in turn; llama.cpp's ids, made by `tools/checks/tokenizers.py --write`.
#[test]
fn llama_bpe_with_every_pre_tokenizer() {
    let Some(path) = testkit::shared("vocab/ggml-vocab-llama-bpe.gguf") else { return };
    let goldens = Path::new(env!("CARGO_MANIFEST_DIR")).join("goldens/pre-tokenizers.json");
    let goldens = std::fs::read_to_string(goldens).expect("a part of the checkout");
    let goldens: BTreeMap<String, Vec<(String, Vec<u32>)>> = serde_json::from_str(&goldens).expect("JSON");
    assert!(goldens.len() > 20);
    for (pre, cases) in goldens {
        let mut metadata = metadata(&path);
        metadata.insert("tokenizer.ggml.pre", pre.as_str());
        let tokenizer = Tokenizer::from_metadata(&metadata).expect("a good tokenizer");
        for (text, expected) in cases {
            assert_eq!(tokenizer.encode(&text, Encode::default()), expected, "{pre}: {text:?}");
        }
    }
}
