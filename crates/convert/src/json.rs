//! JSON as Python writes it: with `Infinity`, `-Infinity` and `NaN`, in `transformers` 5 as `{"__float__": "Infinity"}`, and perhaps
//! after a byte order mark.

use serde::de::{DeserializeOwned, Error as _};
use serde_json::{Value, json};

const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// Reads JSON. NaN becomes null, an infinity the largest number of its sign.
pub(crate) fn read<T: DeserializeOwned>(bytes: &[u8]) -> serde_json::Result<T> {
    let bytes = bytes.strip_prefix(BYTE_ORDER_MARK).unwrap_or(bytes);
    let has = |word: &[u8]| bytes.windows(word.len()).any(|part| part == word);
    if ![&b"Infinity"[..], b"NaN"].into_iter().any(has) {
        return serde_json::from_slice(bytes);
    }
    let text = std::str::from_utf8(bytes).map_err(serde_json::Error::custom)?;
    let mut value: Value = serde_json::from_str(&plain(text))?;
    floats(&mut value);
    serde_json::from_value(value)
}

/// `text` with numbers in place of Python's words, outside texts.
fn plain(text: &str) -> String {
    let (mut plain, mut rest) = (String::with_capacity(text.len()), text);
    let (mut in_text, mut is_escaped) = (false, false);
    // The largest of 64 bits: decimal digits without an exponent would be an integer.
    let (most, least) = (format!("{:e}", f64::MAX), format!("{:e}", f64::MIN));
    let words = [("-Infinity", &*least), ("Infinity", &*most), ("NaN", "null")];
    while let Some(c) = rest.chars().next() {
        if let Some((word, number)) = words.iter().find(|(word, _)| !in_text && rest.starts_with(word)) {
            plain.push_str(number);
            rest = &rest[word.len()..];
            continue;
        }
        in_text ^= c == '"' && !is_escaped;
        is_escaped = in_text && c == '\\' && !is_escaped;
        plain.push(c);
        rest = &rest[c.len_utf8()..];
    }
    plain
}

/// Replaces the objects that stand for such numbers.
fn floats(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            if let (1, Some(Value::String(name))) = (fields.len(), fields.get("__float__")) {
                *value = match &**name {
                    "Infinity" => json!(f64::MAX),
                    "-Infinity" => json!(f64::MIN),
                    _ => Value::Null,
                };
                return;
            }
            fields.values_mut().for_each(floats);
        }
        Value::Array(items) => items.iter_mut().for_each(floats),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What `json.dumps` of Python writes, and `transformers` 5.
    #[test]
    fn words_of_python_are_numbers() {
        let text = "\u{feff}{\"limit\": [0.0, Infinity], \"least\": -Infinity, \"no\": NaN, \"text\": \"NaN \\\" Infinity\", \
            \"new\": {\"__float__\": \"Infinity\"}}";
        let value: Value = read(text.as_bytes()).expect("JSON");
        let text = "NaN \" Infinity";
        let (most, least) = (f64::MAX, f64::MIN);
        assert_eq!(
            value,
            json!({"limit": [0.0, most], "least": least, "no": null, "text": text, "new": most})
        );
        assert!(read::<Value>(b"{\"a\": Infinite}").is_err());
    }
}
