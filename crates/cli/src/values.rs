//! Parsers of option values: numbers in a range, token ids, biases, sizes, escapes.

use std::num::NonZero;
use std::ops::RangeInclusive;
use std::str::FromStr;

use runner::placement::Layers;

pub(crate) fn from_1_to<const MAX: usize>(text: &str) -> Result<NonZero<usize>, String> {
    let number = text.trim().parse().ok().filter(|number: &NonZero<usize>| number.get() <= MAX);
    number.ok_or_else(|| format!("expected a number from 1 to {MAX}"))
}

pub(crate) fn up_to<const MAX: usize>(text: &str) -> Result<usize, String> {
    let number = text.trim().parse().ok().filter(|number| *number <= MAX);
    number.ok_or_else(|| format!("expected a number from 0 to {MAX}"))
}

pub(crate) fn n_ctx(text: &str) -> Result<usize, String> {
    text.parse().map_err(|_| "expected a number of tokens, or 0 for the training context".to_owned())
}

/// Token ids such as `1, 2`, `1 2` or `[1,2]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TokenIds(pub(crate) Vec<u32>);

impl FromStr for TokenIds {
    type Err = String;

    fn from_str(text: &str) -> Result<TokenIds, String> {
        let text = text.trim();
        let inner = text.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(text);
        let between_commas: Vec<Vec<&str>> =
            inner.split(',').map(|ids| ids.split_whitespace().collect()).collect();
        if between_commas.len() > 1 && between_commas.iter().any(Vec::is_empty) {
            return Err("a comma without a token id on both sides".to_owned());
        }
        let number = |id: &str| id.parse().map_err(|_| format!("{id:?} is not a token id"));
        between_commas.into_iter().flatten().map(number).collect::<Result<_, _>>().map(TokenIds)
    }
}

/// Variables of a chat template, as a JSON object.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct TemplateVariables(pub(crate) serde_json::Map<String, serde_json::Value>);

impl FromStr for TemplateVariables {
    type Err = String;

    fn from_str(text: &str) -> Result<TemplateVariables, String> {
        let expected = "expected a JSON object such as {\"enable_thinking\": false}";
        let values: serde_json::Map<_, _> =
            serde_json::from_str(text).map_err(|error| format!("{expected}: {error}"))?;
        match values.keys().find(|name| server::RESERVED_VARIABLES.contains(&name.as_str())) {
            Some(name) => Err(format!("{name} is set by the program; leave it out")),
            None => Ok(TemplateVariables(values)),
        }
    }
}

/// A token id and what is added to its logit, such as `15043+1.5` or `15043-inf`.
pub(crate) fn logit_bias(text: &str) -> Result<(u32, f32), String> {
    let parsed = text.find(['+', '-']).and_then(|sign| {
        let (id, bias) = text.split_at(sign);
        let is_unsigned = bias.get(1..)?.starts_with(|c: char| c.is_ascii_alphanumeric() || c == '.');
        let bias = bias.parse().ok().filter(|bias: &f32| is_unsigned && *bias < f32::INFINITY)?;
        Some((id.trim().parse().ok()?, bias))
    });
    parsed.ok_or_else(|| "expected a token id, a sign and a number, such as 15043+1".to_owned())
}

/// Layers such as `5` or `0-3`.
pub(crate) fn layer_range(text: &str) -> Result<RangeInclusive<usize>, String> {
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    let range = first.trim().parse().ok().zip(last.trim().parse().ok()).map(|(first, last)| first..=last);
    let range = range.filter(|range| !range.is_empty());
    range.ok_or_else(|| "expected a layer or a range of layers, such as 5 or 0-3".to_owned())
}

pub(crate) fn gpu_layers(text: &str) -> Result<Layers, String> {
    match text {
        // -1 as in llama.cpp.
        "auto" | "-1" => Ok(Layers::Auto),
        "all" => Ok(Layers::All),
        number => number.parse().map(Layers::Last).map_err(|_| "expected a number, auto or all".to_owned()),
    }
}

/// Bytes, such as `2GiB`, `512M` or `1000000`; all units are powers of 1024.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Size(pub(crate) u64);

impl FromStr for Size {
    type Err = String;

