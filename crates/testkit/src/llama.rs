//! Small models with random weights, Llama's and what is like them: complete GGUF files, the same bytes on every machine.
//!
//! Logits have a standard deviation of about 2.5 and attention is uneven, so that an error anywhere
//! shows in the output.

use std::fs::File;
use std::path::Path;

use gguf::{Metadata, Tensor, Value, WriteError};
use quant::Format;

use crate::random::Random;
use crate::vocabulary::{self, VOCAB};
use crate::weights;

/// Standard deviation of the logits, about.
const LOGIT_DEVIATION: f32 = 2.5;

/// Standard deviation of what a layer adds to the residual stream, about: many of the stream's values
/// are then beyond 10, which shows an engine that bounds them.
const RESIDUAL_DEVIATION: f32 = 4.0;

/// Standard deviation of the embedding's values: small beside what the layers add, lest a model with
/// tied embeddings always repeat the last token.
const EMBEDDING_DEVIATION: f32 = 1.0;

/// Standard deviation of biases, a quarter of what they are added to: those of values are alike at all
/// positions, and were they larger, few tokens would ever have the largest logit.
const BIAS_DEVIATION: f32 = 0.25;

/// What a model is like. Sizes are those of the metadata keys of the same meaning.
///
/// `Spec { tied: true, ..Spec::new(Format::F32) }` is a model with one thing changed.
#[derive(Clone, Debug, PartialEq)]
pub struct Spec {
    /// `general.architecture`: of `qwen2`, queries, keys and values have biases.
    pub architecture: &'static str,
    /// Format of all matrices; vectors are F32.
    pub format: Format,
    /// Whether the embedding serves as output matrix, too.
    pub tied: bool,
    /// `block_count`
    pub layers: u32,
    /// `embedding_length`
    pub hidden: u32,
    /// `attention.head_count`
    pub heads: u32,
    /// `attention.head_count_kv`
    pub kv_heads: u32,
    /// `attention.key_length` and `attention.value_length`; left out of the file when `None`, which
    /// means `hidden / heads`.
    pub head_length: Option<u32>,
    /// `feed_forward_length`
    pub ffn: u32,
    /// `context_length`
    pub context: u32,
    /// `attention.layer_norm_rms_epsilon`
    pub rms_eps: f32,
    /// `rope.freq_base`
    pub rope_base: f32,
    /// `rope.scaling.factor` of linear scaling; left out when `None`.
    pub rope_linear: Option<f32>,
    /// Whether there is a tensor `rope_freqs.weight`: factors 1, 1.5, 2, …
    pub rope_freqs: bool,
    /// Chooses the random numbers.
    pub seed: u64,
}

impl Spec {
    /// The usual model: 3 layers, hidden 256, 8 heads of 32 over 2 key/value heads, 512 tokens.
    pub fn new(format: Format) -> Spec {
        Spec {
            architecture: "llama",
            format,
            tied: false,
            layers: 3,
            hidden: 256,
            heads: 8,
            kv_heads: 2,
            head_length: None,
            ffn: 512,
            context: 2048,
            rms_eps: 1e-5,
            rope_base: 10000.0,
            rope_linear: None,
            rope_freqs: false,
            seed: 1,
        }
    }

    /// Values in a head.
    fn head(&self) -> u32 {
        self.head_length.unwrap_or(self.hidden / self.heads)
    }

    /// The complete file.
    ///
    /// # Panics
    /// When a row is not whole blocks.
    pub fn file(&self) -> Vec<u8> {
        gguf::write(Vec::new(), &self.metadata(), &self.tensors()).expect("a model made of valid sizes")
    }

    /// Writes the complete file.
    ///
    /// # Errors
    /// Those of the file system, and a row that is not whole blocks.
    pub fn write_to(&self, path: &Path) -> Result<(), WriteError> {
        gguf::write(File::create(path)?, &self.metadata(), &self.tensors())?;
        Ok(())
    }

    /// All that the file says beside its tensors.
    pub fn metadata(&self) -> Metadata {
        let mut metadata = Metadata::default();
        metadata.insert("general.architecture", Value::String(self.architecture.into()));
        metadata.insert("general.name", Value::String(format!("random {}", self.format)));
        metadata.insert("general.quantization_version", Value::U32(2));
        let mut set = |key: &str, value| metadata.insert(format!("{}.{key}", self.architecture), value);
        set("block_count", Value::U32(self.layers));
        set("context_length", Value::U32(self.context));
        set("embedding_length", Value::U32(self.hidden));
        set("feed_forward_length", Value::U32(self.ffn));
        set("attention.head_count", Value::U32(self.heads));
        set("attention.head_count_kv", Value::U32(self.kv_heads));
        set("attention.layer_norm_rms_epsilon", Value::F32(self.rms_eps));
        if let Some(length) = self.head_length {
            set("attention.key_length", Value::U32(length));
            set("attention.value_length", Value::U32(length));
        }
        set("rope.dimension_count", Value::U32(self.head()));
        set("rope.freq_base", Value::F32(self.rope_base));
        if let Some(factor) = self.rope_linear {
            set("rope.scaling.type", Value::String("linear".into()));
            set("rope.scaling.factor", Value::F32(factor));
        }
        set("vocab_size", Value::U32(VOCAB as u32));
        vocabulary::describe(&mut metadata);
        metadata
    }

