//! Grammars of llama.cpp (GBNF).

use crate::vocabulary::Vocabulary;

/// E.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("x")]
pub struct GbnfError;

pub(crate) fn to_lark(_: &str, _: &Vocabulary) -> Result<String, GbnfError> {
    Err(GbnfError)
}
