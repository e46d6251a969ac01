//! A model by its hyper-parameters: metadata, graph and tensors of random weights, with logits of a standard deviation of about 2.5
//! and uneven attention, so that an error anywhere shows in the output.

use std::collections::HashSet;
use std::fs::File;
use std::io::{self, Write};
use std::path::Path;
use std::str::FromStr;

use gguf::{Layout, Metadata, Tensor, Value, WriteError};
use graph::{Graph, Map, Op, Role, Weight};
use models::Model;
use quant::Format;

use crate::random::Random;
use crate::vocabulary::{SMALL_VOCAB, Vocabulary};
use crate::weights::write_matrix;

/// Approximate standard deviation of the logits.
const LOGIT_DEVIATION: f32 = 2.5;

/// Standard deviation of a layer's output before the residual addition: many values exceed 10, which reveals clipping.
const RESIDUAL_DEVIATION: f32 = 4.0;

/// Standard deviation of the embedding: small, because a model with tied embeddings would always repeat the last token.
const EMBEDDING_DEVIATION: f32 = 1.0;

/// Standard deviation of biases. Value biases are equal at all positions: if larger, few tokens would ever be the top one.
const BIAS_DEVIATION: f32 = 0.25;

/// Standard deviation of router logits: the first expert dominates, and another choice of the last one changes little.
const ROUTER_DEVIATION: f32 = 3.0;

/// Matrices whose outputs are added to the residual stream.
const LAST: [&str; 6] = [
    "attn_output.weight",
    "ffn_down.weight",
    "ffn_down_exps.weight",
    "ffn_down_shexp.weight",
    "ssm_out.weight",
    "shortconv.out_proj.weight",
];

/// Mean of the rates at which states decay, times a step of about 0.7: a state has half of a row after three others.
const DECAY: f32 = -0.3;

const LAST_NORMS: [&str; 2] = ["post_attention_norm.weight", "post_ffw_norm.weight"];

/// The parameters of a model, named after the metadata keys: `Spec { tied: true, ..Spec::new(Format::F32) }`.
#[derive(Clone, Debug, PartialEq)]
pub struct Spec {
    /// `general.architecture`
    pub architecture: &'static str,
    /// Format of all matrices; vectors are F32.
    pub format: Format,
    /// The embedding is also the output matrix.
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
    /// The tensor `rope_freqs.weight`.
    pub rope_freqs: RopeFreqs,
    /// Linear layers with a bias, such as `attn_q attn_k`.
    pub biases: &'static str,
    /// Further keys of the architecture, without its prefix, such as `attention.sliding_window=24 logit_scale=0.5`; they replace
    /// those above. A value is a flag, an integer, a list of them with commas, a float, or `-` to leave the key out.
    pub keys: &'static [&'static str],
    /// Optional tensors of every layer, such as `attn_qkv.weight`.
    pub optional: &'static str,
    /// Size of the vocabulary.
    pub vocab: usize,
    /// Its tokens.
    pub vocabulary: Vocabulary,
    /// Seed of the random weights.
    pub seed: u64,
}

/// The value of a key in [`Spec::keys`]; `None` for a key that is left out.
fn value(text: &str) -> Option<Value> {
    fn list<T: FromStr>(text: &str) -> Option<Vec<T>> {
        text.split(',').map(|element| element.parse().ok()).collect()
    }
    if text == "-" {
        return None;
    }
    Some(match (list::<u32>(text).as_deref(), list::<bool>(text).as_deref()) {
        (Some(&[size]), _) => size.into(),
        (Some(sizes), _) => sizes.to_vec().into(),
        (None, Some(&[flag])) => flag.into(),
        (None, Some(flags)) => flags.to_vec().into(),
        (None, None) => text.parse::<f32>().unwrap_or_else(|_| panic!("{text} is not a value")).into(),
    })
}

