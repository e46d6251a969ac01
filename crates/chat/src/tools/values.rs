//! Constraints of schemas on values that a format does not write as JSON, and those that no grammar of the format enforces.

use std::collections::HashSet;

use serde_json::{Map, Value as Json};

use super::schema::{MAX_HOPS, MAX_VALUES, Tool, type_of};

/// Keywords of JSON schema, in all its drafts and in OpenAPI, that assert nothing.
const ANNOTATIONS: &str = "$schema $id id $anchor $dynamicAnchor $recursiveAnchor $vocabulary $comment $defs definitions \
    title description default deprecated readOnly writeOnly examples example contentEncoding \
    contentMediaType contentSchema externalDocs discriminator xml enumNames markdownDescription";

/// Whether `keyword` of a JSON schema is known to assert nothing.
pub fn is_annotation(keyword: &str) -> bool {
    ANNOTATIONS.split(' ').any(|known| known == keyword)
}

/// Keywords of the arguments as a whole that all formats enforce: no parameters are written but those with names.
const ARGUMENT_KEYWORDS: [&str; 5] =
    ["type", "properties", "required", "additionalProperties", "unevaluatedProperties"];

const DEFINITIONS: [&str; 2] = ["$defs", "definitions"];

const TYPES: [&str; 7] = ["string", "null", "boolean", "integer", "number", "array", "object"];

/// A part of a tool's schema that its format of calls leaves open.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "the schema of the tool {tool:?}, {}: `{keyword}` cannot be enforced in the format {format}, in which this model writes \
     calls; leave it out, or do not ask for `strict`",
    if pointer.is_empty() { "at its root".to_owned() } else { format!("at {pointer}") }
)]
pub struct Unenforced {
    /// Name of the tool.
    pub tool: String,
    /// JSON pointer to the schema with the keyword; empty for the root.
    pub pointer: String,
    /// The keyword; `false` for a schema that accepts nothing.
    pub keyword: String,
    /// Name of the format.
    pub format: &'static str,
}

#[derive(Clone, Debug)]
pub(super) struct Further {
    pub(super) pointer: String,
    pub(super) keyword: String,
}

impl Further {
    fn at(pointer: &str, keyword: &str) -> Further {
        Further { pointer: pointer.to_owned(), keyword: keyword.to_owned() }
    }

    /// In the schema of the parameter `name`.
    pub(super) fn of(name: &str, keyword: &str) -> Further {
        Further::at(&below("/properties", name), keyword)
    }
}

#[derive(Debug)]
pub(super) enum Values<'a> {
    Listed(Vec<&'a Json>),
    Types(Vec<&'a str>),
}

/// A tool's schema, to which those of its parameters refer.
pub(super) struct Root<'a> {
    schema: &'a Json,
    /// The first definition that refers to what is no definition.
    broken: Option<Further>,
}

