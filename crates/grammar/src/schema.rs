//! JSON schemas, draft 2020-12, checked before llguidance compiles them.
//!
//! Every keyword is enforced or refused by name ([`keywords`]). What reaches llguidance is the schema without annotations, with
//! references to definitions of one level, patterns in Rust's syntax, and tuples of older drafts as `prefixItems`.

mod closed;
mod formats;
mod keywords;
mod one_of;
mod pattern;
mod pointer;
mod relax;
mod rewrite;
mod values;

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value, json};

use keywords::Keyword;
use one_of::Exclusive;
use pointer::Pointer;

pub(crate) use closed::closed;
pub(crate) use pattern::check as check_regex;
pub(crate) use relax::{relaxed, without_one_of};

/// Maximum number of places that a schema may refer to: llguidance reads a definition within the one that refers to it, on the stack.
const MAX_DEFINITIONS: usize = 1000;

/// Most members of `properties`: llguidance compiles combinations of optional ones in a time that grows faster than linearly.
const MAX_PROPERTIES: usize = 4096;

/// Most members of `patternProperties` in a schema: llguidance intersects each with each other.
const MAX_PATTERN_PROPERTIES: usize = 128;

/// White space in JSON: a space, or line breaks with indentation, as in llama.cpp. With more, small models write nothing else.
const SPACE: &str = r"\x20|(\x0D?\x0A){1,2}[\x20\x09]{0,20}";

/// The value of a keyword for llguidance, or nothing if it asserts nothing.
type Checked = Result<Option<Value>, SchemaProblem>;

/// Where in a schema, and what is wrong there.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}: {problem}", at(pointer))]
pub struct SchemaError {
    /// JSON pointer to the place; empty for the root.
    pub pointer: String,
    /// The problem.
    pub problem: SchemaProblem,
}

fn at(pointer: &str) -> String {
    if pointer.is_empty() { "at its root".to_owned() } else { format!("at {pointer}") }
}

