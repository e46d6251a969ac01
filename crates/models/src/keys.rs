//! The metadata keys of one architecture: each is read, known to be harmless, or refused.

use gguf::{Array, Metadata, Value, quoted};

use crate::Error;

/// Upper bound of all sizes: far above real models, far below overflow.
const MAX_SIZE: u32 = 1 << 24;

/// Keys that affect no supported family.
const HARMLESS: [&str; 4] = [
    "attention.layer_norm_epsilon",
    "rope.scaling.finetuned",
    "rope.scaling.original_context_length",
    "vocab_size",
];

/// Keys that request a feature unless they have this neutral value, which families that do not read the key accept.
const NEUTRAL: [(&str, f32, &str); 29] = [
    ("expert_count", 0.0, "a mixture of experts"),
    ("expert_used_count", 0.0, "a mixture of experts"),
    ("expert_shared_count", 0.0, "a shared expert"),
    ("expert_shared_feed_forward_length", 0.0, "a shared expert"),
    ("expert_group_count", 0.0, "groups of experts"),
    ("expert_group_used_count", 0.0, "groups of experts"),
    ("expert_weights_scale", 1.0, "a scale of the experts' weights"),
    ("expert_weights_norm", 1.0, "expert weights without normalisation"),
    ("expert_gating_func", 1.0, "a router without softmax"),
    ("leading_dense_block_count", 0.0, "leading dense layers"),
    ("interleave_moe_layer_step", 0.0, "a mixture of experts in some layers only"),
    ("attention.clamp_kqv", 0.0, "clamping of queries, keys and values"),
    ("attention.max_alibi_bias", 0.0, "ALiBi"),
    ("attention.causal", 1.0, "non-causal attention"),
    ("attention.scale", 0.0, "a custom attention scale"),
    ("attention.sliding_window", 0.0, "a sliding window"),
    ("attention.temperature_length", 0.0, "temperature tuning of attention"),
    ("attn_logit_softcapping", 0.0, "a soft cap of attention scores"),
    ("final_logit_softcapping", 0.0, "a soft cap of logits"),
    ("logit_scale", 1.0, "scaling of logits"),
    ("embedding_scale", 1.0, "scaling of embeddings"),
    ("residual_scale", 1.0, "scaling of residuals"),
    ("use_parallel_residual", 0.0, "a parallel residual"),
    ("pooling_type", 0.0, "pooling of embeddings"),
    ("rope.scaling.yarn_log_multiplier", 0.0, "YaRN scaling"),
    ("rope.scaling.yarn_ext_factor", 0.0, "YaRN scaling"),
    ("rope.scaling.yarn_attn_factor", 1.0, "an attention factor of YaRN beside rope.scaling.attn_factor"),
    ("rope.scaling.yarn_beta_fast", 32.0, "YaRN scaling"),
    ("rope.scaling.yarn_beta_slow", 1.0, "YaRN scaling"),
];

/// Beginnings of the keys of encoders of pictures and sound, which some files have beside the model of text.
const OTHER_MODALITIES: [&str; 8] =
    ["vision.", "vision_", "audio.", "audio_", "mm.", "projector.", "image_", "video_"];

/// Names of the standard layout in `tensor_data_layout`.
const LAYOUTS: [&str; 2] = ["reference", "Meta AI original pth"];

/// Reads the keys of an architecture and records which were read.
pub(crate) struct Keys<'a> {
    metadata: &'a Metadata,
    pub(crate) architecture: &'static str,
    pub(crate) layers: usize,
    /// Blocks of the file, which may have more than the graph: arrays may have a value for each of them.
    pub(crate) blocks: usize,
    /// Keys that do not affect this family.
    harmless: &'static [&'static str],
    /// Keys read so far, with their values or defaults.
    read: Vec<(&'static str, Value)>,
}

