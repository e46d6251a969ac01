//! Small models with random weights, of every family: complete GGUF files, the same bytes on every machine.
//!
//! The metadata follow from a [`Spec`], the graph from the metadata, and the tensors from the weights of the graph.
//! Logits have a standard deviation of about 2.5 and attention is not uniform, so that an error anywhere shows in the
//! output.

use std::fs::File;
use std::path::Path;

use gguf::{Metadata, Tensor, Value, WriteError};
use graph::{Graph, Op, Role, Weight};
use models::Model;
use quant::Format;

use crate::random::Random;
use crate::vocabulary::{self, VOCAB};
use crate::weights;

/// Approximate standard deviation of the logits.
const LOGIT_DEVIATION: f32 = 2.5;

/// Approximate standard deviation of the output of a layer before the residual addition. Many values of the residual
/// stream then exceed 10, which reveals clipping.
const RESIDUAL_DEVIATION: f32 = 4.0;

/// Standard deviation of the embedding: small compared with the layers' outputs, because a model with tied embeddings
/// would otherwise always repeat the last token.
const EMBEDDING_DEVIATION: f32 = 1.0;

/// Standard deviation of biases, a quarter of that of the values they are added to. Value biases are equal at all
/// positions; if they were larger, few tokens would ever be the top token.
const BIAS_DEVIATION: f32 = 0.25;

/// Standard deviation of router logits: the first expert of a row dominates, and a different choice of the last one
/// changes little.
const ROUTER_DEVIATION: f32 = 3.0;

/// Matrices whose outputs are added to the residual stream.
const LAST: [&str; 3] = ["attn_output.weight", "ffn_down.weight", "ffn_down_exps.weight"];

/// The linear layers of Qwen 2 that have a bias.
const QKV: [&str; 3] = ["attn_q", "attn_k", "attn_v"];

/// All linear layers of a dense layer.
const ALL_LINEARS: [&str; 7] =
    ["attn_q", "attn_k", "attn_v", "attn_output", "ffn_gate", "ffn_up", "ffn_down"];

/// Norms before the residual addition.
const LAST_NORMS: [&str; 2] = ["post_attention_norm.weight", "post_ffw_norm.weight"];

/// The parameters of a model, named after the metadata keys.
///
/// `Spec { tied: true, ..Spec::new(Format::F32) }` changes a single parameter.
#[derive(Clone, Debug, PartialEq)]
pub struct Spec {
    /// `general.architecture`
    pub architecture: &'static str,
    /// Format of all matrices; vectors are F32.
    pub format: Format,
    /// Whether the embedding is also the output matrix.
    pub tied: bool,
    /// `block_count`
    pub layers: u32,
    /// `embedding_length`
    pub hidden: u32,
    /// `attention.head_count`
    pub heads: u32,
    /// `attention.head_count_kv`
    pub kv_heads: u32,
    /// `attention.key_length` and `attention.value_length`; omitted if `None`, which means `hidden / heads`.
    pub head_length: Option<u32>,
    /// `feed_forward_length`, and the hidden size of experts.
    pub ffn: u32,
    /// `expert_count` and `expert_used_count`; omitted if `None`.
    pub experts: Option<[u32; 2]>,
    /// `attention.sliding_window`; omitted if `None`.
    pub window: Option<u32>,
    /// `context_length`
    pub context: u32,
    /// `attention.layer_norm_rms_epsilon`
    pub rms_eps: f32,
    /// `rope.freq_base`
    pub rope_base: f32,
    /// `rope.scaling.type` and its parameters; omitted if `None`.
    pub rope_scaling: Option<RopeScaling>,
    /// Whether to add tensor `rope_freqs.weight` with factors 1, 1.5, 2, ….
    pub rope_freqs: bool,
    /// Linear layers with a bias, such as `attn_q`.
    pub biases: &'static [&'static str],
    /// Seed of the random weights.
    pub seed: u64,
}

