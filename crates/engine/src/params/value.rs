//! Values of parameters as JSON.

use serde::Deserialize;
use serde_json::{Map, Value as Json, json};

use super::SamplerKind;

/// Integers beyond are not exact in JSON, and no bounds.
const MAX_EXACT: i64 = 1 << 53;

/// Type and range of a parameter.
#[derive(Clone, Copy, Debug, PartialEq)]
#[expect(missing_docs, reason = "`most` are items of a list, `bytes` those of a text, at most")]
pub enum Kind {
    Number {
        min: f64,
        max: f64,
    },
    Integer {
        min: i64,
        max: i64,
    },
    Bool,
    /// One text or several. Empty ones are left out: clients send them for none.
    Texts {
        most: usize,
        bytes: usize,
    },
    /// The same. As flags, they have escapes.
    Breakers {
        most: usize,
        bytes: usize,
    },
    /// Token ids.
    Tokens {
        most: usize,
    },
    /// Names in an array or separated by semicolons, or letters.
    Samplers {
        most: usize,
    },
    /// Biases by token in an object, or an array of pairs. A token is an id, or a text for all of its tokens.
    Biases {
        most: usize,
        bytes: usize,
    },
}

/// A parameter outside of its range.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{name}` is {found}, expected {expected}")]
#[expect(missing_docs, reason = "the message explains the fields")]
pub struct ParamError {
    pub name: String,
    pub found: String,
    pub expected: String,
}

impl Kind {
    /// The bounds of a number that a schema can tell.
    pub fn bounds(&self) -> (Option<f64>, Option<f64>) {
        let exact = |bound: i64| (bound.abs() <= MAX_EXACT).then_some(bound as f64);
        match *self {
            Kind::Number { min, max } => (Some(min), Some(max)),
            // The least integer has no absolute value.
            Kind::Integer { min, max } => (exact(min.max(-i64::MAX)), exact(max)),
            _ => (None, None),
        }
    }

    /// The range in words.
    pub fn expected(&self) -> String {
        match *self {
            Kind::Number { min, max } => format!("a number from {min} to {max}"),
            Kind::Integer { min, .. } => match self.bounds() {
                (Some(_), Some(max)) => format!("an integer from {min} to {max}"),
                (Some(_), None) => format!("an integer from {min}"),
                _ => "an integer".to_owned(),
            },
            Kind::Bool => "true or false".to_owned(),
            Kind::Texts { most, bytes } | Kind::Breakers { most, bytes } => {
                format!("a text of up to {bytes} bytes, or up to {most} of them")
            }
            Kind::Tokens { most } => format!("up to {most} token ids"),
            Kind::Samplers { most } => {
                format!("up to {most} samplers, as names or letters: {}", SamplerKind::names())
            }
            Kind::Biases { most, bytes } => format!(
                "up to {most} token ids, or texts of up to {bytes} bytes, each with a number from -100 to 100 or false"
            ),
        }
    }
}

/// What is added to a logit; -100 and less rule the token out.
#[derive(Clone, Debug, PartialEq)]
pub struct Bias {
    /// Whose logit.
    pub token: Biased,
    /// At most 100.
    pub bias: f32,
}

/// A token with a bias.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Biased {
    /// By its id.
    Id(u32),
    /// All tokens of a text.
    Text(String),
}

impl From<(u32, f32)> for Bias {
    fn from((id, bias): (u32, f32)) -> Bias {
        Bias { token: Biased::Id(id), bias }
    }
}

/// A value, for an error.
pub(super) fn found(json: &Json) -> String {
    match json {
        Json::Array(items) => format!("an array of {} items", items.len()),
        Json::Object(map) => format!("an object of {} fields", map.len()),
        Json::String(text) if text.len() > 40 => format!("a text of {} bytes", text.len()),
        scalar => scalar.to_string(),
    }
}

/// A type of parameters.
pub(super) trait Value: Sized {
    /// Fails with what was found.
    fn read(json: &Json, kind: &Kind) -> Result<Self, String>;

    fn write(&self) -> Json;
}

impl Value for f32 {
    fn read(json: &Json, kind: &Kind) -> Result<f32, String> {
        match (json.as_f64(), kind) {
            (Some(number), Kind::Number { min, max }) if (*min..=*max).contains(&number) => Ok(number as f32),
            _ => Err(found(json)),
        }
    }

    /// As a person writes it: 0.8, not the nearest 32-bit number.
    fn write(&self) -> Json {
        self.to_string()
            .parse()
            .ok()
            .filter(|number: &f64| number.is_finite())
            .map_or_else(|| self.to_string().into(), Json::from)
    }
}

/// An integer, also written as 4.0.
fn integer(json: &Json, kind: &Kind) -> Result<i64, String> {
    let large = |number: u64| i64::try_from(number).unwrap_or(i64::MAX);
    let whole =
        |number: f64| (number.fract() == 0.0 && number.abs() <= MAX_EXACT as f64).then_some(number as i64);
    let number = json.as_i64().or(json.as_u64().map(large)).or_else(|| json.as_f64().and_then(whole));
    match (number, kind) {
        (Some(number), Kind::Integer { min, max }) if (*min..=*max).contains(&number) => Ok(number),
        _ => Err(found(json)),
    }
}

impl Value for usize {
    fn read(json: &Json, kind: &Kind) -> Result<usize, String> {
        integer(json, kind).map(|number| usize::try_from(number).unwrap_or(0))
    }

    fn write(&self) -> Json {
        (*self).into()
    }
}

/// -1 is none.
impl Value for Option<usize> {
    fn read(json: &Json, kind: &Kind) -> Result<Option<usize>, String> {
        integer(json, kind).map(|number| usize::try_from(number).ok())
    }

