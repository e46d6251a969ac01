//! Whatever is drawn under a schema satisfies it.

use grammar::{Grammar, Source};
use proptest::prelude::*;
use serde_json::{Map, Value as Json, json};

use crate::common::{Bench, Walk};

/// A type of values, of which a schema can be made, and against which a value can be checked.
#[derive(Clone, Debug)]
enum Shape {
    Null,
    Boolean,
    Integer {
        least: i64,
        most: i64,
    },
    Text {
        least: usize,
        most: usize,
    },
    One(Vec<String>),
    List {
        of: Box<Shape>,
        least: usize,
        most: usize,
    },
    /// With those that are required.
    Object(Vec<(String, Shape, bool)>),
    Either(Vec<Shape>),
}

fn shapes() -> impl Strategy<Value = Shape> {
    let leaf = prop_oneof![
        Just(Shape::Null),
        Just(Shape::Boolean),
        (-500..500_i64, 0..800_i64).prop_map(|(least, more)| Shape::Integer { least, most: least + more }),
        (0..3_usize, 0..4_usize).prop_map(|(least, more)| Shape::Text { least, most: least + more }),
        prop::collection::vec("[a-c\"\\\\ü]{0,3}", 1..4).prop_map(Shape::One),
    ];
    leaf.prop_recursive(3, 16, 4, |inner| {
        let object = prop::collection::btree_map("[a-d]{1,2}", (inner.clone(), any::<bool>()), 0..4);
        prop_oneof![
            (inner.clone(), 0..2_usize, 0..3_usize).prop_map(|(of, least, more)| Shape::List {
                of: of.into(),
                least,
                most: least + more
            }),
            object.prop_map(|map| {
                Shape::Object(
                    map.into_iter().map(|(name, (shape, required))| (name, shape, required)).collect(),
                )
            }),
            prop::collection::vec(inner, 1..3).prop_map(Shape::Either),
        ]
    })
}

impl Shape {
    fn schema(&self) -> Json {
        match self {
            Shape::Null => json!({"type": "null"}),
            Shape::Boolean => json!({"type": "boolean"}),
            Shape::Integer { least, most } => json!({"type": "integer", "minimum": least, "maximum": most}),
            Shape::Text { least, most } => json!({"type": "string", "minLength": least, "maxLength": most}),
            Shape::One(texts) => json!({"enum": texts}),
            Shape::List { of, least, most } => {
                json!({"type": "array", "items": of.schema(), "minItems": least, "maxItems": most})
            }
            Shape::Object(parts) => {
                let properties: Map<String, Json> =
                    parts.iter().map(|(name, shape, _)| (name.clone(), shape.schema())).collect();
                let required: Vec<&String> =
                    parts.iter().filter(|(_, _, required)| *required).map(|(name, ..)| name).collect();
                json!({
                    "type": "object", "properties": properties, "required": required, "additionalProperties": false,
                })
            }
            Shape::Either(shapes) => {
                let all: Vec<Json> = shapes.iter().map(Shape::schema).collect();
                json!({"anyOf": all})
            }
        }
    }

    fn holds(&self, value: &Json) -> bool {
        match (self, value) {
            (Shape::Null, Json::Null) | (Shape::Boolean, Json::Bool(_)) => true,
            (Shape::Integer { least, most }, Json::Number(number)) => {
                // -0 is read as a float.
                number.as_f64().is_some_and(|n| n.fract() == 0.0 && (*least..=*most).contains(&(n as i64)))
            }
            (Shape::Text { least, most }, Json::String(text)) => {
                (*least..=*most).contains(&text.chars().count())
            }
            (Shape::One(texts), Json::String(text)) => texts.contains(text),
            (Shape::List { of, least, most }, Json::Array(list)) => {
                (*least..=*most).contains(&list.len()) && list.iter().all(|value| of.holds(value))
            }
            (Shape::Object(parts), Json::Object(map)) => {
                let known = map.keys().all(|name| parts.iter().any(|(known, ..)| known == name));
                let hold = parts.iter().all(|(name, shape, required)| match map.get(name) {
                    Some(value) => shape.holds(value),
                    None => !required,
                });
                known && hold
            }
            (Shape::Either(shapes), value) => shapes.iter().any(|shape| shape.holds(value)),
            _ => false,
        }
    }
}

/// Draws tokens, `number` after `number`, until the text ends; `None` if it becomes too long.
pub(crate) fn draw(bench: &Bench, grammar: &Grammar, mut number: u64) -> Option<String> {
    let mut walk = Walk::new(grammar, &bench.tokenizer);
    let mut bytes = Vec::new();
    for _ in 0..600 {
        let allowed = walk.allowed();
        number = number.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        // The end where it is possible, so that texts stay short; no white space, which could go on for long.
        let end = allowed.iter().find(|id| bench.tokenizer.ends_generation(**id));
        if end.is_some() {
            return Some(String::from_utf8(bytes).expect("whole characters"));
        }
        let texts: Vec<u32> = allowed.into_iter().filter(|id| is_no_space(bench, *id)).collect();
        let id = texts[(number >> 33) as usize % texts.len()];
        bytes.extend_from_slice(bench.tokenizer.token_bytes(id).expect("a token"));
        walk.push(id, number & 1 << 40 == 0);
    }
    None
}

fn is_no_space(bench: &Bench, id: u32) -> bool {
    bench.tokenizer.token_bytes(id).is_some_and(|bytes| !bytes.iter().all(u8::is_ascii_whitespace))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn what_is_drawn_under_a_schema_satisfies_it(shape in shapes(), seed in any::<u64>()) {
        thread_local! {
            static BENCH: Bench = Bench::new("made-spm");
        }
        BENCH.with(|bench| {
            let grammar = bench.compile(&Source::JsonSchema(shape.schema().to_string())).expect("a good schema");
            for number in 0..4 {
                if let Some(text) = draw(bench, &grammar, seed ^ number) {
                    let value: Json = serde_json::from_str(&text).unwrap_or_else(|error| panic!("{text}: {error}"));
                    assert!(shape.holds(&value), "{shape:?}: {text}");
                }
            }
        });
    }
}