/// RoPE scaling for contexts longer than the original one.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum RopeScaling {
    /// Linear, by this factor.
    Linear(f32),
    /// YaRN, by this factor from this `original_context_length`.
    Yarn(f32, u32),
    /// LongRoPE from this `original_context_length`, with tensors `rope_factors_short.weight` and `rope_factors_long.weight`.
    LongRope(u32),
}

impl Spec {
    /// The default model: 3 layers, hidden size 256, 8 heads of 32 and 2 KV heads, 512 tokens.
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
            experts: None,
            window: None,
            context: 2048,
            rms_eps: 1e-5,
            rope_base: 10000.0,
            rope_scaling: None,
            rope_freqs: false,
            biases: &[],
            seed: 1,
        }
    }

    /// Columns per head.
    fn head(&self) -> u32 {
        self.head_length.unwrap_or(self.hidden / self.heads)
    }

    /// The complete file.
    ///
    /// # Panics
    /// If rows are not whole blocks.
    pub fn file(&self) -> Vec<u8> {
        gguf::write(Vec::new(), &self.metadata(), &self.tensors()).expect("a model made of valid sizes")
    }

    /// Writes the complete file.
    ///
    /// # Errors
    /// File system errors, and rows that are not whole blocks.
    pub fn write_to(&self, path: &Path) -> Result<(), WriteError> {
        gguf::write(File::create(path)?, &self.metadata(), &self.tensors())?;
        Ok(())
    }

    /// The metadata of the file.
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
        if let Some([count, used]) = self.experts {
            set("expert_count", Value::U32(count));
            set("expert_used_count", Value::U32(used));
            if self.architecture != "llama" {
                set("expert_feed_forward_length", Value::U32(self.ffn));
            }
        }
        if let Some(window) = self.window {
            set("attention.sliding_window", Value::U32(window));
        }
        set("rope.dimension_count", Value::U32(self.head()));
        set("rope.freq_base", Value::F32(self.rope_base));
        let (kind, factor, original) = match self.rope_scaling {
            None => ("none", None, None),
            Some(RopeScaling::Linear(factor)) => ("linear", Some(factor), None),
            Some(RopeScaling::Yarn(factor, original)) => ("yarn", Some(factor), Some(original)),
            Some(RopeScaling::LongRope(original)) => {
                set("rope.scaling.attn_factor", Value::F32(1.19));
                ("longrope", None, Some(original))
            }
        };
        if self.rope_scaling.is_some() {
            set("rope.scaling.type", Value::String(kind.into()));
        }
        if let Some(factor) = factor {
            set("rope.scaling.factor", Value::F32(factor));
        }
        if let Some(original) = original {
            set("rope.scaling.original_context_length", Value::U32(original));
        }
        set("vocab_size", Value::U32(VOCAB as u32));
        vocabulary::describe(&mut metadata);
        metadata
    }

    /// The graph of the model.
    ///
    /// # Panics
    /// If the model is invalid.
    pub fn graph(&self) -> Graph {
        let has = |name: &str| match name {
            "output.weight" => !self.tied,
            "rope_freqs.weight" => self.rope_freqs,
            _ => match name.strip_suffix(".bias").and_then(|name| name.rsplit_once('.')) {
                Some((_, linear)) => self.biases.contains(&linear),
                None => name.ends_with(".attn_norm.weight"),
            },
        };
        let model = Model::of(&self.metadata(), &has);
        model.unwrap_or_else(|error| panic!("{self:?}: {error}")).graph
    }

    /// The tensors in file order.
    ///
    /// # Panics
    /// If the model is invalid, or rows are not whole blocks.
    pub fn tensors(&self) -> Vec<Tensor> {
        let graph = self.graph();
        let embedding = EMBEDDING_DEVIATION / embedding_scale(&graph);
        let weights = graph.weights().zip(graph.roles());
        weights.map(|((_, weight), roles)| self.tensor(weight, &roles, embedding)).collect()
    }

    /// A random tensor for `weight`; `embedding` is the standard deviation of the embedding.
    fn tensor(&self, weight: &Weight, roles: &[Role], embedding: f32) -> Tensor {
        let name = &weight.tensor;
        let base = name.strip_suffix(".weight").unwrap_or(name);
        let random = Random::new(self.seed, base);
        let is_last = |names: &[&str]| names.iter().any(|last| name.ends_with(last));
        let output = if self.tied { embedding } else { deviation(self.hidden) };
        let inner = deviation(weight.cols as u32);
        let values = weight.count * weight.rows * weight.cols;
        let (format, data) = match roles {
            [Role::Vector, ..] if name.starts_with("rope_") => {
                let (first, step) = match &**name {
                    "rope_factors_short.weight" => (1.0, 0.125),
                    "rope_factors_long.weight" => (2.0, 1.0),
                    _ => (1.0, 0.5),
                };
                let factors = (0..weight.cols).flat_map(|i| (first + i as f32 * step).to_le_bytes());
                (Format::F32, factors.collect())
            }
            [Role::Vector, ..] if name.ends_with(".bias") => {
                (Format::F32, weights::matrix(Format::F32, values, BIAS_DEVIATION, random))
            }
            [Role::Vector, ..] => {
                let mean = match &**name {
                    "output_norm.weight" => LOGIT_DEVIATION / (output / deviation(self.hidden)),
                    _ if is_last(&LAST_NORMS) => RESIDUAL_DEVIATION,
                    _ => 1.0,
                };
                (Format::F32, weights::vector(values, mean, random))
            }
            _ => {
                let (format, deviation) = match roles {
                    [Role::Table, ..] => (self.format, embedding),
                    // As in real files, routers are F32.
                    _ if base.ends_with("ffn_gate_inp") => (Format::F32, ROUTER_DEVIATION * inner),
                    _ if name == "output.weight" => (self.format, output),
                    _ if is_last(&LAST) => (self.format, RESIDUAL_DEVIATION * inner),
                    _ => (self.format, inner),
                };
                (format, weights::matrix(format, values, deviation, random))
            }
        };
        Tensor { name: name.clone(), format, shape: weight.tensor_shape(), data: data.into() }
    }
}

