//! Values of options that need reading: token ids, biases, bounded numbers, escapes.

use std::num::NonZero;
use std::ops::RangeInclusive;
use std::str::FromStr;

/// A number of things that each take memory.
pub(crate) fn from_1_to<const MOST: usize>(text: &str) -> Result<NonZero<usize>, String> {
    let number = text.parse().ok().filter(|number: &NonZero<usize>| number.get() <= MOST);
    number.ok_or_else(|| format!("expected a number from 1 to {MOST}"))
}

/// Tokens of context.
pub(crate) fn n_ctx(text: &str) -> Result<usize, String> {
    text.parse().map_err(|_| "expected a number of tokens, or 0 for what the model was trained on".to_owned())
}

/// Tokens of an answer, at most.
pub(crate) fn max_tokens(text: &str) -> Result<i64, String> {
    let number = text.parse().ok().filter(|&number| number >= -1);
    number.ok_or_else(|| "expected a number of tokens, or -1 for no limit".to_owned())
}

/// A temperature; below 0 is as 0.
pub(crate) fn finite(text: &str) -> Result<f32, String> {
    number(text, f32::is_finite, "a finite number")
}

/// A part of all probability.
pub(crate) fn probability(text: &str) -> Result<f32, String> {
    number(text, |value| (0.0..=1.0).contains(&value), "a number from 0 to 1")
}

/// What a logit is divided by or multiplied with.
pub(crate) fn factor(text: &str) -> Result<f32, String> {
    number(text, |value| (1e-6..=1e6).contains(&value), "a number from 0.000001 to 1000000")
}

/// What a logit is made lower by.
pub(crate) fn penalty(text: &str) -> Result<f32, String> {
    number(text, |value| value.abs() <= 1e6, "a number from -1000000 to 1000000")
}

/// A factor or width that may be 0.
pub(crate) fn positive(text: &str) -> Result<f32, String> {
    number(text, |value| (0.0..=1e6).contains(&value), "a number from 0 to 1000000")
}

/// The base of a power that grows.
pub(crate) fn from_1(text: &str) -> Result<f32, String> {
    number(text, |value| (1.0..=1e6).contains(&value), "a number from 1 to 1000000")
}

/// The ranges are those that the engine takes; here they are checked before a model is loaded.
fn number(text: &str, is_fine: impl Fn(f32) -> bool, expected: &str) -> Result<f32, String> {
    text.parse().ok().filter(|&value| is_fine(value)).ok_or_else(|| format!("expected {expected}"))
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
            return Err("a comma lacks a token id beside it".to_owned());
        }
        let number = |id: &str| id.parse().map_err(|_| format!("{id:?} is not a token id"));
        between_commas.into_iter().flatten().map(number).collect::<Result<_, _>>().map(TokenIds)
    }
}

/// A token and what is added to its logit, such as `15043+1.5` or `15043-inf`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct LogitBias(pub(crate) u32, pub(crate) f32);

impl FromStr for LogitBias {
    type Err = String;

    fn from_str(text: &str) -> Result<LogitBias, String> {
        let parsed = text.find(['+', '-']).and_then(|sign| {
            let (id, bias) = text.split_at(sign);
            let unsigned = bias.get(1..)?.starts_with(|c: char| c.is_ascii_alphanumeric() || c == '.');
            let bias = bias.parse().ok().filter(|bias: &f32| unsigned && *bias < f32::INFINITY)?;
            Some(LogitBias(id.trim().parse().ok()?, bias))
        });
        parsed.ok_or_else(|| "expected a token id, a sign and a number, such as 15043+1".to_owned())
    }
}

/// Decoder layers from one to another, such as `0-3`, or one.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Layers(pub(crate) RangeInclusive<usize>);

impl FromStr for Layers {
    type Err = String;

    fn from_str(text: &str) -> Result<Layers, String> {
        let (first, last) = text.split_once('-').unwrap_or((text, text));
        let layers = first.trim().parse().ok().zip(last.trim().parse().ok());
        let layers = layers.filter(|(first, last)| first <= last);
        let layers = layers.map(|(first, last): (usize, usize)| Layers(first..=last));
        layers.ok_or_else(|| "expected a layer or the first and last of some, such as 5 or 0-3".to_owned())
    }
}

/// `text` with llama.cpp's escapes read: `\n`, `\t`, `\r`, `\"`, `\'`, `\\` and bytes as `\xHH`. Other
/// backslashes stay as they are.
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
    String::from_utf8(bytes).map_err(|_| format!("the bytes that {text:?} names with \\x are not UTF-8"))
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
            assert_eq!(ids(wrong), Err("a comma lacks a token id beside it".to_owned()), "{wrong}");
        }
        assert_eq!(ids("1,-2"), Err("\"-2\" is not a token id".to_owned()));
        assert_eq!(ids("4294967296"), Err("\"4294967296\" is not a token id".to_owned()));
    }

    #[test]
    fn layers_are_one_or_a_range() {
        assert_eq!("0-3".parse(), Ok(Layers(0..=3)));
        assert_eq!("5".parse(), Ok(Layers(5..=5)));
        for wrong in ["", "-1", "3-", "3-0", "0-3-5", "a"] {
            assert!(wrong.parse::<Layers>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn biases_have_a_sign() {
        assert_eq!("15043+1".parse(), Ok(LogitBias(15043, 1.0)));
        assert_eq!("7-0.5".parse(), Ok(LogitBias(7, -0.5)));
        assert_eq!("7-inf".parse(), Ok(LogitBias(7, f32::NEG_INFINITY)));
        for wrong in ["", "7", "7+", "+1", "7+-1", "7=1", "7--1", "7+inf", "7+nan"] {
            assert!(wrong.parse::<LogitBias>().is_err(), "{wrong}");
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

/// Layers that the graphics processor computes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum GpuLayers {
    /// As many as there is room for.
    Auto,
    All,
    /// The last ones, and the output.
    Last(usize),
}

impl FromStr for GpuLayers {
    type Err = String;

    fn from_str(text: &str) -> Result<GpuLayers, String> {
        match text {
            // -1 as in llama.cpp.
            "auto" | "-1" => Ok(GpuLayers::Auto),
            "all" => Ok(GpuLayers::All),
            number => {
                number.parse().map(GpuLayers::Last).map_err(|_| "expected a number, auto or all".to_owned())
            }
        }
    }
}

/// Bytes, such as `2GiB`, `512M` or `1000000`. Letters stand for powers of 1024, as people mean them of memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Size(pub(crate) u64);

impl FromStr for Size {
    type Err = String;

    fn from_str(text: &str) -> Result<Size, String> {
        let digits = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
        let (number, unit) = text.split_at(digits);
        let power = match unit.trim().to_ascii_lowercase().trim_end_matches('b').trim_end_matches('i') {
            "" => Some(0),
            "k" => Some(1),
            "m" => Some(2),
            "g" => Some(3),
            "t" => Some(4),
            _ => None,
        };
        let bytes =
            number.parse().ok().zip(power).map(|(number, power): (f64, i32)| number * 1024_f64.powi(power));
        let bytes = bytes.filter(|&bytes| bytes < u64::MAX as f64);
        bytes
            .map(|bytes| Size(bytes as u64))
            .ok_or_else(|| "expected bytes, such as 2GiB or 512MiB".to_owned())
    }
}
