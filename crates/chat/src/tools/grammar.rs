//! The grammar of valid calls, in llguidance's dialect of Lark.
//! <https://github.com/guidance-ai/llguidance/blob/main/docs/syntax.md>.

use std::fmt::Write as _;

use serde_json::{Value as Json, json};

use super::ToolFormat;
use super::format::{Element, Format, IdPlace, Keys, Open, Parameter};
use super::lark::{self, Lark};
use super::literal::Syntax;
use super::parameters;
use super::schema::{Tool, Tools, ToolsError, Types};
use super::values::{Further, Root, Unenforced, Values};
use crate::parts::OpeningPlace;
use crate::prompt::{self, Segment};
use crate::reasoning;

/// Which tools the model calls.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Choice {
    /// As it decides.
    #[default]
    Auto,
    /// At least one.
    Required,
    /// This one.
    Named(String),
}

/// A grammar that constrains an answer to valid calls.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Grammar {
    /// The texts that start the grammar; empty if it holds from the beginning of the answer. The first trigger where it counts starts
    /// it: it describes one section of calls from the trigger's first byte.
    pub triggers: Vec<Trigger>,
    /// Lark text for llguidance, with special tokens as `<[id]>`: those of [`Specials`](crate::Specials).
    pub lark: String,
    /// The parts of schemas that it does not enforce, at most one of each tool. Empty if arguments are JSON.
    pub unenforced: Vec<Unenforced>,
}

/// A text that starts a grammar.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trigger {
    /// The text, with special tokens.
    pub segments: Vec<Segment>,
    /// Where it counts.
    pub place: OpeningPlace,
}

impl Trigger {
    /// The text, in which special tokens are spelled.
    pub fn text(&self) -> String {
        prompt::text(&self.segments)
    }
}

struct Begin<'a> {
    open: &'a Open,
    /// The part of the opening that the model writes: the rest is in the prompt.
    text: &'a str,
    at_start: bool,
}

impl ToolFormat {
    /// The grammar of an answer to `prompt` that calls `tools`, or with `reply` of one that calls them or is what this Lark rule
    /// accepts. Fails if `choice` demands a tool that there is not, or the grammar is too long.
    pub fn grammar(
        &self,
        prompt: &impl std::fmt::Display,
        tools: &Tools,
        choice: &Choice,
        parallel: bool,
        reply: Option<&str>,
    ) -> Result<Grammar, ToolsError> {
        let ToolFormat { format, reasoning, special } = self;
        let choice = if reply.is_some() { &Choice::Required } else { choice };
        let tools: Vec<&Tool> = match choice {
            Choice::Named(name) => {
                vec![tools.get(name).ok_or_else(|| ToolsError::Unknown { name: name.clone() })?]
            }
            Choice::Auto | Choice::Required => tools.iter().collect(),
        };
        if tools.is_empty() {
            return Err(ToolsError::None);
        }
        let prompt = prompt.to_string();
        let prompt = prompt.trim_end();
        let in_prompt = if prompt.ends_with(format.prefill) { format.prefill } else { "" };
        let begins = begins(format, in_prompt);
        let is_auto = *choice == Choice::Auto;

        let mut writer = Writer { lark: Lark::new(special), format, unenforced: Vec::new() };
        let starts: Vec<String> = if is_auto {
            begins.iter().map(|begin| writer.section(begin, &tools, parallel)).collect()
        } else {
            // After reasoning, the model writes the whole opening.
            let full = Begin::full(format);
            let first = begins.iter().find(|begin| begin.at_start).unwrap_or(&begins[0]);
            let calls = writer.sections(first, &tools, parallel);
            let closed = reasoning.filter(|format| !prompt.ends_with(format.close));
            let reply = reply.map(|reply| writer.reply(reply, *reasoning));
            let or_reply = |calls: String| match &reply {
                Some(reply) => format!("({calls} | {reply})"),
                None => calls,
            };
            match closed {
                None => vec![or_reply(calls)],
                Some(marks) => {
                    let thought = writer.thought(marks);
                    let after = or_reply(writer.sections(&full, &tools, parallel));
                    let mut reasoned = vec![format!("{thought} {after}")];
                    reasoned.extend(writer.thought_with_calls(&tools, parallel));
                    if prompt.ends_with(marks.open) {
                        reasoned
                    } else {
                        vec![
                            or_reply(calls),
                            format!("{} ({})", writer.lark.text(marks.open), reasoned.join(" | ")),
                        ]
                    }
                }
            }
        };
        let may_reason = reasoning.is_some();
        let triggers =
            if is_auto { triggers(&writer.lark, format, &begins, &tools, may_reason) } else { Vec::new() };
        Ok(Grammar { triggers, lark: writer.lark.finish(&starts)?, unenforced: writer.unenforced })
    }
}

