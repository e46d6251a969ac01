//! The tools of a request, and the types of their parameters.

use std::collections::HashSet;

use serde_json::{Map, Value as Json, json};

use super::dialects::plain_schema;

/// Keywords that may permit further parameters.
const IS_OPEN: [&str; 5] = ["patternProperties", "anyOf", "oneOf", "allOf", "$ref"];

/// References and alternatives followed in a schema.
pub(super) const MAX_HOPS: usize = 16;

/// Values of an `enum` that are looked at one by one: many parameters may refer to the same ones.
pub(super) const MAX_VALUES: usize = 4096;

/// Longest schema of a tool, and longest grammar of calls, in bytes.
pub(super) const MAX_BYTES: usize = 256 << 10;

/// A function that the model may call.
#[derive(Clone, Debug, PartialEq)]
pub struct Tool {
    /// Its name.
    pub name: String,
    /// JSON schema of its arguments, an object.
    pub parameters: Json,
}

/// The functions that the model may call. Their names differ.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Tools(Vec<Tool>);

/// Why a list of tools cannot be used.
#[expect(missing_docs, reason = "the texts of the errors say what their fields are")]
#[derive(Clone, Debug, thiserror::Error, PartialEq, Eq)]
pub enum ToolsError {
    #[error("tools[{index}] has the type {kind}, expected \"function\": leave it out")]
    NotAFunction { index: usize, kind: String },
    #[error(
        "tools[{index}].function.name is {found}, expected a text of 1 to 128 letters, digits and _ - . : / characters"
    )]
    Name { index: usize, found: String },
    #[error("tools[{index}].function.name is {name:?}, which an earlier tool has: rename one of them")]
    Twice { index: usize, name: String },
    #[error("tool_choice names {name:?}, which is none of the tools: name one of them")]
    Unknown { name: String },
    #[error("tool_choice demands a call, but there are no tools: give tools")]
    None,
    #[error(
        "tools[{index}].function.parameters is {found}, expected a JSON schema with \"type\": \"object\""
    )]
    Parameters { index: usize, found: String },
    #[error(
        "tools[{index}].function.parameters, of the tool {name:?}, has {found} bytes as JSON, at most {MAX_BYTES} are \
         supported: make it smaller"
    )]
    TooLong { index: usize, name: String, found: usize },
    #[error("the grammar of the tools has more than {MAX_BYTES} bytes: give fewer tools, or smaller schemas")]
    Grammar,
}

impl Tools {
    /// Reads OpenAI's form: `{"type": "function", "function": {"name": …, "parameters": …}}`.
    pub fn read(tools: &[Json]) -> Result<Tools, ToolsError> {
        let mut read = Tools::default();
        for (index, tool) in tools.iter().enumerate() {
            let kind = tool.get("type").unwrap_or(&Json::Null);
            if !kind.is_null() && kind != "function" {
                return Err(ToolsError::NotAFunction { index, kind: shown(kind) });
            }
            let function = tool.get("function").unwrap_or(&Json::Null);
            let name = function.get("name").unwrap_or(&Json::Null);
            let name = match name.as_str().filter(|name| is_name(name)) {
                Some(name) => name.to_owned(),
                None => return Err(ToolsError::Name { index, found: shown(name) }),
            };
            if read.get(&name).is_some() {
                return Err(ToolsError::Twice { index, name });
            }
            let parameters = match function.get("parameters") {
                None | Some(Json::Null) => no_parameters(),
                Some(schema) if schema.to_string().len() > MAX_BYTES => {
                    return Err(ToolsError::TooLong { index, name, found: schema.to_string().len() });
                }
                Some(schema @ Json::Object(_)) => object_schema(plain_schema(schema.clone()))
                    .ok_or_else(|| ToolsError::Parameters { index, found: shown(schema) })?,
                Some(other) => return Err(ToolsError::Parameters { index, found: shown(other) }),
            };
            read.0.push(Tool { name, parameters });
        }
        Ok(read)
    }

    /// The tools in order.
    pub fn iter(&self) -> impl Iterator<Item = &Tool> {
        self.0.iter()
    }

