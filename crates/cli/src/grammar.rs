//! The options of structured output.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use anyhow::Context;
use grammar::Source;

/// More than any grammar may have.
const MOST_BYTES: u64 = 1 << 20;

#[derive(Clone, Debug, clap::Args)]
#[command(next_help_heading = "Grammar")]
#[group(multiple = false)]
pub(crate) struct GrammarArgs {
    /// The answer is JSON that satisfies this schema: JSON text, or a file [short: -jf]
    #[arg(short, long, aliases = ["json-schema-file", "jf"], value_name = "SCHEMA")]
    pub(crate) json_schema: Option<String>,
    /// The answer is what this grammar accepts: GBNF text of llama.cpp
    #[arg(long, value_name = "GBNF")]
    pub(crate) grammar: Option<String>,
    /// File with a grammar: GBNF, or Lark if it ends in .lark
    #[arg(long, value_name = "FILE")]
    pub(crate) grammar_file: Option<PathBuf>,
}

impl GrammarArgs {
    /// The language of answers, if one is asked for.
    pub(crate) fn source(&self) -> anyhow::Result<Option<Source>> {
        Ok(Some(match (&self.json_schema, &self.grammar, &self.grammar_file) {
            (Some(text), ..) if is_json(text) => schema(text.clone()),
            (Some(file), ..) => schema(read(Path::new(file)).with_context(|| {
                format!("--json-schema: {file:?} is no JSON object, so that it must be a file with one")
            })?),
            (_, Some(grammar), _) => Source::Gbnf(grammar.clone()),
            (_, _, Some(file)) => {
                if file.extension().is_some_and(|extension| extension == "lark") {
                    Source::Lark(read(file)?)
                } else {
                    Source::Gbnf(read(file)?)
                }
            }
            (None, None, None) => return Ok(None),
        }))
    }
}

/// Text that is not JSON is refused when it is compiled.
fn schema(text: String) -> Source {
    serde_json::from_str(&text).map(Source::from_schema).unwrap_or(Source::JsonSchema(text))
}

/// Whether a schema is given as text: an object, or the schema of any value.
fn is_json(schema: &str) -> bool {
    schema.trim_start().starts_with('{') || schema.trim() == "true"
}

fn read(file: &Path) -> anyhow::Result<String> {
    let mut text = String::new();
    let opened = File::open(file).and_then(|opened| opened.take(MOST_BYTES).read_to_string(&mut text));
    opened.with_context(|| format!("cannot read the grammar {}", file.display()))?;
    Ok(text)
}
