//! Pre-tokenizers: how BPE splits text into words before merging.
//!
//! The regular expressions run in linear time on an automaton. Look-ahead, which automata cannot do, is done here. Words
//! consist of whole characters.

use regex_automata::Input;
use regex_automata::meta::{BuildError, Regex};

use crate::pretokenizers::{Row, TABLE};

/// The ends of expressions that split white space: all of it at the end of the text, otherwise all but its last
/// character, otherwise a single character; either at once, or (`true`) in powers of two.
const SPACES: [(&str, bool); 2] = [
    (r"|\s+(?!\S)|\s+", false),
    (
        r"|\s{512}(?!\S)|\s{256}(?!\S)|\s{128}(?!\S)|\s{64}(?!\S)|\s{32}(?!\S)|\s{16}(?!\S)|\s{8}(?!\S)|\s{4}(?!\S)|\s{1,2}(?!\S)|\s{1}",
        true,
    ),
];

/// The patterns that split numbers into groups of three digits, counted from their end.
const DIGITS: [(&str, Digits); 3] = [
    (
        r"\d{1,3}(?=(?:\d{3})*\b)",
        Digits { is_digit: |c| c.is_ascii_digit(), start: Start::Cut, cut_at_end: true, whole_words: true },
    ),
    (
        r"(?=(\d{3})+(?!\d))",
        Digits {
            is_digit: |c| c.is_ascii_digit(),
            start: Start::CutIfGroup,
            cut_at_end: false,
            whole_words: false,
        },
    ),
    // llama.cpp's own: text before a number stays with its first group.
    (
        r"\p{AFMoE_digits}",
        Digits { is_digit: char::is_numeric, start: Start::Stay, cut_at_end: true, whole_words: false },
    ),
];

pub(crate) struct PreTokenizer {
    pub(crate) row: &'static Row,
    splitters: Vec<Splitter>,
}

enum Splitter {
    /// The second pattern of the expression replaces one of [`SPACES`]; whether it is split in powers of two.
    Regex(Regex, bool),
    Digits(&'static Digits),
}

impl PreTokenizer {
    /// The pre-tokenizer named in `tokenizer.ggml.pre`; `None` if it is not in the table.
    pub(crate) fn from_name(name: &str) -> Option<Result<PreTokenizer, Box<BuildError>>> {
        let row = pre_tokenizer(name)?;
        let splitters: Result<_, _> = row.patterns.iter().map(|pattern| Splitter::new(pattern)).collect();
        Some(splitters.map(|splitters| PreTokenizer { row, splitters }))
    }

    /// Calls `each` with the words of `text` in order; their concatenation is `text`.
    pub(crate) fn words(&self, text: &str, each: &mut impl FnMut(&str)) {
        split(&self.splitters, text, each);
    }
}

/// The pre-tokenizer with this name.
pub fn pre_tokenizer(name: &str) -> Option<&'static Row> {
    TABLE.iter().find(|row| row.names().any(|other| other == name))
}

/// All pre-tokenizers.
pub fn pre_tokenizer_rows() -> &'static [Row] {
    TABLE
}

/// The names of all pre-tokenizers, which `tokenizer.ggml.pre` may hold, in alphabetical order.
pub fn pre_tokenizers() -> Vec<&'static str> {
    let mut names: Vec<_> = TABLE.iter().flat_map(Row::names).collect();
    names.sort_unstable();
    names
}

impl Splitter {
    fn new(pattern: &str) -> Result<Splitter, Box<BuildError>> {
        if let Some((_, digits)) = DIGITS.iter().find(|(known, _)| *known == pattern) {
            return Ok(Splitter::Digits(digits));
        }
        for (end, in_powers) in SPACES {
            if let Some(pattern) = pattern.strip_suffix(end) {
                return Ok(Splitter::Regex(Regex::new_many(&[pattern, r"\s+"])?, in_powers));
            }
        }
        Ok(Splitter::Regex(Regex::new(pattern)?, false))
    }
}

/// Splits `text` by the first splitter, the results by the next, and so on.
fn split(splitters: &[Splitter], text: &str, each: &mut impl FnMut(&str)) {
    let Some((splitter, splitters)) = splitters.split_first() else {
        if !text.is_empty() {
            each(text);
        }
        return;
    };
    let mut part = |part: &str| split(splitters, part, each);
    match splitter {
        Splitter::Regex(regex, in_powers) => regex_parts(regex, *in_powers, text, &mut part),
        Splitter::Digits(digits) => digits.parts(text, &mut part),
    }
}

/// Calls `part` with the matches of `regex` and the text between them.
fn regex_parts(regex: &Regex, in_powers: bool, text: &str, part: &mut impl FnMut(&str)) {
    let mut rest = 0;
    while let Some(found) = regex.search(&Input::new(text).range(rest..)) {
        let (start, mut end) = (found.start(), found.end());
        part(&text[rest..start]);
        rest = start;
        if found.pattern().as_usize() == 1 {
            if end < text.len() {
                let last = text[start..end].char_indices().next_back().map_or(0, |(at, _)| at);
                end = if last > 0 { start + last } else { end };
            }
            if in_powers {
                let mut count = text[start..end].chars().count();
                while count > 1 {
                    let power = 1 << count.ilog2().min(9);
                    let length = text[rest..end].chars().take(power).map(char::len_utf8).sum::<usize>();
                    part(&text[rest..rest + length]);
                    (rest, count) = (rest + length, count - power);
                }
            }
        }
        part(&text[rest..end]);
        rest = end;
    }
    part(&text[rest..]);
}

