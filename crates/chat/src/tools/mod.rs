//! Tool calls: how models write them, and the grammar of those that are valid.
//!
//! A [`Format`] describes how the models of a family write calls. [`Section`] reads calls as it says, and
//! [`Grammar`] is made of it.

mod detect;
mod families;
mod format;
mod grammar;
mod input;
mod lark;
mod literal;
mod object;
mod parameters;
mod scanner;
mod schema;
mod section;

use std::sync::Arc;

pub(crate) use detect::{Missing, detect};
pub(crate) use format::{Format, Open};
pub use grammar::{Choice, Grammar, Trigger};
pub(crate) use input::{Input, MAX_SPACE, Step, trimmed, undecided};
pub use schema::{Tool, Tools, ToolsError};
pub(crate) use section::Section;

use crate::answer::{AnswerParser, Callable, Calls};
use crate::{Error, Prompt, Specials, Template, reasoning};

/// How the model of a template writes tool calls.
#[derive(Clone, Debug)]
pub struct ToolFormat {
    format: &'static Format,
    reasoning: Option<&'static reasoning::Format>,
    special: Vec<(u32, String)>,
}

impl ToolFormat {
    pub(crate) fn new<'a>(
        format: &'static Format,
        reasoning: Option<&'static reasoning::Format>,
        special: impl Iterator<Item = &'a (u32, String)>,
    ) -> ToolFormat {
        ToolFormat { format, reasoning, special: special.cloned().collect() }
    }

    /// The format that a template shows. Fails if its model cannot be given tools: no format is known for it, or the
    /// template leaves out the tools.
    pub fn of(template: &Template) -> Result<ToolFormat, Error> {
        template.tool_format()
    }

    /// The format called `name`, for answers without reasoning.
    pub fn named(name: &str, specials: &Specials) -> Option<ToolFormat> {
        let format = families::FORMATS.iter().find(|format| format.name == name)?;
        Some(ToolFormat::new(format, None, specials.tokens.iter()))
    }

    /// The names of all formats.
    pub fn names() -> impl Iterator<Item = &'static str> {
        families::FORMATS.iter().map(|format| format.name)
    }

    /// Its name, such as `hermes`.
    pub fn name(&self) -> &'static str {
        self.format.name
    }

    /// Reads an answer to `prompt`, which may call `tools`.
    pub fn parser(&self, prompt: &Prompt, tools: Arc<Tools>, calls: Calls) -> AnswerParser {
        let callable = Callable { format: self.format, tools, calls };
        AnswerParser::new(self.reasoning, Some(callable), &self.special, &prompt.to_string())
    }

    /// The grammar of an answer to `prompt` that calls `tools`. Fails if `choice` demands a tool that there is not.
    pub fn grammar(
        &self,
        prompt: &Prompt,
        tools: &Tools,
        choice: &Choice,
        parallel: bool,
    ) -> Result<Grammar, ToolsError> {
        grammar::grammar(
            self.format,
            self.reasoning,
            &self.special,
            &prompt.to_string(),
            tools,
            choice,
            parallel,
        )
    }
}