/// The factor that the graph applies to embeddings.
fn embedding_scale(graph: &Graph) -> f32 {
    let is_embedding = |x| matches!(graph.value(x).op, Op::Embed { .. });
    let factor = |op| if let Op::Scale { x, factor } = op { is_embedding(x).then_some(factor) } else { None };
    graph.values().filter_map(|(_, value)| factor(value.op)).product()
}

/// The standard deviation of a matrix that preserves the scale of its input.
fn deviation(inputs: u32) -> f32 {
    1.0 / (inputs as f32).sqrt()
}

/// A model small enough that the goldens of `crates/trace` have all its values.
pub fn small() -> Spec {
    Spec { layers: 2, hidden: 64, heads: 4, kv_heads: 2, ffn: 96, rope_freqs: true, ..Spec::new(Format::F32) }
}

/// A model of the same size with RoPE scaling.
fn scaled(scaling: RopeScaling) -> Spec {
    Spec { rope_freqs: false, rope_scaling: Some(scaling), ..small() }
}

/// A model of the same size, of architecture `qwen2`.
pub fn small_qwen2() -> Spec {
    Spec { rope_freqs: false, ..qwen2(small()) }
}

/// The same model with architecture `qwen2`: biases of queries, keys and values.
fn qwen2(spec: Spec) -> Spec {
    Spec { architecture: "qwen2", biases: &QKV, ..qwen(spec) }
}

/// The same model as small Qwens: tied embeddings, another RoPE base.
fn qwen(spec: Spec) -> Spec {
    Spec { tied: true, rms_eps: 1e-6, rope_base: 1e6, ..spec }
}