/// A problem at a place of a schema.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[expect(missing_docs, reason = "the messages explain the variants")]
pub enum SchemaProblem {
    #[error("it is no JSON: {0}")]
    NotJson(String),
    #[error("`{keyword}` is not supported; {advice}")]
    Refused { keyword: String, advice: &'static str },
    #[error("there is no keyword `{found}`; did you mean `{meant}`?")]
    Misspelt { found: String, meant: &'static str },
    #[error("`{keyword}` is {found}, expected {expected}")]
    Value { keyword: String, found: String, expected: &'static str },
    #[error("a schema is {found}, expected an object, true or false")]
    NoSchema { found: String },
    #[error("`$ref` is {found}, {why}; refer to a place of this schema, such as #/$defs/name")]
    Reference { found: String, why: &'static str },
    #[error("`{keyword}` is the regular expression {found}: {why}")]
    Pattern { keyword: String, found: String, why: String },
    #[error("there are `$ref`s to more than {MAX_DEFINITIONS} places; merge some of them")]
    Definitions,
    #[error(
        "`{keyword}` have more than {most} members, of all its objects together; merge or split some of them"
    )]
    Members { keyword: &'static str, most: usize },
    #[error(
        "the numbers of `multipleOf` have no common multiple that is small enough; use fewer or smaller ones"
    )]
    Multiples,
    #[error("it accepts nothing")]
    Nothing,
    #[error("it cannot be enforced: {0}")]
    NotEnforced(String),
}

pub(crate) fn any_object() -> Value {
    with_options(json!({"type": "object"}))
}

pub(crate) fn read(text: &str) -> Result<Value, SchemaError> {
    let root = serde_json::from_str(text).map_err(|error| {
        let problem = SchemaProblem::NotJson(error.to_string());
        SchemaError { pointer: String::new(), problem }
    })?;
    normalized(&root)
}

pub(crate) fn normalized(root: &Value) -> Result<Value, SchemaError> {
    let root = &chat::plain_schema(root.clone());
    let mut walk = Walk::new(root);
    let mut schema = walk.schema(root, &Pointer::root())?;
    let mut definitions = Map::new();
    // Targets may refer to further ones.
    while let Some((name, pointer)) = walk.targets.pop() {
        let target = pointer.find(root).unwrap_or(&Value::Null);
        definitions.insert(name, walk.schema(target, &pointer)?);
    }
    if schema == Value::Bool(false) {
        return Err(Pointer::root().error(SchemaProblem::Nothing));
    }
    if walk.is_merged && !values::can_be_merged(&walk.multiples) {
        return Err(Pointer::root().error(SchemaProblem::Multiples));
    }
    if let (Some(schema), false) = (schema.as_object_mut(), definitions.is_empty()) {
        schema.insert("$defs".to_owned(), Value::Object(definitions));
    }
    Ok(with_options(if schema == Value::Bool(true) { json!({}) } else { schema }))
}

/// `schema` with the options for llguidance. Keys are not escaped as `\u0061`, by which a name would pass as another.
fn with_options(mut schema: Value) -> Value {
    if let Some(schema) = schema.as_object_mut() {
        let options = json!({"whitespace_pattern": SPACE, "json_allowed_escapes": "nrbtf\\\""});
        schema.insert("x-guidance".to_owned(), options);
    }
    schema
}

/// JSON pointers to the first occurrences of `keyword`, for messages.
pub(crate) fn pointers_to(keyword: &str, text: &str) -> Vec<String> {
    const MOST: usize = 8;
    fn collect(value: &Value, at: &Pointer, keyword: &str, found: &mut Vec<String>) {
        let below: Vec<(String, &Value)> = match value {
            Value::Object(map) => map.iter().map(|(key, value)| (key.clone(), value)).collect(),
            Value::Array(list) => list.iter().enumerate().map(|(i, value)| (i.to_string(), value)).collect(),
            _ => Vec::new(),
        };
        for (key, value) in below {
            if found.len() == MOST {
                return;
            }
            let at = at.child(&key);
            if key == keyword {
                found.push(at.to_string());
            }
            collect(value, &at, keyword, found);
        }
    }
    let mut found = Vec::new();
    if let Ok(root) = serde_json::from_str(text) {
        collect(&root, &Pointer::root(), keyword, &mut found);
    }
    found
}

/// The schema's own address, to which a reference may be absolute.
fn base(root: &Value) -> Option<&str> {
    let id = root.get("$id").or_else(|| root.get("id"))?.as_str()?;
    Some(id.trim_end_matches('#')).filter(|id| !id.is_empty())
}

struct Walk<'a> {
    root: &'a Value,
    /// Members of `properties` and `patternProperties` so far.
    properties: usize,
    patterns: usize,
    multiples: Vec<f64>,
    /// Whether there are schemas that hold together.
    is_merged: bool,
    base: Option<&'a str>,
    /// Names of the definitions made so far, by the pointers of their schemas.
    names: BTreeMap<Pointer, String>,
    targets: Vec<(String, Pointer)>,
    /// Places whose references do not lead back to themselves: each is followed once.
    ending: BTreeSet<Pointer>,
}

/// Keywords with values that are valid and nevertheless not enforced, such as a format that no grammar has.
const LIMITED: [&str; 13] = [
    "const",
    "enum",
    "format",
    "minimum",
    "maximum",
    "exclusiveMinimum",
    "exclusiveMaximum",
    "multipleOf",
    "minLength",
    "minItems",
    "minProperties",
    "maxLength",
    "maxItems",
];

impl SchemaProblem {
    /// Whether it is no schema at all, instead of one that cannot be enforced.
    pub fn is_invalid(&self) -> bool {
        match self {
            SchemaProblem::NotJson(_) | SchemaProblem::NoSchema { .. } | SchemaProblem::Nothing => true,
            SchemaProblem::Reference { .. } => true,
            SchemaProblem::Pattern { why, .. } => !why.contains("look-around"),
            SchemaProblem::Value { keyword, .. } => !LIMITED.contains(&&**keyword),
            SchemaProblem::Refused { .. }
            | SchemaProblem::Misspelt { .. }
            | SchemaProblem::Definitions
            | SchemaProblem::Members { .. }
            | SchemaProblem::Multiples
            | SchemaProblem::NotEnforced(_) => false,
        }
    }