impl Begin<'_> {
    fn full(format: &'static Format) -> Begin<'static> {
        let open = &format.opens[0];
        Begin { open, text: open.written(), at_start: false }
    }
}

/// How a section may begin after a prompt that ends with `in_prompt`.
fn begins<'a>(format: &'a Format, in_prompt: &str) -> Vec<Begin<'a>> {
    let rest = |open: &'a Open| {
        let text = open.mark.strip_prefix(in_prompt).filter(|_| !in_prompt.is_empty())?;
        Some(Begin { open, text, at_start: true })
    };
    let whole = format.opens.iter().map(|open| Begin { open, text: open.written(), at_start: open.at_start });
    whole.chain(format.opens.iter().filter_map(rest)).collect()
}

impl Open {
    fn written(&self) -> &'static str {
        if self.is_part { "" } else { self.mark }
    }
}

fn triggers(
    lark: &Lark<'_>,
    format: &Format,
    begins: &[Begin<'_>],
    tools: &[&Tool],
    may_reason: bool,
) -> Vec<Trigger> {
    let mut triggers = Vec::new();
    let trigger = |text: &str, place| Trigger { segments: lark.segments(text), place };
    for begin in begins {
        let place = if begin.at_start { OpeningPlace::Start } else { OpeningPlace::Content };
        let with_names =
            || tools.iter().map(|tool| begin.text.to_owned() + &named(format, begin.open, &tool.name));
        // Where the opening may be content, a name must follow.
        let is_clear =
            !begin.open.at_start && format.headers.iter().all(|header| !header.starts_with(begin.open.mark));
        if is_clear {
            triggers.push(trigger(begin.text, place));
        } else {
            triggers.extend(with_names().map(|text| trigger(&text, place)));
        }
        // Reasoning may mention the opening.
        if may_reason && !begin.at_start {
            triggers.extend(with_names().map(|text| trigger(&text, OpeningPlace::Reasoning)));
        }
    }
    triggers
}

/// The text of a call after `open`, as far as it is certain when the tool `name` is called.
fn named(format: &Format, open: &Open, name: &str) -> String {
    let mut text = String::new();
    for element in &format.call[open.then..] {
        match element {
            Element::Text(part) => text.push_str(part),
            Element::Name(ends) => {
                let end = if let [end] = ends { end } else { "" };
                return text + name + end;
            }
            Element::NumberedName(_) => return text + "functions." + name,
            Element::Object(keys) => return text + &keys.head(name),
            _ => break,
        }
    }
    text
}

impl Keys {
    /// Up to the name, or to an id before it.
    fn head(&self, name: &str) -> String {
        match self {
            Keys::Fields { id, id_place: IdPlace::First, .. } => format!("{{\"{id}\": \""),
            Keys::Fields { name: key, .. } => format!("{{\"{key}\": {}", Json::from(name)),
            Keys::NameIsKey => format!("{{{}", Json::from(name)),
        }
    }
}

struct Writer<'a> {
    lark: Lark<'a>,
    format: &'static Format,
    unenforced: Vec<Unenforced>,
}