/// Divisors of RoPE's frequencies, one per pair.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum RopeFreqs {
    /// No such tensor.
    None,
    /// 1, 1.5, 2, …
    Rising,
    /// Those of Llama 3.1 and 3.2: 1 for short wavelengths, this factor for wavelengths above the 8192 tokens that the
    /// model was first trained on, and interpolated between a quarter of these and all (`llama3` of
    /// `modeling_rope_utils` in transformers).
    Llama3(f64),
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
    pub const fn new(format: Format) -> Spec {
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
            rope_freqs: RopeFreqs::None,
            biases: "",
            keys: &[],
            optional: "",
            vocab: SMALL_VOCAB,
            vocabulary: Vocabulary::Small,
            seed: 1,
        }
    }

    fn head(&self) -> u32 {
        self.head_length.unwrap_or(self.hidden / self.heads)
    }

    /// The metadata of the file.
    pub fn metadata(&self) -> Metadata {
        let mut metadata = Metadata::default();
        metadata.insert("general.architecture", self.architecture);
        metadata.insert("general.name", format!("random {}", self.format));
        metadata.insert("general.quantization_version", 2u32);
        let mut set =
            |key: &str, value: Value| metadata.insert(format!("{}.{key}", self.architecture), value);
        for (key, value) in [
            ("block_count", self.layers),
            ("context_length", self.context),
            ("embedding_length", self.hidden),
            ("feed_forward_length", self.ffn),
            ("attention.head_count", self.heads),
            ("attention.head_count_kv", self.kv_heads),
        ] {
            set(key, value.into());
        }
        set("attention.layer_norm_rms_epsilon", self.rms_eps.into());
        if let Some(length) = self.head_length {
            set("attention.key_length", length.into());
            set("attention.value_length", length.into());
        }
        if let Some([count, used]) = self.experts {
            set("expert_count", count.into());
            set("expert_used_count", used.into());
            if self.architecture.starts_with("qwen") {
                set("expert_feed_forward_length", self.ffn.into());
            }
        }
        if let Some(window) = self.window {
            set("attention.sliding_window", window.into());
        }
        set("rope.dimension_count", self.head().into());
        set("rope.freq_base", self.rope_base.into());
        match self.rope_scaling {
            None => {}
            Some(RopeScaling::Linear(factor)) => {
                set("rope.scaling.type", "linear".into());
                set("rope.scaling.factor", factor.into());
            }
            Some(RopeScaling::Yarn(factor, original)) => {
                set("rope.scaling.type", "yarn".into());
                set("rope.scaling.factor", factor.into());
                set("rope.scaling.original_context_length", original.into());
            }
            Some(RopeScaling::LongRope(original)) => {
                set("rope.scaling.attn_factor", 1.19_f32.into());
                set("rope.scaling.type", "longrope".into());
                set("rope.scaling.original_context_length", original.into());
            }
        }
        set("vocab_size", (self.vocab as u32).into());
        for key in self.keys.iter().flat_map(|keys| keys.split_whitespace()) {
            let (key, text) = key.split_once('=').expect("KEY=VALUE");
            let key = format!("{}.{key}", self.architecture);
            metadata.remove(&key);
            if let Some(value) = value(text) {
                metadata.insert(key, value);
            }
        }
        if self.architecture.contains("bert") {
            metadata.insert("tokenizer.ggml.token_type_count", 2u32);
        }
        self.vocabulary.describe(self.vocab, &mut metadata);
        metadata
    }

    /// The graph of the model. Panics if the model is invalid.
    pub fn graph(&self) -> Graph {
        let has = |name: &str| match name {
            "output.weight" => !self.tied,
            ROPE_FREQS => self.rope_freqs != RopeFreqs::None,
            _ => match name.strip_suffix(".bias").and_then(|name| name.rsplit_once('.')) {
                Some((_, linear)) => self.biases.split_whitespace().any(|biased| biased == linear),
                None => {
                    let optional =
                        || self.optional.split_whitespace().any(|optional| name.ends_with(optional));
                    name.ends_with(".attn_norm.weight") || optional()
                }
            },
        };
        let model = Model::from_metadata(&self.metadata(), &has);
        model.unwrap_or_else(|error| panic!("{self:?}: {error}")).graph
    }

    pub(crate) fn plan(&self) -> Vec<PlannedTensor> {
        let graph = self.graph();
        let embedding = EMBEDDING_DEVIATION / embedding_scale(&graph);
        let logits = (last_norm(&graph), LOGIT_DEVIATION / logit_scale(&graph));
        let mut tensors = HashSet::new();
        // Several weights may be rows of one tensor.
        let weights = graph.weights().zip(graph.roles());
        let weights = weights.filter(|((_, weight), _)| tensors.insert(weight.tensor.clone()));
        weights.map(|((_, weight), roles)| self.planned(weight, &roles, embedding, logits)).collect()
    }

    /// The tensor of `weight`; `embedding` is the deviation of embeddings, `logits` that of logits, which `last_norm` sets.
    fn planned(
        &self,
        weight: &Weight,
        roles: &[Role],
        embedding: f32,
        (last_norm, logits): (&str, f32),
    ) -> PlannedTensor {
        let name = &weight.tensor;
        let base = name.strip_suffix(".weight").unwrap_or(name);
        let is_last = |names: &[&str]| names.iter().any(|last| name.ends_with(last));
        let output = if self.tied { embedding } else { deviation(self.hidden) };
        let inner = deviation(weight.cols as u32);
        let (format, content) = match roles {
            [Role::Vector, ..] if name.starts_with("rope_") => {
                (Format::F32, Content::Values(self.rope_factors(name)))
            }
            [Role::Vector, ..] if name.ends_with(".bias") => (Format::F32, Content::Normal(BIAS_DEVIATION)),
            // The taps of a convolution.
            [Role::Vector, ..] if name.contains("conv") => (Format::F32, Content::Normal(inner)),
            [Role::Vector, ..] => {
                let mean = match &**name {
                    name if name == last_norm => logits / (output / deviation(self.hidden)),
                    _ if name.ends_with("ffn_gate_inp.scale") => (self.hidden as f32).sqrt(),
                    _ if is_last(&LAST_NORMS) => RESIDUAL_DEVIATION,
                    _ if name.ends_with("ssm_a") => DECAY,
                    _ => 1.0,
                };
                (Format::F32, Content::Even(mean))
            }
            [Role::Table, ..] => (self.format, Content::Normal(embedding)),
            // Real files have routers in F32, too.
            _ if base.ends_with("ffn_gate_inp") => (Format::F32, Content::Normal(ROUTER_DEVIATION * inner)),
            _ if name == "output.weight" => (self.format, Content::Normal(output)),
            _ if is_last(&LAST) => (self.format, Content::Normal(RESIDUAL_DEVIATION * inner)),
            _ => (self.format, Content::Normal(inner)),
        };
        let random = Random::new(self.seed, base);
        PlannedTensor { name: name.clone(), shape: weight.tensor_shape(), format, content, random }
    }

    pub(crate) fn rope_factors(&self, name: &str) -> Vec<f32> {
        let factor = |pair: u32| match (name, self.rope_freqs) {
            ("rope_factors_short.weight", _) => 1.0 + pair as f32 * 0.125,
            ("rope_factors_long.weight", _) => 2.0 + pair as f32,
            (_, RopeFreqs::Llama3(factor)) => {
                let exponent = 2.0 * f64::from(pair) / f64::from(self.head());
                let waves = 8192.0 / (std::f64::consts::TAU * f64::from(self.rope_base).powf(exponent));
                let smooth = ((waves - 1.0) / 3.0).clamp(0.0, 1.0);
                (1.0 / ((1.0 - smooth) / factor + smooth)) as f32
            }
            (_, RopeFreqs::None | RopeFreqs::Rising) => 1.0 + pair as f32 / 2.0,
        };
        (0..self.head() / 2).map(factor).collect()
    }

    /// The tensors with their data. Panics if the model is invalid, or a row is not whole blocks.
    pub fn tensors(&self) -> Vec<Tensor> {
        let tensor = |planned: PlannedTensor| {
            let mut data = Vec::new();
            planned.write(&mut data).expect("a vector takes all");
            Tensor { name: planned.name, format: planned.format, shape: planned.shape, data: data.into() }
        };
        self.plan().into_iter().map(tensor).collect()
    }

    /// The complete file. Panics if the model is invalid, or a row is not whole blocks.
    pub fn file(&self) -> Vec<u8> {
        write(&self.metadata(), &self.plan(), Vec::new()).expect("a model made of valid sizes")
    }

    /// Writes the complete file. Fails if a row is not whole blocks.
    pub fn write_to(&self, path: &Path) -> Result<(), WriteError> {
        write(&self.metadata(), &self.plan(), io::BufWriter::new(File::create(path)?)).map(drop)
    }
}