impl<'a> Keys<'a> {
    pub(crate) fn new(
        metadata: &'a Metadata,
        architecture: &'static str,
        harmless: &'static [&'static str],
    ) -> Keys<'a> {
        Keys { metadata, architecture, layers: 0, blocks: 0, harmless, read: Vec::new() }
    }

    fn key(&self, name: &str) -> String {
        format!("{}.{name}", self.architecture)
    }

    pub(crate) fn has(&self, name: &str) -> bool {
        self.metadata.contains(&self.key(name))
    }

    pub(crate) fn bad(&self, name: &str, found: impl ToString, expected: impl Into<String>) -> Error {
        Error::BadValue { key: self.key(name), found: found.to_string(), expected: expected.into() }
    }

    pub(crate) fn missing(&self, name: &str, what: &'static str) -> Error {
        Error::MissingKey { key: self.key(name), what }
    }

    /// Records that a key was read, with its value or default.
    pub(crate) fn mark(&mut self, name: &'static str, value: impl Into<Value>) {
        if !self.read.iter().any(|(read, _)| *read == name) {
            self.read.push((name, value.into()));
        }
    }

    pub(crate) fn size(&mut self, name: &'static str, what: &'static str) -> Result<usize, Error> {
        let found = self.metadata.u32(&self.key(name))?;
        let size = found.ok_or_else(|| self.missing(name, what))?;
        let size = self.checked(name, size)?;
        self.mark(name, size as u32);
        Ok(size)
    }

    pub(crate) fn size_or(&mut self, name: &'static str, default: usize) -> Result<usize, Error> {
        if self.has(name) {
            return self.size(name, "");
        }
        self.mark(name, u32::try_from(default).unwrap_or(u32::MAX));
        Ok(default)
    }

    /// Reads a size that may be 0, which is also the default.
    pub(crate) fn count(&mut self, name: &'static str) -> Result<usize, Error> {
        self.count_or(name, 0)
    }

    /// The same with another default.
    pub(crate) fn count_or(&mut self, name: &'static str, default: usize) -> Result<usize, Error> {
        if self.metadata.u32(&self.key(name))? == Some(0) {
            self.mark(name, 0u32);
            return Ok(0);
        }
        self.size_or(name, default)
    }

    pub(crate) fn token_types(&self) -> Result<usize, Error> {
        let key = "tokenizer.ggml.token_type_count";
        let found = self.metadata.u32(key)?;
        let found = found
            .ok_or_else(|| Error::MissingKey { key: key.to_owned(), what: "the number of token types" })?;
        self.checked(key, found)
    }

    pub(crate) fn ffn_widths(&mut self) -> Result<Vec<usize>, Error> {
        self.sizes("feed_forward_length", "the FFN hidden size")
    }

    pub(crate) fn expert_width(&mut self) -> Result<usize, Error> {
        self.size("expert_feed_forward_length", "the hidden size of an expert")
    }

    /// Reads a positive size per layer: one value for all layers, or an array.
    pub(crate) fn sizes(&mut self, name: &'static str, what: &'static str) -> Result<Vec<usize>, Error> {
        self.per_layer(name, 1, |keys| keys.size(name, what))
    }

    /// Reads a size per layer that may be 0: one value for all layers, or an array; without the key, `default`.
    pub(crate) fn counts_per_layer(
        &mut self,
        name: &'static str,
        default: usize,
    ) -> Result<Vec<usize>, Error> {
        self.per_layer(name, 0, |keys| keys.count_or(name, default))
    }

    /// Reads an array of sizes, `least` or more, or else the same size for all layers.
    fn per_layer(
        &mut self,
        name: &'static str,
        least: u32,
        same: impl FnOnce(&mut Self) -> Result<usize, Error>,
    ) -> Result<Vec<usize>, Error> {
        let key = self.key(name);
        let Some(Value::Array(array)) = self.metadata.get(&key) else {
            return Ok(vec![same(self)?; self.layers]);
        };
        let found = self.one_each(name, array, self.metadata.u32s(&key)?.unwrap_or_default())?;
        let size = |&size: &u32| if size == 0 && least == 0 { Ok(0) } else { self.checked(name, size) };
        let sizes = found.iter().map(size).collect::<Result<_, _>>()?;
        self.mark(name, Value::Array(Array::U32(found)));
        Ok(sizes)
    }

    /// The elements of an array for the layers of the graph.
    fn one_each<T>(&self, name: &str, array: &Array, mut found: Vec<T>) -> Result<Vec<T>, Error> {
        if found.len() == self.blocks {
            found.truncate(self.layers);
        }
        if found.len() == self.layers {
            return Ok(found);
        }
        let found = format!("array of {} {}", array.len(), array.element_type());
        Err(self.bad(name, found, format!("one value for each of the {} layers", self.layers)))
    }

    pub(crate) fn sizes_or(&mut self, name: &'static str, default: &[usize]) -> Result<Vec<usize>, Error> {
        if self.has(name) {
            return self.sizes(name, "");
        }
        let value: Vec<u32> = default.iter().map(|&size| u32::try_from(size).unwrap_or(u32::MAX)).collect();
        match &value[..] {
            [first, rest @ ..] if rest.iter().all(|size| size == first) => self.mark(name, *first),
            _ => self.mark(name, Value::Array(Array::U32(value))),
        }
        Ok(default.to_vec())
    }

    /// Reads which layers are of the first of two kinds: either a period, where the last of every `period` layers is of
    /// the second kind and 0 means none, or an array of booleans or integers, one per layer.
    pub(crate) fn pattern(&mut self, name: &'static str, period: u32) -> Result<Vec<bool>, Error> {
        self.pattern_by(name, period, |layer, period| layer % period < period - 1)
    }

    /// The same with another rule for a layer and a period.
    pub(crate) fn pattern_by(
        &mut self,
        name: &'static str,
        period: u32,
        is_first_kind: impl Fn(usize, usize) -> bool,
    ) -> Result<Vec<bool>, Error> {
        let key = self.key(name);
        let Some(Value::Array(array)) = self.metadata.get(&key) else {
            let period = self.metadata.u32(&key)?.unwrap_or(period);
            self.mark(name, period);
            let period = period as usize;
            return Ok((0..self.layers).map(|layer| period == 0 || is_first_kind(layer, period)).collect());
        };
        let found = match array {
            Array::Bool(flags) => flags.clone(),
            _ => self.metadata.u32s(&key)?.unwrap_or_default().iter().map(|&flag| flag != 0).collect(),
        };
        let found = self.one_each(name, array, found)?;
        self.mark(name, Value::Array(Array::Bool(found.clone())));
        Ok(found)
    }

    pub(crate) fn float(&mut self, name: &'static str) -> Result<Option<f32>, Error> {
        let found = self.metadata.f32(&self.key(name))?;
        if let Some(value) = found {
            self.mark(name, value);
        }
        Ok(found)
    }

    pub(crate) fn float_or(&mut self, name: &'static str, default: f32) -> Result<f32, Error> {
        if !self.has(name) {
            self.mark(name, default);
        }
        Ok(self.float(name)?.unwrap_or(default))
    }

    pub(crate) fn string(&self, name: &str) -> Result<Option<&'a str>, Error> {
        Ok(self.metadata.str(&self.key(name))?)
    }

    /// Reads a finite, positive float, with a default.
    pub(crate) fn positive_or(&mut self, name: &'static str, default: f32) -> Result<f32, Error> {
        let value = self.float_or(name, default)?;
        if !(value.is_finite() && value > 0.0) {
            return Err(self.bad(name, value, "a finite, positive number"));
        }
        Ok(value)
    }

    /// Reads a finite, positive float; 0 means the same as no such key.
    pub(crate) fn positive_or_zero(&mut self, name: &'static str) -> Result<Option<f32>, Error> {
        let value = self.float_or(name, 0.0)?;
        if value.is_finite() && value >= 0.0 {
            return Ok((value > 0.0).then_some(value));
        }
        Err(self.bad(name, value, "a finite number, 0 or more"))
    }

    pub(crate) fn flag_or(&mut self, name: &'static str, default: bool) -> Result<bool, Error> {
        let value = self.metadata.bool(&self.key(name))?.unwrap_or(default);
        self.mark(name, value);
        Ok(value)
    }

    /// Reads an array of sizes that may be 0; empty if there is none.
    pub(crate) fn counts(&mut self, name: &'static str) -> Result<Vec<u32>, Error> {
        let found = self.metadata.u32s(&self.key(name))?.unwrap_or_default();
        self.mark(name, Value::Array(Array::U32(found.clone())));
        Ok(found)
    }

    /// Reads the length of an array of strings.
    pub(crate) fn strings(&mut self, name: &'static str) -> Result<Option<usize>, Error> {
        let found = self.metadata.strings(&self.key(name))?.map(|strings| strings.len());
        if let (Some(_), Some(value)) = (found, self.metadata.get(&self.key(name))) {
            self.mark(name, value.clone());
        }
        Ok(found)
    }

    pub(crate) fn rms_epsilon(&mut self) -> Result<f32, Error> {
        self.epsilon("attention.layer_norm_rms_epsilon", "the epsilon of RMS norms")
    }

    /// As [`Keys::rms_epsilon`], with the family's `default`.
    pub(crate) fn rms_epsilon_or(&mut self, default: f32) -> Result<f32, Error> {
        let name = "attention.layer_norm_rms_epsilon";
        if self.has(name) {
            return self.rms_epsilon();
        }
        self.mark(name, default);
        Ok(default)
    }

    /// Accepts a key that states what the family does anyway.
    pub(crate) fn implied(&mut self, name: &'static str, value: f32) {
        let found = self.metadata.get(&self.key(name)).and_then(number);
        if found == Some(value) {
            self.mark(name, value);
        }
    }

    pub(crate) fn layer_norm_epsilon(&mut self) -> Result<f32, Error> {
        self.epsilon("attention.layer_norm_epsilon", "the epsilon of layer norms")
    }

    fn epsilon(&mut self, name: &'static str, what: &'static str) -> Result<f32, Error> {
        let found = self.float(name)?;
        let epsilon = found.ok_or_else(|| self.missing(name, what))?;
        if !(epsilon.is_finite() && epsilon >= 0.0) {
            return Err(self.bad(name, epsilon, "a finite, non-negative number"));
        }
        Ok(epsilon)
    }

    pub(crate) fn vocab_size(&mut self) -> Result<usize, Error> {
        let key = "tokenizer.ggml.tokens";
        let Some(tokens) = self.metadata.strings(key)? else {
            let what = "the vocabulary size, because tokenizer.ggml.tokens is missing too";
            return self.size("vocab_size", what);
        };
        if tokens.is_empty() {
            let (key, found, expected) = (key.to_owned(), "empty".into(), "the vocabulary".into());
            return Err(Error::BadValue { key, found, expected });
        }
        self.mark("vocab_size", u32::try_from(tokens.len()).unwrap_or(u32::MAX));
        Ok(tokens.len())
    }

    /// Returns all keys read, with their values. A key of the architecture that was not read must be known to be harmless.
    pub(crate) fn finish(self) -> Result<Vec<(&'static str, Value)>, Error> {
        let namespace = self.key("");
        let ours = self.metadata.iter();
        let ours = ours.filter_map(|(key, value)| Some((key.strip_prefix(&namespace)?, value)));
        for (name, value) in ours {
            let is_known = self.read.iter().any(|(read, _)| *read == name)
                || OTHER_MODALITIES.iter().any(|part| name.starts_with(part))
                || HARMLESS.contains(&name)
                || self.harmless.contains(&name);
            let refused = match NEUTRAL.iter().find(|(neutral, _, _)| *neutral == name) {
                _ if is_known => None,
                Some((_, neutral, what)) => (number(value) != Some(*neutral)).then_some(*what),
                None if name == "tensor_data_layout" => {
                    let usual = LAYOUTS.iter().any(|layout| *value == Value::String((*layout).to_owned()));
                    (!usual).then_some("this tensor layout")
                }
                None if name.starts_with("attention.") || name.starts_with("rope.") => {
                    Some("this option of attention or RoPE")
                }
                None => Some("this option"),
            };
            if let Some(what) = refused {
                return Err(self.unsupported(name, value.to_string(), what));
            }
        }
        Ok(self.read)
    }

    fn checked(&self, name: &str, size: u32) -> Result<usize, Error> {
        if (1..=MAX_SIZE).contains(&size) {
            return Ok(size as usize);
        }
        Err(self.bad(name, size, format!("a number from 1 to {MAX_SIZE}")))
    }

    pub(crate) fn unsupported(&self, name: &str, found: String, what: &'static str) -> Error {
        // The name is untrusted: it may be long or contain control characters.
        let key = self.key(quoted(name).trim_matches('"'));
        Error::Unsupported { key, found, what, architecture: self.architecture }
    }
}

fn number(value: &Value) -> Option<f32> {
    match *value {
        Value::Bool(v) => Some(f32::from(u8::from(v))),
        Value::F32(v) => Some(v),
        Value::F64(v) => Some(v as f32),
        ref other => other.integer().map(|v| v as f32),
    }
}
