//! The environment that templates are written for: that of Hugging Face's `transformers`.
//!
//! Source: `_compile_jinja_template` in its `utils/chat_template_utils.py`: Jinja2 with `trim_blocks`,
//! `lstrip_blocks`, `break` and `continue`, and a few functions of its own.

use std::borrow::Cow;

use minijinja::syntax::SyntaxConfig;
use minijinja::{AutoEscape, Environment, ErrorKind, Output, State, Value, machinery};

use crate::budget::Budget;
use crate::compile::compile;
use crate::error::Raised;
use crate::{Error, MAX_OUTPUT_BYTES, MAX_STEPS, calls, operators};

/// The variable that holds the time of rendering, a [`Now`]; no template can spell it.
pub(crate) const NOW: &str = " now";

/// The time of rendering.
#[derive(Debug)]
pub(crate) struct Now(pub(crate) jiff::Zoned);

impl minijinja::value::Object for Now {}

/// The environment.
pub(crate) fn environment() -> Result<Environment<'static>, Error> {
    let mut environment = Environment::empty();
    environment.set_syntax(SyntaxConfig::builder().trim_blocks(true).lstrip_blocks(true).build()?);
    environment.set_fuel(Some(MAX_STEPS));
    environment.set_debug(false);
    environment.set_formatter(write);
    operators::add_to(&mut environment);
    calls::add_to(&mut environment);
    environment.add_function("raise_exception", raise_exception);
    environment.add_function("strftime_now", strftime_now);
    Ok(environment)
}

/// Renders the template `source`.
pub(crate) fn render(environment: &Environment, source: &str, context: Value) -> Result<String, Error> {
    let (instructions, blocks) = compile(source, environment.syntax())?;
    let mut output = String::new();
    let mut out = machinery::make_string_output(&mut output);
    machinery::eval(environment, &instructions, context, &blocks, &mut out, AutoEscape::None).map(drop)?;
    if output.len() > MAX_OUTPUT_BYTES { Err(Error::TooMuchOutput) } else { Ok(output) }
}

/// Writes a value as minijinja does, here or into a variable, and pays for it.
fn write(out: &mut Output, state: &mut State, value: &Value) -> Result<(), minijinja::Error> {
    // The most that escaping for HTML can make of a character.
    let growth = if matches!(state.auto_escape(), AutoEscape::None) { 1 } else { 6 };
    let budget = Budget::of(state);
    let length = budget.text(value)?.saturating_mul(growth);
    budget.make(length)?;
    minijinja::escape_formatter(out, state, value)
}

fn failed(why: impl Into<Cow<'static, str>>) -> minijinja::Error {
    minijinja::Error::new(ErrorKind::InvalidOperation, why)
}

fn raise_exception(message: String) -> Result<Value, minijinja::Error> {
    Err(minijinja::Error::new(ErrorKind::InvalidOperation, "raise_exception").with_source(Raised(message)))
}

fn strftime_now(state: &mut State, format: &str) -> Result<String, minijinja::Error> {
    calls::has_narrow_fields(format, '%')?;
    Budget::of(state).afford(format.len().saturating_mul(calls::MAX_WIDTH))?;
    let now = state.lookup(NOW);
    let now = now.as_ref().and_then(|now| now.downcast_object_ref::<Now>());
    let Now(now) = now.ok_or_else(|| failed("the time is not known"))?;
    let text = jiff::fmt::strtime::format(format, now);
    let text = text.map_err(|error| failed(format!("strftime_now: {error}")))?;
    Budget::of(state).make(text.len())?;
    Ok(text)
}

/// `source` with `{% generation %}`, which only marks what is trained on, as a block without effect.
pub(crate) fn without_generation_tags(source: &str) -> String {
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
