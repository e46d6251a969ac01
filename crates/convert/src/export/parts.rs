//! Parts of a `tokenizer.json`.

use serde_json::{Value, json};

/// What differs between the kinds of tokenizers.
pub(super) struct Parts {
    pub(super) normalizer: Value,
    pub(super) pre_tokenizer: Value,
    pub(super) decoder: Value,
    pub(super) model: Value,
}

/// Steps, as one; `name` is that of their list.
pub(super) fn sequence(name: &str, steps: impl IntoIterator<Item = Value>) -> Value {
    let steps: Vec<Value> = steps.into_iter().collect();
    json!({ "type": "Sequence", name: steps })
}

/// Replaces a text by another one.
pub(super) fn replace(text: &str, content: &str) -> Value {
    json!({ "type": "Replace", "pattern": { "String": text }, "content": content })
}

/// Replaces what matches a regular expression.
pub(super) fn replace_matches(pattern: &str, content: &str) -> Value {
    json!({ "type": "Replace", "pattern": { "Regex": pattern }, "content": content })
}

/// Makes what matches a regular expression a word.
pub(super) fn isolate(pattern: &str) -> Value {
    json!({ "type": "Split", "pattern": { "Regex": pattern }, "behavior": "Isolated", "invert": false })
}
