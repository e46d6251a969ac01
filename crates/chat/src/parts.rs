//! The parts of an answer, and the marks between them, which the parser of answers and the gate of grammars both follow.

use crate::reasoning::{self, Span};
use crate::tools::format::Format;

/// The marks before and around the content of answers, by which a constraint finds the content.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Preamble {
    /// The marks around reasoning, at the start of an answer.
    pub reasoning: Option<Enclosed>,
    /// Marks before content that are no part of it.
    pub headers: Vec<&'static str>,
    /// Marks that begin with one text and go on up to another.
    pub spans: Vec<Span>,
    /// Marks after content.
    pub ends: Vec<&'static str>,
}

/// Text between two marks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[expect(missing_docs, reason = "the names say it")]
pub struct Enclosed {
    pub open: &'static str,
    pub close: &'static str,
}

impl Preamble {
    pub(crate) fn new(reasoning: Option<&reasoning::Format>, format: Option<&Format>) -> Preamble {
        let headers = reasoning.into_iter().flat_map(|format| format.headers);
        Preamble {
            reasoning: reasoning.map(|format| Enclosed { open: format.open, close: format.close }),
            headers: headers.chain(format.into_iter().flat_map(|format| format.headers)).copied().collect(),
            spans: reasoning.into_iter().flat_map(|format| format.spans).copied().collect(),
            ends: reasoning.into_iter().flat_map(|format| format.ends).copied().collect(),
        }
    }
}

/// A part of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum AnswerPart {
    /// Before reasoning or content.
    Start {
        /// Whether reasoning may begin.
        may_reason: bool,
        /// Whether no content and no call precedes.
        is_first: bool,
    },
    /// Between the marks of reasoning.
    Reasoning {
        /// Whether only white space precedes: some models write the opening mark that the prompt has again.
        is_first: bool,
        /// Whether a quotation mark precedes: marks of calls do not count then.
        is_quoted: bool,
    },
    /// The answer itself.
    Content,
}

/// Where a mark leads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Leads {
    /// To reasoning.
    Reasoning,
    /// To a start.
    Start,
    /// To calls, by the opening or trigger with this number.
    Calls(usize),
}

/// Where a mark counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Holds {
    Reasoning,
    ReasoningStart,
    /// In reasoning, where no quotation mark precedes.
    Unquoted,
    BeforeReasoning,
    Start,
    First,
    /// Everywhere but in reasoning.
    Anywhere,
    /// Everywhere, in reasoning too.
    Always,
}

/// Longest mark between the fixed texts of a [`Span`], in bytes.
const MAX_SPAN: usize = 256;

/// The beginning of a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// A mark of so many bytes.
    Mark(usize, Leads),
    /// It may become a mark, or a longer one.
    Undecided,
    /// No mark.
    Text,
}

/// Texts that lead from one part of an answer to another.
#[derive(Clone, Debug, Default)]
pub struct Marks(Vec<Mark>);

#[derive(Clone, Debug)]
struct Mark {
    text: String,
    /// The text up to which it goes on, and whether that is part of it.
    end: Option<(&'static str, bool)>,
    holds: Holds,
    leads: Leads,
}

/// Where an opening of calls counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OpeningPlace {
    /// Where only white space and reasoning precede.
    Start,
    /// Everywhere but in reasoning.
    Content,
    /// In reasoning, which it ends, but not behind a quotation mark.
    Reasoning,
}

impl Marks {
    /// The marks before content.
    pub fn before_content(preamble: &Preamble) -> Marks {
        let mut marks = Marks::default();
        if let Some(reasoning) = preamble.reasoning {
            marks.add(reasoning.open, Holds::BeforeReasoning, Leads::Reasoning);
            marks.add(reasoning.open, Holds::ReasoningStart, Leads::Reasoning);
            marks.add(reasoning.close, Holds::Reasoning, Leads::Start);
        }
        preamble.headers.iter().for_each(|text| marks.add(text, Holds::Start, Leads::Start));
        for span in &preamble.spans {
            let leads = if span.reasons { Leads::Reasoning } else { Leads::Start };
            marks.0.push(Mark {
                text: span.open.to_owned(),
                end: Some((span.end, span.with_end)),
                holds: Holds::Always,
                leads,
            });
        }
        marks
    }

