//! Tests of chat templates from outside.

mod bombs;
mod builtin;
mod cut_answers;
mod fuzzed;
mod goldens;
mod histories;
mod limits;
mod marks;
mod messages;
mod quoted_calls;
mod reasoning;
mod system;
mod tool_answers;
mod tool_calls;
mod tool_grammars;
mod tool_schemas;
mod with_tokenizer;
