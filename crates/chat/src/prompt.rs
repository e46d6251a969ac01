//! The rendered prompt.

use std::fmt;
use std::sync::Arc;

use serde_json::Value as Json;

use crate::Error;
use crate::answer::{AnswerParser, Callable};
use crate::delta::Calls;
use crate::parts::Preamble;
use crate::template::Template;
use crate::tools::{Choice, Grammar, ToolFormat, Tools, ToolsError};

/// A piece of a rendered conversation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Segment {
    /// Text, not to be searched for special tokens.
    Text(String),
    /// A special token of the template.
    Token {
        /// Its id.
        id: u32,
        /// Its text.
        text: String,
    },
}

impl Segment {
    /// The id of a special token.
    pub(crate) fn token(&self) -> Option<u32> {
        match self {
            Segment::Token { id, .. } => Some(*id),
            Segment::Text(_) => None,
        }
    }

    /// The text, or that of the token.
    pub(crate) fn text(&self) -> &str {
        match self {
            Segment::Text(text) | Segment::Token { text, .. } => text,
        }
    }
}

/// The text of `segments`.
pub(crate) fn text(segments: &[Segment]) -> String {
    segments.iter().map(Segment::text).collect()
}

/// The text or token that a template appends to an answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TurnEnd {
    /// A special token.
    Token(u32),
    /// Text.
    Text(String),
}

/// A rendered conversation, and how the answer to it is read. [`Display`](fmt::Display) gives the template's output; only
/// [`segments`](Prompt::segments) distinguish special tokens from text that looks like them.
#[derive(Clone, Debug)]
pub struct Prompt {
    segments: Vec<Segment>,
    merged_system: bool,
    template: Template,
    tools: Result<Arc<Tools>, ToolsError>,
}

impl Prompt {
    pub(crate) fn new(
        segments: Vec<Segment>,
        merged_system: bool,
        template: Template,
        tools: &[Json],
    ) -> Prompt {
        Prompt { segments, merged_system, template, tools: Tools::read(tools).map(Arc::new) }
    }

    /// The pieces in order. No text is empty or follows another.
    pub fn segments(&self) -> &[Segment] {
        &self.segments
    }

    /// Bytes of the template's output.
    pub fn len(&self) -> usize {
        self.segments.iter().map(|segment| segment.text().len()).sum()
    }

    /// Whether the template's output is empty.
    pub fn is_empty(&self) -> bool {
        self.segments.is_empty()
    }

    /// Whether system messages were merged into other messages, because the template does not write them where they were.
    pub fn merged_system(&self) -> bool {
        self.merged_system
    }

    /// The end of an answer in the template: a special token, or text that follows every answer. `None` if there is
    /// neither.
    ///
    /// A hint for a stop condition, besides the vocabulary's end-of-generation tokens. `None` also if the same ends
    /// reasoning.
    pub fn turn_end(&self) -> Option<&TurnEnd> {
        self.template.turn_end()
    }

    /// The tools that the answer may call: those of [`Options::tools`](crate::Options::tools). Fails if they are invalid, or
    /// if the model cannot be given any, as no format of calls is known for its template, or the template leaves them out.
    pub fn tools(&self) -> Result<&Arc<Tools>, Error> {
        self.template.capabilities().tools?;
        self.tools.as_ref().map_err(|error| error.clone().into())
    }

    /// The marks before the content of an answer.
    pub fn preamble(&self) -> Preamble {
        let format = self.tool_format();
        format.map_or_else(
            || Preamble::new(self.template.capabilities().reasoning, None),
            |format| format.preamble(),
        )
    }

    /// Reads an answer: its reasoning, its content, and the calls of [`tools`](Prompt::tools). Where the model does not write
    /// their arguments as JSON, calls are [whole](Calls::Whole).
    pub fn parser(&self, calls: Calls) -> AnswerParser {
        let format = self.tool_format();
        let callable = format.as_ref().zip(self.tools.as_ref().ok()).map(|(format, tools)| Callable {
            format: format.format(),
            tools: tools.clone(),
            calls: if format.writes_json() { calls } else { Calls::Whole },
        });
        let reasoning = self.template.capabilities().reasoning;
        AnswerParser::new(reasoning, callable, self.template.special(), &self.to_string())
    }

    /// The grammar of an answer that calls `tools`, or with `reply` of one that calls them or is what this Lark rule accepts.
    /// Fails if the model cannot be given tools, if `choice` demands a tool that there is not, or if the grammar is too long.
    pub fn grammar(
        &self,
        tools: &Tools,
        choice: &Choice,
        parallel: bool,
        reply: Option<&str>,
    ) -> Result<Grammar, ToolsError> {
        let format = self.template.tool_format().map_err(|_| ToolsError::None)?;
        format.grammar(self, tools, choice, parallel, reply)
    }

    /// The format of calls, if the answer may have some.
    fn tool_format(&self) -> Option<ToolFormat> {
        let has_tools = self.tools.as_ref().is_ok_and(|tools| !tools.is_empty());
        has_tools.then(|| self.template.tool_format().ok())?
    }
}

impl fmt::Display for Prompt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.segments.iter().try_for_each(|segment| f.write_str(segment.text()))
    }
}
