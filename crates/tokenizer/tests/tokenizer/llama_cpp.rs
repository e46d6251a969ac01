//! The same ids and texts as llama.cpp, from `tools/goldens/tokenizer.py`.
//!
//! The vocabularies made for this test stand in their files; the real ones are shared material.

use std::path::{Path, PathBuf};

use gguf::{Array, Metadata, Value};
use serde_json::Value as Json;
use tokenizer::{Encode, Tokenizer};

fn goldens(name: &str) -> Json {
    let path: PathBuf = [env!("CARGO_MANIFEST_DIR"), "goldens", name].iter().collect();
    let text = std::fs::read_to_string(path.with_extension("json")).expect("committed goldens");
    serde_json::from_str(&text).expect("JSON")
}

/// Metadata as the script writes it to its file.
fn metadata(json: &Json) -> Metadata {
    let mut metadata = Metadata::default();
    for (key, value) in json.as_object().expect("an object") {
        let value = match value {
            Json::Bool(v) => Value::Bool(*v),
            Json::String(v) => Value::String(v.clone()),
            Json::Number(v) => Value::U32(v.as_u64().expect("unsigned").try_into().expect("32 bits")),
            Json::Array(values) => Value::Array(match values.first().expect("not empty") {
                Json::String(_) => {
                    Array::String(values.iter().map(|v| v.as_str().expect("string").into()).collect())
                }
                _ if key.ends_with("charsmap") => {
                    Array::U8(ids(&values.clone().into()).iter().map(|&v| v as u8).collect())
                }
                Json::Number(v) if v.is_f64() => {
                    Array::F32(values.iter().map(|v| v.as_f64().expect("number") as f32).collect())
                }
                _ => Array::I32(values.iter().map(|v| v.as_i64().expect("integer") as i32).collect()),
            }),
            other => panic!("{key}: {other}"),
        };
        metadata.insert(key.clone(), value);
    }
    metadata
}

fn ids(json: &Json) -> Vec<u32> {
    json.as_array().expect("ids").iter().map(|id| id.as_u64().expect("an id") as u32).collect()
}

fn check(name: &str, tokenizer: &Tokenizer, goldens: &Json) {
    check_settings(name, tokenizer, goldens);
    check_cases(name, tokenizer, goldens);
}

fn check_settings(name: &str, tokenizer: &Tokenizer, goldens: &Json) {
    let special = tokenizer.special_ids();
    for role in ["bos", "eos", "sep", "pad"] {
        let ours = special.roles.get(role).copied();
        // llama.cpp assumes ids that suit Falcon where a BPE file names none; every file here names them.
        assert_eq!(ours.map(u64::from), goldens["ids"][role].as_u64(), "{name}: {role}");
    }
    let end_of_generation: Vec<u32> = special.end_of_generation.iter().copied().collect();
    assert_eq!(end_of_generation, ids(&goldens["end_of_generation"]), "{name}");
    assert_eq!(tokenizer.bos_to_add().is_some(), goldens["add_bos"], "{name}");
    assert_eq!(tokenizer.facts().add_eos.value(), goldens["add_eos"], "{name}");
    assert_eq!(tokenizer.facts().add_sep.value(), goldens["add_sep"], "{name}");
}

fn check_cases(name: &str, tokenizer: &Tokenizer, goldens: &Json) {
    let mut wrong = 0;
    let cases = goldens["cases"].as_array().expect("cases");
    for case in cases {
        let text = case[0].as_str().expect("text");
        for (variant, (add_special, parse_special)) in
            [(false, false), (true, false), (false, true), (true, true)].into_iter().enumerate()
        {
            let expected = if case[1][variant].is_null() { &case[1][0] } else { &case[1][variant] };
            let found = tokenizer.encode(text, Encode { add_special, parse_special });
            if found != ids(expected) {
                wrong += 1;
                eprintln!(
                    "{name}: {text:?} add {add_special} parse {parse_special}: {found:?}, not {expected}"
                );
            }
            if (add_special, parse_special) == (false, true) {
                let (found, expected) = (tokenizer.decode(&found), case[2].as_str().unwrap_or(text));
                if found != expected {
                    wrong += 1;
                    eprintln!("{name}: {text:?} decodes to {found:?}, not {expected:?}");
                }
            }
        }
    }
    assert_eq!(wrong, 0, "{name}: wrong, of {} texts", cases.len());
}

