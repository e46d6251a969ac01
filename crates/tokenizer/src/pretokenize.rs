//! Pre-tokenizers: how byte-level BPE splits text into words before merging.
//!
//! The regular expressions are those of llama.cpp's `llama-vocab.cpp`. They run in linear time on an automaton. Words
//! consist of whole characters.

use regex_automata::Input;
use regex_automata::meta::{BuildError, Cache, Regex};

pub(crate) struct Row {
    /// Values of `tokenizer.ggml.pre` that llama.cpp treats alike.
    names: &'static [&'static str],
    /// Applied in order: each splits the results of the previous one.
    patterns: &'static [&'static str],
    /// A word that is a token is not split (`ignore_merges`).
    pub(crate) whole_words: bool,
    /// A prompt starts with BOS if the file does not say.
    pub(crate) adds_bos: bool,
}

const TABLE: [Row; 4] = [
    Row {
        names: &["gpt-2", "phi-2", "gigachat", "a.x-4.0", "mellum", "exaone4"],
        patterns: &[r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"],
        whole_words: false,
        adds_bos: false,
    },
    Row {
        names: &["llama-bpe", "llama3", "llama-v3", "falcon3", "falcon-h1", "pixtral", "midm-2.0", "lfm2"],
        patterns: &[
            r"'[sS]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD]|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+",
        ],
        whole_words: true,
        adds_bos: true,
    },
    Row {
        names: &["qwen2", "deepseek-r1-qwen", "kormo", "megrez"],
        patterns: &[
            r"'[sS]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD]|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+",
        ],
        whole_words: false,
        adds_bos: false,
    },
    Row {
        names: &["deepseek-coder"],
        patterns: &[r"[\r\n]", r"\s?\p{L}+", r"\s?\p{P}+", "[一-龥ࠀ-一가-퟿]+", r"\p{N}"],
        whole_words: false,
        adds_bos: false,
    },
];

/// The only look-ahead in the table: white space up to the end of the text, otherwise all but its last character,
/// otherwise a single character.
const SPACES: &str = r"|\s+(?!\S)|\s+";

/// A compiled row of the table.
pub(crate) struct PreTokenizer {
    pub(crate) row: &'static Row,
    patterns: Vec<Regex>,
}

/// Scratch memory of the automata, reused between texts.
pub(crate) struct Matching(Vec<Cache>);

impl PreTokenizer {
    /// The pre-tokenizer named in `tokenizer.ggml.pre`; `None` if it is not in the table.
    pub(crate) fn from_name(name: &str) -> Option<Result<PreTokenizer, Box<BuildError>>> {
        let row = TABLE.iter().find(|row| row.names.contains(&name))?;
        let compile = |pattern: &&str| match pattern.strip_suffix(SPACES) {
            Some(pattern) => Regex::new_many(&[pattern, r"\s+"]).map_err(Box::new),
            None => Regex::new(pattern).map_err(Box::new),
        };
        let patterns: Result<_, _> = row.patterns.iter().map(compile).collect();
        Some(patterns.map(|patterns| PreTokenizer { row, patterns }))
    }

    /// The first name of each row.
    pub(crate) fn known() -> impl Iterator<Item = &'static str> {
        TABLE.iter().filter_map(|row| row.names.first().copied())
    }

    pub(crate) fn matching(&self) -> Matching {
        Matching(self.patterns.iter().map(Regex::create_cache).collect())
    }

    /// Calls `each` with the words of `text` in order; their concatenation is `text`.
    pub(crate) fn words(&self, text: &str, matching: &mut Matching, each: &mut impl FnMut(&str)) {
        split(&self.patterns, &mut matching.0, text, each);
    }
}

/// Splits `text` by the first pattern, the results by the next, and so on.
fn split(patterns: &[Regex], caches: &mut [Cache], text: &str, each: &mut impl FnMut(&str)) {
    let (Some((pattern, patterns)), Some((cache, caches))) =
        (patterns.split_first(), caches.split_first_mut())
    else {
        if !text.is_empty() {
            each(text);
        }
        return;
    };
    let mut rest = 0;
    while let Some(found) = pattern.search_with(cache, &Input::new(text).range(rest..)) {
        let mut end = found.end();
        // The second pattern replaces `SPACES`.
        if found.pattern().as_usize() == 1 && end < text.len() {
            let last = text[found.range()].char_indices().next_back().map_or(0, |(at, _)| at);
            end = if last > 0 { found.start() + last } else { end };
        }
        split(patterns, caches, &text[rest..found.start()], each);
        split(patterns, caches, &text[found.start()..end], each);
        rest = end;
    }
    split(patterns, caches, &text[rest..], each);
}

#[cfg(test)]
mod tests {
    use super::PreTokenizer;

    fn words(name: &str, text: &str) -> Vec<String> {
        let pre = PreTokenizer::from_name(name).expect("in the table").expect("good patterns");
        let mut words = Vec::new();
        pre.words(text, &mut pre.matching(), &mut |word: &str| words.push(word.to_owned()));
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
        assert_eq!(words(gpt2, " "), [" "]);
        assert_eq!(words(llama3, " "), [" "]);
        assert_eq!(words(llama3, ""), Vec::<String>::new());
        // Each pattern splits what those before it have left; what none matches stays together.
        assert_eq!(words(coder, "a, b\n\n  12+=x"), ["a", ",", " b", "\n", "\n", "  ", "1", "2", "+=", "x"]);
    }
}
