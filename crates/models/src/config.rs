//! Hyper-parameters, read once and checked: after that nothing is missing or absurd.

use gguf::{Gguf, Metadata, Value};

use crate::{Architecture, Error};

/// The largest number that any size may have: far above every real model, far below overflow.
const MAX_SIZE: u32 = 1 << 24;

/// Hyper-parameters of a model; fields are named as the metadata keys.
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    /// `general.architecture`.
    pub architecture: Architecture,
    /// Positions the model was trained on.
    pub context_length: usize,
    /// Width of the residual stream.
    pub embedding_length: usize,
    /// Layers.
    pub block_count: usize,
    /// Width inside the feed-forward network.
    pub feed_forward_length: usize,
    /// Query heads.
    pub head_count: usize,
    /// Key and value heads; divides `head_count`. Default: `head_count`.
    pub head_count_kv: usize,
    /// Width of a query and of a key. Default: `embedding_length / head_count`.
    pub key_length: usize,
    /// Width of a value. Default: `embedding_length / head_count`.
    pub value_length: usize,
    /// `attention.layer_norm_rms_epsilon`.
    pub rms_epsilon: f32,
    /// Columns of a head that rotate; even. Default: `key_length`.
    pub rope_dimension_count: usize,
    /// Base of the rotation's angles. Default: 10000.
    pub rope_freq_base: f32,
    /// How positions are scaled.
    pub rope_scaling: RopeScaling,
    /// Tokens: as many as `tokenizer.ggml.tokens`, or `vocab_size` in a file without a tokenizer.
    pub vocab_size: usize,
}

/// How positions are scaled before they become angles.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum RopeScaling {
    /// Not at all.
    None,
    /// Divided by the factor (Chen et al. 2023).
    Linear(f32),
}

impl RopeScaling {
    /// What positions are multiplied by.
    pub fn scale(self) -> f32 {
        match self {
            RopeScaling::None => 1.0,
            RopeScaling::Linear(factor) => 1.0 / factor,
        }
    }
}

/// Keys of an architecture that are read here, or that change nothing in what is computed.
const KNOWN: [&str; 20] = [
    "context_length",
    "embedding_length",
    "block_count",
    "feed_forward_length",
    "attention.head_count",
    "attention.head_count_kv",
    "attention.key_length",
    "attention.value_length",
    "attention.layer_norm_rms_epsilon",
    "attention.layer_norm_epsilon",
    "rope.dimension_count",
    "rope.freq_base",
    "rope.scale_linear",
    "rope.scaling.type",
    "rope.scaling.factor",
    "rope.scaling.finetuned",
    "rope.scaling.original_context_length",
    "vocab_size",
    "expert_used_count",
    "leading_dense_block_count",
];

/// Keys of an architecture that change the computation unless they hold the neutral value given.
const NEUTRAL: [(&str, f32, &str); 19] = [
    ("expert_count", 0.0, "a mixture of experts"),
    ("expert_shared_count", 0.0, "a mixture of experts"),
    ("attention.clamp_kqv", 0.0, "clamping of queries, keys and values"),
    ("attention.max_alibi_bias", 0.0, "ALiBi"),
    ("attention.causal", 1.0, "attention to later positions"),
    ("attention.scale", 0.0, "a scale of its own for attention"),
    ("attention.sliding_window", 0.0, "a sliding window"),
    ("attention.temperature_length", 0.0, "temperature tuning of attention"),
    ("attn_logit_softcapping", 0.0, "a soft cap of attention scores"),
    ("final_logit_softcapping", 0.0, "a soft cap of logits"),
    ("logit_scale", 1.0, "scaling of logits"),
    ("embedding_scale", 1.0, "scaling of embeddings"),
    ("residual_scale", 1.0, "scaling of residuals"),
    ("use_parallel_residual", 0.0, "a parallel residual"),
    ("pooling_type", 0.0, "pooling of embeddings"),
    ("rope.scaling.attn_factor", 1.0, "scaling of attention with the context"),
    ("rope.scaling.yarn_log_multiplier", 0.0, "YaRN scaling"),
    ("rope.scaling.yarn_ext_factor", 0.0, "YaRN scaling"),
    ("interleave_moe_layer_step", 0.0, "a mixture of experts"),
];

/// Names of the usual order of values in `tensor_data_layout`.
const LAYOUTS: [&str; 2] = ["reference", "Meta AI original pth"];

