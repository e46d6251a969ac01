//! `config.json`, with the defaults of the model's type.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use serde_json::{Map, Value};

use crate::error::{Error, read_json};

/// What transformers takes for a key that `config.json` lacks, by `model_type`; `tools/goldens/config_defaults.py` writes it.
static DEFAULTS: LazyLock<Map<String, Value>> =
    LazyLock::new(|| serde_json::from_str(include_str!("defaults.json")).expect("the file is valid"));

/// The parts of a multimodal model's configuration that describe its language model.
const TEXT: [&str; 4] = ["text_config", "llm_config", "lm_config", "language_config"];

/// The configuration of the language model: its own part of the file over the whole, over the defaults.
#[derive(Debug)]
pub(crate) struct Config {
    path: PathBuf,
    values: Map<String, Value>,
    /// For keys that the file lacks.
    defaults: Map<String, Value>,
    /// `generation_config.json`.
    pub(crate) generation: Map<String, Value>,
    /// Names of the checkpoint's tensors: some things only they tell.
    pub(crate) tensors: Vec<String>,
}

impl Config {
    pub(crate) fn open(folder: &Path) -> Result<Config, Error> {
        let path = folder.join("config.json");
        if !path.exists() {
            let why = "there is no config.json, so this is no checkpoint; give a folder with config.json, a tokenizer \
                and *.safetensors";
            return Err(Error::invalid(folder, why));
        }
        let mut values = object(&path)?;
        let text = TEXT.iter().find_map(|key| values.get(*key)?.as_object().cloned()).unwrap_or_default();
        let types = [values.get("model_type"), text.get("model_type")];
        let of_types = types.into_iter().filter_map(|name| DEFAULTS.get(name?.as_str()?)?.as_object());
        let mut defaults: Map<String, Value> = of_types.flat_map(Map::clone).collect();
        values.extend(text);
        defaults.retain(|key, _| !values.contains_key(key));
        let generation = folder.join("generation_config.json");
        let generation = if generation.exists() { object(&generation)? } else { Map::new() };
        Ok(Config { path, values, defaults, generation, tensors: Vec::new() })
    }

    /// A file beside `config.json`, if it is there, read as JSON.
    pub(crate) fn beside(&self, name: &str) -> Result<Option<Value>, Error> {
        let path = self.path.with_file_name(name);
        path.exists().then(|| read_json(&path)).transpose()
    }

    pub(crate) fn text_beside(&self, name: &str) -> String {
        fs::read_to_string(self.path.with_file_name(name)).unwrap_or_default()
    }

    /// The model's name: that of the folder, or of the repository in the hub's cache.
    pub(crate) fn folder_name(&self) -> String {
        let mut folders = self.path.ancestors().skip(1);
        let (folder, parent) = (folders.next(), folders.next());
        let is_cache = parent.is_some_and(|parent| parent.ends_with("snapshots"));
        let folder = if is_cache { folders.next() } else { folder };
        folder.and_then(Path::file_name).map(|name| name.to_string_lossy().into_owned()).unwrap_or_default()
    }

    pub(crate) fn values(&self) -> Value {
        let mut values = self.values.clone();
        values.extend(self.defaults.clone());
        values.into()
    }

    pub(crate) fn error(&self, why: impl Into<String>) -> Error {
        Error::invalid(&self.path, why)
    }

    /// The class of the model, such as `LlamaForCausalLM`.
    pub(crate) fn class(&self) -> Result<&str, Error> {
        let class = self.value("architectures").and_then(|classes| classes.get(0)?.as_str());
        class.ok_or_else(|| self.error("\"architectures\" does not name the class of the model"))
    }

    /// The value of a key, unless it is null.
    pub(crate) fn value(&self, key: &str) -> Option<&Value> {
        self.values.get(key).or_else(|| self.defaults.get(key)).filter(|value| !value.is_null())
    }

    /// Whether the value of a key is transformers' own, because the file lacks the key.
    pub(crate) fn is_default(&self, key: &str) -> bool {
        self.defaults.contains_key(key)
    }

    fn first<'a, T>(
        &'a self,
        keys: &[&str],
        kind: &str,
        get: impl Fn(&'a Value) -> Option<T>,
    ) -> Result<Option<T>, Error> {
        let Some((key, value)) = keys.iter().find_map(|key| Some((key, self.value(key)?))) else {
            return Ok(None);
        };
        get(value).map(Some).ok_or_else(|| self.error(format!("{key:?} is {value}, which is no {kind}")))
    }

    fn needed<T>(&self, keys: &[&str], value: Option<T>) -> Result<T, Error> {
        value.ok_or_else(|| self.error(format!("{:?} is missing", keys.join("\" or \""))))
    }

    /// The first of these keys that is there.
    pub(crate) fn u32(&self, keys: &[&str]) -> Result<Option<u32>, Error> {
        self.first(keys, "count", as_u32)
    }

    pub(crate) fn need_u32(&self, keys: &[&str]) -> Result<u32, Error> {
        self.needed(keys, self.u32(keys)?)
    }