fn check_made(name: &str) {
    let goldens = goldens(name);
    let tokenizer = Tokenizer::from_metadata(&metadata(&goldens["metadata"])).expect("a good tokenizer");
    check(name, &tokenizer, &goldens);
}

fn check_shared(name: &str) {
    let Some(path) = testkit::shared(&format!("vocab/ggml-vocab-{name}.gguf")) else { return };
    let file = gguf::Gguf::open(Path::new(&path)).expect("a good file");
    let tokenizer = Tokenizer::from_metadata(file.metadata()).expect("a good tokenizer");
    check(name, &tokenizer, &goldens(name));
}

/// Llama's own ids without its whole vocabulary: the other tokens are texts that do not occur.
#[test]
fn llama_excerpt() {
    let goldens = goldens("llama-excerpt");
    let size = goldens["vocab_size"].as_u64().expect("a size");
    let mut texts: Vec<String> = (0..size).map(|id| format!("#{id}#")).collect();
    let (mut scores, mut kinds) = (vec![0.0; texts.len()], vec![1; texts.len()]);
    for token in goldens["tokens"].as_array().expect("tokens") {
        let id = token[0].as_u64().expect("an id") as usize;
        texts[id] = token[1].as_str().expect("text").to_owned();
        scores[id] = token[2].as_f64().expect("score") as f32;
        kinds[id] = token[3].as_i64().expect("kind") as i32;
    }
    let mut metadata = Metadata::default();
    metadata.insert("tokenizer.ggml.model", Value::String("llama".into()));
    metadata.insert("tokenizer.ggml.tokens", Value::Array(Array::String(texts)));
    metadata.insert("tokenizer.ggml.scores", Value::Array(Array::F32(scores)));
    metadata.insert("tokenizer.ggml.token_type", Value::Array(Array::I32(kinds)));
    let tokenizer = Tokenizer::from_metadata(&metadata).expect("a good tokenizer");
    check_cases("llama-excerpt", &tokenizer, &goldens);

    // Published ids, besides those of the goldens.
    let ids = |text, add_special| tokenizer.encode(text, Encode { add_special, parse_special: true });
    assert_eq!(ids("1", false), [29871, 29896]);
    assert_eq!(ids(" 1", false), [259, 29896]);
    assert_eq!(ids("\n", false), [29871, 13]);
    assert_eq!(
        ids("<|user|>\n1<|assistant|>", true),
        [1, 529, 29989, 1792, 29989, 29958, 13, 29896, 29966, 29989, 465, 22137, 29989, 29958]
    );
}

#[test]
fn made_spm() {
    check_made("made-spm");
}

#[test]
fn made_spm_no_prefix_eos() {
    check_made("made-spm-no-prefix-eos");
}

#[test]
fn made_spm_phi3() {
    check_made("made-spm-phi3");
}

#[test]
fn made_bpe_gpt_2() {
    check_made("made-bpe-gpt-2");
}

#[test]
fn made_bpe_llama_bpe() {
    check_made("made-bpe-llama-bpe");
}

#[test]
fn made_bpe_qwen2() {
    check_made("made-bpe-qwen2");
}

#[test]
fn made_bpe_deepseek_coder() {
    check_made("made-bpe-deepseek-coder");
}

#[test]
fn made_bert() {
    check_made("made-tiny-bert");
}

#[test]
fn made_t5() {
    check_made("made-tiny-t5");
}

#[test]
fn made_xlm_r() {
    check_made("made-tiny-xlm-r");
}

#[test]
fn made_gemma4() {
    check_made("made-tiny-gemma4");
}

#[test]
fn llama_spm() {
    check_shared("llama-spm");
}

#[test]
fn phi_3() {
    check_shared("phi-3");
}

#[test]
fn llama_bpe() {
    check_shared("llama-bpe");
}

#[test]
fn qwen2() {
    check_shared("qwen2");
}

#[test]
fn gpt_2() {
    check_shared("gpt-2");
}

#[test]
fn deepseek_coder() {
    check_shared("deepseek-coder");
}
