//! The metadata keys of one architecture: each is read, known to change nothing, or refused.

use gguf::{Array, Metadata, Value, quoted};

use crate::Error;

/// The largest number that any size may have: far above every real model, far below overflow.
const MAX_SIZE: u32 = 1 << 24;

/// Keys that change nothing in any family as it is built.
const HARMLESS: [&str; 4] = [
    "attention.layer_norm_epsilon",
    "rope.scaling.finetuned",
    "rope.scaling.original_context_length",
    "vocab_size",
];

/// Keys that ask for a computation unless they hold the neutral value given, which may stand in any file whose family
/// does not read the key.
const NEUTRAL: [(&str, f32, &str); 25] = [
    ("expert_count", 0.0, "a mixture of experts"),
    ("expert_used_count", 0.0, "a mixture of experts"),
    ("expert_shared_count", 0.0, "an expert that all rows share"),
    ("expert_shared_feed_forward_length", 0.0, "an expert that all rows share"),
    ("expert_group_count", 0.0, "groups of experts"),
    ("expert_group_used_count", 0.0, "groups of experts"),
    ("expert_weights_scale", 1.0, "a scale of the experts' weights"),
    ("expert_weights_norm", 1.0, "weights of experts that do not add up to 1"),
    ("expert_gating_func", 1.0, "a choice of experts without softmax"),
    ("leading_dense_block_count", 0.0, "leading layers without experts"),
    ("interleave_moe_layer_step", 0.0, "a mixture of experts in some layers only"),
    ("nextn_predict_layers", 0.0, "layers that predict several tokens"),
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
];

/// The same of RoPE.
const NEUTRAL_ROPE: [(&str, f32, &str); 3] = [
    ("rope.scaling.attn_factor", 1.0, "scaling of attention with the context"),
    ("rope.scaling.yarn_log_multiplier", 0.0, "YaRN scaling"),
    ("rope.scaling.yarn_ext_factor", 0.0, "YaRN scaling"),
];

/// Names of the usual order of values in `tensor_data_layout`.
const LAYOUTS: [&str; 2] = ["reference", "Meta AI original pth"];

/// Reads the keys of an architecture, and remembers which it has read.
pub(crate) struct Keys<'a> {
    metadata: &'a Metadata,
    architecture: &'static str,
    /// Those that change nothing in the architecture.
    harmless: &'static [&'static str],
    /// Names and the values that were taken from them, or from their defaults.
    read: Vec<(&'static str, Value)>,
}

