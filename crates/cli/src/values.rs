//! Values of options that need reading: token ids, biases, bounded numbers.

use std::num::NonZero;
use std::str::FromStr;

/// A number of things that each take memory.
pub(crate) fn from_1_to<const MOST: usize>(text: &str) -> Result<NonZero<usize>, String> {
    let number = text.parse().ok().filter(|number: &NonZero<usize>| number.get() <= MOST);
    number.ok_or_else(|| format!("expected a number from 1 to {MOST}"))
}

/// Token ids such as `1, 2`, `1 2` or `[1,2]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TokenIds(pub(crate) Vec<u32>);

impl FromStr for TokenIds {
    type Err = String;

    fn from_str(text: &str) -> Result<TokenIds, String> {
        let text = text.trim();
        let inner = text.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(text);
        let ids = inner.split(|c: char| c == ',' || c.is_whitespace()).filter(|id| !id.is_empty());
        let number = |id: &str| id.parse().map_err(|_| format!("{id:?} is not a token id"));
        ids.map(number).collect::<Result<_, _>>().map(TokenIds)
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
            Some(LogitBias(id.trim().parse().ok()?, bias.parse().ok().filter(|_| unsigned)?))
        });
        parsed.ok_or_else(|| "expected a token id, a sign and a number, such as 15043+1".to_owned())
    }
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
        assert_eq!(ids("1,-2"), Err("\"-2\" is not a token id".to_owned()));
        assert_eq!(ids("4294967296"), Err("\"4294967296\" is not a token id".to_owned()));
    }

    #[test]
    fn biases_have_a_sign() {
        assert_eq!("15043+1".parse(), Ok(LogitBias(15043, 1.0)));
        assert_eq!("7-0.5".parse(), Ok(LogitBias(7, -0.5)));
        assert_eq!("7-inf".parse(), Ok(LogitBias(7, f32::NEG_INFINITY)));
        for wrong in ["", "7", "7+", "+1", "7+-1", "7=1", "7--1"] {
            assert!(wrong.parse::<LogitBias>().is_err(), "{wrong}");
        }
    }
}