impl Writer<'_> {
    /// Sections of which the first one begins with `begin`.
    fn sections(&mut self, begin: &Begin<'_>, tools: &[&Tool], parallel: bool) -> String {
        let mut sections = self.section(begin, tools, parallel);
        if let Some(apart) = self.format.apart.filter(|_| parallel) {
            // Some models leave out the line break.
            let apart =
                if apart.is_empty() { String::new() } else { format!("({})?", self.lark.text(apart)) };
            let next = self.section(&Begin::full(self.format), tools, parallel);
            let _ = write!(sections, " ({apart} {next})*");
        }
        sections
    }

    fn section(&mut self, begin: &Begin<'_>, tools: &[&Tool], parallel: bool) -> String {
        let call = self.calls(0, tools);
        let first = if begin.open.then == 0 { call.clone() } else { self.calls(begin.open.then, tools) };
        let (open, close) = (self.lark.text(begin.text), self.lark.text(self.format.close));
        match self.format.separator.filter(|_| parallel) {
            Some(separator) => format!("{open} {first} ({} {call})* {close}", self.lark.text(separator)),
            None => format!("{open} {first} {close}"),
        }
    }

    /// A rule for calls of all tools from part `then` on.
    fn calls(&mut self, then: usize, tools: &[&Tool]) -> String {
        let calls = tools.iter().enumerate().map(|(index, tool)| {
            let rule = format!("call_{then}_{index}");
            if self.lark.has(&rule) || self.lark.is_full() {
                return rule;
            }
            let elements = &self.format.call[then..];
            let parts = elements.iter().map(|element| self.element(element, tool, index));
            let parts = parts.collect::<Vec<_>>().join(" ");
            self.lark.rule(&rule, parts)
        });
        let calls: Vec<_> = calls.collect();
        self.lark.rule(&format!("call_{then}"), calls.join(" | "))
    }

    /// An answer without calls, with the marks that may precede it.
    fn reply(&mut self, reply: &str, reasoning: Option<&reasoning::Format>) -> String {
        let reply = self.lark.rule("reply", reply.to_owned());
        let headers = reasoning.into_iter().flat_map(|format| format.headers).chain(self.format.headers);
        let headers = headers.filter(|header| !header.ends_with("assistant"));
        let headers: Vec<String> = headers.map(|header| self.lark.text(header)).collect();
        if headers.is_empty() { reply } else { format!("({})? {reply}", headers.join(" | ")) }
    }

    /// Reasoning that has begun, with its end.
    fn thought(&mut self, marks: &reasoning::Format) -> String {
        let text = self.lark.text_until("thought", marks.close);
        let header = marks.headers.iter().find(|header| header.ends_with("assistant"));
        let header = header.map(|header| self.lark.text(header)).unwrap_or_default();
        format!("{text} /[ \\t\\r\\n]{{0,8}}/ {header}")
    }

    /// Reasoning that has begun and ends with calls instead of its mark; `None` if calls have no mark of their own.
    fn thought_with_calls(&mut self, tools: &[&Tool], parallel: bool) -> Option<String> {
        let open = self.format.opens.iter().find(|open| !open.at_start)?;
        let text = self.lark.unquoted_until("thought_with_calls", open.mark);
        let calls = self.sections(&Begin { open, text: "", at_start: false }, tools, parallel);
        Some(format!("{text} {calls}"))
    }

    fn element(&mut self, element: &Element, tool: &Tool, index: usize) -> String {
        let text = |text: &str| self.lark.text(text);
        match element {
            Element::Text(part) => text(part),
            Element::Name(_) => text(&tool.name),
            Element::NumberedName(end) => {
                format!("{} /[0-9]{{1,3}}/ {}", text(&format!("functions.{}:", tool.name)), text(end))
            }
            Element::Id(end) => format!("/[a-zA-Z0-9_-]{{1,64}}/ {}", text(end)),
            Element::OptionalId { mark, .. } => format!("({} /[a-zA-Z0-9]{{9}}/)?", text(mark)),
            Element::Skip { texts, .. } => {
                let texts: Vec<_> = texts.iter().map(|part| text(part)).collect();
                format!("({})", texts.join(" | "))
            }
            Element::Arguments => self.arguments(tool, index),
            Element::Object(keys) => {
                let arguments = self.arguments(tool, index);
                let text = |text: &str| self.lark.text(text);
                let (head, name) = (keys.head(&tool.name), Json::from(&*tool.name));
                match keys {
                    Keys::NameIsKey => format!("{} {arguments} \"}}\"", text(&(head + ": "))),
                    Keys::Fields { name: key, arguments: keys, id, id_place } => {
                        let rest = text(&format!("\"{key}\": {name}, \"{}\": ", keys[0]));
                        let first = text(&head);
                        let last = text(&format!(", \"{id}\": \""));
                        match id_place {
                            IdPlace::None => format!("\"{{\" {rest} {arguments} \"}}\""),
                            IdPlace::First => {
                                format!("{first} /[0-9]{{1,3}}/ \"\\\", \" {rest} {arguments} \"}}\"")
                            }
                            IdPlace::Last => {
                                let id = format!("({last} /[a-zA-Z0-9_-]{{1,64}}/ \"\\\"\")?");
                                format!("\"{{\" {rest} {arguments} {id} \"}}\"")
                            }
                        }
                    }
                }
            }
            Element::Parameters(parameter) => {
                let root = self.root(tool);
                let mut written = Vec::new();
                for (number, (name, schema, is_required)) in tool.properties().enumerate() {
                    if self.lark.is_full() {
                        break;
                    }
                    let rule = format!("parameter_{index}_{number}");
                    written
                        .push((self.parameter(parameter, &rule, (tool, &root), name, schema), is_required));
                }
                self.lark.any_order(&format!("parameters_{index}"), written, "")
            }
            Element::Literals(syntax) => self.literals(*syntax, tool, index),
        }
    }

    /// The schema of `tool`, of which more is asked than a grammar of its parameters enforces if it has certain keywords.
    fn root<'b>(&mut self, tool: &'b Tool) -> Root<'b> {
        let root = Root::of(tool);
        if let Some(further) = root.further() {
            self.leave(tool, further);
        }
        root
    }

    fn leave(&mut self, tool: &Tool, Further { pointer, keyword }: Further) {
        if self.unenforced.last().is_none_or(|last| last.tool != tool.name) {
            let (tool, format) = (tool.name.clone(), self.format.name);
            self.unenforced.push(Unenforced { tool, pointer, keyword, format });
        }
    }

    fn parameter(
        &mut self,
        parameter: &Parameter,
        rule: &str,
        (tool, root): (&Tool, &Root<'_>),
        name: &str,
        schema: &Json,
    ) -> String {
        let (types, are_all) = Types::read(tool, name);
        let is_text = types.has("string") || types == Types::default();
        let line = if parameter.in_lines { "\n" } else { "" };
        let head = format!("{}{}{name}{}", parameter.before, parameter.open, parameter.key_end);
        let attribute = match &parameter.attributes {
            None => String::new(),
            Some(attributes) if is_text => self.lark.text(attributes.text),
            Some(attributes) => format!("/{}/", attributes.other),
        };
        let head = format!(
            "{} {attribute} {}",
            self.lark.text(&head),
            self.lark.text(&format!("{}{line}", parameter.value_open))
        );
        let close = format!("{line}{}", parameter.close);
        let end = self.lark.text(&close);
        let value = if is_text {
            match root.values(name, schema) {
                Ok(Values::Listed(values)) => match texts(parameter, types, &values) {
                    Some(texts) => {
                        let texts: Vec<_> = texts.iter().map(|text| self.lark.text(text)).collect();
                        self.lark.rule(rule, format!("({}) {end}", texts.join(" | ")))
                    }
                    None => {
                        self.leave(tool, Further::of(name, "enum"));
                        self.lark.text_until(rule, &close)
                    }
                },
                Ok(Values::Types(_)) => self.lark.text_until(rule, &close),
                Err(further) => {
                    self.leave(tool, further);
                    self.lark.text_until(rule, &close)
                }
            }
        } else {
            if !are_all {
                self.leave(tool, Further::of(name, "type"));
            }
            let json = root.alone(name, schema).unwrap_or_else(|further| {
                self.leave(tool, further);
                json!({ "type": types.names() })
            });
            format!("{} {end}", self.lark.json(rule, &json))
        };
        format!("{head} {value}")
    }

    /// Named arguments with commas between them, and the closing bracket.
    fn literals(&mut self, syntax: Syntax, tool: &Tool, index: usize) -> String {
        let root = self.root(tool);
        let comma = if syntax == Syntax::Python { "\", \"" } else { "\",\"" };
        let mut written = Vec::new();
        for (number, (name, schema, is_required)) in tool.properties().enumerate() {
            if self.lark.is_full() {
                break;
            }
            let key = self.lark.text(&format!("{name}{}", syntax.assigns()));
            let rule = format!("value_{index}_{number}");
            let value = self.literal(syntax, &rule, (tool, &root), name, schema);
            written.push((format!("{key} {value}"), is_required));
        }
        let all = self.lark.any_order(&format!("all_{index}"), written, comma);
        format!("{all} {}", self.lark.text(&syntax.brackets().1.to_string()))
    }

    /// Arguments as a JSON object, in any order where its schema is no more than a list of parameters.
    fn arguments(&mut self, tool: &Tool, index: usize) -> String {
        let (rule, closed) = (format!("arguments_{index}"), tool.closed());
        if self.lark.has(&rule) {
            return rule;
        }
        let Some(parameters) = separate(tool, &closed) else { return self.lark.json(&rule, &closed) };
        // As the grammar crate has it in JSON.
        let space = r"/( |(\r?\n){1,2}[ \t]{0,20})?/";
        let mut written = Vec::new();
        for (number, (name, schema, is_required)) in parameters.into_iter().enumerate() {
            let value = self.lark.json(&format!("argument_{index}_{number}"), &schema);
            let key = self.lark.text(&Json::from(name).to_string());
            written.push((format!("{key} {space} \":\" {space} {value}"), is_required));
        }
        let all = self.lark.any_order(&format!("all_{index}"), written, &format!("{space} \",\" {space}"));
        self.lark.rule(&rule, format!("\"{{\" {space} {all} {space} \"}}\""))
    }

    fn literal(
        &mut self,
        syntax: Syntax,
        rule: &str,
        (tool, root): (&Tool, &Root<'_>),
        name: &str,
        schema: &Json,
    ) -> String {
        let (types, are_all) = Types::read(tool, name);
        let further = match root.values(name, schema) {
            Ok(Values::Types(names)) => return self.typed_literals(syntax, &names),
            Ok(Values::Listed(values)) => {
                let texts: Option<Vec<_>> = values.iter().map(|value| syntax.written(value)).collect();
                match texts {
                    Some(texts) => {
                        let texts: Vec<_> = texts.iter().map(|text| self.lark.text(text)).collect();
                        return self.lark.rule(rule, format!("({})", texts.join(" | ")));
                    }
                    None => Further::of(name, "enum"),
                }
            }
            Err(further) => further,
        };
        // Python's literals may be JSON, and so are all numbers.
        let is_number = are_all && types.is_only("number");
        let further = match syntax {
            Syntax::Gemma { .. } if !is_number => further,
            Syntax::Python | Syntax::Gemma { .. } => match root.alone(name, schema) {
                Ok(json) => return self.lark.json(rule, &json),
                Err(further) => further,
            },
        };
        self.leave(tool, further);
        self.typed_literals(syntax, &types.names())
    }

    /// Any literal of these types; of all if there are none.
    fn typed_literals(&mut self, syntax: Syntax, names: &[&str]) -> String {
        let any = self.any_literal(syntax);
        let has = |name| names.is_empty() || names.contains(&name);
        let rules = [
            ("string", "literal_text"),
            ("null", "literal_null"),
            ("boolean", "literal_bool"),
            ("number", "literal_number"),
            ("array", "literal_list"),
            ("object", "literal_object"),
        ];
        let mut written: Vec<&str> =
            rules.into_iter().filter(|(name, _)| has(name)).map(|(_, rule)| rule).collect();
        if has("integer") && !has("number") {
            self.lark.json("literal_integer", &json!({ "type": "integer" }));
            written.push("literal_integer");
        }
        if written.len() == rules.len() { any } else { format!("({})", written.join(" | ")) }
    }

    fn any_literal(&mut self, syntax: Syntax) -> String {
        let bools = lark::BOOLS[usize::from(syntax == Syntax::Python)];
        self.lark.rule("literal_bool", bools.to_owned());
        let (null, comma, key) = match syntax {
            Syntax::Python => ("\"None\"", "\", \"", "literal_text \": \""),
            Syntax::Gemma { .. } => ("\"null\"", "\",\"", "/[a-zA-Z0-9_]+/ \":\""),
        };
        self.lark.rule("literal_null", null.to_owned());
        let text = match syntax {
            Syntax::Python => {
                let double = self.lark.json("literal_string", &json!({ "type": "string" }));
                let single = r"/'([^'\\\n]|\\['\\nrt])*'/";
                self.lark.rule("literal_text", format!("{double} | {single}"))
            }
            Syntax::Gemma { quote } => {
                let until = self.lark.text_until("literal_string", quote);
                let text = format!("{} {until}", self.lark.text(quote));
                self.lark.rule("literal_text", text)
            }
        };
        let number = self.lark.json("literal_number", &json!({ "type": "number" }));
        self.lark.rule("literal_list", format!("\"[\" (literal ({comma} literal)*)? \"]\""));
        let entry = format!("{key} literal");
        self.lark.rule("literal_object", format!("\"{{\" ({entry} ({comma} {entry})*)? \"}}\""));
        let any = format!("{text} | {number} | literal_bool | literal_null | literal_list | literal_object");
        self.lark.rule("literal", any)
    }
}

/// The parameters of a tool with their schemas, if `closed`, its schema, demands no more than these. `None` too for a few
/// parameters' references to large definitions, of which each would get a copy.
fn separate<'a>(tool: &'a Tool, closed: &Json) -> Option<Vec<(&'a str, Json, bool)>> {
    let root = Root::of(tool);
    let is_closed = closed.get("additionalProperties") == Some(&Json::Bool(false));
    if !is_closed || root.further().is_some() || tool.properties().count() < 2 {
        return None;
    }
    let mut room = 2 * closed.to_string().len() + (1 << 12);
    let alone = tool.properties().map(|(name, schema, is_required)| {
        let schema = root.alone(name, schema).ok()?;
        room = room.checked_sub(schema.to_string().len())?;
        Some((name, schema, is_required))
    });
    alone.collect()
}

/// The texts of `values` in tags; `None` if one of them would be read as another.
fn texts(parameter: &Parameter, types: Types, values: &[&Json]) -> Option<Vec<String>> {
    let written = |value: &&Json| {
        let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        // With attributes, the one of texts is written.
        let is_read = match &parameter.attributes {
            Some(_) => value.is_string(),
            None => types.value(&text, parameters::read) == **value,
        };
        is_read.then_some(text)
    };
    values.iter().map(written).collect()
}
