//! The environment that templates are written for: that of Hugging Face's `transformers`.
//!
//! Reference: `_compile_jinja_template` in `utils/chat_template_utils.py`: Jinja2 with `trim_blocks`,
//! `lstrip_blocks`, `break` and `continue`, and a few functions.

use std::collections::BTreeMap;
use std::panic::{self, AssertUnwindSafe};

use minijinja::machinery::{CodeGenerator, Instructions, eval, make_string_output, parse};
use minijinja::value::{Rest, ValueKind};
use minijinja::{AutoEscape, Environment, ErrorKind, Output, State, Value};
use minijinja_contrib::globals;

use crate::code::limited;
use crate::error::Raised;
use crate::limits::{Budget, RUN, Run, failed};
use crate::source::{prepare, syntax};
use crate::text::text_of;
use crate::{Error, MAX_OUTPUT_BYTES, MAX_STEPS, charges, filters, methods, operators};

const NAME: &str = "chat_template";

/// Maximum nesting of loops and blocks at run time; a macro call counts as four. Each takes a few kilobytes of stack.
const MAX_RECURSION: usize = 200;

fn environment() -> Environment<'static> {
    let mut environment = Environment::new();
    environment.set_fuel(Some(MAX_STEPS));
    environment.set_recursion_limit(MAX_RECURSION);
    environment.set_debug(false);
    environment.set_formatter(write);
    environment.set_unknown_method_callback(methods::call);
    charges::add_to(&mut environment);
    operators::add_to(&mut environment);
    filters::add_to(&mut environment);
    environment.add_function("cycler", |items: Rest<Value>| globals::cycler(items.0));
    environment.add_function("joiner", globals::joiner);
    environment.add_function("raise_exception", raise_exception);
    environment.add_function("strftime_now", strftime_now);
    environment.add_test("callable", |value: &Value| value.kind() == ValueKind::Plain);
    environment.add_test("sequence", |value: &Value| value.is_undefined() || value.len().is_some());
    environment.add_test("iterable", |value: &Value| !value.is_none() && value.try_iter().is_ok());
    environment
}

/// Compiles the [prepared](crate::source::prepare) `source`, with its blocks.
fn compile(source: &str) -> Result<(Instructions<'_>, BTreeMap<&str, Instructions<'_>>), Error> {
    let template = parse(source, NAME, syntax()?)?;
    let mut generator = CodeGenerator::new(NAME, source);
    generator.compile_stmt(&template);
    let (code, blocks) = generator.finish();
    let blocks = blocks.iter().map(|(name, code)| Ok((*name, limited(code)?)));
    Ok((limited(&code)?, blocks.collect::<Result<_, Error>>()?))
}

/// Checks the template `source` and prepares it for [`render`].
pub(crate) fn check(source: &str) -> Result<String, Error> {
    unpanicked(|| {
        let source = prepare(source)?;
        compile(&source)?;
        Ok(source)
    })
}

/// Renders the prepared `source` with `context`.
pub(crate) fn render(source: &str, context: Value) -> Result<String, Error> {
    unpanicked(|| {
        let environment = environment();
        let (code, blocks) = compile(source)?;
        let mut text = String::new();
        let mut out = make_string_output(&mut text);
        eval(&environment, &code, context, &blocks, &mut out, AutoEscape::None)?;
        if text.len() > MAX_OUTPUT_BYTES { Err(Error::TooMuchOutput) } else { Ok(text) }
    })
}

/// Converts a panic, which only a bug in the template engine can cause, to an error.
fn unpanicked<T>(work: impl FnOnce() -> Result<T, Error>) -> Result<T, Error> {
    let failed = |_| Error::Render { line: 0, message: "the template engine panicked".to_owned() };
    panic::catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|why| Err(failed(why)))
}

/// Formats a value as Python does.
fn write(out: &mut Output, state: &mut State, value: &Value) -> Result<(), minijinja::Error> {
    let text;
    let text = match value.as_str() {
        Some(text) => text,
        None => {
            text = text_of(state, value)?;
            &text
        }
    };
    Budget::of(state).charge_output(text.len())?;
    Ok(out.write_str(text)?)
}

fn raise_exception(state: &mut State, message: Value) -> Result<Value, minijinja::Error> {
    let message = text_of(state, &message)?;
    Err(minijinja::Error::new(ErrorKind::InvalidOperation, "raise_exception").with_source(Raised(message)))
}

fn strftime_now(state: &mut State, format: &str) -> Result<String, minijinja::Error> {
    filters::formatted(state, format, '%', &[])?;
    let run = state.lookup(RUN);
    let run = run.as_ref().and_then(|run| run.downcast_object_ref::<Run>());
    let Run { now, .. } = run.ok_or_else(|| failed("the time is not known"))?;
    let text = jiff::fmt::strtime::format(format, now);
    text.map_err(|error| failed(format!("strftime_now: {error}")))
}