    /// The tool called `name`.
    pub fn get(&self, name: &str) -> Option<&Tool> {
        self.0.iter().find(|tool| tool.name == name)
    }

    /// The same tools; those for which `is_open` holds with any values of their parameters.
    pub fn opened(&self, is_open: impl Fn(&Tool) -> bool) -> Tools {
        let opened = |tool: &Tool| if is_open(tool) { tool.opened() } else { tool.clone() };
        Tools(self.0.iter().map(opened).collect())
    }

    /// The same tools with the schemas that `parameters` returns for some of them. Under an empty one, parameters keep their names.
    pub fn with_parameters(&self, parameters: impl Fn(&Tool) -> Option<Json>) -> Tools {
        let changed = |tool: &Tool| match parameters(tool) {
            Some(Json::Object(schema)) if schema.is_empty() => tool.opened(),
            schema => match schema.and_then(object_schema) {
                Some(parameters) => Tool { name: tool.name.clone(), parameters },
                None => tool.clone(),
            },
        };
        Tools(self.0.iter().map(changed).collect())
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn may_begin(&self, text: &str) -> bool {
        self.0.iter().any(|tool| tool.name.starts_with(text) || text.starts_with(&tool.name))
    }
}

fn no_parameters() -> Json {
    json!({ "type": "object", "properties": {}, "additionalProperties": false })
}

/// `schema`, with its type. An empty one stands for no parameters.
fn object_schema(mut schema: Json) -> Option<Json> {
    let fields = schema.as_object_mut()?;
    if fields.is_empty() {
        return Some(no_parameters());
    }
    let is_object = match fields.entry("type").or_insert("object".into()) {
        Json::Array(names) => names.iter().any(|name| name == "object"),
        name => name == "object",
    };
    fields.insert("type".into(), "object".into());
    is_object.then_some(schema)
}

fn is_name(name: &str) -> bool {
    let is_part = |c: char| c.is_alphanumeric() || "_-.:/".contains(c);
    (1..=128).contains(&name.chars().count()) && name.chars().all(is_part)
}

fn shown(value: &Json) -> String {
    if value.is_null() {
        return "missing".into();
    }
    let text = value.to_string();
    let start: String = text.chars().take(60).collect();
    if start.len() < text.len() { start + "…" } else { start }
}

const TYPES: [&str; 6] = ["string", "null", "boolean", "number", "array", "object"];

/// The types that the values of a parameter may have: a bit for each of [`TYPES`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Types(u8);

impl Types {
    /// The types of a parameter; none if the schema does not say.
    pub(crate) fn of(tool: &Tool, parameter: &str) -> Types {
        Types::read(tool, parameter).0
    }

    /// The types of a parameter, and whether these are all: only a limited number of parts is read.
    pub(super) fn read(tool: &Tool, parameter: &str) -> (Types, bool) {
        let (mut types, mut hops) = (Types::default(), MAX_HOPS);
        if let Some(schema) = property(tool, parameter) {
            types.add(schema, &tool.parameters, &mut hops);
        }
        (types, hops > 0)
    }

    fn add(&mut self, schema: &Json, root: &Json, hops: &mut usize) {
        let Some(left) = hops.checked_sub(1) else { return };
        *hops = left;
        match schema.get("type") {
            Some(Json::String(name)) => self.add_name(name),
            Some(Json::Array(names)) => {
                names.iter().take(MAX_HOPS).filter_map(Json::as_str).for_each(|name| self.add_name(name));
            }
            _ => {}
        }
        let values = schema.get("enum").and_then(Json::as_array);
        if values.is_some_and(|values| values.len() > MAX_VALUES) {
            *hops = 0;
        }
        let values = values.into_iter().flatten().take(MAX_VALUES);
        values.chain(schema.get("const")).for_each(|value| self.add_name(type_of(value)));
        for key in ["anyOf", "oneOf", "allOf"] {
            let schemas = schema.get(key).and_then(Json::as_array);
            schemas.into_iter().flatten().take(MAX_HOPS).for_each(|schema| self.add(schema, root, hops));
        }
        let target = schema.get("$ref").and_then(Json::as_str).and_then(|name| name.strip_prefix('#'));
        if let Some(schema) = target.and_then(|target| root.pointer(target)) {
            self.add(schema, root, hops);
        }
    }

