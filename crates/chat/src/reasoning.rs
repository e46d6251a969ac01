//! Splits an answer into reasoning and content.

use std::collections::HashMap;

/// What encloses reasoning in the answers of a model.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Format {
    /// Texts that a template of this format contains.
    known_by: &'static [&'static str],
    open: &'static str,
    close: &'static str,
    /// Marks before reasoning or content that are part of neither.
    headers: &'static [&'static str],
    /// Marks after content.
    ends: &'static [&'static str],
}

const PLAIN: Format = Format { known_by: &[], open: "", close: "", headers: &[], ends: &[] };

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
    Format { known_by: &["<|channel>thought"], open: "<|channel>thought", close: "<channel|>", ..PLAIN },
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
    Format {
        known_by: &["[BEGIN FINAL RESPONSE]"],
        open: "Here are my reasoning steps:",
        close: "[BEGIN FINAL RESPONSE]",
        ..PLAIN
    },
    Format { known_by: &["[THINK]"], open: "[THINK]", close: "[/THINK]", ..PLAIN },
    Format { known_by: &["</seed:think>"], open: "<seed:think>", close: "</seed:think>", ..PLAIN },
    Format { known_by: &["</mm:think>"], open: "<mm:think>", close: "</mm:think>", ..PLAIN },
    Format {
        known_by: &["</think:opensource>"],
        open: "<think:opensource>",
        close: "</think:opensource>",
        ..PLAIN
    },
    Format { known_by: &["<think>"], open: "<think>", close: "</think>", ..PLAIN },
    Format { known_by: &["</think>"], open: "<think>", close: "</think>", ..PLAIN },
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

    fn marks(&self) -> impl Iterator<Item = &'static str> {
        [self.open, self.close].into_iter().chain(self.headers.iter().chain(self.ends).copied())
    }
}

/// Text of an answer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Split {
    /// What the model thinks before it answers.
    pub reasoning: String,
    /// The answer.
    pub content: String,
}

impl Split {
    /// Appends `more`.
    pub fn push(&mut self, more: &Split) {
        self.reasoning.push_str(&more.reasoning);
        self.content.push_str(&more.content);
    }
}

/// Where in an answer the text belongs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    /// Before reasoning or content.
    Start,
    Reasoning,
    Content,
}

/// Splits an answer while it is generated. The result does not depend on where pieces of the answer begin and end.
///
/// Reasoning is at the start of an answer, between the marks of the template's format; white space around it belongs to
/// nothing. The same marks within the content are content.
#[derive(Clone, Debug)]
pub struct Splitter {
    format: Option<&'static Format>,
    /// Special tokens that are part of marks. Their text is not printed with the answer.
    tokens: HashMap<u32, String>,
    place: Place,
    /// Whether white space at the start is skipped.
    skips_space: bool,
    /// Text that may be part of a mark, or white space before one.
    held: String,
}

impl Splitter {
    /// For an answer to `prompt` by a model whose special tokens are `special`.
    pub(crate) fn new<'a>(
        format: Option<&'static Format>,
        special: impl IntoIterator<Item = &'a (u32, String)>,
        prompt: &str,
    ) -> Splitter {
        let is_part =
            |text: &str| format.is_some_and(|format| format.marks().any(|mark| mark.contains(text)));
        let tokens = special.into_iter().filter(|(_, text)| is_part(text)).cloned().collect();
        let prompt = prompt.trim_end();
        let (place, skips_space) = match format {
            Some(format) if prompt.ends_with(format.open) => (Place::Reasoning, true),
            Some(format) => (Place::Start, prompt.ends_with(format.close)),
            None => (Place::Content, false),
        };
        Splitter { format, tokens, place, skips_space, held: String::new() }
    }

    /// Takes a generated token and the text to print with it. Returns the text that is decided.
    pub fn push(&mut self, token: u32, text: &str) -> Split {
        let Some(mark) = self.tokens.get(&token) else { return self.push_text(text) };
        let text = text.to_owned() + mark;
        self.push_text(&text)
    }

    /// Takes text. Returns the text that is decided.
    pub fn push_text(&mut self, text: &str) -> Split {
        let mut split = Split::default();
        self.held.push_str(text);
        while let Some(format) = self.format
            && self.step(format, &mut split)
        {}
        if self.format.is_none() {
            split.content = std::mem::take(&mut self.held);
        }
        split
    }

    /// The rest of the answer.
    pub fn finish(&mut self) -> Split {
        let held = std::mem::take(&mut self.held);
        let mut split = Split::default();
        match self.place {
            Place::Reasoning if self.skips_space => split.reasoning.push_str(held.trim()),
            Place::Reasoning => split.reasoning.push_str(held.trim_end()),
            Place::Start if self.skips_space => split.content.push_str(held.trim_start()),
            Place::Start | Place::Content => split.content = held,
        }
        split
    }

    /// Moves text from `held` to `split`. Returns whether the place has changed, so that there may be more to do.
    fn step(&mut self, format: &Format, split: &mut Split) -> bool {
        match self.place {
            Place::Start => self.start(format),
            Place::Reasoning => {
                if self.skips_space {
                    self.held.drain(..self.held.len() - self.held.trim_start().len());
                    self.skips_space = self.held.is_empty();
                }
                if let Some(at) = self.held.find(format.close) {
                    split.reasoning.push_str(self.held[..at].trim_end());
                    self.held.drain(..at + format.close.len());
                    (self.place, self.skips_space) = (Place::Start, true);
                    return true;
                }
                let decided = self.held[..undecided(&self.held, &[format.close])].trim_end().len();
                split.reasoning.extend(self.held.drain(..decided));
                false
            }
            Place::Content => {
                let found =
                    format.ends.iter().filter_map(|end| Some((self.held.find(end)?, end.len()))).min();
                if let Some((at, length)) = found {
                    split.content.push_str(&self.held[..at]);
                    self.held.drain(..at + length);
                    (self.place, self.skips_space) = (Place::Start, true);
                    return true;
                }
                let decided = undecided(&self.held, format.ends);
                split.content.extend(self.held.drain(..decided));
                false
            }
        }
    }

    fn start(&mut self, format: &Format) -> bool {
        let text = self.held.trim_start();
        let space = self.held.len() - text.len();
        if text.starts_with(format.open) {
            self.held.drain(..space + format.open.len());
            (self.place, self.skips_space) = (Place::Reasoning, true);
            return true;
        }
        // After an answer, its end may be repeated, as by `<|end|><|return|>`.
        let mut skipped = format.headers.iter().chain(format.ends);
        if let Some(mark) = skipped.find(|mark| text.starts_with(**mark)) {
            self.held.drain(..space + mark.len());
            self.skips_space = true;
            return true;
        }
        let mut marks = format.headers.iter().chain(format.ends).chain([&format.open]);
        if marks.any(|mark| mark.starts_with(text)) {
            return false;
        }
        if self.skips_space {
            self.held.drain(..space);
        }
        self.place = Place::Content;
        true
    }
}

/// Where the part of `text` begins that may be the beginning of one of `marks`.
fn undecided(text: &str, marks: &[&str]) -> usize {
    let longest = marks.iter().map(|mark| mark.len()).max().unwrap_or(0);
    let from = text.ceil_char_boundary(text.len().saturating_sub(longest.saturating_sub(1)));
    let starts = text[from..].char_indices().map(|(at, _)| from + at);
    let mut starts = starts.filter(|&at| marks.iter().any(|mark| mark.starts_with(&text[at..])));
    starts.next().unwrap_or(text.len())
}
