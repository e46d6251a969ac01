//! Grammars of llama.cpp (GBNF), as grammars of Lark.
//!
//! A GBNF grammar is about characters. llguidance first cuts a text into lexemes, each the longest possible, which is not the
//! same: after the lexeme `[a-z]+`, `"x"` never follows. [`lexemes`] chooses lexemes for which it is the same.

mod lexemes;
mod parse;
mod syntax;
mod write;

use crate::vocabulary::Vocabulary;

use syntax::Position;

/// Where in a GBNF grammar, and what is wrong there.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{position}: {problem}")]
pub struct GbnfError {
    position: Position,
    problem: String,
}

/// The grammar of Lark that accepts the same texts.
pub(crate) fn to_lark(text: &str, vocabulary: &Vocabulary) -> Result<String, GbnfError> {
    let grammar = parse::parse(text, vocabulary)?;
    grammar.check()?;
    Ok(write::lark(&grammar))
}