impl Config {
    /// Reads and checks the hyper-parameters of `file`.
    ///
    /// # Errors
    /// When the architecture is not supported, or a key is missing, absurd or asks for a computation
    /// that is not built.
    pub fn new(file: &Gguf) -> Result<Config, Error> {
        let metadata = file.metadata();
        let missing = |key: &str, what| Error::MissingKey { key: key.to_owned(), what };
        let architecture = metadata.str("general.architecture")?;
        let architecture =
            architecture.ok_or_else(|| missing("general.architecture", "the model's family"))?;
        let unknown = || Error::Architecture { found: Value::String(architecture.to_owned()).to_string() };
        let architecture = Architecture::from_name(architecture).ok_or_else(unknown)?;
        let keys = Keys { metadata, architecture };
        keys.refuse_what_is_not_built()?;

        if file.tensors().len() == 0 {
            return Err(Error::NoTensors);
        }
        let block_count = keys.size("block_count", "the number of layers")?;
        let first = |block: usize| format!("blk.{block}.attn_norm.weight");
        if let Some(block) = (0..block_count).find(|&block| file.tensor(&first(block)).is_none()) {
            let expected = format!("at most {block}, as there is no tensor `{}`", first(block));
            return Err(keys.bad("block_count", block_count, expected));
        }
        let embedding_length = keys.size("embedding_length", "the width of the residual stream")?;
        let head_count = keys.size("attention.head_count", "the number of query heads")?;
        let head_count_kv = keys.size_or("attention.head_count_kv", head_count)?;
        if !head_count.is_multiple_of(head_count_kv) {
            let expected = format!("a divisor of the {head_count} query heads");
            return Err(keys.bad("attention.head_count_kv", head_count_kv, expected));
        }
        let shared = embedding_length / head_count;
        let head_widths = ["attention.key_length", "attention.value_length"];
        if head_widths.iter().any(|key| !keys.has(key)) && !embedding_length.is_multiple_of(head_count) {
            let expected = format!(
                "a divisor of embedding_length {embedding_length}, or attention.key_length beside it"
            );
            return Err(keys.bad("attention.head_count", head_count, expected));
        }
        let key_length = keys.size_or("attention.key_length", shared)?;
        let value_length = keys.size_or("attention.value_length", shared)?;
        let rope_dimension_count = keys.size_or("rope.dimension_count", key_length)?;
        if !rope_dimension_count.is_multiple_of(2) || rope_dimension_count > key_length {
            let expected = format!("an even number up to the key's width {key_length}");
            return Err(keys.bad("rope.dimension_count", rope_dimension_count, expected));
        }
        let rms_epsilon = keys.f32("attention.layer_norm_rms_epsilon")?.ok_or_else(|| {
            missing(&keys.key("attention.layer_norm_rms_epsilon"), "what RMSNorm adds under its root")
        })?;
        if !(rms_epsilon.is_finite() && rms_epsilon >= 0.0) {
            return Err(keys.bad(
                "attention.layer_norm_rms_epsilon",
                rms_epsilon,
                "a finite number from 0 on",
            ));
        }
        let rope_freq_base = keys.f32("rope.freq_base")?.unwrap_or(10_000.0);
        if !(rope_freq_base.is_finite() && rope_freq_base > 0.0) {
            return Err(keys.bad("rope.freq_base", rope_freq_base, "a finite number above 0"));
        }
        Ok(Config {
            architecture,
            context_length: keys.size("context_length", "the positions the model was trained on")?,
            feed_forward_length: keys.size("feed_forward_length", "the width of the feed-forward network")?,
            rope_scaling: keys.rope_scaling()?,
            vocab_size: match metadata.strings("tokenizer.ggml.tokens")? {
                Some([]) => {
                    let key = "tokenizer.ggml.tokens".to_owned();
                    return Err(Error::BadValue {
                        key,
                        found: "empty".into(),
                        expected: "the vocabulary".into(),
                    });
                }
                Some(tokens) => tokens.len(),
                None => {
                    keys.size("vocab_size", "the number of tokens, as there are no tokenizer.ggml.tokens")?
                }
            },
            embedding_length,
            block_count,
            head_count,
            head_count_kv,
            key_length,
            value_length,
            rms_epsilon,
            rope_dimension_count,
            rope_freq_base,
        })
    }
}

