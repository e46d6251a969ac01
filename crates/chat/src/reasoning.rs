//! The marks around reasoning in answers.

/// The marks around reasoning in the answers of a model.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Format {
    /// Texts that a template of this format contains.
    known_by: &'static [&'static str],
    pub(crate) open: &'static str,
    pub(crate) close: &'static str,
    /// Marks before reasoning or content that are part of neither.
    pub(crate) headers: &'static [&'static str],
    pub(crate) ends: &'static [&'static str],
}

/// A format with no other marks.
const fn plain(known_by: &'static [&'static str], open: &'static str, close: &'static str) -> Format {
    Format { known_by, open, close, headers: &[], ends: &[] }
}

/// The first format whose texts a template contains is used.
const FORMATS: &[Format] = &[
    // OpenAI's Harmony: <https://cookbook.openai.com/articles/openai-harmony>.
    Format {
        known_by: &["<|channel|>", "analysis"],
        open: "<|channel|>analysis<|message|>",
        close: "<|end|>",
        headers: &["<|start|>assistant", "<|channel|>final<|message|>", "<|channel|>commentary<|message|>"],
        ends: &["<|end|>", "<|return|>"],
    },
    // Gemma 4.
    plain(&["<|channel>thought"], "<|channel>thought", "<channel|>"),
    // Kimi K3.
    Format {
        known_by: &["<|open|>", "<|close|>", "<|sep|>"],
        open: "<|open|>think<|sep|>",
        close: "<|close|>think<|sep|>",
        headers: &["<|open|>response<|sep|>"],
        ends: &["<|close|>response<|sep|>"],
    },
    // Solar Open.
    Format {
        known_by: &["<|begin|>", "<|think|>", "<|content|>"],
        open: "<|think|>",
        close: "<|end|>",
        headers: &["<|begin|>assistant", "<|content|>"],
        ends: &["<|end|>"],
    },
    // Command A.
    Format {
        known_by: &["<|START_THINKING|>"],
        open: "<|START_THINKING|>",
        close: "<|END_THINKING|>",
        headers: &["<|START_RESPONSE|>", "<|START_TEXT|>"],
        ends: &["<|END_RESPONSE|>", "<|END_TEXT|>"],
    },
    // Apriel.
    plain(&["[BEGIN FINAL RESPONSE]"], "Here are my reasoning steps:", "[BEGIN FINAL RESPONSE]"),
    plain(&["[THINK]"], "[THINK]", "[/THINK]"),
    plain(&["</seed:think>"], "<seed:think>", "</seed:think>"),
    plain(&["</mm:think>"], "<mm:think>", "</mm:think>"),
    plain(&["</think:opensource>"], "<think:opensource>", "</think:opensource>"),
    plain(&["<think>"], "<think>", "</think>"),
    plain(&["</think>"], "<think>", "</think>"),
];

impl Format {
    /// The format of a template; `text` is its source and samples of what it writes.
    pub(crate) fn of(text: &str) -> Option<&'static Format> {
        FORMATS.iter().find(|format| format.known_by.iter().all(|known| text.contains(known)))
    }

    /// Whether `text` is part of the mark after reasoning, so that it does not end an answer.
    pub(crate) fn closes_with(&self, text: &str) -> bool {
        self.close.contains(text)
    }

    /// All texts that may be special tokens.
    pub(crate) fn marks(&self) -> impl Iterator<Item = &'static str> {
        [self.open, self.close].into_iter().chain(self.headers.iter().chain(self.ends).copied())
    }
}
