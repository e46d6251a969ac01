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

/// The expressions of GPT-2, Llama 3 and Qwen 2.
const GPT_2: &str = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+";
const LLAMA_3: &str = r"'[sS]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD]|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+";
const QWEN_2: &str = r"'[sS]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD]|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+";

/// Letters of the scripts with upper and lower case, and some signs that look like them.
const CASED: &str = concat!(
    r"\s?[",
    r"A-Za-z\x{b5}\x{c0}-\x{d6}\x{d8}-\x{f6}\x{f8}-\x{1ba}\x{1bc}-\x{1bf}\x{1c4}-\x{293}",
    r"\x{295}-\x{2af}\x{370}-\x{373}\x{376}\x{377}\x{37b}-\x{37d}\x{37f}\x{386}\x{388}-",
    r"\x{38a}\x{38c}\x{38e}-\x{3a1}\x{3a3}-\x{3f5}\x{3f7}-\x{481}\x{48a}-\x{52f}\x{531}-",
    r"\x{556}\x{10a0}-\x{10c5}\x{13a0}-\x{13f5}\x{13f8}-\x{13fd}\x{1c90}-\x{1cba}\x{1cbd}-",
    r"\x{1cbf}\x{1d00}-\x{1d2b}\x{1d6b}-\x{1d77}\x{1d79}-\x{1d9a}\x{1e00}-\x{1f15}\x{1f18}-",
    r"\x{1f1d}\x{1f20}-\x{1f45}\x{1f48}-\x{1f4d}\x{1f50}-\x{1f57}\x{1f59}\x{1f5b}\x{1f5d}",
    r"\x{1f5f}-\x{1f7d}\x{1f80}-\x{1fb4}\x{1fb6}-\x{1fbc}\x{1fbe}\x{1fc2}-\x{1fc4}\x{1fc6}-",
    r"\x{1fcc}\x{1fd0}-\x{1fd3}\x{1fd6}-\x{1fdb}\x{1fe0}-\x{1fec}\x{1ff2}-\x{1ff4}\x{1ff6}-",
    r"\x{1ffc}\x{2102}\x{2107}\x{210a}-\x{2113}\x{2115}\x{2119}-\x{211d}\x{2124}\x{2126}",
    r"\x{2128}\x{212a}-\x{212d}\x{212f}-\x{2134}\x{2139}\x{213c}-\x{213f}\x{2145}-\x{2149}",
    r"\x{214e}\x{2183}\x{2184}\x{2c00}-\x{2c7b}\x{2c7e}-\x{2ce4}\x{2ceb}-\x{2cee}\x{2cf2}",
    r"\x{2cf3}\x{a640}-\x{a66d}\x{a680}-\x{a69b}\x{a722}-\x{a76f}\x{a771}-\x{a787}\x{a78b}-",
    r"\x{a78e}\x{ab70}-\x{abbf}\x{fb00}-\x{fb06}\x{fb13}-\x{fb17}\x{ff21}-\x{ff3a}\x{ff41}-",
    r"\x{ff5a}\x{10400}-\x{1044f}\x{104b0}-\x{104d3}\x{104d8}-\x{104fb}\x{10c80}-\x{10cb2}",
    r"\x{10cc0}-\x{10cf2}\x{118a0}-\x{118df}\x{1e900}-\x{1e943}",
    "]+"
);

