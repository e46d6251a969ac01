//! Errors of chat templates.

use std::error::Error as _;

use crate::limits::Exhausted;
use crate::{MAX_OUTPUT_BYTES, MAX_SOURCE_BYTES, MAX_STEPS, MAX_WORK_BYTES};

/// Why a template cannot be compiled or rendered.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The metadata key does not hold a template.
    #[error(transparent)]
    WrongType(#[from] gguf::WrongType),
    /// The template is too long.
    #[error("the chat template has {found} bytes, expected at most {MAX_SOURCE_BYTES}")]
    SourceTooLong {
        /// Length in bytes.
        found: usize,
    },
    /// A Jinja syntax error.
    #[error("line {line} of the chat template: {message}")]
    Syntax {
        /// Line, from 1.
        line: usize,
        /// The cause.
        message: String,
    },
    /// The template rejected the conversation with `raise_exception`.
    #[error("the chat template refuses this conversation (line {line}): {message}")]
    Raised {
        /// Line, from 1; 0 if unknown.
        line: usize,
        /// The message of `raise_exception`.
        message: String,
    },
    /// Rendering failed.
    #[error("line {line} of the chat template: {message}")]
    Render {
        /// Line, from 1; 0 if unknown.
        line: usize,
        /// The cause.
        message: String,
    },
    /// Rendering took too many steps.
    #[error("the chat template took more than {MAX_STEPS} steps (stopped at line {line})")]
    TooManySteps {
        /// Line, from 1; 0 if unknown.
        line: usize,
    },
    /// Rendering read or produced too much intermediate data, or took too long.
    #[error(
        "the chat template reads and makes more than {MAX_WORK_BYTES} bytes of text and lists, or takes more than ten \
         seconds (stopped at line {line}): it is damaged or hostile, use a prompt without it"
    )]
    TooMuchWork {
        /// Line, from 1; 0 if unknown.
        line: usize,
    },
    /// The output is too long.
    #[error("the chat template produced more than {MAX_OUTPUT_BYTES} bytes")]
    TooMuchOutput,
    /// The template drops the system message, even as part of a user message.
    #[error(
        "the chat template leaves out the system message: remove it, or use a prompt without the template"
    )]
    SystemLeftOut,
    /// The special tokens are too many or too long for the search automaton.
    #[error("cannot build the search for special tokens: {0}")]
    SpecialTokens(#[from] aho_corasick::BuildError),
    /// The conversation contains every guard character.
    #[error("the conversation uses all {tried} characters that could mark special tokens in it")]
    NoGuard {
        /// Number of guard characters.
        tried: usize,
    },
}

/// Argument of `raise_exception`, as the source of minijinja's error.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(crate) struct Raised(pub(crate) String);

impl From<minijinja::Error> for Error {
    fn from(error: minijinja::Error) -> Error {
        use minijinja::ErrorKind;
        let line = error.line().unwrap_or(0);
        let mut source = error.source();
        while let Some(cause) = source {
            if let Some(Raised(message)) = cause.downcast_ref() {
                return Error::Raised { line, message: message.clone() };
            }
            if cause.is::<Exhausted>() {
                return Error::TooMuchWork { line };
            }
            source = cause.source();
        }
        let message = || match error.detail() {
            Some(detail) => format!("{}: {detail}", error.kind()),
            None => error.kind().to_string(),
        };
        match error.kind() {
            ErrorKind::SyntaxError => Error::Syntax { line, message: message() },
            ErrorKind::OutOfFuel => Error::TooManySteps { line },
            _ => Error::Render { line, message: message() },
        }
    }
}