    fn write(&self) -> Json {
        self.map_or(Json::from(-1), Json::from)
    }
}

/// A seed. None is negative; the largest of 32 bits stands for a random one, too.
impl Value for Option<u32> {
    fn read(json: &Json, kind: &Kind) -> Result<Option<u32>, String> {
        let fixed = |seed: &i64| *seed >= 0 && *seed != i64::from(u32::MAX);
        let seed = Some(integer(json, kind)?).filter(fixed);
        Ok(seed.and_then(|seed| u32::try_from(seed % i64::from(u32::MAX)).ok()))
    }

    fn write(&self) -> Json {
        self.map_or(Json::from(-1), Json::from)
    }
}

impl Value for bool {
    fn read(json: &Json, _: &Kind) -> Result<bool, String> {
        json.as_bool().ok_or_else(|| found(json))
    }

    fn write(&self) -> Json {
        (*self).into()
    }
}

impl Value for Vec<String> {
    fn read(json: &Json, kind: &Kind) -> Result<Vec<String>, String> {
        let (Kind::Texts { most, bytes } | Kind::Breakers { most, bytes }) = kind else {
            return Err(found(json));
        };
        let texts = match json {
            Json::Array(items) if items.len() <= *most => &items[..],
            Json::String(_) => std::slice::from_ref(json),
            _ => return Err(found(json)),
        };
        let text = |json: &Json| {
            json.as_str().map(str::to_owned).ok_or_else(|| format!("an array with {}", found(json)))
        };
        let texts: Vec<String> = texts.iter().map(text).collect::<Result<_, _>>()?;
        match texts.iter().find(|text| text.len() > *bytes) {
            Some(long) => Err(format!("a text of {} bytes", long.len())),
            None => Ok(texts.into_iter().filter(|text| !text.is_empty()).collect()),
        }
    }

    fn write(&self) -> Json {
        json!(self)
    }
}

impl Value for Vec<u32> {
    fn read(json: &Json, kind: &Kind) -> Result<Vec<u32>, String> {
        let (Json::Array(items), Kind::Tokens { most }) = (json, kind) else { return Err(found(json)) };
        if items.len() > *most {
            return Err(found(json));
        }
        let id = |json: &Json| u32::deserialize(json).map_err(|_| format!("an array with {}", found(json)));
        items.iter().map(id).collect()
    }

    fn write(&self) -> Json {
        json!(self)
    }
}

impl Value for Vec<SamplerKind> {
    fn read(json: &Json, kind: &Kind) -> Result<Vec<SamplerKind>, String> {
        let Kind::Samplers { most } = kind else { return Err(found(json)) };
        let kinds: Option<Vec<SamplerKind>> = match json {
            Json::Array(names) => {
                names.iter().take(most + 1).map(|name| name.as_str()?.parse().ok()).collect()
            }
            Json::String(text) => {
                let names = text.split(';').filter(|name| !name.trim().is_empty());
                let named: Option<_> = names.map(|name| name.parse().ok()).collect();
                named.or_else(|| text.chars().map(SamplerKind::from_letter).collect::<Result<_, _>>().ok())
            }
            _ => None,
        };
        kinds.filter(|kinds| kinds.len() <= *most).ok_or_else(|| found(json))
    }

    fn write(&self) -> Json {
        self.iter().map(|kind| kind.name()).collect()
    }
}

/// Biases as in OpenAI's protocol, or as in llama-server's.
#[derive(Deserialize)]
#[serde(untagged)]
enum Biases {
    Map(Map<String, Json>),
    List(Vec<Entry>),
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Entry {
    Pair(Json, Json),
    Named { token: Json, bias: Json },
}

impl Value for Vec<Bias> {
    fn read(json: &Json, kind: &Kind) -> Result<Vec<Bias>, String> {
        let Kind::Biases { most, bytes } = *kind else { return Err(found(json)) };
        let entries: Vec<(Json, Json)> = match Biases::deserialize(json).map_err(|_| found(json))? {
            Biases::Map(map) => map.into_iter().map(|(token, bias)| (token.into(), bias)).collect(),
            Biases::List(list) => list
                .into_iter()
                .map(|entry| match entry {
                    Entry::Pair(token, bias) | Entry::Named { token, bias } => (token, bias),
                })
                .collect(),
        };
        if entries.len() > most {
            return Err(found(json));
        }
        let bias = |(token, bias): (Json, Json)| {
            let wrong = || format!("{} for token {}", found(&bias), found(&token));
            let number = if bias == false { -100.0 } else { bias.as_f64().ok_or_else(wrong)? };
            let word = token.as_str().map_or_else(|| token.to_string(), str::to_owned);
            let token = match word.parse::<i64>() {
                Ok(id) => Biased::Id(u32::try_from(id).map_err(|_| wrong())?),
                Err(_) if token.is_string() && word.len() <= bytes => Biased::Text(word),
                Err(_) => return Err(wrong()),
            };
            if (-100.0..=100.0).contains(&number) {
                Ok(Bias { token, bias: number as f32 })
            } else {
                Err(wrong())
            }
        };
        entries.into_iter().map(bias).collect()
    }

    fn write(&self) -> Json {
        let entry = |Bias { token, bias }: &Bias| {
            let token = match token {
                Biased::Id(id) => json!(id),
                Biased::Text(text) => json!(text),
            };
            let bias = if *bias < -100.0 { -100.0 } else { *bias };
            json!({ "token": token, "bias": bias.write() })
        };
        self.iter().map(entry).collect()
    }
}
