//! The environment that templates are written for: that of Hugging Face's `transformers`.
//!
//! Source: `_compile_jinja_template` in its `utils/chat_template_utils.py`: Jinja2 with `trim_blocks`,
//! `lstrip_blocks`, `break` and `continue`, and a few functions of its own.

use minijinja::{AutoEscape, Environment, ErrorKind, State, Value, syntax::SyntaxConfig};

use crate::Error;
use crate::error::Raised;
use crate::json::tojson;
use crate::{MAX_SOURCE_BYTES, MAX_STEPS};

/// The name of the one template.
pub(crate) const NAME: &str = "chat_template";

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
    environment.add_filter("tojson", tojson);
    environment.add_function("raise_exception", raise_exception);
    environment.add_function("strftime_now", strftime_now);
    environment.add_template_owned(NAME, without_generation_tags(source))?;
    Ok(environment)
}

fn raise_exception(message: String) -> Result<Value, minijinja::Error> {
    Err(minijinja::Error::new(ErrorKind::InvalidOperation, "raise_exception").with_source(Raised(message)))
}

fn strftime_now(state: &State, format: &str) -> Result<String, minijinja::Error> {
    let failed = |why: String| minijinja::Error::new(ErrorKind::InvalidOperation, why);
    let now = state.lookup(NOW);
    let now = now.as_ref().and_then(|now| now.downcast_object_ref::<Now>());
    let Now(now) = now.ok_or_else(|| failed("the time is not known".to_owned()))?;
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
