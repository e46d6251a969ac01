//! Tool calls: a [`Format`] describes how the models of a family write them; [`Section`] reads calls as it says, and
//! [`Grammar`] of those that are valid is made of it.

mod detect;
mod dialects;
pub(crate) mod format;
// A table with a line for each format; rustfmt would break the lines.
#[rustfmt::skip]
mod formats;
mod grammar;
pub(crate) mod input;
mod lark;
mod literal;
mod object;
mod parameters;
mod scanner;
pub(crate) mod schema;
pub(crate) mod section;
mod values;

use std::sync::Arc;

pub(crate) use detect::detect;
pub use dialects::plain_schema;
pub(crate) use formats::GENERIC;
pub use grammar::{Choice, Grammar, Trigger};
pub(crate) use scanner::completed_object;
pub use schema::{Tool, Tools, ToolsError};
pub use values::{Unenforced, is_annotation};

use self::format::{Element, Format, IdPlace, Keys};
use crate::answer::{AnswerParser, Callable};
use crate::delta::Calls;
use crate::parts::Preamble;
use crate::reasoning;

/// How the model of a [template](crate::Template::tool_format) writes tool calls.
#[derive(Clone, Debug)]
pub struct ToolFormat {
    pub(crate) format: &'static Format,
    pub(crate) reasoning: Option<&'static reasoning::Format>,
    pub(crate) special: Arc<[(u32, String)]>,
}

impl ToolFormat {
    /// The format called `name`, for answers without reasoning, of a model with these special tokens.
    pub fn named(name: &str, special: &[(u32, String)]) -> Option<ToolFormat> {
        let format = formats::all().find(|format| format.name == name)?;
        Some(ToolFormat { format, reasoning: None, special: special.into() })
    }

    /// The names of all formats.
    pub fn names() -> impl Iterator<Item = &'static str> {
        formats::all().map(|format| format.name)
    }

    /// Whether it is that of models whose template writes no tools: these stand in a text.
    pub fn is_generic(&self) -> bool {
        std::ptr::eq(self.format, &GENERIC)
    }

    /// Its name, such as `hermes`.
    pub fn name(&self) -> &'static str {
        self.format.name
    }

    /// Reads an answer to `prompt`, which may call `tools`.
    pub fn parser(&self, prompt: &impl std::fmt::Display, tools: Arc<Tools>, calls: Calls) -> AnswerParser {
        let callable = Callable { format: self.format, tools, calls };
        AnswerParser::new(self.reasoning, Some(callable), &self.special, &prompt.to_string())
    }

    /// The marks before the content of an answer.
    pub fn preamble(&self) -> Preamble {
        Preamble::new(self.reasoning, Some(self.format))
    }

    /// Whether the model writes arguments as JSON, and an id, if any, before them: then they can be passed on as they come.
    pub(crate) fn writes_json(&self) -> bool {
        self.format.call.iter().any(|element| match element {
            Element::Arguments | Element::Object(Keys::NameIsKey) => true,
            Element::Object(Keys::Fields { id_place, .. }) => *id_place != IdPlace::Last,
            _ => false,
        })
    }
}
