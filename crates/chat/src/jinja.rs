//! The environment that templates are written for: that of Hugging Face's `transformers`.
//!
//! Source: `_compile_jinja_template` in its `utils/chat_template_utils.py`: Jinja2 with `trim_blocks`,
//! `lstrip_blocks`, `break` and `continue`, and a few functions of its own.

use std::borrow::Cow;

use minijinja::syntax::SyntaxConfig;
use minijinja::value::{Kwargs, StringInput, ValueKind};
use minijinja::{AutoEscape, Environment, ErrorKind, Output, State, Value};

use crate::Error;
use crate::error::Raised;
use crate::json::{MAX_DEPTH, tojson};
use crate::{MAX_OUTPUT_BYTES, MAX_SOURCE_BYTES, MAX_STEPS};

/// The name of the one template.
pub(crate) const NAME: &str = "chat_template";

/// Widest indentation.
const MAX_INDENT: usize = 1000;

/// The variable that holds the time of rendering, a [`Now`]; no template can spell it.
pub(crate) const NOW: &str = " now";

/// The time of rendering.
#[derive(Debug)]
pub(crate) struct Now(pub(crate) jiff::Zoned);

impl minijinja::value::Object for Now {}

/// An environment with the template `source`.
pub(crate) fn environment(source: &str) -> Result<Environment<'static>, Error> {
    if source.len() > MAX_SOURCE_BYTES {
        return Err(Error::SourceTooLong { found: source.len() });
    }
    let mut environment = Environment::new();
    environment.set_syntax(SyntaxConfig::builder().trim_blocks(true).lstrip_blocks(true).build()?);
    environment.set_auto_escape_callback(|_| AutoEscape::None);
    environment.set_unknown_method_callback(minijinja_contrib::pycompat::unknown_method_callback);
    environment.set_fuel(Some(MAX_STEPS));
    environment.set_debug(false);
    environment.set_formatter(write_finite);
    // These make lists of any length out of a number. No chat template has use for them.
    for filter in ["batch", "slice", "chain", "zip"] {
        environment.remove_filter(filter);
    }
    environment.add_filter("indent", indent);
    environment.add_filter("tojson", tojson);
    environment.add_filter("length", length);
    environment.add_filter("count", length);
    environment.add_function("raise_exception", raise_exception);
    environment.add_function("strftime_now", strftime_now);
    environment.add_template_owned(NAME, without_generation_tags(source))?;
    Ok(environment)
}

/// Writes a value as minijinja does, but none that is nested without end, as a namespace can be.
fn write_finite(out: &mut Output, state: &mut State, value: &Value) -> Result<(), minijinja::Error> {
    /// Takes one from `left` for each value within.
    fn count(value: &Value, depth: usize, left: &mut usize) -> Result<(), minijinja::Error> {
        *left = left.saturating_sub(1);
        if depth > MAX_DEPTH || *left == 0 {
            return Err(failed("value is too large or too deeply nested to be written"));
        }
        match value.kind() {
            ValueKind::Seq | ValueKind::Iterable => {
                value.try_iter()?.try_for_each(|item| count(&item, depth + 1, left))
            }
            ValueKind::Map => {
                value.try_iter()?.try_for_each(|key| count(&value.get_item(&key)?, depth + 1, left))
            }
            _ => Ok(()),
        }
    }
    count(value, 0, &mut MAX_OUTPUT_BYTES.clone())?;
    minijinja::escape_formatter(out, state, value)
}

/// As minijinja's own, but not by any number of spaces.
fn indent(
    value: StringInput<'_>,
    width: Option<usize>,
    first: Option<bool>,
    blank: Option<bool>,
    options: Kwargs,
) -> Result<Value, minijinja::Error> {
    let named: Option<usize> = options.peek("width")?;
    if width.or(named).is_some_and(|width| width > MAX_INDENT) {
        return Err(failed("`indent` takes at most 1000 spaces"));
    }
    minijinja::filters::indent(value, width, first, blank, options)
}

/// As minijinja's own, but what is undefined is empty, as in Jinja2.
fn length(value: &Value) -> Result<usize, minijinja::Error> {
    if value.is_undefined() { Ok(0) } else { minijinja::filters::length(value) }
}

fn failed(why: impl Into<Cow<'static, str>>) -> minijinja::Error {
    minijinja::Error::new(ErrorKind::InvalidOperation, why)
}

fn raise_exception(message: String) -> Result<Value, minijinja::Error> {
    Err(minijinja::Error::new(ErrorKind::InvalidOperation, "raise_exception").with_source(Raised(message)))
}

fn strftime_now(state: &State, format: &str) -> Result<String, minijinja::Error> {
    let now = state.lookup(NOW);
    let now = now.as_ref().and_then(|now| now.downcast_object_ref::<Now>());
    let Now(now) = now.ok_or_else(|| failed("the time is not known"))?;
    jiff::fmt::strtime::format(format, now).map_err(|error| failed(format!("strftime_now: {error}")))
}

/// `source` with `{% generation %}`, which only marks what is trained on, as a block without effect.
fn without_generation_tags(source: &str) -> String {
    let mut out = String::with_capacity(source.len());
    let mut rest = source;
    while let Some(start) = rest.find("{%") {
        let (before, tag) = rest.split_at(start + 2);
        out.push_str(before);
        rest = tag;
        let Some(end) = tag.find("%}") else { break };
        let body = &tag[..end];
        let word = body.trim_start_matches(['-', '+']).trim_end_matches(['-', '+']).trim();
        let replacement = match word {
            "generation" => "if true",
            "endgeneration" => "endif",
            _ => continue,
        };
        out.push_str(&body.replacen(word, &format!(" {replacement} "), 1));
        rest = &tag[end..];
    }
    out.push_str(rest);
    out
}