    /// All marks. Calls begin with one of `calls`: its number, its text, and where it counts.
    pub fn with_calls<'a>(
        preamble: &Preamble,
        calls: impl IntoIterator<Item = (usize, &'a str, OpeningPlace)>,
    ) -> Marks {
        let mut marks = Marks::before_content(preamble);
        preamble.ends.iter().for_each(|text| marks.add(text, Holds::Anywhere, Leads::Start));
        for (number, text, place) in calls {
            let holds = match place {
                OpeningPlace::Start => Holds::First,
                OpeningPlace::Content => Holds::Anywhere,
                OpeningPlace::Reasoning => Holds::Unquoted,
            };
            marks.add(text, holds, Leads::Calls(number));
        }
        marks
    }

    fn add(&mut self, text: &str, holds: Holds, leads: Leads) {
        self.0.push(Mark { text: text.to_owned(), end: None, holds, leads });
    }

    /// The mark that ends reasoning.
    pub(crate) fn end_of_reasoning(&self) -> Option<&str> {
        self.0.iter().find(|mark| mark.holds == Holds::Reasoning).map(|mark| &*mark.text)
    }

    pub(crate) fn has_spans(&self) -> bool {
        self.0.iter().any(|mark| mark.end.is_some())
    }

    /// The fixed beginnings of marks, whether that is all of the mark, and where they lead.
    pub fn iter(&self) -> impl Iterator<Item = (&[u8], bool, Leads)> {
        self.0.iter().map(|mark| (mark.text.as_bytes(), mark.end.is_none(), mark.leads))
    }

    /// Classifies the beginning of `text` in a `part` of an answer. Of several marks, the one with the longest fixed beginning
    /// counts. With `more`, text may follow; without `may_call`, no calls begin.
    pub fn next(&self, part: AnswerPart, text: &[u8], more: bool, may_call: bool) -> Next {
        // The mark that counts, and the fixed bytes of the longest one that the text may become.
        let (mut found, mut possible): (Option<(usize, usize, Leads)>, usize) = (None, 0);
        let is_meant =
            |mark: &&Mark| part.has(mark.holds) && (may_call || !matches!(mark.leads, Leads::Calls(_)));
        for mark in self.0.iter().filter(is_meant) {
            let (begin, leads) = (mark.text.as_bytes(), mark.leads);
            let Some(rest) = text.strip_prefix(begin) else {
                possible = if begin.starts_with(text) { possible.max(begin.len()) } else { possible };
                continue;
            };
            let length = match mark.end {
                None => begin.len(),
                Some((end, with_end)) => {
                    let window = &rest[..rest.len().min(MAX_SPAN)];
                    match window.windows(end.len()).position(|part| part == end.as_bytes()) {
                        Some(at) => begin.len() + at + if with_end { end.len() } else { 0 },
                        None if rest.len() < MAX_SPAN => {
                            possible = possible.max(begin.len());
                            continue;
                        }
                        None => continue,
                    }
                }
            };
            found = found.filter(|(fixed, ..)| *fixed > begin.len()).or(Some((begin.len(), length, leads)));
        }
        match found {
            found if more && possible > found.map_or(0, |(fixed, ..)| fixed) => Next::Undecided,
            Some((_, length, leads)) => Next::Mark(length, leads),
            None => Next::Text,
        }
    }
}

impl AnswerPart {
    /// Reasoning that begins.
    pub const REASONING: AnswerPart = AnswerPart::Reasoning { is_first: true, is_quoted: false };

    /// The part after one more character of its text, which is no mark.
    pub fn after_text(self, c: char) -> AnswerPart {
        match self {
            AnswerPart::Reasoning { is_first, .. } => AnswerPart::Reasoning {
                is_first: is_first && c.is_whitespace(),
                is_quoted: "`'\"‘“«".contains(c),
            },
            other => other,
        }
    }

    fn has(self, holds: Holds) -> bool {
        match (self, holds) {
            (_, Holds::Always) => true,
            (AnswerPart::Reasoning { .. }, Holds::Reasoning) => true,
            (AnswerPart::Reasoning { is_first, .. }, Holds::ReasoningStart) => is_first,
            (AnswerPart::Reasoning { is_quoted, .. }, Holds::Unquoted) => !is_quoted,
            (AnswerPart::Reasoning { .. }, _) => false,
            (_, Holds::Anywhere) => true,
            (AnswerPart::Start { may_reason, .. }, Holds::BeforeReasoning) => may_reason,
            (AnswerPart::Start { .. }, Holds::Start) => true,
            (AnswerPart::Start { is_first, .. }, Holds::First) => is_first,
            _ => false,
        }
    }
}