impl<'a> Keys<'a> {
    pub(crate) fn new(
        metadata: &'a Metadata,
        architecture: &'static str,
        harmless: &'static [&'static str],
    ) -> Keys<'a> {
        Keys { metadata, architecture, harmless, read: Vec::new() }
    }

    /// What all the keys begin with.
    pub(crate) fn architecture(&self) -> &'static str {
        self.architecture
    }

    fn key(&self, name: &str) -> String {
        format!("{}.{name}", self.architecture)
    }

    /// Whether the file has the key.
    pub(crate) fn has(&self, name: &str) -> bool {
        self.metadata.contains(&self.key(name))
    }

    /// That a key holds a value that cannot be.
    pub(crate) fn bad(&self, name: &str, found: impl ToString, expected: impl Into<String>) -> Error {
        Error::BadValue { key: self.key(name), found: found.to_string(), expected: expected.into() }
    }

    /// That a key is missing, and what it would hold.
    pub(crate) fn missing(&self, name: &str, what: &'static str) -> Error {
        Error::MissingKey { key: self.key(name), what }
    }

    fn mark(&mut self, name: &'static str, value: impl Into<Value>) {
        self.read.push((name, value.into()));
    }

    /// A number of things, of which there is at least one.
    pub(crate) fn size(&mut self, name: &'static str, what: &'static str) -> Result<usize, Error> {
        let found = self.metadata.u32(&self.key(name))?;
        let size = found.ok_or_else(|| self.missing(name, what))?;
        let size = self.checked(name, size)?;
        self.mark(name, size as u32);
        Ok(size)
    }

    /// A number of things, of which there is at least one; `default` where the file does not say it.
    pub(crate) fn size_or(&mut self, name: &'static str, default: usize) -> Result<usize, Error> {
        if self.has(name) {
            return self.size(name, "");
        }
        self.mark(name, u32::try_from(default).unwrap_or(u32::MAX));
        Ok(default)
    }

    /// A number of things of which there may be none, as there are where the file does not say it.
    pub(crate) fn count(&mut self, name: &'static str) -> Result<usize, Error> {
        let is_none = self.metadata.u32(&self.key(name))?.unwrap_or(0) == 0;
        if is_none {
            self.mark(name, 0u32);
        }
        if is_none { Ok(0) } else { self.size(name, "") }
    }

    /// A size for each layer: one for all of them, or an array of as many.
    pub(crate) fn sizes(
        &mut self,
        name: &'static str,
        what: &'static str,
        layers: usize,
    ) -> Result<Vec<usize>, Error> {
        let key = self.key(name);
        let Some(Value::Array(array)) = self.metadata.get(&key) else {
            return Ok(vec![self.size(name, what)?; layers]);
        };
        let found = self.metadata.u32s(&key)?.unwrap_or_default();
        if found.len() != layers {
            return Err(self.not_one_each(name, array, layers));
        }
        let sizes = found.iter().map(|&size| self.checked(name, size)).collect::<Result<_, _>>()?;
        self.mark(name, Value::Array(Array::U32(found)));
        Ok(sizes)
    }

    /// A size for each layer; `default` where the file does not say it.
    pub(crate) fn sizes_or(&mut self, name: &'static str, default: &[usize]) -> Result<Vec<usize>, Error> {
        if self.has(name) {
            return self.sizes(name, "", default.len());
        }
        let value: Vec<u32> = default.iter().map(|&size| u32::try_from(size).unwrap_or(u32::MAX)).collect();
        match &value[..] {
            [first, rest @ ..] if rest.iter().all(|size| size == first) => self.mark(name, *first),
            _ => self.mark(name, Value::Array(Array::U32(value))),
        }
        Ok(default.to_vec())
    }

    /// Which layers are of the first kind, where the last of every `period` layers is of the other: a period, of which 0
    /// is endless, or an array of as many booleans or numbers as there are layers.
    pub(crate) fn pattern(
        &mut self,
        name: &'static str,
        period: u32,
        layers: usize,
    ) -> Result<Vec<bool>, Error> {
        let key = self.key(name);
        let Some(Value::Array(array)) = self.metadata.get(&key) else {
            let period = self.metadata.u32(&key)?.unwrap_or(period);
            self.mark(name, period);
            let period = period as usize;
            return Ok((0..layers).map(|layer| period == 0 || layer % period < period - 1).collect());
        };
        let found: Vec<bool> = match array {
            Array::Bool(flags) => flags.clone(),
            _ => self.metadata.u32s(&key)?.unwrap_or_default().iter().map(|&flag| flag != 0).collect(),
        };
        if found.len() != layers {
            return Err(self.not_one_each(name, array, layers));
        }
        self.mark(name, Value::Array(Array::Bool(found.clone())));
        Ok(found)
    }

    /// A floating-point number.
    pub(crate) fn float(&mut self, name: &'static str) -> Result<Option<f32>, Error> {
        let found = self.metadata.f32(&self.key(name))?;
        if let Some(value) = found {
            self.mark(name, value);
        }
        Ok(found)
    }

    /// A finite number above 0; `default` where the file does not say it.
    pub(crate) fn positive_or(&mut self, name: &'static str, default: f32) -> Result<f32, Error> {
        let Some(value) = self.float(name)? else {
            self.mark(name, default);
            return Ok(default);
        };
        if !(value.is_finite() && value > 0.0) {
            return Err(self.bad(name, value, "a finite number above 0"));
        }
        Ok(value)
    }

    /// What RMSNorm adds under its root.
    pub(crate) fn rms_epsilon(&mut self) -> Result<f32, Error> {
        let name = "attention.layer_norm_rms_epsilon";
        let found = self.float(name)?;
        let epsilon = found.ok_or_else(|| self.missing(name, "what RMSNorm adds under its root"))?;
        if !(epsilon.is_finite() && epsilon >= 0.0) {
            return Err(self.bad(name, epsilon, "a finite number from 0 on"));
        }
        Ok(epsilon)
    }

    /// What positions are multiplied by before they become angles (Chen et al. 2023), as llama.cpp reads it: scaling is
    /// linear unless a type says otherwise, by the factor of the new key or the old one; a factor of 0 is none.
    pub(crate) fn rope_scale(&mut self) -> Result<f32, Error> {
        let name = "rope.scaling.type";
        let kind = self.metadata.str(&self.key(name))?.unwrap_or("linear").to_owned();
        let [new, old] = ["rope.scaling.factor", "rope.scale_linear"];
        let older = self.float(old)?;
        let (name_of_factor, factor) = match self.float(new)? {
            Some(factor) => (new, factor),
            None => (old, older.unwrap_or(0.0)),
        };
        let scale = match &*kind {
            "none" => 1.0,
            "linear" if factor == 0.0 => 1.0,
            "linear" if !(factor.is_finite() && factor > 0.0 && (1.0 / factor).is_finite()) => {
                let expected = "a finite number from 0 on, with a finite inverse if it is not 0";
                return Err(self.bad(name_of_factor, factor, expected));
            }
            "linear" => 1.0 / factor,
            _ => {
                let found = Value::String(kind).to_string();
                return Err(self.unsupported(name, found, "this kind of RoPE scaling"));
            }
        };
        self.mark(name, if scale == 1.0 { "none" } else { "linear" });
        Ok(scale)
    }

    /// The number of tokens.
    pub(crate) fn vocab_size(&mut self) -> Result<usize, Error> {
        let key = "tokenizer.ggml.tokens";
        let Some(tokens) = self.metadata.strings(key)? else {
            let what = "the number of tokens, as there are no tokenizer.ggml.tokens";
            return self.size("vocab_size", what);
        };
        match tokens.len() {
            0 => {
                let (key, found, expected) = (key.to_owned(), "empty".into(), "the vocabulary".into());
                Err(Error::BadValue { key, found, expected })
            }
            tokens => {
                self.mark("vocab_size", u32::try_from(tokens).unwrap_or(u32::MAX));
                Ok(tokens)
            }
        }
    }

    /// What was read.
    ///
    /// # Errors
    /// When the file has a key of the architecture that was not read and may change something.
    pub(crate) fn finish(self) -> Result<Vec<(&'static str, Value)>, Error> {
        let namespace = self.key("");
        let ours = self.metadata.iter();
        let ours = ours.filter_map(|(key, value)| Some((key.strip_prefix(&namespace)?, value)));
        for (name, value) in ours {
            let is_known = self.read.iter().any(|(read, _)| *read == name)
                || HARMLESS.contains(&name)
                || self.harmless.contains(&name);
            let mut neutral = NEUTRAL.iter().chain(&NEUTRAL_ROPE);
            let refused = match neutral.find(|(neutral, _, _)| *neutral == name) {
                _ if is_known => None,
                Some((_, neutral, what)) => (number(value) != Some(*neutral)).then_some(*what),
                None if name == "tensor_data_layout" => {
                    let usual = LAYOUTS.iter().any(|layout| *value == Value::String((*layout).to_owned()));
                    (!usual).then_some("this order of the values in a tensor")
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
        match (1..=MAX_SIZE).contains(&size) {
            true => Ok(size as usize),
            false => Err(self.bad(name, size, format!("a number from 1 to {MAX_SIZE}"))),
        }
    }

    fn not_one_each(&self, name: &str, found: &Array, layers: usize) -> Error {
        let found = format!("array of {} {}", found.len(), found.element_type());
        self.bad(name, found, format!("one for each of the {layers} layers"))
    }

    fn unsupported(&self, name: &str, found: String, what: &'static str) -> Error {
        // The name comes from the file: it may be long, or speak to the terminal.
        let key = self.key(quoted(name).trim_matches('"'));
        Error::Unsupported { key, found, what, architecture: self.architecture }
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