/// A small model of architecture `qwen3`, with `heads * key_length` larger than the hidden size.
pub fn qwen3(format: Format) -> Spec {
    let (hidden, heads, head_length) = (128, 4, Some(48));
    Spec { architecture: "qwen3", hidden, heads, head_length, ffn: 192, ..qwen(Spec::new(format)) }
}

/// A small model of architecture `qwen3moe`: eight experts, three per row.
pub fn qwen3moe(format: Format) -> Spec {
    let (ffn, experts) = (256, Some([8, 3]));
    Spec { architecture: "qwen3moe", ffn, experts, tied: false, seed: 22, ..qwen(Spec::new(format)) }
}

/// A small Mixtral: eight experts, two per row.
pub fn mixtral(format: Format) -> Spec {
    let experts = Some([8, 2]);
    let spec = Spec { layers: 2, hidden: 128, heads: 4, ffn: 160, ..Spec::new(format) };
    Spec { experts, rope_base: 1e6, seed: 20, ..spec }
}

/// A small model of architecture `gemma3`: seven layers; the sixth is global, the others have a window of 40.
pub fn gemma3(format: Format) -> Spec {
    Spec {
        architecture: "gemma3",
        layers: 7,
        hidden: 128,
        heads: 4,
        head_length: Some(48),
        ffn: 192,
        window: Some(40),
        rope_scaling: Some(RopeScaling::Linear(8.0)),
        ..qwen(Spec::new(format))
    }
}

/// The models with golden logits, by name: one per format, and variants.
pub fn models() -> Vec<(String, Spec)> {
    let f32 = || Spec::new(Format::F32);
    let variants = [
        ("F32-tied", Spec { tied: true, ..f32() }),
        (
            "F32-rope",
            Spec {
                rope_freqs: true,
                rope_scaling: Some(RopeScaling::Linear(4.0)),
                rope_base: 500.0,
                ..f32()
            },
        ),
        ("F32-heads", Spec { head_length: Some(48), rms_eps: 0.5, ..f32() }),
        ("F32-qwen2", qwen2(f32())),
        ("Q8_0-qwen2", qwen2(Spec::new(Format::Q8_0))),
        ("Q4_K-qwen2", Spec { tied: false, ..qwen2(Spec::new(Format::Q4_K)) }),
        ("Q4_K-qwen3moe", qwen3moe(Format::Q4_K)),
        ("Q8_0-gemma3", gemma3(Format::Q8_0)),
    ];
    let formats = Format::ALL.map(|format| (format.to_string(), Spec::new(format)));
    formats.into_iter().chain(variants.map(|(name, spec)| (name.to_owned(), spec))).collect()
}

/// The models with goldens over 300 tokens: the families after Llama and Qwen2. Their seeds avoid near ties between the
/// last chosen expert and the next one, so that rounding does not change the choice.
pub fn families() -> Vec<(String, Spec)> {
    let families = [
        ("F32-qwen3", qwen3(Format::F32)),
        ("F32-qwen3moe", Spec { layers: 2, ffn: 96, ..qwen3moe(Format::F32) }),
        ("F32-mixtral", mixtral(Format::F32)),
        ("F32-gemma3", gemma3(Format::F32)),
        ("F32-llama-biases", Spec { biases: &ALL_LINEARS, ..small() }),
        ("F32-qwen2-no-biases", Spec { biases: &[], ..small_qwen2() }),
        ("F32-llama-yarn", scaled(RopeScaling::Yarn(8.0, 64))),
        ("F32-qwen2-yarn", Spec { heads: 2, ..qwen2(scaled(RopeScaling::Yarn(4.0, 2048))) }),
        // Of 300 positions, once in a long context and once in one that is not.
        ("F32-longrope", scaled(RopeScaling::LongRope(128))),
        ("F32-longrope-short", scaled(RopeScaling::LongRope(512))),
    ];
    families.map(|(name, spec)| (name.to_owned(), spec)).into()
}