impl<'a> Root<'a> {
    pub(super) fn of(tool: &'a Tool) -> Root<'a> {
        let schema = &tool.parameters;
        let all = DEFINITIONS.into_iter().filter_map(|place| Some((place, schema.get(place)?.as_object()?)));
        let mut all = all.flat_map(|(place, map)| map.iter().map(move |(name, value)| (place, name, value)));
        let broken = all.find(|(_, _, value)| {
            references(value).iter().any(|reference| definition(schema, reference).is_none())
        });
        let broken = broken.map(|(place, name, _)| Further::at(&below(&below("", place), name), "$ref"));
        Root { schema, broken }
    }

    pub(super) fn further(&self) -> Option<Further> {
        let properties = self.schema.get("properties").and_then(Json::as_object);
        let is_named = |name: &Json| {
            name.as_str().is_some_and(|name| properties.is_some_and(|names| names.contains_key(name)))
        };
        let is_met = |keyword: &str, value: &Json| match keyword {
            "properties" => value.is_object(),
            "required" => value.as_array().is_some_and(|names| names.iter().all(is_named)),
            keyword => ARGUMENT_KEYWORDS.contains(&keyword),
        };
        let mut asked = self.schema.as_object().into_iter().flatten().filter(|(keyword, _)| asks(keyword));
        asked.find(|(keyword, value)| !is_met(keyword, value)).map(|(keyword, _)| Further::at("", keyword))
    }

    /// The values that the parameter `name` may have by `schema`.
    pub(super) fn values(&self, name: &str, schema: &'a Json) -> Result<Values<'a>, Further> {
        self.read(schema, &below("/properties", name), &mut MAX_HOPS.clone())
    }

    fn read(&self, schema: &'a Json, pointer: &str, hops: &mut usize) -> Result<Values<'a>, Further> {
        let fields = match schema {
            Json::Bool(true) => return Ok(Values::Types(TYPES.to_vec())),
            Json::Object(fields) => fields,
            other => return Err(Further::at(pointer, &other.to_string())),
        };
        let mut asked: Vec<&str> = fields.keys().map(String::as_str).filter(|name| asks(name)).collect();
        asked.sort_by_key(|keyword| *keyword == "type");
        let refused = || Err(Further::at(pointer, asked.first().copied().unwrap_or("type")));
        let Some(left) = hops.checked_sub(1) else { return refused() };
        *hops = left;
        match asked[..] {
            [] => Ok(Values::Types(TYPES.to_vec())),
            ["type"] => types(&fields["type"]).map_or_else(refused, |names| Ok(Values::Types(names))),
            ["enum" | "const"] | ["enum" | "const", "type"] => {
                let types = fields.get("type").map(types);
                let values = match &fields[asked[0]] {
                    Json::Array(values) if asked[0] == "enum" => values.iter().collect(),
                    value => vec![value],
                };
                let fits = |value: &&Json| match &types {
                    None => true,
                    Some(names) => {
                        names.as_ref().is_some_and(|names| names.iter().any(|name| is_a(value, name)))
                    }
                };
                let is_list = (1..=MAX_VALUES).contains(&values.len()) && values.iter().all(fits);
                if is_list { Ok(Values::Listed(values)) } else { refused() }
            }
            ["$ref"] => {
                let target = fields["$ref"].as_str().and_then(|text| text.strip_prefix('#'));
                let found = target.and_then(|target| Some((target, self.schema.pointer(target)?)));
                found.map_or_else(refused, |(target, schema)| self.read(schema, target, hops))
            }
            ["anyOf" | "allOf"] | ["oneOf"] => {
                let (keyword, schemas) = (asked[0], fields[asked[0]].as_array().map(Vec::as_slice));
                let (schemas, at) = (schemas.unwrap_or_default(), below(pointer, keyword));
                if schemas.is_empty() || schemas.len() > 1 && keyword != "anyOf" {
                    return refused();
                }
                let parts = schemas.iter().enumerate();
                let parts = parts.map(|(index, schema)| self.read(schema, &format!("{at}/{index}"), hops));
                union(parts.collect::<Result<_, _>>()?).map_or_else(refused, Ok)
            }
            _ => refused(),
        }
    }

    /// `schema` of the parameter `name` with the definitions that it refers to, as a schema of its own.
    pub(super) fn alone(&self, name: &str, schema: &Json) -> Result<Json, Further> {
        let mut references = references(schema);
        if references.is_empty() {
            return Ok(schema.clone());
        }
        if let Some(broken) = &self.broken {
            return Err(broken.clone());
        }
        let (mut places, mut seen) = (Map::new(), HashSet::new());
        while let Some(reference) = references.pop() {
            let (place, key, schema) =
                definition(self.schema, reference).ok_or_else(|| Further::of(name, "$ref"))?;
            if seen.insert((place, key.clone())) {
                references.extend(self::references(schema));
                let definitions = places.entry(place).or_insert_with(|| Map::new().into());
                definitions[&key] = schema.clone();
            }
        }
        let own = schema.as_object().into_iter().flatten();
        let own = own.filter(|(key, _)| !DEFINITIONS.contains(&key.as_str()));
        Ok(own.map(|(key, value)| (key.clone(), value.clone())).chain(places).collect())
    }
}

fn asks(keyword: &str) -> bool {
    !is_annotation(keyword) && (!keyword.starts_with("x-") || keyword == "x-guidance")
}

fn below(pointer: &str, key: &str) -> String {
    format!("{pointer}/{}", key.replace('~', "~0").replace('/', "~1"))
}

fn types(value: &Json) -> Option<Vec<&str>> {
    let names = match value {
        Json::Array(names) if names.len() <= TYPES.len() => names.iter().map(Json::as_str).collect(),
        value => value.as_str().map(|name| vec![name]),
    };
    names.filter(|names: &Vec<&str>| !names.is_empty() && names.iter().all(|name| TYPES.contains(name)))
}

fn is_a(value: &Json, name: &str) -> bool {
    type_of(value) == name || name == "integer" && value.as_number().is_some_and(|number| !number.is_f64())
}

/// The values that one of `parts` permits; `None` for a list and types, but null is both.
fn union<'a>(parts: Vec<Values<'a>>) -> Option<Values<'a>> {
    if parts.iter().all(|part| matches!(part, Values::Types(_))) {
        let types = parts.into_iter().flat_map(|part| match part {
            Values::Types(types) => types,
            Values::Listed(_) => Vec::new(),
        });
        return Some(Values::Types(types.collect()));
    }
    let values = parts.into_iter().map(|part| match part {
        Values::Listed(values) => Some(values),
        Values::Types(types) => (types == ["null"]).then(|| vec![&Json::Null]),
    });
    let values: Option<Vec<_>> = values.collect();
    Some(Values::Listed(values?.concat()))
}

fn references(schema: &Json) -> Vec<&str> {
    let (mut found, mut left) = (Vec::new(), vec![schema]);
    while let Some(value) = left.pop() {
        match value {
            Json::Object(fields) => {
                found.extend(fields.get("$ref").and_then(Json::as_str));
                left.extend(fields.values());
            }
            Json::Array(items) => left.extend(items),
            _ => {}
        }
    }
    found
}

/// The definition to which `reference` leads, or to a part of which: its place, name and schema.
fn definition<'a>(root: &'a Json, reference: &str) -> Option<(&'static str, String, &'a Json)> {
    let mut keys = reference.strip_prefix("#/")?.split('/');
    let place = keys.next()?;
    let place = DEFINITIONS.into_iter().find(|definitions| *definitions == place)?;
    let name = keys.next()?.replace("~1", "/").replace("~0", "~");
    let schema = root.get(place)?.get(&name)?;
    Some((place, name, schema))
}