    fn from_str(text: &str) -> Result<Size, String> {
        let digits = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
        let (number, unit) = text.split_at(digits);
        let unit = unit.trim().to_ascii_lowercase();
        let unit = unit.trim_end_matches('b').trim_end_matches('i');
        let power = ["", "k", "m", "g", "t"].iter().position(|known| *known == unit);
        let bytes = number.parse().ok().zip(power);
        let bytes = bytes.map(|(number, power): (f64, usize)| number * 1024_f64.powi(power as i32));
        let bytes = bytes.filter(|&bytes| bytes < u64::MAX as f64).map(|bytes| Size(bytes as u64));
        bytes.ok_or_else(|| "expected bytes, such as 2GiB or 512MiB".to_owned())
    }
}

/// Replaces llama.cpp's escapes `\n`, `\t`, `\r`, `\"`, `\'`, `\\` and `\xHH` (bytes). Other backslashes stay.
pub(crate) fn unescape(text: &str) -> Result<String, String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('\\') {
        bytes.extend_from_slice(before.as_bytes());
        let hex = after.strip_prefix('x').and_then(|hex| hex.get(..2));
        let hex = hex.filter(|hex| hex.chars().all(|digit| digit.is_ascii_hexdigit()));
        let (byte, len) = match (after.bytes().next(), hex) {
            (Some(b'n'), _) => (b'\n', 1),
            (Some(b't'), _) => (b'\t', 1),
            (Some(b'r'), _) => (b'\r', 1),
            (Some(same @ (b'"' | b'\'' | b'\\')), _) => (same, 1),
            (_, Some(hex)) => (u8::from_str_radix(hex, 16).unwrap_or(b'?'), 3),
            _ => (b'\\', 0),
        };
        bytes.push(byte);
        rest = &after[len..];
    }
    bytes.extend_from_slice(rest.as_bytes());
    String::from_utf8(bytes).map_err(|_| format!("the \\x escapes in {text:?} are not UTF-8"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_read_however_they_are_separated() {
        let ids = |text: &str| text.parse().map(|TokenIds(ids)| ids);
        assert_eq!(ids("29896,13"), Ok(vec![29896, 13]));
        assert_eq!(ids(" [1, 2,3]\n"), Ok(vec![1, 2, 3]));
        assert_eq!(ids("1 2"), Ok(vec![1, 2]));
        assert_eq!(ids(""), Ok(vec![]));
        assert_eq!(ids("[ ]"), Ok(vec![]));
        assert_eq!(ids("1 ,2"), Ok(vec![1, 2]));
        for wrong in ["1,,2", ",1", "1,2,", ",", "1, ,2"] {
            assert_eq!(ids(wrong), Err("a comma without a token id on both sides".to_owned()), "{wrong}");
        }
        assert_eq!(ids("1,-2"), Err("\"-2\" is not a token id".to_owned()));
        assert_eq!(ids("4294967296"), Err("\"4294967296\" is not a token id".to_owned()));
    }

    #[test]
    fn layers_are_one_or_a_range() {
        assert_eq!(layer_range("0-3"), Ok(0..=3));
        assert_eq!(layer_range("5"), Ok(5..=5));
        for wrong in ["", "-1", "3-", "3-0", "0-3-5", "a"] {
            assert!(layer_range(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn biases_have_a_sign() {
        assert_eq!(logit_bias("15043+1"), Ok((15043, 1.0)));
        assert_eq!(logit_bias("7-0.5"), Ok((7, -0.5)));
        assert_eq!(logit_bias("7-inf"), Ok((7, f32::NEG_INFINITY)));
        for wrong in ["", "7", "7+", "+1", "7+-1", "7=1", "7--1", "7+inf", "7+nan"] {
            assert!(logit_bias(wrong).is_err(), "{wrong}");
        }
    }

    /// Expected values by hand, after `string_process_escapes` of llama.cpp's `common/common.cpp`.
    #[test]
    fn escapes_are_those_of_llama_cpp() {
        for (text, expected) in [
            ("", ""),
            (r"a\nb\tc\r", "a\nb\tc\r"),
            (r#"\\n \"\'"#, "\\n \"'"),
            (r"\x41\xc3\xa9\x0a", "Aé\n"),
            (r"\q \x4 \xg1 \", r"\q \x4 \xg1 \"),
            (r"é\é\xé", r"é\é\xé"),
        ] {
            assert_eq!(unescape(text).as_deref(), Ok(expected));
        }
        assert!(unescape(r"\xff").unwrap_err().contains("not UTF-8"));
    }
}