    /// The keyword that it is about, if it is about one.
    pub fn keyword(&self) -> Option<&str> {
        match self {
            SchemaProblem::Refused { keyword, .. }
            | SchemaProblem::Value { keyword, .. }
            | SchemaProblem::Pattern { keyword, .. } => Some(keyword),
            SchemaProblem::Misspelt { found, .. } => Some(found),
            SchemaProblem::Members { keyword, .. } => Some(keyword),
            SchemaProblem::Reference { .. } => Some("$ref"),
            SchemaProblem::Multiples => Some("multipleOf"),
            SchemaProblem::NotJson(_)
            | SchemaProblem::NoSchema { .. }
            | SchemaProblem::Definitions
            | SchemaProblem::Nothing
            | SchemaProblem::NotEnforced(_) => None,
        }
    }
}

impl<'a> Walk<'a> {
    fn new(root: &'a Value) -> Walk<'a> {
        Walk {
            root,
            base: base(root),
            names: BTreeMap::new(),
            targets: Vec::new(),
            ending: BTreeSet::new(),
            properties: 0,
            patterns: 0,
            multiples: Vec::new(),
            is_merged: false,
        }
    }

    fn schema(&mut self, schema: &Value, at: &Pointer) -> Result<Value, SchemaError> {
        let Value::Object(keywords) = schema else {
            return match schema {
                Value::Bool(_) => Ok(schema.clone()),
                found => Err(at.error(SchemaProblem::NoSchema { found: pointer::brief(found) })),
            };
        };
        let keywords = &*rewrite::keywords(keywords, self.root);
        let mut result = Map::new();
        for (name, value) in keywords {
            let at = at.child(name);
            self.is_merged |= matches!(name.as_str(), "allOf" | "anyOf" | "oneOf" | "$ref");
            self.multiples.extend(value.as_f64().filter(|_| name == "multipleOf"));
            match keywords::of(name, value).map_err(|problem| at.parent().error(problem))? {
                Keyword::Annotation => {}
                Keyword::Schema => drop(result.insert(name.clone(), self.schema(value, &at)?)),
                Keyword::Schemas if name == "oneOf" && !keywords.contains_key("anyOf") => {
                    let (name, alternatives) = self.one_of(value, &at)?;
                    result.insert(name.to_owned(), alternatives);
                }
                Keyword::Schemas => drop(result.insert(name.clone(), self.list(name, value, &at)?)),
                Keyword::Map => drop(result.insert(name.clone(), self.map(name, value, &at)?)),
                Keyword::Reference => {
                    let name = self.reference(value, &at.parent())?;
                    result.insert("$ref".to_owned(), Value::String(name));
                }
                Keyword::Items if value.is_array() => {
                    result.insert("prefixItems".to_owned(), self.list(name, value, &at)?);
                    if let Some(rest) = keywords.get("additionalItems") {
                        let at = at.parent().child("additionalItems");
                        result.insert("items".to_owned(), self.schema(rest, &at)?);
                    }
                }
                Keyword::Items => drop(result.insert(name.clone(), self.schema(value, &at)?)),
                Keyword::Assertion(check) => {
                    let value = match check(name, value) {
                        // The format says it, too, such as zod's patterns of addresses with look-around.
                        Err(_) if name == "pattern" && formats::is_enforced(keywords) => None,
                        checked => checked.map_err(|problem| at.parent().error(problem))?,
                    };
                    result.extend(value.map(|value| (name.clone(), value)));
                }
            }
        }
        values::check_together(keywords, &mut result).map_err(|problem| at.error(problem))?;
        Ok(Value::Object(result))
    }

    fn list(&mut self, name: &str, value: &Value, at: &Pointer) -> Result<Value, SchemaError> {
        let Some(list) = value.as_array().filter(|list| !list.is_empty()) else {
            return Err(at.parent().error(SchemaProblem::value(name, value, "a list of schemas, not empty")));
        };
        let read = |(number, schema): (usize, &Value)| self.schema(schema, &at.child(&number.to_string()));
        list.iter().enumerate().map(read).collect()
    }

    fn one_of(&mut self, value: &Value, at: &Pointer) -> Result<(&'static str, Value), SchemaError> {
        let mut list = self.list("oneOf", value, at)?;
        let exclusive = value.as_array().and_then(|alternatives| one_of::exclusive(self.root, alternatives));
        let Some(Exclusive { tag }) = exclusive else { return Ok(("oneOf", list)) };
        if let (Some((tag, optional)), Some(list)) = (tag, list.as_array_mut()) {
            for index in optional {
                if let Some(alternative) = list.get_mut(index) {
                    let tagged = json!({"type": "object", "required": [tag]});
                    *alternative = json!({"allOf": [alternative.take(), tagged]});
                }
            }
        }
        Ok(("anyOf", list))
    }

    fn map(&mut self, name: &str, value: &Value, at: &Pointer) -> Result<Value, SchemaError> {
        let Some(map) = value.as_object() else {
            return Err(at.parent().error(SchemaProblem::value(name, value, "an object of schemas")));
        };
        let (count, keyword, most) = match name {
            "patternProperties" => (&mut self.patterns, "patternProperties", MAX_PATTERN_PROPERTIES),
            _ => (&mut self.properties, "properties", MAX_PROPERTIES),
        };
        *count += map.len();
        if *count > most {
            return Err(at.parent().error(SchemaProblem::Members { keyword, most }));
        }
        let mut result = Map::new();
        for (key, schema) in map {
            let schema = self.schema(schema, &at.child(key))?;
            let key = match name {
                "patternProperties" => {
                    pattern::translated(name, key).map_err(|problem| at.parent().error(problem))?
                }
                _ => key.clone(),
            };
            result.insert(key, schema);
        }
        Ok(Value::Object(result))
    }

    /// The reference for llguidance: to the root or to a definition of one level.
    fn reference(&mut self, value: &Value, at: &Pointer) -> Result<String, SchemaError> {
        let refused = |why| {
            let found = pointer::brief(value);
            at.error(SchemaProblem::Reference { found, why })
        };
        let text = value.as_str().ok_or_else(|| refused("expected a text"))?;
        let local = self.base.and_then(|base| text.strip_prefix(base)).unwrap_or(text);
        let local = if local.is_empty() { "#" } else { local };
        let fragment = local.strip_prefix('#').ok_or_else(|| refused("which is not in this schema"))?;
        let target = Pointer::parse(fragment).ok_or_else(|| refused("an anchor, which is not supported"))?;
        let mut seen = BTreeSet::new();
        let mut next = target.clone();
        // References that only lead to each other have no meaning.
        while !self.ending.contains(&next) {
            let schema = next.find(self.root).ok_or_else(|| refused("which does not exist"))?;
            if !seen.insert(next) {
                return Err(refused("which leads back to itself"));
            }
            let further =
                schema.as_object().and_then(|schema| schema.get("$ref")?.as_str()?.strip_prefix('#'));
            match further.and_then(Pointer::parse) {
                Some(pointer) => next = pointer,
                None => break,
            }
        }
        self.ending.append(&mut seen);
        if target.depth() == 0 {
            return Ok("#".to_owned());
        }
        if !self.names.contains_key(&target) {
            if self.names.len() == MAX_DEFINITIONS {
                return Err(at.error(SchemaProblem::Definitions));
            }
            let name = format!("d{}", self.names.len());
            self.names.insert(target.clone(), name.clone());
            self.targets.push((name, target.clone()));
        }
        Ok(format!("#/$defs/{}", self.names[&target]))
    }
}