/// A way to split numbers. The last group of three ends with the number.
struct Digits {
    is_digit: fn(char) -> bool,
    start: Start,
    /// The text after a number is another part.
    cut_at_end: bool,
    /// A number that a letter or underscore follows is not split.
    whole_words: bool,
}

/// Whether a part begins where a number does.
enum Start {
    Cut,
    /// If the first group has three digits.
    CutIfGroup,
    Stay,
}

impl Digits {
    fn parts(&self, text: &str, part: &mut impl FnMut(&str)) {
        let (mut done, mut at) = (0, 0);
        let mut cut = |at: usize| {
            part(&text[done..at]);
            done = at;
        };
        while let Some(found) = text[at..].find(self.is_digit) {
            let start = at + found;
            let digits = text[start..].split(|c| !(self.is_digit)(c)).next().unwrap_or_default();
            at = start + digits.len();
            if self.whole_words && text[at..].starts_with(|c: char| c.is_ascii_alphanumeric() || c == '_') {
                continue;
            }
            let count = digits.chars().count();
            match self.start {
                Start::Cut => cut(start),
                Start::CutIfGroup if count % 3 == 0 => cut(start),
                Start::CutIfGroup | Start::Stay => {}
            }
            let groups = digits.char_indices().enumerate().skip(1);
            groups
                .filter(|(index, _)| (count - index) % 3 == 0)
                .for_each(|(_, (offset, _))| cut(start + offset));
            if self.cut_at_end {
                cut(at);
            }
        }
        cut(text.len());
    }
}

#[cfg(test)]
mod tests {
    use super::PreTokenizer;

    fn words(name: &str, text: &str) -> Vec<String> {
        let pre = PreTokenizer::from_name(name).expect("in the table").expect("good patterns");
        let mut words = Vec::new();
        pre.words(text, &mut |word: &str| words.push(word.to_owned()));
        words
    }

    /// Expected words worked out by hand from the regular expressions.
    #[test]
    fn words_are_those_of_the_expressions() {
        let (gpt2, llama3, qwen2, coder) = ("gpt-2", "llama-bpe", "qwen2", "deepseek-coder");
        assert_eq!(
            words(gpt2, "He'll 'Ll 12345 a\n\n b"),
            ["He", "'ll", " '", "Ll", " 12345", " a", "\n\n", " b"]
        );
        assert_eq!(words(gpt2, " \t x !?\n"), [" \t", " x", " !?", "\n"]);
        assert_eq!(words(gpt2, "\tx  "), ["\t", "x", "  "]);
        assert_eq!(words(llama3, "I'LL\ttab 12345"), ["I", "'LL", "\ttab", " ", "123", "45"]);
        assert_eq!(words(qwen2, "x12"), ["x", "1", "2"]);
        assert_eq!(words(llama3, "a !!\r\n\n  b"), ["a", " !!\r\n\n", " ", " b"]);
        assert_eq!(words(llama3, "a \n \n  7"), ["a", " \n \n", " ", " ", "7"]);
        assert_eq!(words(llama3, "¿qué?\u{a0}\u{3000}x"), ["¿qué", "?", "\u{a0}", "\u{3000}x"]);
        assert_eq!(words(llama3, "Ⅷ½٣4"), ["Ⅷ½٣", "4"]);
        assert_eq!(words(qwen2, "e\u{301}a"), ["e", "\u{301}a"]);
        let (gpt_4o, tekken, v3) = ("gpt-4o", "tekken", "deepseek-v3");
        assert_eq!(words(gpt_4o, "HTTPServer's12345/\n"), ["HTTPServer's", "123", "45", "/\n"]);
        assert_eq!(words(tekken, "camelCase's12"), ["camel", "Case", "'s", "1", "2"]);
        assert_eq!(words("qwen35", "e\u{301}a12"), ["e\u{301}a", "1", "2"]);
        assert_eq!(words("starcoder", "x12 a"), ["x", "1", "2", " a"]);
        assert_eq!(words(v3, "a日本1234+b !"), ["a", "日本", "123", "4", "+b", " !"]);
        assert_eq!(words("bloom", "a, b(c"), ["a", ",", " b", "(", "c"]);
        assert_eq!(
            words("jais-2", &format!("a{}b  ", " ".repeat(8))).iter().map(String::len).collect::<Vec<_>>(),
            [1, 4, 2, 1, 2, 2]
        );
        assert_eq!(
            words("superbpe", "a b1234 567x12½123"),
            ["a b", "1", "234", " ", "567", "x", "12½", "123"]
        );
        assert_eq!(words("tiny_aya", "a1234 1234x12"), ["a", "1", "234", " ", "123", "4", "x", "12"]);
        assert_eq!(words("afmoe", "ab1234 (12"), ["ab", "1", "234", " (", "12"]);
        assert_eq!(words("gemma4", "a b\n\nc"), ["a b", "\n\n", "c"]);
        assert_eq!(words("kimi-k2", "a漢b1234"), ["a", "漢", "b", "123", "4"]);
        assert_eq!(words(gpt2, " "), [" "]);
        assert_eq!(words(llama3, " "), [" "]);
        assert_eq!(words(llama3, ""), Vec::<String>::new());
        // Each pattern splits what those before it have left; what none matches stays together.
        assert_eq!(words(coder, "a, b\n\n  12+=x"), ["a", ",", " b", "\n", "\n", "  ", "1", "2", "+=", "x"]);
    }
}