    /// A count that is not zero, to divide by.
    pub(crate) fn need_count(&self, keys: &[&str]) -> Result<usize, Error> {
        match self.need_u32(keys)? {
            0 => Err(self.error(format!("{:?} is 0", keys.join("\" or \"")))),
            count => Ok(count as usize),
        }
    }

    pub(crate) fn f32(&self, keys: &[&str]) -> Result<Option<f32>, Error> {
        Ok(self.first(keys, "number", Value::as_f64)?.map(|value| value as f32))
    }

    pub(crate) fn f64(&self, key: &str) -> Result<Option<f64>, Error> {
        self.first(&[key], "number", Value::as_f64)
    }

    pub(crate) fn need_f32(&self, keys: &[&str]) -> Result<f32, Error> {
        self.needed(keys, self.f32(keys)?)
    }

    /// False if the key is missing.
    pub(crate) fn bool(&self, key: &str) -> Result<bool, Error> {
        Ok(self.first(&[key], "boolean", Value::as_bool)?.unwrap_or(false))
    }

    pub(crate) fn str(&self, keys: &[&str]) -> Result<Option<&str>, Error> {
        self.first(keys, "text", Value::as_str)
    }

    pub(crate) fn u32s(&self, key: &str) -> Result<Option<Vec<u32>>, Error> {
        self.first(&[key], "list of counts", |value| value.as_array()?.iter().map(as_u32).collect())
    }

    pub(crate) fn f32s(&self, key: &str) -> Result<Option<Vec<f32>>, Error> {
        self.first(&[key], "list of numbers", as_f32s)
    }

    pub(crate) fn strs(&self, key: &str) -> Result<Option<Vec<&str>>, Error> {
        self.first(&[key], "list of texts", |value| value.as_array()?.iter().map(Value::as_str).collect())
    }

    /// Whether each layer is of the type `name`, if `layer_types` says it.
    pub(crate) fn layers_are(&self, name: &str) -> Result<Option<Vec<bool>>, Error> {
        let Some(types) = self.strs("layer_types")? else { return Ok(None) };
        let layers = self.layers()?;
        if types.len() != layers {
            return Err(self.error(format!("\"layer_types\" has {} types for {layers} layers", types.len())));
        }
        Ok(Some(types.iter().map(|kind| *kind == name).collect()))
    }

    pub(crate) fn layers(&self) -> Result<usize, Error> {
        const COUNT: [&str; 4] = ["num_hidden_layers", "n_layers", "n_layer", "num_layers"];
        // transformers leaves out what the list implies.
        let layers = match (self.u32(&COUNT)?, self.value("layers_block_type").and_then(Value::as_array)) {
            (None, Some(types)) if !types.is_empty() => types.len(),
            _ => self.need_count(&COUNT)?,
        };
        let tensors = self.tensors.len();
        if layers > tensors && tensors > 0 {
            return Err(self.error(format!("there are {layers} layers, but only {tensors} tensors")));
        }
        Ok(layers)
    }

    pub(crate) fn hidden(&self) -> Result<usize, Error> {
        self.need_count(&["hidden_size", "n_embd", "d_model", "dim"])
    }

    pub(crate) fn heads(&self) -> Result<usize, Error> {
        self.need_count(&["num_attention_heads", "n_head", "n_heads"])
    }

    pub(crate) fn kv_heads(&self) -> Result<usize, Error> {
        match self.u32(&["num_key_value_heads", "n_kv_heads"])? {
            Some(0) => Err(self.error("\"num_key_value_heads\" is 0")),
            Some(count) => Ok(count as usize),
            None => self.heads(),
        }
    }

    /// Values of a head: as given, or the hidden size over the number of heads.
    pub(crate) fn head_dim(&self) -> Result<usize, Error> {
        match self.u32(&["head_dim", "attention_head_dim"])? {
            Some(len) if (1..=MAX_HEAD).contains(&len) => Ok(len as usize),
            Some(len) => Err(self.error(format!("\"head_dim\" is {len}, expected 1 to {MAX_HEAD}"))),
            None => Ok((self.hidden()? / self.heads()?).min(MAX_HEAD as usize)),
        }
    }
}

/// Far above the heads of real models.
pub(crate) const MAX_HEAD: u32 = 1 << 16;

/// Far above all counts of real models, and so small that sums and products of two do not overflow.
const MAX_COUNT: u32 = 1 << 30;

fn as_u32(value: &Value) -> Option<u32> {
    let count = u32::try_from(value.as_u64().or_else(|| {
        // 1e6 is a count, too.
        value.as_f64().filter(|value| value.fract() == 0.0 && *value >= 0.0).map(|value| value as u64)
    })?)
    .ok()?;
    (count <= MAX_COUNT).then_some(count)
}

pub(crate) fn as_f32s(value: &Value) -> Option<Vec<f32>> {
    value.as_array()?.iter().map(|value| Some(value.as_f64()? as f32)).collect()
}

pub(crate) fn object(path: &Path) -> Result<Map<String, Value>, Error> {
    match read_json(path)? {
        Value::Object(object) => Ok(object),
        _ => Err(Error::invalid(path, "this is not a JSON object")),
    }
}