const TABLE: &[Row] = &[
    Row {
        names: &[
            "gpt-2",
            "phi-2",
            "gigachat",
            "a.x-4.0",
            "mellum",
            "exaone4",
            "mpt",
            "olmo",
            "jais",
            "trillion",
            "granite-docling",
            "modern-bert",
            "jina-es",
            "jina-de",
            "jina-v2-es",
            "jina-v2-de",
        ],
        patterns: &[GPT_2],
        ..PLAIN
    },
    Row {
        names: &[
            "llama-bpe",
            "llama3",
            "llama-v3",
            "falcon3",
            "falcon-h1",
            "pixtral",
            "midm-2.0",
            "lfm2",
            "jina-v5-nano",
        ],
        patterns: &[LLAMA_3],
        whole_words: true,
        adds_bos: true,
    },
    Row { names: &["glm4"], patterns: &[LLAMA_3], whole_words: true, ..PLAIN },
    Row { names: &["chatglm-bpe", "dbrx", "smaug-bpe"], patterns: &[LLAMA_3], ..PLAIN },
    Row {
        names: &[
            "qwen2",
            "deepseek-r1-qwen",
            "kormo",
            "megrez",
            "f2llmv2",
            "stablelm2",
            "hunyuan",
            "solar-open",
            "grok-2",
        ],
        patterns: &[QWEN_2],
        ..PLAIN
    },
    Row {
        names: &["qwen35"],
        patterns: &[
            r"'[sS]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD]|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+",
        ],
        ..PLAIN
    },
    Row {
        names: &[
            "starcoder",
            "refact",
            "command-r",
            "smollm",
            "codeshell",
            "exaone",
            "minerva-7b",
            "mellum2",
        ],
        patterns: &[r"\p{N}", GPT_2],
        ..PLAIN
    },
    Row { names: &["falcon"], patterns: &[r"[\p{P}$+<=>^~|`]+", GPT_2, r"[0-9][0-9][0-9]"], ..PLAIN },
    Row {
        names: &["default"],
        patterns: &[r"[\p{P}$+<=>^~|]+", GPT_2, r"\p{N}+", r"[0-9][0-9][0-9]"],
        ..PLAIN
    },
    Row {
        names: &["deepseek-coder"],
        patterns: &[r"[\r\n]", r"\s?\p{L}+", r"\s?\p{P}+", r"[[一-龥ࠀ-一가-퟿]--\s]+", r"\p{N}"],
        ..PLAIN
    },
    Row {
        names: &["deepseek-llm"],
        patterns: &[
            r"[\r\n]",
            CASED,
            r"\s?[!-/:-~！-／：-～‘-‟\x{3001}-。]+",
            r"\s+$",
            r"[[一-龥ࠀ-一가-퟿]--\s]+",
            r"\p{N}+",
        ],
        ..PLAIN
    },
    Row {
        names: &["deepseek-v3", "hunyuan-dense", "joyai-llm"],
        patterns: &[
            r"\p{N}{1,3}",
            "[一-龥぀-ゟ゠-ヿ]+",
            r##"[!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"##,
        ],
        ..PLAIN
    },
    Row {
        names: &["tekken"],
        patterns: &[
            r"[^\r\n\p{L}\p{N}]?[\p{L}--[a-z]]*[\p{L}--[A-Z]]+|[^\r\n\p{L}\p{N}]?[\p{L}--[a-z]]+[\p{L}--[A-Z]]*|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+",
        ],
        whole_words: true,
        adds_bos: true,
    },
    Row {
        names: &["gpt-4o", "llama4", "kanana2", "minimax-m2"],
        patterns: &[
            r"[^\r\n\p{L}\p{N}]?[\p{L}--[a-z]]*[\p{L}--[A-Z]]+(?:'[sS]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD])?|[^\r\n\p{L}\p{N}]?[\p{L}--[a-z]]+[\p{L}--[A-Z]]*(?:'[sS]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD])?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+",
        ],
        ..PLAIN
    },
    Row {
        names: &["granite-embed-multi-97m"],
        patterns: &[
            r"[^\r\n\p{L}\p{N}]?[[\p{L}\p{M}]--[a-z]]*[[\p{L}\p{M}]--[A-Z]]+(?:'[sS]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD])?|[^\r\n\p{L}\p{N}]?[[\p{L}\p{M}]--[a-z]]+[[\p{L}\p{M}]--[A-Z]]*(?:'[sS]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD])?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+",
        ],
        whole_words: true,
        ..PLAIN
    },
    Row {
        names: &["kimi-k2"],
        patterns: &[
            r"[\x{3400}-\x{4dbf}\x{4e00}-\x{9fff}\x{f900}-\x{faff}\x{20000}-\x{2a6df}\x{2a700}-\x{2ebef}\x{2f800}-\x{2fa1f}]+|[^\r\n\p{L}\p{N}]?[\p{L}--[\x{3400}-\x{4dbf}\x{4e00}-\x{9fff}\x{f900}-\x{faff}\x{20000}-\x{2a6df}\x{2a700}-\x{2ebef}\x{2f800}-\x{2fa1f}]]+(?:'[sS]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD])?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+",
        ],
        ..PLAIN
    },
    Row {
        names: &["youtu"],
        patterns: &[
            r"[가-힣ㄱ-ㆎ]+|[！…“”‘’—：；，、-〿︰-﹏]+|[ㄅ-ㄯ]+|[一-龥぀-ゟ゠-ヿ]+",
            r"[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+(?:'[sS]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD])?|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+",
        ],
        whole_words: true,
        ..PLAIN
    },
    Row {
        names: &["bloom", "poro-chat", "gpt3-finnish"],
        patterns: &[r" ?[^(\s|.,!?…。，、।۔،)]+"],
        ..PLAIN
    },
    Row { names: &["viking"], patterns: &[r" ?[^(\s|.,!?…。，、।۔،)]+", r"\p{N}"], ..PLAIN },
    Row {
        names: &["bailingmoe", "bailingmoe2", "llada-moe"],
        patterns: &[
            r"'(?:[sSdDmMtT]|[lL][lL]|[vV][eE]|[rR][eE])|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]|\s+(?!\S)|\s+",
        ],
        ..PLAIN
    },
    Row {
        names: &["seed-coder"],
        patterns: &[
            r"'[sS]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD]|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}\r\n]+|\s*[\r\n]+|\s+(?!\S)|\s+",
        ],
        ..PLAIN
    },
    Row {
        names: &["exaone-moe"],
        patterns: &[
            r"'[sS]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD]|[^\r\n\p{L}\p{N}]?(?:\p{L}\p{M}*(?: \p{L}\p{M}*)*)+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]?|\s*[\r\n]|\s+(?!\S)|\s+",
        ],
        ..PLAIN
    },
    Row {
        names: &["minicpm5"],
        patterns: &[
            r"\p{N}{1,3}",
            r"'[sS]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD]|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}+| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+",
        ],
        whole_words: true,
        ..PLAIN
    },
    Row {
        names: &["chameleon"],
        patterns: &[
            r"<sentinel:[0-9]+>",
            r"IMGIMG[A-I]{1,4}Z",
            r"[\t\n]|    |  ",
            r"\p{N}",
            r"[\p{P}!-/:-@\[-`{-~]",
            GPT_2,
        ],
        adds_bos: true,
        ..PLAIN
    },
];

