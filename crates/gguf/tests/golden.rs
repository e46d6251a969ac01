//! Files written by the gguf package, compared with what its reader finds.

use std::path::PathBuf;

use bytes::Bytes;
use gguf::{Array, Gguf, Value, ValueType, write};
use serde_json::{Value as Json, json};

fn golden(file: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("goldens").join(file)
}

/// JSON as written by `tools/goldens/gguf_files.py`: floating-point numbers as bits.
fn json_of(value: &Value) -> Json {
    match value {
        Value::U8(v) => json!(v),
        Value::I8(v) => json!(v),
        Value::U16(v) => json!(v),
        Value::I16(v) => json!(v),
        Value::U32(v) => json!(v),
        Value::I32(v) => json!(v),
        Value::F32(v) => json!(v.to_bits()),
        Value::Bool(v) => json!(v),
        Value::String(v) => json!(v),
        Value::Array(v) => json_of_array(v),
        Value::U64(v) => json!(v),
        Value::I64(v) => json!(v),
        Value::F64(v) => json!(v.to_bits()),
    }
}

fn json_of_array(array: &Array) -> Json {
    match array {
        Array::U8(v) => json!(v),
        Array::I8(v) => json!(v),
        Array::U16(v) => json!(v),
        Array::I16(v) => json!(v),
        Array::U32(v) => json!(v),
        Array::I32(v) => json!(v),
        Array::F32(v) => v.iter().map(|v| v.to_bits()).collect(),
        Array::Bool(v) => json!(v),
        Array::String(v) => json!(v),
        Array::Array(v) => v.iter().map(json_of_array).collect(),
        Array::U64(v) => json!(v),
        Array::I64(v) => json!(v),
        Array::F64(v) => v.iter().map(|v| v.to_bits()).collect(),
    }
}

/// The type, the element type, the type of nested elements, and so on.
fn types(value: &Value) -> Vec<&'static str> {
    let mut names = vec![value.value_type().name()];
    let mut array = match value {
        Value::Array(array) => Some(array),
        _ => None,
    };
    while let Some(outer) = array {
        names.push(outer.element_type().name());
        array = match outer {
            Array::Array(inner) => inner.first(),
            _ => None,
        };
    }
    names
}

fn json_of_file(gguf: &Gguf) -> Json {
    let keys: Vec<Json> = gguf
        .metadata()
        .iter()
        .map(|(key, value)| json!({"key": key, "type": types(value), "value": json_of(value)}))
        .collect();
    let tensors: Vec<Json> = gguf
        .tensors()
        .map(|tensor| {
            assert_eq!(tensor.rows() * tensor.row_len(), tensor.shape.iter().product::<usize>());
            assert_eq!(tensor.rows() * tensor.row_bytes(), tensor.data.len());
            json!({
                "name": tensor.name,
                "shape": tensor.shape,
                "format": tensor.format.name(),
                "bytes": tensor.data.len(),
                "crc32": crc32fast::hash(&tensor.data),
            })
        })
        .collect();
    json!({
        "version": gguf.version(),
        "alignment": gguf.alignment(),
        "keys": keys,
        "tensors": tensors,
    })
}

#[test]
fn keys_and_tensors_match_the_gguf_package() {
    let files = [
        ("v3", "v3"),
        ("v2", "v2"),
        ("aligned", "aligned"),
        ("no-tensors", "no-tensors"),
        ("split-00001-of-00003", "split"),
    ];
    for (file, expected) in files {
        let gguf = Gguf::open(golden(&format!("{file}.gguf"))).unwrap();
        let expected = std::fs::read_to_string(golden(&format!("{expected}.json"))).unwrap();
        assert_eq!(json_of_file(&gguf), serde_json::from_str::<Json>(&expected).unwrap(), "{file}");
    }
}

#[test]
fn the_golden_file_has_every_type() {
    let gguf = Gguf::open(golden("v3.gguf")).unwrap();
    for &value_type in ValueType::ALL {
        let has = |found: &dyn Fn(&Value) -> bool| gguf.metadata().iter().any(|(_, value)| found(value));
        assert!(has(&|value| value.value_type() == value_type), "{value_type}");
        let is_element = |value: &Value| matches!(value, Value::Array(a) if a.element_type() == value_type);
        assert!(has(&is_element), "array of {value_type}");
    }
}

#[test]
fn our_writer_is_byte_exact() {
    for name in ["v3.gguf", "aligned.gguf", "no-tensors.gguf"] {
        let gguf = Gguf::open(golden(name)).unwrap();
        let written = write(Vec::new(), gguf.metadata(), gguf.tensors()).unwrap();
        assert_eq!(written, std::fs::read(golden(name)).unwrap(), "{name}");
    }
}

#[test]
fn a_split_model_can_be_written_as_one_file() {
    let split = Gguf::open(golden("split-00001-of-00003.gguf")).unwrap();
    let written = write(Vec::new(), split.metadata(), split.tensors()).unwrap();
    let merged = Gguf::from_bytes(Bytes::from(written)).unwrap();
    assert_eq!(merged.metadata(), split.metadata());
    assert!(merged.tensors().eq(split.tensors()));
    assert_eq!((split.files().len(), merged.files().len()), (3, 1));
}

#[test]
fn a_big_endian_file_is_refused_as_such() {
    let message = Gguf::open(golden("big-endian.gguf")).unwrap_err().to_string();
    assert!(message.contains("big-endian.gguf: header (at offset 0x4): the file is big-endian"), "{message}");
}
