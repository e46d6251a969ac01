//! The report as text, and metadata as JSON.

use std::io::{self, Write};

use gguf::{Array, Value};
use graph::Mask;
use serde::{Serialize, Serializer};
use serde_json::{Value as Json, json};

use super::{Decision, KvGroup, Report, TensorFacts, Token, TokenizerFacts, Total};
use crate::output::{self, BOLD, abbreviated, columns, counted, pairs, printable, size};

/// Maximum characters of a token's text.
const TOKEN: usize = 40;

pub(super) fn print(report: &Report<'_>) -> io::Result<()> {
    let mut out = output::stdout();
    for file in &report.files {
        writeln!(out, "{BOLD}{}{BOLD:#}  {}", printable(file.path, ""), size(file.bytes))?;
    }
    writeln!(out, "GGUF version {}, aligned to {}", report.version, counted(report.alignment, "byte"))?;

    heading(&mut out, "Metadata")?;
    let entries = report.metadata.iter();
    let entries = entries.map(|(key, entry)| [printable(key, ""), entry.r#type.clone(), short(&entry.value)]);
    write!(out, "{}", columns(&entries.collect::<Vec<_>>(), &[]))?;
    if let Some(parameters) = &report.hyper_parameters {
        heading(&mut out, "Hyper-parameters")?;
        write!(out, "{}", pairs(parameters.iter().map(|(name, value)| (*name, short(value)))))?;
    }
    heading(&mut out, "Tokenizer")?;
    match &report.tokenizer {
        Ok(facts) => write!(out, "{}", tokenizer(facts))?,
        Err(why) => writeln!(out, "  cannot be used: {}", printable(why, ""))?,
    }
    tensors(&mut out, report)?;
    match &report.memory {
        Ok(memory) => {
            heading(&mut out, &format!("Memory on the CPU with a context of {} tokens", memory.n_ctx))?;
            let mut parts = vec![
                ("weights, used in the file", size(memory.weights_mapped)),
                ("weights, packed", size(memory.weights_copied)),
                ("KV cache", size(memory.kv_cache)),
            ];
            // A single group is the whole cache.
            if let [_, _, ..] = &memory.kv_groups[..] {
                parts.extend(memory.kv_groups.iter().map(|group| ("", group_in_words(group))));
            }
            parts.extend([("activations", size(memory.activations)), ("total", size(memory.total))]);
            parts.extend(memory.available.map(|available| {
                let fits = if memory.allocated <= available { "fits" } else { "does not fit" };
                let allocated = size(memory.allocated);
                (fits, format!("{allocated} besides the file, of {} available", size(available)))
            }));
            write!(out, "{}", pairs(parts))?;
            if !memory.devices.is_empty() {
                heading(&mut out, "On GPUs")?;
                let fits = memory.devices.iter().map(|fit| [fit.label(), fit.in_words()]);
                write!(out, "{}", columns(&fits.collect::<Vec<_>>(), &[]))?;
                writeln!(out, "  the model runs on: {}", memory.fits.own.in_words(true))?;
            }
            let table = memory.fits.table();
            if !table.is_empty() {
                heading(&mut out, "After `rustorch quantize IN OUT TYPE`")?;
                write!(out, "{table}")?;
            }
        }
        Err(why) => {
            heading(&mut out, "Cannot be run")?;
            writeln!(out, "  {}", printable(why, ""))?;
        }
    }
    out.flush()
}

fn group_in_words(group: &KvGroup) -> String {
    let (stores, bytes) = (counted(group.stores, "store"), size(group.bytes));
    match group.mask {
        Mask::Causal => format!("{bytes} in {stores} without a window"),
        Mask::Window(n) => format!("{bytes} in {stores} with a window of {}", counted(n, "position")),
        Mask::Chunk(n) => format!("{bytes} in {stores} with chunks of {}", counted(n, "position")),
        Mask::Full | Mask::Around(_) => format!("{bytes} in {stores} whose rows see {}", group.mask),
    }
}

fn heading(out: &mut impl Write, text: &str) -> io::Result<()> {
    writeln!(out, "\n{BOLD}{text}{BOLD:#}")
}

fn tensors(out: &mut impl Write, report: &Report<'_>) -> io::Result<()> {
    if report.total.tensors == 0 {
        return heading(out, "No tensors: only a vocabulary");
    }
    let total = |&Total { tensors, values, bytes }: &Total| {
        format!("{}, {}, {}", counted(tensors, "tensor"), counted(values, "value"), size_if_known(bytes))
    };
    heading(out, &total(&report.total))?;
    let rows = report.tensors.iter().map(|TensorFacts { name, format, shape, bytes }| {
        [printable(name, ""), format.clone(), format!("{shape:?}"), size_if_known(*bytes)]
    });
    write!(out, "{}", columns(&rows.collect::<Vec<_>>(), &[3]))?;
    heading(out, "By format")?;
    write!(out, "{}", pairs(report.formats.iter().map(|(format, sum)| (format.as_str(), total(sum)))))
}

fn size_if_known(bytes: Option<usize>) -> String {
    bytes.map_or("size unknown".to_owned(), |bytes| size(bytes as u64))
}

fn tokenizer(facts: &TokenizerFacts) -> String {
    let token = |token: &Token| format!("{} \"{}\"", token.id, abbreviated(&token.text, TOKEN));
    let decision = |Decision { value, stated }: Decision| {
        let answer = if value { "yes" } else { "no" };
        format!("{answer}, {}", if stated { "the file says" } else { "by default" })
    };
    let pre = facts.pre_tokenizer.as_deref();
    let first = [
        ("model", facts.model.to_owned()),
        ("pre-tokenizer", pre.map_or("not named".to_owned(), |name| abbreviated(name, TOKEN))),
        ("tokens", facts.vocab_size.to_string()),
        ("BOS before a prompt", decision(facts.add_bos)),
        ("EOS after text", decision(facts.add_eos)),
        ("space before text", decision(facts.add_space_prefix)),
        ("chat template", if facts.chat_template { "yes" } else { "none" }.to_owned()),
    ];
    let sep = facts.special.contains_key("sep").then(|| ("SEP after text", decision(facts.add_sep)));
    let special = facts.special.iter().map(|(name, special)| (*name, token(special)));
    let stop = facts.stop.iter().map(token).collect::<Vec<_>>().join(", ");
    pairs(first.into_iter().chain(sep).chain(special).chain([("ends an answer", stop)]))
}

/// Maximum characters of a string.
const STRING: usize = 80;
/// Maximum characters of a string in an array.
const ELEMENT: usize = 16;
/// Maximum elements of an array.
const ELEMENTS: usize = 6;
/// The elements of arrays that [`short`] needs.
pub(super) const FEW: usize = ELEMENTS + 1;

/// A value with its type, such as `u32` or `[string; 32000]`.
#[derive(Serialize)]
pub(super) struct Entry {
    pub(super) r#type: String,
    pub(super) value: Json,
}

impl Entry {
    /// With up to `limit` elements of arrays, which may have millions.
    pub(super) fn new(value: &Value, limit: usize) -> Entry {
        let r#type = match value {
            Value::Array(array) => format!("[{}; {}]", array.element_type(), array.len()),
            other => other.value_type().to_string(),
        };
        Entry { r#type, value: json(value, limit) }
    }
}

/// The found facts, or `{"error": "why not"}`.
pub(super) fn or_error<T: Serialize, S: Serializer>(
    result: &Result<T, String>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    match result {
        Ok(found) => found.serialize(serializer),
        Err(why) => serializer.collect_map([("error", why)]),
    }
}

/// Infinities and NaN are null.
pub(super) fn json(value: &Value, limit: usize) -> Json {
    match value {
        Value::U8(v) => json!(v),
        Value::I8(v) => json!(v),
        Value::U16(v) => json!(v),
        Value::I16(v) => json!(v),
        Value::U32(v) => json!(v),
        Value::I32(v) => json!(v),
        Value::F32(v) => float(*v),
        Value::Bool(v) => json!(v),
        Value::String(v) => json!(v),
        Value::Array(v) => elements(v, limit),
        Value::U64(v) => json!(v),
        Value::I64(v) => json!(v),
        Value::F64(v) => json!(v),
    }
}

fn elements(array: &Array, limit: usize) -> Json {
    match array {
        // Without copies of whole arrays.
        Array::Array(arrays) => arrays.iter().take(limit).map(|array| elements(array, limit)).collect(),
        other => other.values().take(limit).map(|value| json(&value, limit)).collect(),
    }
}

/// With the digits of an f32, not of the f64 that JSON numbers are.
fn float(value: f32) -> Json {
    json!(value.to_string().parse::<f64>().ok())
}

/// On one line, with long strings and arrays cut short.
pub(super) fn short(value: &Json) -> String {
    let element = |value: &Json| match value {
        Json::String(text) => format!("\"{}\"", abbreviated(text, ELEMENT)),
        Json::Array(_) => "[…]".to_owned(),
        other => other.to_string(),
    };
    match value {
        Json::String(text) => abbreviated(text, STRING),
        Json::Array(values) => {
            let shown: Vec<String> = values.iter().take(ELEMENTS).map(element).collect();
            format!("[{}{}]", shown.join(", "), if values.len() > ELEMENTS { ", …" } else { "" })
        }
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_values_are_cut_and_nothing_steers_the_terminal() {
        let tokens: Vec<String> = (0..9).map(|i| format!("\u{1b}{i}")).collect();
        let Entry { r#type, value } = Entry::new(&Value::from(tokens), FEW);
        assert_eq!(r#type, "[string; 9]");
        let text = short(&value);
        assert!(text.starts_with(r#"["\u{1b}0", "\u{1b}1""#) && text.ends_with(", …]"), "{text}");
        assert_eq!(short(&json(&Value::from("a\nb".repeat(100)), FEW)).chars().last(), Some('…'));
        assert_eq!(short(&json(&Value::from(vec![1u32, 2]), FEW)), "[1, 2]");
        assert_eq!(short(&json(&Value::from(0.1f32), FEW)), "0.1");
    }
}
