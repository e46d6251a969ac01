//! The marks around reasoning in answers.

/// A mark of which only the beginning and the end are fixed, such as a header of Harmony.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Span {
    /// Its beginning.
    pub open: &'static str,
    /// The text that ends it.
    pub end: &'static str,
    /// Whether `end` is part of the mark.
    pub with_end: bool,
    /// Whether reasoning follows.
    pub reasons: bool,
}

/// The marks around reasoning in the answers of a model.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Format {
    /// Texts that a template of this format contains.
    known_by: &'static [&'static str],
    pub(crate) open: &'static str,
    pub(crate) close: &'static str,
    /// Marks before reasoning or content that are part of neither.
    pub(crate) headers: &'static [&'static str],
    /// Headers of which only the beginning and the end are fixed.
    pub(crate) spans: &'static [Span],
    pub(crate) ends: &'static [&'static str],
    /// The beginning of an answer that the prompt has.
    pub(crate) prefill: &'static str,
}

/// A format with no other marks.
const fn plain(known_by: &'static [&'static str], open: &'static str, close: &'static str) -> Format {
    Format { known_by, open, close, ..USUAL }
}

const USUAL: Format =
    Format { known_by: &[], open: "", close: "", headers: &[], spans: &[], ends: &[], prefill: "" };

/// A header of Harmony from `open` up to and with the mark of the message. Models write unexpected channels, recipients
/// and types.
const fn header(open: &'static str, reasons: bool) -> Span {
    Span { open, end: "<|message|>", with_end: true, reasons }
}

/// The first format whose texts a template contains is used.
const FORMATS: &[Format] = &[
    // OpenAI's Harmony: <https://cookbook.openai.com/articles/openai-harmony>.
    Format {
        known_by: &["<|channel|>", "analysis"],
        open: "<|channel|>analysis<|message|>",
        close: "<|end|>",
        headers: &[
            "<|start|>assistant",
            "<|channel|>final<|message|>",
            "<|channel|>commentary<|message|>",
            "<|message|>",
        ],
        spans: &[
            header("<|channel|>analysis", true),
            header("<|channel|>", false),
            header("<|start|>", false),
            // A recipient may precede the channel.
            Span { open: "<|start|>assistant to=", end: "<|", with_end: false, reasons: false },
        ],
        ends: &["<|end|>", "<|return|>", "<|call|>"],
        prefill: "<|start|>assistant",
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
        ..USUAL
    },
    // Solar Open.
    Format {
        known_by: &["<|begin|>", "<|think|>", "<|content|>"],
        open: "<|think|>",
        close: "<|end|>",
        headers: &["<|begin|>assistant", "<|content|>"],
        ends: &["<|end|>"],
        ..USUAL
    },
    // Command A.
    Format {
        known_by: &["<|START_THINKING|>"],
        open: "<|START_THINKING|>",
        close: "<|END_THINKING|>",
        headers: &["<|START_RESPONSE|>", "<|START_TEXT|>"],
        ends: &["<|END_RESPONSE|>", "<|END_TEXT|>"],
        ..USUAL
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
        let spans = self.spans.iter().flat_map(|span| [span.open, span.end]);
        let fixed = [self.open, self.close, self.prefill].into_iter();
        fixed.chain(self.headers.iter().chain(self.ends).copied()).chain(spans)
    }
}
