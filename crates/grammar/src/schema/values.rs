//! Keywords whose value is not a schema.

use serde_json::{Map, Value, json};

use super::{Checked, SchemaProblem, formats, pattern, pointer};

pub(super) type Check = fn(&str, &Value) -> Checked;

pub(super) const CHECKS: &[(&str, Check)] = &[
    ("type", types),
    ("enum", values),
    ("const", value),
    ("minimum", number),
    ("maximum", number),
    ("exclusiveMinimum", bound),
    ("exclusiveMaximum", bound),
    ("multipleOf", positive),
    ("minLength", count),
    ("maxLength", count),
    ("pattern", expression),
    ("format", formats::check),
    ("minItems", count),
    ("maxItems", count),
    ("minProperties", count),
    ("maxProperties", count),
    ("required", names),
];

const TYPES: [&str; 7] = ["null", "boolean", "integer", "number", "string", "array", "object"];

/// Numbers below this size are compared exactly.
const EXACT: f64 = 9_007_199_254_740_992.0;

const MOST_DECIMALS: i32 = 8;

/// The longest text, list or object that a bound may name.
const MAX_COUNT: u64 = 1 << 20;

impl SchemaProblem {
    pub(super) fn value(keyword: &str, found: &Value, expected: &'static str) -> SchemaProblem {
        SchemaProblem::Value { keyword: keyword.to_owned(), found: pointer::brief(found), expected }
    }
}

fn types(name: &str, value: &Value) -> Checked {
    let is_type = |value: &Value| value.as_str().is_some_and(|name| TYPES.contains(&name));
    let is_valid = match value {
        Value::Array(list) => !list.is_empty() && list.iter().all(is_type),
        value => is_type(value),
    };
    let expected = "null, boolean, integer, number, string, array or object, or a list of them";
    valid(is_valid, name, value, expected)
}

fn valid(is_valid: bool, name: &str, value: &Value, expected: &'static str) -> Checked {
    if is_valid { Ok(Some(value.clone())) } else { Err(SchemaProblem::value(name, value, expected)) }
}

fn values(name: &str, list: &Value) -> Checked {
    let Some(values) = list.as_array().filter(|values| !values.is_empty()) else {
        return Err(SchemaProblem::value(name, list, "a list of values, not empty"));
    };
    values.iter().try_for_each(|each| value(name, each).map(drop))?;
    Ok(Some(list.clone()))
}

/// Whether the schema `names` accepts every name of a property, as it does when it only says that names are strings.
pub(super) fn is_of_any_name(names: &Value) -> bool {
    if names == &Value::Bool(true) {
        return true;
    }
    let asks = |(name, value): (&String, &Value)| match name.as_str() {
        "type" => value != "string",
        name => !chat::is_annotation(name),
    };
    names.as_object().is_some_and(|keywords| !keywords.iter().any(asks))
}

/// A value that an answer may have to spell.
fn value(name: &str, value: &Value) -> Checked {
    let cannot = |expected| Err(SchemaProblem::value(name, value, expected));
    let mut rest = vec![value];
    while let Some(next) = rest.pop() {
        match next {
            Value::Number(number) if !number.as_f64().is_some_and(is_exact) => {
                return cannot("numbers below 2^53");
            }
            Value::String(text)
                if text.chars().any(|c| c.is_control() && !"\u{8}\u{c}\n\r\t".contains(c)) =>
            {
                return cannot("texts without control characters");
            }
            Value::Array(list) => rest.extend(list),
            Value::Object(map) => rest.extend(map.values()),
            _ => {}
        }
    }
    Ok(Some(value.clone()))
}

fn is_exact(number: f64) -> bool {
    number.abs() < EXACT
}

/// A bound. Beyond the numbers that are compared exactly, one that permits all of these is the last of them: an answer may be kept
/// further from the bound than it need be, but never passes it.
fn number(name: &str, value: &Value) -> Checked {
    let is_least = name.ends_with("inimum");
    match value.as_f64() {
        Some(number) if is_exact(number) => Ok(Some(value.clone())),
        Some(number) if (number < 0.0) == is_least => {
            Ok(Some(json!(if is_least { 1 - EXACT as i64 } else { EXACT as i64 - 1 })))
        }
        _ => Err(SchemaProblem::value(name, value, "a number below 2^53")),
    }
}

