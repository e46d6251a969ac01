//! The keys are those of llama.cpp's converter.

use std::collections::BTreeMap;

use gguf::{Array, Metadata};
use serde_json::{Value, json};

use crate::folders::{all, read_in};

#[test]
fn keys_are_those_of_llama_cpp() {
    for (name, folder) in all() {
        let on_disk = folder.write();
        for (kind, expected) in folder.kinds() {
            let found =
                read_in(on_disk.path(), kind).unwrap_or_else(|error| panic!("{name} as {kind:?}: {error}"));
            let mut found = as_json(&found);
            if name == "bert-cased" {
                // llama.cpp's converter does not say it, and so llama.cpp lower-cases.
                assert_eq!(found.remove("tokenizer.ggml.normalizer.lowercase"), Some(false.into()));
            }
            let keys: Vec<&str> = found.keys().map(String::as_str).collect();
            assert_eq!(keys, expected.keys().copied().collect::<Vec<_>>(), "{name} as {kind:?}");
            for (key, found) in &found {
                let expected = expected[key.as_str()];
                let is_same =
                    if key.ends_with(".scores") { f32s(found) == f32s(expected) } else { found == expected };
                assert!(is_same, "{key} of {name} as {kind:?} is {found}, expected {expected}");
            }
        }
    }
}

fn f32s(numbers: &Value) -> Vec<Option<f32>> {
    let numbers = numbers.as_array().expect("an array");
    numbers.iter().map(|number| number.as_f64().map(|number| number as f32)).collect()
}

/// Metadata as Python's JSON writes it.
fn as_json(metadata: &Metadata) -> BTreeMap<String, Value> {
    let value = |value: &gguf::Value| match value {
        gguf::Value::String(text) => json!(text),
        gguf::Value::Bool(flag) => json!(flag),
        gguf::Value::U32(number) => json!(number),
        gguf::Value::Array(Array::String(texts)) => json!(texts),
        gguf::Value::Array(Array::I32(numbers)) => json!(numbers),
        gguf::Value::Array(Array::U8(bytes)) => json!(bytes),
        gguf::Value::Array(Array::F32(numbers)) => {
            json!(numbers.iter().map(|number| f64::from(*number)).collect::<Vec<_>>())
        }
        other => panic!("{other} is of no type that a tokenizer has"),
    };
    metadata.iter().map(|(key, found)| (key.to_owned(), value(found))).collect()
}
