//! The keywords of draft 2020-12 and those that older drafts and OpenAPI add: each is enforced, an annotation, or refused.

use serde_json::Value;

use super::SchemaProblem;
use super::values::{self, Check};

pub(super) enum Keyword {
    Annotation,
    Schema,
    Schemas,
    Map,
    /// A schema, or a list of schemas in older drafts.
    Items,
    Reference,
    Assertion(Check),
}

const SCHEMAS: &[&str] = &["allOf", "anyOf", "oneOf", "prefixItems"];

const MAPS: &[&str] = &["properties", "patternProperties"];

const REFUSED: &[(&str, &str)] = &[
    ("$dynamicRef", "use `$ref`"),
    ("$recursiveRef", "use `$ref`"),
    ("contains", "use `prefixItems` and `items`"),
    ("minContains", "use `prefixItems` and `items`"),
    ("maxContains", "use `prefixItems` and `items`"),
    (
        "uniqueItems",
        "remove it, or give `items` an `enum` of few values: others cannot be compared while they are written",
    ),
    ("unevaluatedItems", "use `items`"),
    ("unevaluatedProperties", "use `additionalProperties`"),
    (
        "propertyNames",
        "use `pattern` or `enum` in it, or `patternProperties` with `additionalProperties`: false",
    ),
    ("dependentRequired", "use `anyOf` with `required`"),
    ("dependentSchemas", "use `anyOf` with `required`"),
    ("dependencies", "use `anyOf` with `required`"),
    ("not", "say what is allowed, such as by `enum` or `pattern`"),
    ("if", "use `anyOf`"),
    ("then", "use `anyOf`"),
    ("else", "use `anyOf`"),
    ("divisibleBy", "use `multipleOf`"),
    ("disallow", "say what is allowed"),
    ("extends", "use `allOf`"),
    ("x-guidance", "options of llguidance cannot be set"),
];

/// Keywords with a value that asserts nothing, besides `propertyNames`.
const VACUOUS: &[(&str, bool)] =
    &[("uniqueItems", false), ("unevaluatedItems", true), ("unevaluatedProperties", true)];

/// The meaning of the keyword `name` with `value`. An unknown one is an annotation, unless it looks like a misspelt one.
pub(super) fn of(name: &str, value: &Value) -> Result<Keyword, SchemaProblem> {
    let is_vacuous = match name {
        "propertyNames" => values::is_of_any_name(value),
        name => VACUOUS.iter().any(|(vacuous, asks)| *vacuous == name && value == &Value::Bool(*asks)),
    };
    if is_vacuous {
        return Ok(Keyword::Annotation);
    }
    if let Some(&(_, advice)) = REFUSED.iter().find(|(refused, _)| *refused == name) {
        return Err(SchemaProblem::Refused { keyword: name.to_owned(), advice });
    }
    if let Some(&(_, check)) = values::CHECKS.iter().find(|(known, _)| *known == name) {
        return Ok(Keyword::Assertion(check));
    }
    Ok(match name {
        "$ref" => Keyword::Reference,
        "items" => Keyword::Items,
        // Read with `items`, where that is a list; otherwise without meaning.
        "additionalItems" => Keyword::Annotation,
        "additionalProperties" => Keyword::Schema,
        name if SCHEMAS.contains(&name) => Keyword::Schemas,
        name if MAPS.contains(&name) => Keyword::Map,
        name => match misspelt(name) {
            Some(meant) => return Err(SchemaProblem::Misspelt { found: name.to_owned(), meant }),
            None => Keyword::Annotation,
        },
    })
}

/// The keyword with an effect that `name` differs from in one letter or in upper case.
fn misspelt(name: &str) -> Option<&'static str> {
    if name.len() < 4 || chat::is_annotation(name) {
        return None;
    }
    let known = SCHEMAS.iter().chain(MAPS).copied().chain(["items", "additionalProperties"]);
    let known = known.chain(values::CHECKS.iter().map(|(name, _)| *name));
    let mut known = known.chain(REFUSED.iter().map(|(name, _)| *name)).filter(|name| name.len() >= 4);
    // The distance takes the product of the lengths.
    let is_near =
        |known: &str| known.len().abs_diff(name.len()) <= 4 && strsim::osa_distance(known, name) == 1;
    known.find(|known| known.eq_ignore_ascii_case(name) || is_near(known))
}
