//! Structured output: a grammar rules out the tokens that would break it.
//!
//! A [`Vocabulary`] is made once per model. Its [`Compiler`] turns a [`Source`] (a JSON schema, a regular expression, a grammar of
//! Lark or GBNF) into a [`Grammar`], on another thread and with a deadline, and keeps the last ones. A grammar's
//! [`Constraint`] is a [`Processor`](engine::Processor) of one request.
//!
//! ```no_run
//! use std::sync::Arc;
//! use engine::{Model, Request};
//! use grammar::{Compiler, Source, Vocabulary};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let model = Model::open("model.gguf")?;
//! let compiler = Compiler::new(Arc::new(Vocabulary::new(model.tokenizer())?));
//! let grammar = compiler.compile(&Source::JsonSchema(r#"{"type": "array", "items": {"type": "integer"}}"#.into()))?;
//! let request = Request::new(model.encode_prompt("Primes: ", false)).processor(grammar.constraint());
//! # let _ = request;
//! # Ok(())
//! # }
//! ```
//!
//! Nothing fails open: a keyword of JSON schema that cannot be enforced is an error that names it (`docs/structured_output.md`).

mod compiler;
mod constraint;
mod error;
mod gate;
mod gbnf;
mod grammar;
mod lark;
mod masks;
mod schema;
mod source;
mod vocabulary;

pub use compiler::{Compiler, CompilerOptions};
pub use constraint::Constraint;
pub use error::Error;
pub use gate::Trigger;
pub use gbnf::GbnfError;
pub use grammar::Grammar;
pub use lark::LarkError;
pub use schema::{SchemaError, SchemaProblem};
pub use source::Source;
pub use vocabulary::{Vocabulary, VocabularyError};
