//! Errors of chat templates.

use std::error::Error as _;

use crate::{MAX_OUTPUT_BYTES, MAX_SOURCE_BYTES, MAX_STEPS, MAX_WORK_BYTES};

/// Why a template cannot be compiled or rendered. Lines count from 1; a line of 0 is unknown.
#[expect(missing_docs, reason = "the texts of the errors say what their fields are")]
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error(transparent)]
    WrongType(#[from] gguf::WrongType),
    #[error("the chat template has {found} bytes, expected at most {MAX_SOURCE_BYTES}")]
    SourceTooLong { found: usize },
    #[error("line {line} of the chat template: {message}")]
    Syntax { line: usize, message: String },
    /// The template rejected the conversation with `raise_exception`.
    #[error("the chat template refuses this conversation (line {line}): {message}")]
    Raised { line: usize, message: String },
    #[error("line {line} of the chat template: {message}")]
    Render { line: usize, message: String },
    #[error("the chat template took more than {MAX_STEPS} steps (stopped at line {line})")]
    TooManySteps { line: usize },
    #[error(
        "the chat template reads and makes more than {MAX_WORK_BYTES} bytes of text and lists (stopped at line {line}): it is \
         damaged or hostile, use a prompt without it"
    )]
    TooMuchWork { line: usize },
    #[error(
        "the chat template did not render the conversation in time (stopped at line {line}): shorten the conversation, or \
         use a prompt without the template"
    )]
    TooMuchTime { line: usize },
    #[error("the chat template produced more than {MAX_OUTPUT_BYTES} bytes")]
    TooMuchOutput,
    #[error(
        "the chat template leaves out the system message: remove it, or use a prompt without the template"
    )]
    SystemLeftOut,
    #[error(transparent)]
    Tools(#[from] crate::ToolsError),
    #[error("cannot build the search for special tokens: {0}")]
    SpecialTokens(#[from] aho_corasick::BuildError),
    #[error("the conversation uses all characters that could mark special tokens in it")]
    NoGuard,
}

/// Why a filter or function ends the rendering, as the source of minijinja's error.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Stop {
    #[error("{0}")]
    Raised(String),
    #[error("too much work")]
    TooMuchWork,
    #[error("too much time")]
    TooMuchTime,
}

impl From<minijinja::Error> for Error {
    fn from(error: minijinja::Error) -> Error {
        use minijinja::ErrorKind;
        let line = error.line().unwrap_or(0);
        let causes = std::iter::successors(error.source(), |&cause| cause.source());
        match causes.filter_map(|cause| cause.downcast_ref()).next() {
            Some(Stop::Raised(message)) => return Error::Raised { line, message: message.clone() },
            Some(Stop::TooMuchWork) => return Error::TooMuchWork { line },
            Some(Stop::TooMuchTime) => return Error::TooMuchTime { line },
            None => {}
        }
        let kind = error.kind();
        let message = error.detail().map_or(kind.to_string(), |detail| format!("{kind}: {detail}"));
        match kind {
            ErrorKind::SyntaxError => Error::Syntax { line, message },
            ErrorKind::OutOfFuel => Error::TooManySteps { line },
            _ => Error::Render { line, message },
        }
    }
}
