//! Why a template cannot be used or rendered.

use std::error::Error as _;

use crate::limits::Exhausted;
use crate::{MAX_OUTPUT_BYTES, MAX_SOURCE_BYTES, MAX_STEPS, MAX_WORK_BYTES};

/// Why a template cannot be used or rendered.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The metadata holds something else than a template.
    #[error(transparent)]
    WrongType(#[from] gguf::WrongType),
    /// The template is too long to be one.
    #[error("the chat template has {found} bytes, expected at most {MAX_SOURCE_BYTES}")]
    SourceTooLong {
        /// Bytes of the template.
        found: usize,
    },
    /// The template is not Jinja.
    #[error("line {line} of the chat template: {message}")]
    Syntax {
        /// Line, from 1.
        line: usize,
        /// What is wrong.
        message: String,
    },
    /// The template refused the conversation with `raise_exception`.
    #[error("the chat template refuses this conversation (line {line}): {message}")]
    Raised {
        /// Line, from 1; 0 when it is not known.
        line: usize,
        /// The template's own words.
        message: String,
    },
    /// The template failed.
    #[error("line {line} of the chat template: {message}")]
    Render {
        /// Line, from 1; 0 when it is not known.
        line: usize,
        /// What is wrong.
        message: String,
    },
    /// The template does not come to an end.
    #[error("the chat template took more than {MAX_STEPS} steps (stopped at line {line})")]
    TooManySteps {
        /// Line, from 1; 0 when it is not known.
        line: usize,
    },
    /// The template makes or reads too much text within, or takes too long.
    #[error(
        "the chat template reads and makes more than {MAX_WORK_BYTES} bytes of text and lists, or takes more than ten \
         seconds (stopped at line {line}): it is damaged or hostile, use a prompt without it"
    )]
    TooMuchWork {
        /// Line, from 1; 0 when it is not known.
        line: usize,
    },
    /// The template produces too much.
    #[error("the chat template produced more than {MAX_OUTPUT_BYTES} bytes")]
    TooMuchOutput,
    /// The template writes no system message, neither as such nor within a user message.
    #[error(
        "the chat template leaves out the system message: remove it, or use a prompt without the template"
    )]
    SystemLeftOut,
    /// The special tokens are too many or too long to search for.
    #[error("cannot build the search for special tokens: {0}")]
    SpecialTokens(#[from] aho_corasick::BuildError),
    /// The conversation uses every character that could separate its text from the template's.
    #[error("the conversation uses all {tried} characters that could mark special tokens in it")]
    NoGuard {
        /// Number of characters tried.
        tried: usize,
    },
}

/// What `raise_exception` was called with, carried as the source of minijinja's error.
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
