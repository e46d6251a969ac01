//! The table of pre-tokenizers.
//!
//! Source: llama.cpp's `llama-vocab.cpp`. Look-ahead, groups of digits and `\p{AFMoE_digits}` are for
//! [`pretokenize`](crate::pretokenize), all else is for the regex crate.

/// A pre-tokenizer.
#[derive(Debug)]
pub struct Row {
    /// Values of `tokenizer.ggml.pre` that llama.cpp treats alike, with a space between two.
    names: &'static str,
    /// Applied in order: each splits the results of the previous one.
    pub patterns: &'static [&'static str],
    /// A word that is a token is not split (`ignore_merges`).
    pub whole_words: bool,
    /// The same for words of newlines.
    pub whole_newlines: bool,
    /// Tokens are written in `▁` and characters instead of GPT-2's byte alphabet.
    pub characters: bool,
    /// A prompt starts with BOS.
    pub bos: Bos,
    /// A SEP token follows each text of a pair, if the file does not say.
    pub adds_sep: bool,
}

impl Row {
    /// Values of `tokenizer.ggml.pre` that llama.cpp treats alike.
    pub fn names(&self) -> impl Iterator<Item = &'static str> {
        self.names.split(' ')
    }
}

/// Whether a prompt starts with BOS.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bos {
    /// If the file says so.
    Stated,
    /// Unless the file says otherwise.
    Default,
    /// Whatever the file says.
    Always,
}

/// The pre-tokenizer of files whose `tokenizer.ggml.model` is `gemma4`.
pub(crate) const GEMMA_4: &str = "gemma4";

/// Lines, and runs of newlines.
const LINES: &str = r"[^\n]+|\n+";

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