/// In draft 4, true or false.
fn bound(name: &str, value: &Value) -> Checked {
    if value.is_boolean() { Ok(Some(value.clone())) } else { number(name, value) }
}

fn positive(name: &str, value: &Value) -> Checked {
    let is_short = value.as_f64().is_some_and(|number| number > 0.0 && is_short(number));
    valid(is_short, name, value, "a positive number with at most 8 digits")
}

/// Whether llguidance can count in `number`: it computes remainders in 32 bits, and does not check that they fit.
fn is_short(number: f64) -> bool {
    const MOST: f64 = 1e8;
    decimals(&number).is_some_and(|decimals| number * 10_f64.powi(decimals) < MOST)
}

/// The decimals of `number`, as llguidance finds them: by products that are rounded one by one. `None` if there are too many.
fn decimals(number: &f64) -> Option<i32> {
    let mut scaled = *number;
    (0..=MOST_DECIMALS).find(|_| {
        let is_whole = scaled.fract() == 0.0;
        scaled *= 10.0;
        is_whole
    })
}

/// Whether llguidance can merge these numbers of `multipleOf`: it multiplies common multiples in 32 bits, without a check.
pub(super) fn can_be_merged(multiples: &[f64]) -> bool {
    let Some(digits) = multiples.iter().map(decimals).try_fold(0, |most, found| Some(most.max(found?)))
    else {
        return false;
    };
    let fits = |number: f64| number <= f64::from(u16::MAX);
    let common = multiples.iter().map(|number| number * 10_f64.powi(digits)).try_fold(1, |common, scaled| {
        let scaled = fits(scaled).then_some(scaled as u64)?;
        let common = common / gcd(common, scaled) * scaled;
        fits(common as f64).then_some(common)
    });
    common.is_some()
}

fn gcd(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { gcd(b, a % b) }
}

fn count(name: &str, value: &Value) -> Checked {
    // The drafts allow 2.0 for 2.
    let whole = value.as_f64().filter(|number| number.fract() == 0.0 && *number >= 0.0);
    match whole.map(|number| number as u64) {
        Some(number) if number <= MAX_COUNT => Ok(Some(json!(number))),
        // No answer reaches it.
        Some(_) if name.starts_with("max") => Ok(None),
        _ => Err(SchemaProblem::value(name, value, "a whole number from 0 to 1048576")),
    }
}

fn expression(name: &str, value: &Value) -> Checked {
    let text = value.as_str().ok_or_else(|| SchemaProblem::value(name, value, "a regular expression"))?;
    Ok(Some(Value::String(pattern::translated(name, text)?)))
}

fn names(name: &str, value: &Value) -> Checked {
    let is_list = value.as_array().is_some_and(|names| names.iter().all(Value::is_string));
    valid(is_list, name, value, "a list of names")
}

/// Checks what depends on several of a schema's `keywords`, and adapts the `result`.
pub(super) fn check_together(
    keywords: &Map<String, Value>,
    result: &mut Map<String, Value>,
) -> Result<(), SchemaProblem> {
    if keywords.get("items").is_some_and(Value::is_array) && keywords.contains_key("prefixItems") {
        let advice = "a list at `items` is of older drafts, and means `prefixItems`";
        return Err(SchemaProblem::Refused { keyword: "items".to_owned(), advice });
    }
    let required = result.get("required").and_then(Value::as_array).map_or(0, Vec::len) as u64;
    if result.get("minProperties").and_then(Value::as_u64).is_some_and(|least| least > required + 1) {
        let advice = "more than one property beyond those of `required` might have the same name; name them in `required`";
        return Err(SchemaProblem::Refused { keyword: "minProperties".to_owned(), advice });
    }
    formats::replace(result)
}
