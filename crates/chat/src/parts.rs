//! The parts of an answer, and the marks between them, which the parser of answers and the gate of grammars both follow.

use crate::reasoning;
use crate::tools::format::Format;

/// The marks before and around the content of answers, by which a constraint finds the content.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Preamble {
    /// The marks around reasoning, at the start of an answer.
    pub reasoning: Option<Enclosed>,
    /// Marks before content that are no part of it.
    pub headers: Vec<&'static str>,
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
    Reasoning,
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
    BeforeReasoning,
    Start,
    First,
    /// Everywhere but in reasoning.
    Anywhere,
}

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
pub struct Marks(Vec<(String, Holds, Leads)>);

impl Marks {
    /// The marks before content.
    pub fn before_content(preamble: &Preamble) -> Marks {
        let mut marks = Marks::default();
        if let Some(reasoning) = preamble.reasoning {
            marks.add(reasoning.open, Holds::BeforeReasoning, Leads::Reasoning);
            marks.add(reasoning.close, Holds::Reasoning, Leads::Start);
        }
        preamble.headers.iter().for_each(|text| marks.add(text, Holds::Start, Leads::Start));
        marks
    }

    /// All marks. Calls begin with one of `calls`, or where it says so only if nothing but white space and reasoning precedes.
    pub fn with_calls<'a>(preamble: &Preamble, calls: impl IntoIterator<Item = (&'a str, bool)>) -> Marks {
        let mut marks = Marks::before_content(preamble);
        preamble.ends.iter().for_each(|text| marks.add(text, Holds::Anywhere, Leads::Start));
        for (number, (text, at_start)) in calls.into_iter().enumerate() {
            let holds = if at_start { Holds::First } else { Holds::Anywhere };
            marks.add(text, holds, Leads::Calls(number));
        }
        marks
    }

    fn add(&mut self, text: &str, holds: Holds, leads: Leads) {
        self.0.push((text.to_owned(), holds, leads));
    }

    /// The texts, and where they lead.
    pub fn iter(&self) -> impl Iterator<Item = (&[u8], Leads)> {
        self.0.iter().map(|(text, _, leads)| (text.as_bytes(), *leads))
    }

    /// Classifies the beginning of `text` in a `part` of an answer. The longest mark counts. With `more`, text may follow.
    pub fn next(&self, part: AnswerPart, text: &[u8], more: bool) -> Next {
        let (mut found, mut may_be_longer) = (None, false);
        for (mark, _, leads) in self.0.iter().filter(|(_, holds, _)| part.has(*holds)) {
            let mark = mark.as_bytes();
            if text.starts_with(mark) {
                found = found.filter(|(length, _)| *length > mark.len()).or(Some((mark.len(), *leads)));
            } else {
                may_be_longer |= more && mark.starts_with(text);
            }
        }
        match found {
            _ if may_be_longer => Next::Undecided,
            Some((length, leads)) => Next::Mark(length, leads),
            None => Next::Text,
        }
    }
}

impl AnswerPart {
    fn has(self, holds: Holds) -> bool {
        match (self, holds) {
            (AnswerPart::Reasoning, holds) => holds == Holds::Reasoning,
            (_, Holds::Anywhere) => true,
            (AnswerPart::Start { may_reason, .. }, Holds::BeforeReasoning) => may_reason,
            (AnswerPart::Start { .. }, Holds::Start) => true,
            (AnswerPart::Start { is_first, .. }, Holds::First) => is_first,
            _ => false,
        }
    }
}