    /// The tensors in the order of the file.
    pub fn tensors(&self) -> Vec<Tensor> {
        let (hidden, ffn, vocab, head) = (self.hidden, self.ffn, VOCAB as u32, self.head());
        let output_deviation = if self.tied { EMBEDDING_DEVIATION } else { deviation(hidden) };
        let output_norm = LOGIT_DEVIATION / (output_deviation / deviation(hidden));

        let mut tensors = vec![self.matrix("token_embd", hidden, vocab, EMBEDDING_DEVIATION)];
        if self.rope_freqs {
            let factors = (0..head / 2).flat_map(|i| (1.0 + i as f32 / 2.0).to_le_bytes()).collect();
            tensors.push(vector("rope_freqs.weight".into(), factors));
        }
        for layer in 0..self.layers {
            let blk = |name: &str| format!("blk.{layer}.{name}");
            let scaled = |name, inputs, outputs, scale| {
                self.matrix(&blk(name), inputs, outputs, scale * deviation(inputs))
            };
            let inner = |name, inputs, outputs| scaled(name, inputs, outputs, 1.0);
            let last = |name, inputs, outputs| scaled(name, inputs, outputs, RESIDUAL_DEVIATION);
            let projections = [
                ("attn_q", self.heads * head),
                ("attn_k", self.kv_heads * head),
                ("attn_v", self.kv_heads * head),
            ];
            tensors.push(self.norm(&blk("attn_norm"), 1.0));
            tensors.extend(projections.map(|(name, outputs)| inner(name, hidden, outputs)));
            if self.architecture == "qwen2" {
                tensors.extend(projections.map(|(name, outputs)| self.bias(&blk(name), outputs)));
            }
            tensors.extend([
                last("attn_output", self.heads * head, hidden),
                self.norm(&blk("ffn_norm"), 1.0),
                inner("ffn_gate", hidden, ffn),
                inner("ffn_up", hidden, ffn),
                last("ffn_down", ffn, hidden),
            ]);
        }
        tensors.push(self.norm("output_norm", output_norm));
        if !self.tied {
            tensors.push(self.matrix("output", hidden, vocab, output_deviation));
        }
        tensors
    }

    fn matrix(&self, name: &str, inputs: u32, outputs: u32, deviation: f32) -> Tensor {
        let values = inputs as usize * outputs as usize;
        Tensor {
            name: format!("{name}.weight"),
            format: self.format,
            shape: vec![inputs as usize, outputs as usize],
            data: weights::matrix(self.format, values, deviation, Random::new(self.seed, name)).into(),
        }
    }

    fn norm(&self, name: &str, mean: f32) -> Tensor {
        let random = Random::new(self.seed, name);
        vector(format!("{name}.weight"), weights::vector(self.hidden as usize, mean, random))
    }

    fn bias(&self, name: &str, len: u32) -> Tensor {
        let name = format!("{name}.bias");
        let random = Random::new(self.seed, &name);
        vector(name, weights::matrix(Format::F32, len as usize, BIAS_DEVIATION, random))
    }
}

/// A vector of F32, of these bytes.
fn vector(name: String, data: Vec<u8>) -> Tensor {
    Tensor { name, format: Format::F32, shape: vec![data.len() / size_of::<f32>()], data: data.into() }
}

/// The standard deviation of a matrix's values that keeps the size of its input.
fn deviation(inputs: u32) -> f32 {
    1.0 / (inputs as f32).sqrt()
}

/// A model so small that the goldens of `crates/trace` hold all its values.
pub fn small() -> Spec {
    Spec { layers: 2, hidden: 64, heads: 4, kv_heads: 2, ffn: 96, rope_freqs: true, ..Spec::new(Format::F32) }
}

/// One as small, of architecture `qwen2`.
pub fn small_qwen2() -> Spec {
    Spec { rope_freqs: false, ..qwen2(small()) }
}

/// The same of architecture `qwen2`, as its small models are: tied embeddings, another base of the angles.
fn qwen2(spec: Spec) -> Spec {
    Spec { architecture: "qwen2", tied: true, rms_eps: 1e-6, rope_base: 1e6, ..spec }
}

/// The models that golden logits exist for, by name: one a format, and variants.
pub fn models() -> Vec<(String, Spec)> {
    let f32 = || Spec::new(Format::F32);
    let variants = [
        ("F32-tied", Spec { tied: true, ..f32() }),
        ("F32-rope", Spec { rope_freqs: true, rope_linear: Some(4.0), rope_base: 500.0, ..f32() }),
        ("F32-heads", Spec { head_length: Some(48), rms_eps: 0.5, ..f32() }),
        ("F32-qwen2", qwen2(f32())),
        ("Q8_0-qwen2", qwen2(Spec::new(Format::Q8_0))),
        ("Q4_K-qwen2", Spec { tied: false, ..qwen2(Spec::new(Format::Q4_K)) }),
    ];
    let formats = Format::ALL.map(|format| (format.to_string(), Spec::new(format)));
    formats.into_iter().chain(variants.map(|(name, spec)| (name.to_owned(), spec))).collect()
}
