//! Splits an answer into reasoning and content.

use crate::answer::AnswerParser;
use crate::delta::{Answer, Delta};

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

/// Splits an answer while it is generated. The result does not depend on where pieces of the answer begin and end.
///
/// Reasoning is at the start of an answer, between the marks of the template's format; white space around it belongs to
/// nothing. The same marks within the content are content. Tool calls are content too: an [`AnswerParser`] reads them.
#[derive(Clone, Debug)]
pub struct Splitter(AnswerParser);

impl Splitter {
    pub(crate) fn new(parser: AnswerParser) -> Splitter {
        Splitter(parser)
    }

    /// Takes a generated token and the text to print with it. Returns the text that is decided.
    pub fn push(&mut self, token: u32, text: &str) -> Split {
        split(self.0.push(token, text))
    }

    /// Takes text. Returns the text that is decided.
    pub fn push_text(&mut self, text: &str) -> Split {
        split(self.0.push_text(text))
    }

    /// The rest of the answer.
    pub fn finish(&mut self) -> Split {
        split(self.0.finish())
    }

    /// The rest of an answer that was cut by a limit or a stop sequence: the beginning of a mark is left out.
    pub fn cut(&mut self) -> Split {
        split(self.0.cut())
    }
}

fn split(deltas: Vec<Delta>) -> Split {
    let mut answer = Answer::default();
    deltas.into_iter().for_each(|delta| answer.push(delta));
    Split { reasoning: answer.reasoning, content: answer.content }
}
