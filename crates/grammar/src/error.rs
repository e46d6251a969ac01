//! Errors of grammars.

use std::time::Duration;

use crate::gbnf::GbnfError;
use crate::lark::LarkError;
use crate::schema::SchemaError;

/// Why a grammar cannot be used.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
#[expect(missing_docs, reason = "the messages explain the variants")]
pub enum Error {
    #[error("the JSON schema {0}")]
    Schema(#[from] SchemaError),
    #[error("the regular expression {0}")]
    Regex(String),
    #[error("the GBNF grammar, {0}")]
    Gbnf(#[from] GbnfError),
    #[error("the Lark grammar, {0}")]
    Lark(#[from] LarkError),
    #[error("the {what} cannot be compiled: {why}")]
    Compile { what: &'static str, why: String },
    #[error("the {what} has {found} bytes, at most {most} are supported; make it smaller")]
    TooLong { what: &'static str, found: usize, most: usize },
    #[error("the {what} was not compiled within {} ms; make it simpler", deadline.as_millis())]
    Deadline { what: &'static str, deadline: Duration },
    #[error("{threads} other grammars are still being compiled; try again later")]
    Busy { threads: usize },
    #[error("the trigger of the grammar {0}")]
    Trigger(&'static str),
}