/// The usual settings.
const PLAIN: Row = Row { names: &[], patterns: &[], whole_words: false, adds_bos: false };

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
        let (gpt_4o, tekken, v3) = ("gpt-4o", "tekken", "deepseek-v3");
        assert_eq!(words(gpt_4o, "HTTPServer's12345/\n"), ["HTTPServer's", "123", "45", "/\n"]);
        assert_eq!(words(tekken, "camelCase's12"), ["camel", "Case", "'s", "1", "2"]);
        assert_eq!(words("qwen35", "e\u{301}a12"), ["e\u{301}a", "1", "2"]);
        assert_eq!(words("starcoder", "x12 a"), ["x", "1", "2", " a"]);
        assert_eq!(words(v3, "a日本1234+b !"), ["a", "日本", "123", "4", "+b", " !"]);
        assert_eq!(words("bloom", "a, b(c"), ["a", ",", " b", "(", "c"]);
        assert_eq!(words("kimi-k2", "a漢b1234"), ["a", "漢", "b", "123", "4"]);
        assert_eq!(words(gpt2, " "), [" "]);
        assert_eq!(words(llama3, " "), [" "]);
        assert_eq!(words(llama3, ""), Vec::<String>::new());
        // Each pattern splits what those before it have left; what none matches stays together.
        assert_eq!(words(coder, "a, b\n\n  12+=x"), ["a", ",", " b", "\n", "\n", "  ", "1", "2", "+=", "x"]);
    }
}
