//! The environment of templates, as in Hugging Face's `transformers` (`_compile_jinja_template` in
//! `utils/chat_template_utils.py`): Jinja2 with `trim_blocks`, `lstrip_blocks`, `break` and `continue`, and a few functions.

use std::panic::{self, AssertUnwindSafe};

use minijinja::machinery::get_compiled_template;
use minijinja::syntax::SyntaxConfig;
use minijinja::value::{Rest, ValueKind};
use minijinja::{AutoEscape, Environment, ErrorKind, Output, State, Value};
use minijinja_contrib::globals;

use crate::error::Stop;
use crate::format::formatted;
use crate::limits::{Budget, RUN, Run, failed};
use crate::methods::Methods;
use crate::text::py_str;
use crate::{Error, MAX_OUTPUT_BYTES, MAX_STEPS, filters, meter, operators};

const NAME: &str = "chat_template";

/// Maximum nesting of loops and blocks at run time; a macro call counts as four. Each takes a few kilobytes of stack.
const MAX_RECURSION: usize = 200;

pub(crate) fn compile(source: &str) -> Result<Environment<'static>, Error> {
    let mut environment = Environment::new();
    environment.set_fuel(Some(MAX_STEPS));
    environment.set_recursion_limit(MAX_RECURSION);
    environment.set_debug(false);
    let syntax = SyntaxConfig::builder().trim_blocks(true).lstrip_blocks(true).build()?;
    environment.set_syntax(syntax.clone());
    environment.set_auto_escape_callback(|_| AutoEscape::None);
    environment.set_formatter(write);
    let methods = Methods::new();
    environment
        .set_unknown_method_callback(move |state, value, name, args| methods.call(state, value, name, args));
    operators::add_to(&mut environment);
    filters::add_to(&mut environment);
    environment.add_function("cycler", |items: Rest<Value>| globals::cycler(items.0));
    environment.add_function("joiner", globals::joiner);
    environment.add_function("raise_exception", raise_exception);
    environment.add_function("strftime_now", strftime_now);
    environment.add_test("callable", |value: &Value| value.kind() == ValueKind::Plain);
    environment.add_test("sequence", |value: &Value| value.is_undefined() || value.len().is_some());
    environment.add_test("iterable", |value: &Value| !value.is_none() && value.try_iter().is_ok());
    let source = source.replace("\r\n", "\n").replace('\r', "\n");
    unpanicked(|| {
        let source = meter::prepared(&source, &syntax)?;
        environment.add_template_owned(NAME, source).map_err(Error::from)
    })?;
    Ok(environment)
}

/// Converts a panic, which only a bug in the template engine can cause, to an error.
fn unpanicked<T>(work: impl FnOnce() -> Result<T, Error>) -> Result<T, Error> {
    let failed = |_| Error::Render { line: 0, message: "the template engine panicked".to_owned() };
    panic::catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|why| Err(failed(why)))
}

pub(crate) fn render(environment: &Environment, context: Vec<(&str, Value)>) -> Result<String, Error> {
    let text = unpanicked(|| {
        let template = environment.get_template(NAME)?;
        Ok(meter::render(environment, get_compiled_template(&template), Value::from_pairs(context))?)
    })?;
    if text.len() > MAX_OUTPUT_BYTES { Err(Error::TooMuchOutput) } else { Ok(text) }
}

fn write(out: &mut Output, state: &mut State, value: &Value) -> Result<(), minijinja::Error> {
    let text = py_str(state, value)?;
    Budget::of(state).print(text.len())?;
    Ok(out.write_str(&text)?)
}

fn raise_exception(state: &mut State, message: Value) -> Result<Value, minijinja::Error> {
    let message = py_str(state, &message)?;
    Err(minijinja::Error::new(ErrorKind::InvalidOperation, "raise_exception")
        .with_source(Stop::Raised(message)))
}

fn strftime_now(state: &mut State, format: &str) -> Result<String, minijinja::Error> {
    formatted(state, format, '%', &[])?;
    let run = state.lookup(RUN);
    let run = run.as_ref().and_then(|run| run.downcast_object_ref::<Run>());
    let Run { now, .. } = run.ok_or_else(|| failed("the time is not known"))?;
    let text = jiff::fmt::strtime::format(format, now);
    text.map_err(|error| failed(format!("strftime_now: {error}")))
}
