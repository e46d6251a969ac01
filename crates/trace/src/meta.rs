//! How a trace came about: what a file's `__metadata__` says.
//!
//! | key | value |
//! |---|---|
//! | `format` | `rustorch-trace` |
//! | `version` | `1` |
//! | `producer` | the program, such as `rustorch 0.1.0` |
//! | `backend` | `cpu`, `reference`, … |
//! | `facts` | what the backend says of itself, for people |
//! | `model` | the model's path or name |
//! | `model_digest` | its identity ([`crate::digest`]); left out when it is not known |
//! | `n_layer` | decoder layers |
//! | `types` | formats of the weights and how many tensors have them, such as `F32 7, Q4_K 21` |
//! | `kv` | how keys and values are stored: `f16` or `f32` |
//! | `tokens` | the ids at positions 0, 1, …, such as `1,15043` |

use std::collections::BTreeMap;

use backend::KvFormat;

const FORMAT: &str = "rustorch-trace";
const VERSION: &str = "1";

/// How a trace came about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Meta {
    /// The program that made it, such as `rustorch 0.1.0`.
    pub producer: String,
    /// The backend's name, such as `cpu`.
    pub backend: String,
    /// What the backend says of itself, for people.
    pub facts: String,
    /// The model's path or name.
    pub model: String,
    /// The identity of the model's files, when it has any: see [`crate::digest`].
    pub model_digest: Option<String>,
    /// Decoder layers.
    pub n_layer: usize,
    /// Formats of the weights, for people.
    pub types: String,
    /// How keys and values were stored.
    pub kv: KvFormat,
    /// The ids at positions 0, 1, ….
    pub tokens: Vec<u32>,
}

impl Meta {
    pub(crate) fn to_map(&self) -> BTreeMap<&'static str, String> {
        let tokens: Vec<String> = self.tokens.iter().map(u32::to_string).collect();
        let kv = match self.kv {
            KvFormat::F16 => "f16",
            KvFormat::F32 => "f32",
        };
        let entries = [
            ("format", FORMAT.to_owned()),
            ("version", VERSION.to_owned()),
            ("producer", self.producer.clone()),
            ("backend", self.backend.clone()),
            ("facts", self.facts.clone()),
            ("model", self.model.clone()),
            ("n_layer", self.n_layer.to_string()),
            ("types", self.types.clone()),
            ("kv", kv.to_owned()),
            ("tokens", tokens.join(",")),
        ];
        let digest = self.model_digest.clone().map(|digest| ("model_digest", digest));
        entries.into_iter().chain(digest).collect()
    }

    /// Reads what [`Meta::to_map`] made, or says what is wrong with it.
    pub(crate) fn from_map(map: &BTreeMap<String, String>) -> Result<Meta, String> {
        let get = |key: &str| map.get(key).ok_or_else(|| format!("its metadata lack the key `{key}`"));
        let wrong = |key: &str, found: &str, expected: &str| {
            format!("its metadata key `{key}` is {found:?}, expected {expected}")
        };
        let is = |key: &str, expected: &str| match get(key)? {
            found if found == expected => Ok(()),
            found => Err(wrong(key, found, &format!("{expected:?}"))),
        };
        is("format", FORMAT)?;
        is("version", VERSION)?;
        let (n_layer, kv, tokens) = (get("n_layer")?, get("kv")?, get("tokens")?);
        let ids = tokens.split(',').filter(|_| !tokens.is_empty()).map(str::parse);
        Ok(Meta {
            producer: get("producer")?.clone(),
            backend: get("backend")?.clone(),
            facts: get("facts")?.clone(),
            model: get("model")?.clone(),
            model_digest: map.get("model_digest").cloned(),
            n_layer: n_layer.parse().map_err(|_| wrong("n_layer", n_layer, "a number"))?,
            types: get("types")?.clone(),
            kv: match kv.as_str() {
                "f16" => KvFormat::F16,
                "f32" => KvFormat::F32,
                other => return Err(wrong("kv", other, "\"f16\" or \"f32\"")),
            },
            tokens: ids
                .collect::<Result<_, _>>()
                .map_err(|_| wrong("tokens", tokens, "ids such as 1,15043"))?,
        })
    }
}