    fn add_name(&mut self, name: &str) {
        self.0 |= Types::bit(name);
    }

    fn bit(name: &str) -> u8 {
        let name = if name == "integer" { "number" } else { name };
        TYPES.iter().position(|other| *other == name).map_or(0, |at| 1 << at)
    }

    pub(super) fn has(self, name: &str) -> bool {
        self.0 & Types::bit(name) != 0
    }

    pub(super) fn is_only(self, name: &str) -> bool {
        self.0 == Types::bit(name)
    }

    pub(super) fn names(self) -> Vec<&'static str> {
        TYPES.into_iter().filter(|name| self.has(name)).collect()
    }

    /// Whether every text is a string, so that it can be passed on before its end.
    pub(crate) fn is_text(self) -> bool {
        self.has("string") && !["null", "array", "object"].iter().any(|name| self.has(name))
    }

    /// The value that a model wrote as `text`, without quotes. A string stays one even if it looks like a number.
    pub(crate) fn value(self, text: &str, read: impl Fn(&str) -> Option<Json>) -> Json {
        let as_text = || Json::from(text);
        let is_scalar = |value: &Json| value.is_boolean() || value.is_number();
        let allows = |value: &Json| {
            let name = type_of(value);
            name != "string" && self.has(name) && !(is_scalar(value) && self.has("string"))
        };
        if self.is_text() {
            return as_text();
        }
        match read(text.trim()) {
            Some(value) if self == Types::default() || allows(&value) => value,
            _ => as_text(),
        }
    }
}

impl Tool {
    /// The schema, without parameters that it does not name: models invent some.
    pub(crate) fn closed(&self) -> Json {
        let mut schema = self.parameters.clone();
        if let Json::Object(fields) = &mut schema
            && fields.contains_key("properties")
            && !IS_OPEN.iter().any(|key| fields.contains_key(*key))
        {
            fields.entry("additionalProperties").or_insert(false.into());
        }
        schema
    }

    /// The tool with the names of its parameters, but any values.
    fn opened(&self) -> Tool {
        let parameters: Vec<_> =
            self.properties().map(|(name, _, is_required)| (name, is_required)).collect();
        let required: Vec<&str> =
            parameters.iter().filter(|(_, required)| *required).map(|(name, _)| *name).collect();
        let properties: Map<String, Json> =
            parameters.iter().map(|(name, _)| ((*name).to_owned(), json!({}))).collect();
        let mut schema = json!({ "type": "object", "properties": properties, "required": required });
        if IS_OPEN.iter().any(|key| self.parameters.get(key).is_some()) || parameters.is_empty() {
            schema["additionalProperties"] = true.into();
        }
        Tool { name: self.name.clone(), parameters: schema }
    }

    /// The parameters in the order of the schema: name, schema, and whether it is required.
    pub(crate) fn properties(&self) -> impl DoubleEndedIterator<Item = (&str, &Json, bool)> {
        let required = self.parameters.get("required").and_then(Json::as_array);
        let required: HashSet<&str> = required.into_iter().flatten().filter_map(Json::as_str).collect();
        let properties = self.parameters.get("properties").and_then(Json::as_object).into_iter().flatten();
        properties.map(move |(name, schema)| (name.as_str(), schema, required.contains(name.as_str())))
    }
}

fn property<'a>(tool: &'a Tool, parameter: &str) -> Option<&'a Json> {
    tool.parameters.get("properties")?.get(parameter)
}

pub(super) fn type_of(value: &Json) -> &'static str {
    match value {
        Json::Null => "null",
        Json::Bool(_) => "boolean",
        Json::Number(_) => "number",
        Json::String(_) => "string",
        Json::Array(_) => "array",
        Json::Object(_) => "object",
    }
}