#[rustfmt::skip]
pub(crate) const TABLE: &[Row] = &[
    row("gpt-2 phi-2 gigachat a.x-4.0 mellum exaone4 mpt olmo jais trillion granite-docling modern-bert \
        jina-es jina-de jina-v2-es jina-v2-de", &[GPT_2]),
    Row { whole_words: true, bos: Bos::Default, ..row("llama-bpe llama3 llama-v3 falcon3 falcon-h1 pixtral midm-2.0 \
        lfm2 jina-v5-nano", &[LLAMA_3]) },
    Row { whole_words: true, ..row("glm4", &[LLAMA_3]) },
    row("chatglm-bpe dbrx smaug-bpe", &[LLAMA_3]),
    row("qwen2 deepseek-r1-qwen kormo megrez f2llmv2 stablelm2 hunyuan solar-open grok-2", &[QWEN_2]),
    row("qwen35", &[
        r"'[sS]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD]|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+",
    ]),
    row("starcoder refact command-r smollm codeshell exaone minerva-7b mellum2", &[r"\p{N}", GPT_2]),
    row("falcon", &[r"[\p{P}$+<=>^~|`]+", GPT_2, r"[0-9][0-9][0-9]"]),
    row("default", &[r"[\p{P}$+<=>^~|]+", GPT_2, r"\p{N}+", r"[0-9][0-9][0-9]"]),
    row("deepseek-coder", &[r"[\r\n]", r"\s?\p{L}+", r"\s?\p{P}+", r"[[一-龥ࠀ-一가-퟿]--\s]+", r"\p{N}"]),
    row("deepseek-llm", &[
        r"[\r\n]",
        CASED,
        r"\s?[!-/:-~！-／：-～‘-‟\x{3001}-。]+",
        r"\s+$",
        r"[[一-龥ࠀ-一가-퟿]--\s]+",
        r"\p{N}+",
    ]),
    row("deepseek-v3 hunyuan-dense joyai-llm hy_v4", &[
        r"\p{N}{1,3}",
        "[一-龥぀-ゟ゠-ヿ]+",
        r##"[!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"##,
    ]),
    Row { whole_words: true, bos: Bos::Default, ..row("tekken", &[
        r"[^\r\n\p{L}\p{N}]?[\p{L}--[a-z]]*[\p{L}--[A-Z]]+|[^\r\n\p{L}\p{N}]?[\p{L}--[a-z]]+[\p{L}--[A-Z]]*|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+",
    ]) },
    row("gpt-4o llama4 kanana2 talkie minimax-m2", &[
        r"[^\r\n\p{L}\p{N}]?[\p{L}--[a-z]]*[\p{L}--[A-Z]]+(?:'[sS]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD])?|[^\r\n\p{L}\p{N}]?[\p{L}--[a-z]]+[\p{L}--[A-Z]]*(?:'[sS]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD])?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+",
    ]),
    Row { whole_words: true, ..row("granite-embed-multi-97m", &[
        r"[^\r\n\p{L}\p{N}]?[[\p{L}\p{M}]--[a-z]]*[[\p{L}\p{M}]--[A-Z]]+(?:'[sS]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD])?|[^\r\n\p{L}\p{N}]?[[\p{L}\p{M}]--[a-z]]+[[\p{L}\p{M}]--[A-Z]]*(?:'[sS]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD])?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+",
    ]) },
    row("kimi-k2", &[
        r"[\x{3400}-\x{4dbf}\x{4e00}-\x{9fff}\x{f900}-\x{faff}\x{20000}-\x{2a6df}\x{2a700}-\x{2ebef}\x{2f800}-\x{2fa1f}]+|[^\r\n\p{L}\p{N}]?[\p{L}--[\x{3400}-\x{4dbf}\x{4e00}-\x{9fff}\x{f900}-\x{faff}\x{20000}-\x{2a6df}\x{2a700}-\x{2ebef}\x{2f800}-\x{2fa1f}]]+(?:'[sS]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD])?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+",
    ]),
    Row { whole_words: true, ..row("youtu", &[
        r"[가-힣ㄱ-ㆎ]+|[！…“”‘’—：；，、-〿︰-﹏]+|[ㄅ-ㄯ]+|[一-龥぀-ゟ゠-ヿ]+",
        r"[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+(?:'[sS]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD])?|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+",
    ]) },
    row("bloom poro-chat gpt3-finnish", &[r" ?[^(\s|.,!?…。，、।۔،)]+"]),
    row("viking", &[r" ?[^(\s|.,!?…。，、।۔،)]+", r"\p{N}"]),
    row("bailingmoe bailingmoe2 llada-moe", &[
        r"'(?:[sSdDmMtT]|[lL][lL]|[vV][eE]|[rR][eE])|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]|\s+(?!\S)|\s+",
    ]),
    row("seed-coder", &[
        r"'[sS]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD]|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}\r\n]+|\s*[\r\n]+|\s+(?!\S)|\s+",
    ]),
    row("exaone-moe", &[
        r"'[sS]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD]|[^\r\n\p{L}\p{N}]?(?:\p{L}\p{M}*(?: \p{L}\p{M}*)*)+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]?|\s*[\r\n]|\s+(?!\S)|\s+",
    ]),
    Row { whole_words: true, ..row("minicpm5", &[
        r"\p{N}{1,3}",
        r"'[sS]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD]|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}+| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+",
    ]) },
    Row { bos: Bos::Default, ..row("chameleon", &[
        r"<sentinel:[0-9]+>",
        r"IMGIMG[A-I]{1,4}Z",
        r"[\t\n]|    |  ",
        r"\p{N}",
        r"[\p{P}!-/:-@\[-`{-~]",
        GPT_2,
    ]) },
    Row { adds_sep: true, ..row("jina-v1-en jina-v2-code roberta-bpe", &[GPT_2]) },
    row("jais-2", &[
        r"'[sS]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD]|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s{512}(?!\S)|\s{256}(?!\S)|\s{128}(?!\S)|\s{64}(?!\S)|\s{32}(?!\S)|\s{16}(?!\S)|\s{8}(?!\S)|\s{4}(?!\S)|\s{1,2}(?!\S)|\s{1}",
    ]),
    row("ufakzeka", &[r"[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"]),
    row("laguna", &[LINES, QWEN_2]),
    row("spark2_5", &[
        r"\p{N}{1,3}",
        "[一-龥぀-ゟ゠-ヿ]+",
        r##"[!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+|[\r\n]|\s+(?!\S)|\s+"##,
        r"\p{N}",
    ]),
    row("tiny_aya cohere2moe", &[
        r"\d{1,3}(?=(?:\d{3})*\b)",
        r"[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+(?:'[sS]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD])?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+",
    ]),
    row("superbpe", &[r"\p{N}+", r"(?=(\d{3})+(?!\d))"]),
    row("afmoe", &[
        r"\p{AFMoE_digits}",
        r"[\x{4e00}-\x{9fff}\x{3400}-\x{4dbf}\x{8c48}-\x{faff}\x{3040}-\x{30ff}\x{ff65}-\x{ff9f}\x{2f00}-\x{2fdf}\x{e40}-\x{eff}\x{1780}-\x{17ff}\x{1000}-\x{109f}\x{aa60}-\x{aa7f}\x{a9e0}-\x{a9ff}\x{ac00}-\x{d7af}\x{1100}-\x{11ff}]+",
        r##"[!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"##,
    ]),
    Row { whole_newlines: true, characters: true, bos: Bos::Always, ..row("gemma4 granite-embed-multi-311m", &[
        LINES,
    ]) },
    Row { characters: true, ..row("sarvam-moe", &[LINES]) },
];

const fn row(names: &'static str, patterns: &'static [&'static str]) -> Row {
    Row {
        names,
        patterns,
        whole_words: false,
        whole_newlines: false,
        characters: false,
        bos: Bos::Stated,
        adds_sep: false,
    }
}
