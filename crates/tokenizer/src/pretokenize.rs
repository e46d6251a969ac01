//! Pre-tokenizers: how byte-level BPE splits text into words before merging.
//!
//! The words are those of the regular expressions of llama.cpp's `unicode.cpp`; each splitter here
//! reads the text once, so no text makes it slow. A word is always a whole number of characters.

use unicode_general_category::{GeneralCategory, get_general_category};

/// A way of splitting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PreTokenizer {
    /// `'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+`
    Gpt2,
    /// As [`PreTokenizer::Qwen2`] with `\p{N}{1,3}`; a word that is a token is not merged.
    Llama3,
    /// `(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+`
    Qwen2,
}

impl PreTokenizer {
    /// The pre-tokenizer a file names in `tokenizer.ggml.pre`. The names are those that llama.cpp
    /// treats exactly alike.
    pub(crate) fn from_name(name: &str) -> Option<PreTokenizer> {
        Some(match name {
            "gpt-2" | "phi-2" | "gigachat" | "a.x-4.0" | "mellum" | "exaone4" => PreTokenizer::Gpt2,
            "llama-bpe" | "llama3" | "llama-v3" | "falcon3" | "falcon-h1" | "pixtral" | "midm-2.0"
            | "lfm2" => PreTokenizer::Llama3,
            "qwen2" | "deepseek-r1-qwen" | "kormo" | "megrez" => PreTokenizer::Qwen2,
            _ => return None,
        })
    }

    /// The words of `text` in order; together they are `text`.
    pub(crate) fn words(self, text: &str) -> impl Iterator<Item = &str> {
        let mut rest = text;
        std::iter::from_fn(move || {
            let first = rest.chars().next()?;
            let (word, after) = rest.split_at(match self {
                PreTokenizer::Gpt2 => gpt2(rest, first),
                PreTokenizer::Llama3 => cl100k(rest, first, 3),
                PreTokenizer::Qwen2 => cl100k(rest, first, 1),
            });
            rest = after;
            Some(word)
        })
    }
}

/// The classes the expressions tell apart.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Class {
    /// `\p{L}`
    Letter,
    /// `\p{N}`
    Number,
    /// `\s`
    Space,
    /// `[^\s\p{L}\p{N}]`
    Other,
}

use Class::{Letter, Number, Other, Space};

fn class(c: char) -> Class {
    if c.is_ascii() {
        return match c {
            'a'..='z' | 'A'..='Z' => Letter,
            '0'..='9' => Number,
            ' ' | '\t'..='\r' => Space,
            _ => Other,
        };
    }
    if c.is_whitespace() {
        return Space;
    }
    match get_general_category(c) {
        GeneralCategory::UppercaseLetter
        | GeneralCategory::LowercaseLetter
        | GeneralCategory::TitlecaseLetter
        | GeneralCategory::ModifierLetter
        | GeneralCategory::OtherLetter => Letter,
        GeneralCategory::DecimalNumber | GeneralCategory::LetterNumber | GeneralCategory::OtherNumber => {
            Number
        }
        _ => Other,
    }
}

/// Bytes of the first word of `text`, which begins with `first`, by the expression of GPT-2.
fn gpt2(text: &str, first: char) -> usize {
    if let Some(len) = contraction(text, |c| c) {
        return len;
    }
    let start = usize::from(first == ' ');
    match text[start..].chars().next().map(class) {
        Some(word @ (Letter | Number | Other)) => start + run(&text[start..], |c| class(c) == word),
        Some(Space) | None => spaces(text),
    }
}

/// Bytes of the first word of `text`, which begins with `first`, by the expression of OpenAI's
/// cl100k with at most `digits` digits in a word.
fn cl100k(text: &str, first: char, digits: usize) -> usize {
    if let Some(len) = contraction(text, |c| c.to_ascii_lowercase()) {
        return len;
    }
    let kind = class(first);
    let after = &text[first.len_utf8()..];
    let before_letters =
        kind != Number && !is_newline(first) && after.chars().next().map(class) == Some(Letter);
    if kind == Letter || before_letters {
        return first.len_utf8() + run(after, |c| class(c) == Letter);
    }
    if kind == Number {
        return text.chars().take(digits).take_while(|&c| class(c) == Number).map(char::len_utf8).sum();
    }
    let start = usize::from(first == ' ');
    let symbols = run(&text[start..], |c| class(c) == Other);
    if symbols > 0 {
        let end = start + symbols;
        return end + run(&text[end..], is_newline);
    }
    let space = run(text, |c| class(c) == Space);
    match text[..space].rfind(is_newline) {
        Some(last_newline) => last_newline + 1,
        None => spaces(text),
    }
}

/// `\s+(?!\S)|\s+`: white space up to the end of the text, else all of it but the last character,
/// else the one character there is.
fn spaces(text: &str) -> usize {
    let end = run(text, |c| class(c) == Space);
    let last = text[..end].chars().next_back().map_or(0, char::len_utf8);
    if end == text.len() || end == last { end } else { end - last }
}

/// Bytes of an English contraction (`'s`, `'ll`, …) that `text` begins with.
fn contraction(text: &str, lower: impl Fn(u8) -> u8) -> Option<usize> {
    match *text.as_bytes() {
        [b'\'', a, ..] if matches!(lower(a), b's' | b't' | b'm' | b'd') => Some(2),
        [b'\'', a, b, ..] if matches!(&[lower(a), lower(b)], b"re" | b"ve" | b"ll") => Some(3),
        _ => None,
    }
}

fn is_newline(c: char) -> bool {
    matches!(c, '\r' | '\n')
}

/// Bytes at the beginning of `text` whose characters satisfy `is`.
fn run(text: &str, is: impl Fn(char) -> bool) -> usize {
    text.find(|c| !is(c)).unwrap_or(text.len())
}

#[cfg(test)]
mod tests {
    use super::PreTokenizer::{self, Gpt2, Llama3, Qwen2};

    fn words(pre: PreTokenizer, text: &str) -> Vec<&str> {
        pre.words(text).collect()
    }

    /// Expected words worked out by hand from the regular expressions.
    #[test]
    fn words_are_those_of_the_expressions() {
        assert_eq!(
            words(Gpt2, "He'll 'Ll 12345 a\n\n b"),
            ["He", "'ll", " '", "Ll", " 12345", " a", "\n\n", " b"]
        );
        assert_eq!(words(Gpt2, " \t x !?\n"), [" \t", " x", " !?", "\n"]);
        assert_eq!(words(Gpt2, "\tx  "), ["\t", "x", "  "]);
        assert_eq!(words(Llama3, "I'LL\ttab 12345"), ["I", "'LL", "\ttab", " ", "123", "45"]);
        assert_eq!(words(Qwen2, "x12"), ["x", "1", "2"]);
        assert_eq!(words(Llama3, "a !!\r\n\n  b"), ["a", " !!\r\n\n", " ", " b"]);
        assert_eq!(words(Llama3, "a \n \n  7"), ["a", " \n \n", " ", " ", "7"]);
        assert_eq!(words(Llama3, "¿qué?\u{a0}\u{3000}x"), ["¿qué", "?", "\u{a0}", "\u{3000}x"]);
        assert_eq!(words(Llama3, "Ⅷ½٣4"), ["Ⅷ½٣", "4"]);
        assert_eq!(words(Qwen2, "e\u{301}a"), ["e", "\u{301}a"]);
        assert_eq!(words(Gpt2, " "), [" "]);
        assert_eq!(words(Llama3, " "), [" "]);
        assert_eq!(words(Llama3, ""), Vec::<&str>::new());
    }
}