pub(crate) fn write<W: Write>(
    metadata: &Metadata,
    tensors: &[PlannedTensor],
    out: W,
) -> Result<W, WriteError> {
    let mut layout = Layout::new(metadata)?;
    for tensor in tensors {
        layout.tensor(tensor.name.as_str(), &tensor.shape, tensor.format)?;
    }
    let mut writer = layout.begin(out)?;
    for tensor in tensors {
        writer.tensor_with(&tensor.name, |out| tensor.write(out))?;
    }
    writer.finish()
}

pub(crate) const ROPE_FREQS: &str = "rope_freqs.weight";

#[derive(Clone, Debug)]
pub(crate) struct PlannedTensor {
    pub(crate) name: String,
    /// Fastest dimension first.
    pub(crate) shape: Vec<usize>,
    pub(crate) format: Format,
    content: Content,
    random: Random,
}

#[derive(Clone, Debug)]
enum Content {
    /// Normal distribution around 0 with this standard deviation.
    Normal(f32),
    /// Uniform distribution, up to a quarter of this mean to either side of it.
    Even(f32),
    Values(Vec<f32>),
}

impl PlannedTensor {
    pub(crate) fn values(&self) -> usize {
        self.shape.iter().product()
    }

    pub(crate) fn write(&self, out: &mut dyn Write) -> io::Result<()> {
        let PlannedTensor { format, random, .. } = *self;
        match &self.content {
            Content::Normal(deviation) => write_matrix(format, self.values(), *deviation, random, out),
            Content::Even(mean) => (0..self.values() as u64)
                .try_for_each(|i| out.write_all(&(mean * (0.75 + random.uniform(i) / 2.0)).to_le_bytes())),
            Content::Values(values) => {
                values.iter().try_for_each(|value| out.write_all(&value.to_le_bytes()))
            }
        }
    }
}

fn embedding_scale(graph: &Graph) -> f32 {
    let is_embedding = |x| matches!(graph.value(x).op, Op::Embed { .. });
    let factor = |op| {
        let Op::Map { x, map: Map::Scale(factor) } = op else { return None };
        is_embedding(x).then_some(factor)
    };
    graph.values().find_map(|(_, value)| factor(value.op)).unwrap_or(1.0)
}

/// The tensor of the norm before the logits; empty if there is none.
fn last_norm(graph: &Graph) -> &str {
    let norm = ["result_norm_w", "result_norm"].into_iter().find_map(|name| graph.find(name));
    let weight = norm.and_then(|norm| graph.value(norm).op.weights().next());
    weight.map_or("", |(weight, _)| &graph.weight(weight).tensor)
}

fn logit_scale(graph: &Graph) -> f32 {
    if let Op::Map { map: Map::Scale(factor), .. } = graph.value(graph.output()).op { factor } else { 1.0 }
}

/// The standard deviation of a matrix that preserves the scale of its input.
fn deviation(inputs: u32) -> f32 {
    1.0 / (inputs as f32).sqrt()
}