/// The keys of one architecture.
struct Keys<'a> {
    metadata: &'a Metadata,
    architecture: Architecture,
}

impl Keys<'_> {
    fn key(&self, name: &str) -> String {
        format!("{}.{name}", self.architecture)
    }

    fn has(&self, name: &str) -> bool {
        self.metadata.get(&self.key(name)).is_some()
    }

    fn bad(&self, name: &str, found: impl ToString, expected: impl Into<String>) -> Error {
        Error::BadValue { key: self.key(name), found: found.to_string(), expected: expected.into() }
    }

    /// A number of things, of which there is at least one.
    fn size(&self, name: &str, what: &'static str) -> Result<usize, Error> {
        let found = self.metadata.u32(&self.key(name))?;
        let size = found.ok_or_else(|| Error::MissingKey { key: self.key(name), what })?;
        if !(1..=MAX_SIZE).contains(&size) {
            return Err(self.bad(name, size, format!("a number from 1 to {MAX_SIZE}")));
        }
        Ok(size as usize)
    }

    fn size_or(&self, name: &str, default: usize) -> Result<usize, Error> {
        if self.has(name) { self.size(name, "") } else { Ok(default) }
    }

    fn f32(&self, name: &str) -> Result<Option<f32>, Error> {
        Ok(self.metadata.f32(&self.key(name))?)
    }

    /// As llama.cpp reads it: linear unless a type says otherwise, by the factor of the new key or the
    /// old one; a factor of 0 is none.
    fn rope_scaling(&self) -> Result<RopeScaling, Error> {
        let key = self.key("rope.scaling.type");
        let kind = self.metadata.str(&key)?.unwrap_or("linear");
        let name = if self.has("rope.scaling.factor") { "rope.scaling.factor" } else { "rope.scale_linear" };
        let factor = self.f32(name)?.unwrap_or(0.0);
        match kind {
            "none" => Ok(RopeScaling::None),
            "linear" if !(factor.is_finite() && factor >= 0.0) => {
                Err(self.bad(name, factor, "a finite number from 0 on"))
            }
            "linear" if factor == 0.0 || factor == 1.0 => Ok(RopeScaling::None),
            "linear" => Ok(RopeScaling::Linear(factor)),
            _ => {
                let found = Value::String(kind.to_owned()).to_string();
                let what = "this kind of RoPE scaling";
                Err(Error::Unsupported { key, found, what, architecture: self.architecture })
            }
        }
    }

    fn refuse_what_is_not_built(&self) -> Result<(), Error> {
        let ours = self.metadata.iter().filter_map(|(key, value)| {
            let name = key.strip_prefix(self.architecture.name())?.strip_prefix('.')?;
            Some((key, name, value))
        });
        for (key, name, value) in ours {
            let what = match NEUTRAL.iter().find(|(neutral, _, _)| *neutral == name) {
                Some((_, neutral, what)) => (number(value) != Some(*neutral)).then_some(*what),
                None if name == "tensor_data_layout" => {
                    let usual = LAYOUTS.iter().any(|layout| *value == Value::String((*layout).to_owned()));
                    (!usual).then_some("this order of the values in a tensor")
                }
                None if KNOWN.contains(&name) => None,
                None if name.starts_with("attention.") || name.starts_with("rope.") => {
                    Some("this option of attention or RoPE")
                }
                None => {
                    tracing::warn!("metadata key `{key}` ({value}) is not known and is ignored");
                    None
                }
            };
            if let Some(what) = what {
                let (key, found, architecture) = (key.to_owned(), value.to_string(), self.architecture);
                return Err(Error::Unsupported { key, found, what, architecture });
            }
        }
        Ok(())
    }
}

/// A boolean or number as a number.
fn number(value: &Value) -> Option<f32> {
    match *value {
        Value::Bool(v) => Some(f32::from(u8::from(v))),
        Value::U8(v) => Some(f32::from(v)),
        Value::I8(v) => Some(f32::from(v)),
        Value::U16(v) => Some(f32::from(v)),
        Value::I16(v) => Some(f32::from(v)),
        Value::U32(v) => Some(v as f32),
        Value::I32(v) => Some(v as f32),
        Value::U64(v) => Some(v as f32),
        Value::I64(v) => Some(v as f32),
        Value::F32(v) => Some(v),
        Value::F64(v) => Some(v as f32),
        Value::String(_) | Value::Array(_) => None,
    }
}
