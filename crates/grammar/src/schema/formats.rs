//! Formats of texts and numbers.

use serde_json::{Map, Value, json};

use super::{Checked, SchemaProblem};

/// The formats of texts that are enforced.
const TEXTS: [&str; 10] =
    ["date-time", "date", "time", "duration", "email", "hostname", "ipv4", "ipv6", "uuid", "uri"];

/// The other formats of draft 2020-12.
const REFUSED: &str = "idn-email idn-hostname uri-reference iri iri-reference uri-template json-pointer \
    relative-json-pointer regex";

const MAX_HOSTNAME: usize = 253;

/// Lengths of the parts of an address (RFC 5321, section 4.5.3.1).
const EMAIL: &str = r"^[^@]{1,64}@(?:[^@.]{1,30}\.){0,6}[^@.]{1,63}$";
const MAX_EMAIL: usize = 254;

/// Formats of numbers, which OpenAPI adds, with the smallest and the largest number.
const NUMBERS: [(&str, Option<f64>, Option<f64>); 12] = [
    ("int8", Some(-128.0), Some(127.0)),
    ("int16", Some(-32768.0), Some(32767.0)),
    ("int32", Some(-2147483648.0), Some(2147483647.0)),
    ("uint8", Some(0.0), Some(255.0)),
    ("uint16", Some(0.0), Some(65535.0)),
    ("uint32", Some(0.0), Some(4294967295.0)),
    ("uint", Some(0.0), None),
    ("uint64", Some(0.0), None),
    ("int", None, None),
    ("int64", None, None),
    ("float", None, None),
    ("double", None, None),
];

/// Whether the format of a text among `keywords` is enforced.
pub(super) fn is_enforced(keywords: &Map<String, Value>) -> bool {
    keywords.get("format").and_then(Value::as_str).is_some_and(|format| TEXTS.contains(&format))
}

pub(super) fn check(name: &str, value: &Value) -> Checked {
    let text = value.as_str().unwrap_or_default();
    if TEXTS.contains(&text) || NUMBERS.iter().any(|(known, ..)| *known == text) {
        return Ok(Some(value.clone()));
    }
    // A name that JSON Schema does not define is an annotation.
    if value.is_string() && !REFUSED.split(' ').any(|refused| refused == text) {
        return Ok(None);
    }
    let expected = "date-time, date, time, duration, email, hostname, ipv4, ipv6, uuid or uri; use `pattern` for another";
    Err(SchemaProblem::value(name, value, expected))
}

/// Replaces a format that llguidance does not have, or of which it accepts more than there is.
pub(super) fn replace(result: &mut Map<String, Value>) -> Result<(), SchemaProblem> {
    let Some(format) = result.get("format").and_then(Value::as_str).map(str::to_owned) else { return Ok(()) };
    if let Some(&(_, least, most)) = NUMBERS.iter().find(|(name, ..)| *name == format) {
        check_numbers(result)?;
        result.remove("format");
        let bounds = [("minimum", least), ("maximum", most)];
        demand(result, bounds.into_iter().filter_map(|(name, bound)| Some((name, json!(bound?)))));
    } else if let Some(pattern) = pattern(&format) {
        result.remove("format");
        demand(result, [("pattern", json!(format!("^(?:{pattern})$")))]);
    } else if format == "email" {
        demand(result, [("pattern", json!(EMAIL)), ("maxLength", json!(MAX_EMAIL))]);
    } else if format == "hostname" {
        demand(result, [("maxLength", json!(MAX_HOSTNAME))]);
    }
    Ok(())
}

/// A format of numbers does not constrain texts.
fn check_numbers(result: &Map<String, Value>) -> Result<(), SchemaProblem> {
    let named: Vec<&str> = match result.get("type") {
        Some(Value::Array(list)) => list.iter().filter_map(Value::as_str).collect(),
        Some(Value::String(name)) => vec![name],
        _ => vec!["string"],
    };
    if named.contains(&"string") {
        let advice = "formats of numbers need `type`: integer or number";
        return Err(SchemaProblem::Refused { keyword: "format".to_owned(), advice });
    }
    Ok(())
}

fn demand(result: &mut Map<String, Value>, keywords: impl IntoIterator<Item = (&'static str, Value)>) {
    let keywords: Map<String, Value> =
        keywords.into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
    if keywords.is_empty() {
        return;
    }
    let all = result.entry("allOf").or_insert_with(|| json!([]));
    if let Value::Array(all) = all {
        all.push(Value::Object(keywords));
    }
}

/// Dates that there are, and times without leap seconds, of which there are few.
fn pattern(format: &str) -> Option<String> {
    let year = "(?:[0-9]{3}[1-9]|[0-9]{2}[1-9]0|[0-9][1-9]00|[1-9]000)";
    let fours = "(?:0[48]|[2468][048]|[13579][26])";
    let leap_year = format!("(?:[0-9]{{2}}{fours}|{fours}00)");
    let days = "(?:0[13578]|1[02])-(?:0[1-9]|[12][0-9]|3[01])|(?:0[469]|11)-(?:0[1-9]|[12][0-9]|30)|02-(?:0[1-9]|1[0-9]|2[0-8])";
    let date = format!("(?:{year}-(?:{days})|{leap_year}-02-29)");
    let hour = "(?:[01][0-9]|2[0-3])";
    let time = format!("{hour}:[0-5][0-9]:[0-5][0-9](?:\\.[0-9]+)?(?:[zZ]|[+-]{hour}:[0-5][0-9])");
    match format {
        "date" => Some(date),
        "time" => Some(time),
        "date-time" => Some(format!("{date}[tT]{time}")),
        _ => None,
    }
}
