//! Arguments of which each has marks: `<parameter=name>value</parameter>`.

use serde_json::Value as Json;

use super::format::Parameter;
use super::input::{Input, MAX_SPACE, Step, undecided};
use super::literal::Syntax;
use super::schema::{Tool, Types};

/// Longest name or attributes of a parameter, in bytes.
const MAX_KEY: usize = 256;

#[derive(Clone, Debug)]
pub(crate) struct Parameters {
    format: &'static Parameter,
    /// Texts that may follow the parameters.
    next: [&'static str; 2],
    place: Place,
    count: usize,
}

#[derive(Clone, Debug)]
enum Place {
    Between,
    Key,
    Attributes { key: String },
    Value(Value),
}

#[derive(Clone, Debug)]
struct Value {
    types: Types,
    /// Whether it is passed on as a string while it is read.
    streams: bool,
    /// Whether an attribute says that it is no string.
    is_json: bool,
    has_begun: bool,
    text: String,
}

impl Parameters {
    pub(crate) fn new(format: &'static Parameter, next: [&'static str; 2]) -> Parameters {
        Parameters { format, next, place: Place::Between, count: 0 }
    }

    pub(crate) fn step(&mut self, input: &mut Input<'_>, tool: &Tool, out: &mut String) -> Step {
        loop {
            let step = match &mut self.place {
                Place::Between => {
                    input.skip_space();
                    if input.eat(self.format.open) {
                        self.place = Place::Key;
                        continue;
                    }
                    if self.next.iter().any(|next| !next.is_empty() && input.rest().starts_with(next)) {
                        out.push_str(if self.count == 0 { "{}" } else { "}" });
                        return Step::Done;
                    }
                    let mut marks = self.next.iter().chain([&self.format.open]);
                    if marks.any(|mark| input.may_become(mark)) { Step::More } else { Step::Broken }
                }
                Place::Key => match input.take_until(self.format.key_end.trim_end(), MAX_KEY) {
                    Ok(key) => {
                        out.push(if self.count == 0 { '{' } else { ',' });
                        out.push_str(&Json::from(key.trim()).to_string());
                        out.push(':');
                        self.count += 1;
                        self.place = Place::Attributes { key: key.trim().to_owned() };
                        Step::Done
                    }
                    Err(step) => step,
                },
                Place::Attributes { key } => match input.take_until(self.format.value_open, MAX_KEY) {
                    Ok(attributes) => {
                        let types = Types::of(tool, key);
                        let says_text = self.format.attributes.as_ref().map(|a| attributes.contains(a.text));
                        let streams = says_text.unwrap_or(types.is_text()) && !self.format.has_cdata;
                        let is_json = says_text == Some(false);
                        let text = String::new();
                        self.place = Place::Value(Value { types, streams, is_json, has_begun: false, text });
                        Step::Done
                    }
                    Err(step) => step,
                },
                Place::Value(value) => {
                    let step = value.step(self.format, &self.next, input, out);
                    if step == Step::Done {
                        self.place = Place::Between;
                    }
                    step
                }
            };
            if step != Step::Done {
                return step;
            }
        }
    }
}

/// The value that `text` is as JSON or in Python.
pub(super) fn read(text: &str) -> Option<Json> {
    serde_json::from_str(text).ok().or_else(|| Syntax::Python.read(text))
}

impl Value {
    fn step(
        &mut self,
        format: &Parameter,
        next: &[&'static str],
        input: &mut Input<'_>,
        out: &mut String,
    ) -> Step {
        if !self.has_begun {
            if format.in_lines && input.may_become("\n") {
                return Step::More;
            }
            if format.in_lines {
                input.eat("\n");
            }
            out.push_str(if self.streams { "\"" } else { "" });
            self.has_begun = true;
        }
        let mut from = 0;
        let (end, found) = loop {
            let rest = input.rest();
            let Some(at) = rest[from..].find(format.close).map(|at| from + at) else {
                break (undecided(rest, &[format.close]).max(from), None);
            };
            // The value may contain the mark: it ends where a parameter or the end of the call follows.
            let after = at + format.close.len();
            let tail = rest[after..].trim_start();
            if rest.len() - after - tail.len() > MAX_SPACE {
                from = after;
                continue;
            }
            let mut follows = next.iter().chain([&format.open]).filter(|mark| !mark.is_empty());
            if follows.clone().any(|mark| tail.starts_with(mark)) {
                break (at, Some(after));
            }
            if input.more && follows.any(|mark| mark.starts_with(tail)) {
                break (at, None);
            }
            from = after;
        };
        let text = &input.rest()[..end];
        let text = if format.in_lines { text.strip_suffix('\n').unwrap_or(text) } else { text };
        self.text(text, out);
        input.take(found.unwrap_or(text.len()));
        if found.is_none() {
            return Step::More;
        }
        if self.streams {
            out.push('"');
        } else {
            out.push_str(&self.json(format).to_string());
        }
        Step::Done
    }

    fn text(&mut self, text: &str, out: &mut String) {
        if self.streams {
            let quoted = Json::from(text).to_string();
            out.push_str(&quoted[1..quoted.len() - 1]);
        } else {
            self.text.push_str(text);
        }
    }

    fn json(&self, format: &Parameter) -> Json {
        let cdata = self.text.trim().strip_prefix("<![CDATA[").and_then(|text| text.strip_suffix("]]>"));
        let text = cdata.filter(|_| format.has_cdata).unwrap_or(&self.text);
        if self.is_json {
            return read(text.trim()).unwrap_or_else(|| text.into());
        }
        self.types.value(text, read)
    }
}
