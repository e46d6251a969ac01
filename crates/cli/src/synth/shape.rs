//! The shapes of real models: hyper-parameters as their authors published them. The tensors of a file are the weights of
//! the graph that these make.

use std::str::FromStr;

use gguf::{Metadata, Value};
use graph::{Role, Weight};
use models::{Family, Model};
use quant::Format;
use quantize::{Facts, Mix};

use super::vocabulary;

/// What the names of models of random weights end in.
pub(super) const RANDOM: &str = ", random weights";

/// The biases of Qwen 2.
const QKV_BIASES: [&str; 3] = [".attn_q.bias", ".attn_k.bias", ".attn_v.bias"];

/// The shape of a model.
#[derive(Debug, PartialEq)]
pub(crate) struct Shape {
    pub(crate) name: &'static str,
    architecture: &'static str,
    layers: usize,
    hidden: usize,
    ffn: usize,
    heads: usize,
    kv_heads: usize,
    head_dim: usize,
    vocab: usize,
    context: usize,
    rms_eps: f32,
    rope_base: f32,
    /// The embedding makes the logits, too.
    tied: bool,
    /// Longer contexts by factors of the angles, as Llama 3.1 and 3.2 have them: by how much.
    stretched: Option<f64>,
    /// Longer contexts by positions divided by so much, as Gemma 3 has them.
    rope_factor: Option<f32>,
    /// Experts of a layer, and those that a row uses; `ffn` is the width of one.
    experts: Option<[usize; 2]>,
    /// Positions that rows see in local layers.
    window: Option<usize>,
    tokenizer: vocabulary::Family,
}

/// All of them, by size.
pub(super) const SHAPES: [Shape; 12] = [
    Shape {
        name: "stories260k",
        hidden: 64,
        ffn: 172,
        layers: 5,
        heads: 8,
        kv_heads: 4,
        head_dim: 8,
        vocab: 512,
        context: 512,
        tied: true,
        ..LLAMA_2
    },
    Shape {
        name: "stories15m",
        hidden: 288,
        ffn: 768,
        layers: 6,
        heads: 6,
        kv_heads: 6,
        head_dim: 48,
        context: 256,
        tied: true,
        ..LLAMA_2
    },
    QWEN_2_5,
    QWEN_3,
    GEMMA_3,
    Shape {
        name: "tinyllama-1.1b",
        hidden: 2048,
        ffn: 5632,
        layers: 22,
        kv_heads: 4,
        head_dim: 64,
        context: 2048,
        ..LLAMA_2
    },
    Shape {
        name: "llama-3.2-1b",
        hidden: 2048,
        ffn: 8192,
        layers: 16,
        head_dim: 64,
        context: 131_072,
        tied: true,
        stretched: Some(32.0),
        ..LLAMA_3
    },
    Shape {
        name: "llama-3.2-3b",
        hidden: 3072,
        ffn: 8192,
        layers: 28,
        heads: 24,
        context: 131_072,
        tied: true,
        stretched: Some(32.0),
        ..LLAMA_3
    },
    Shape {
        name: "gemma-3-4b",
        layers: 34,
        hidden: 2560,
        ffn: 10240,
        heads: 8,
        kv_heads: 4,
        context: 131_072,
        rope_factor: Some(8.0),
        window: Some(1024),
        ..GEMMA_3
    },
    LLAMA_2,
    LLAMA_3,
    Shape {
        name: "qwen3-30b-a3b",
        architecture: "qwen3moe",
        layers: 48,
        hidden: 2048,
        ffn: 768,
        heads: 32,
        kv_heads: 4,
        experts: Some([128, 8]),
        tied: false,
        ..QWEN_3
    },
];

/// Llama 2, 7B (Touvron et al. 2023).
const LLAMA_2: Shape = Shape {
    name: "llama-2-7b",
    architecture: "llama",
    layers: 32,
    hidden: 4096,
    ffn: 11008,
    heads: 32,
    kv_heads: 32,
    head_dim: 128,
    vocab: 32000,
    context: 4096,
    rms_eps: 1e-5,
    rope_base: 10_000.0,
    tied: false,
    stretched: None,
    rope_factor: None,
    experts: None,
    window: None,
    tokenizer: vocabulary::Family::Llama2,
};

/// Llama 3, 8B (Grattafiori et al. 2024).
const LLAMA_3: Shape = Shape {
    name: "llama-3-8b",
    ffn: 14336,
    kv_heads: 8,
    vocab: 128_256,
    context: 8192,
    rope_base: 500_000.0,
    tokenizer: vocabulary::Family::Llama3,
    ..LLAMA_2
};

/// Qwen 2.5, 0.5B (Yang et al. 2024).
const QWEN_2_5: Shape = Shape {
    name: "qwen2.5-0.5b",
    architecture: "qwen2",
    layers: 24,
    hidden: 896,
    ffn: 4864,
    heads: 14,
    kv_heads: 2,
    head_dim: 64,
    vocab: 151_936,
    context: 32768,
    rms_eps: 1e-6,
    rope_base: 1e6,
    tied: true,
    stretched: None,
    rope_factor: None,
    experts: None,
    window: None,
    tokenizer: vocabulary::Family::Qwen2,
};

/// Qwen 3, 0.6B (Yang et al. 2025).
const QWEN_3: Shape = Shape {
    name: "qwen3-0.6b",
    architecture: "qwen3",
    layers: 28,
    hidden: 1024,
    ffn: 3072,
    heads: 16,
    kv_heads: 8,
    head_dim: 128,
    context: 40960,
    ..QWEN_2_5
};

/// Gemma 3, 1B (Gemma Team 2025).
const GEMMA_3: Shape = Shape {
    name: "gemma-3-1b",
    architecture: "gemma3",
    layers: 26,
    hidden: 1152,
    ffn: 6912,
    heads: 4,
    kv_heads: 1,
    head_dim: 256,
    vocab: 262_144,
    context: 32768,
    window: Some(512),
    tokenizer: vocabulary::Family::Llama2,
    ..QWEN_2_5
};

/// What else shapes are called.
const ALIASES: [(&str, &str); 3] =
    [("llama-8b", "llama-3-8b"), ("llama-7b", "llama-2-7b"), ("tinyllama", "tinyllama-1.1b")];

/// The names, for people.
pub(super) fn names() -> String {
    SHAPES.map(|shape| shape.name).join(", ")
}

impl FromStr for &'static Shape {
    type Err = String;

    fn from_str(name: &str) -> Result<&'static Shape, String> {
        let lower = name.to_lowercase();
        let full = ALIASES.iter().find(|(alias, _)| *alias == lower).map_or(&*lower, |(_, full)| *full);
        static ALL: [Shape; SHAPES.len()] = SHAPES;
        let found = ALL.iter().find(|shape| shape.name == full);
        found.ok_or_else(|| format!("no shape {name:?}; there are {}", names()))
    }
}

/// A tensor of the file.
pub(super) struct Planned {
    pub(super) name: String,
    /// Fastest dimension first.
    pub(super) shape: Vec<usize>,
    pub(super) format: Format,
    pub(super) content: Content,
}

/// What is in a tensor.
pub(super) enum Content {
    /// Random numbers.
    Random,
    /// These, in F32.
    Values(Vec<f32>),
}

impl Shape {
    /// Parameters, as models are named by them.
    pub(crate) fn parameters(&self) -> usize {
        let tensors = self.tensors(Mix::F32).into_iter().filter(|tensor| tensor.name != ROPE_FREQS);
        tensors.map(|tensor| tensor.shape.iter().product::<usize>()).sum()
    }

    /// The tensors in the order of the file: the weights of the graph.
    pub(super) fn tensors(&self, mix: Mix) -> Vec<Planned> {
        let family = Family::from_name(self.architecture).expect("shapes are of families that are built");
        let facts = Facts {
            architecture: family,
            layers: self.layers,
            heads: self.heads,
            kv_heads: self.kv_heads,
            tied: self.tied,
            imatrix: false,
            pure: false,
        };
        let has = |name: &str| match name {
            "output.weight" => !self.tied,
            ROPE_FREQS => self.stretched.is_some(),
            _ if self.architecture == "qwen2" && QKV_BIASES.iter().any(|bias| name.ends_with(bias)) => true,
            _ => name.ends_with(".attn_norm.weight"),
        };
        let graph = Model::of(&self.hyper_parameters(), &has).expect("shapes are of real models").graph;
        let weights = graph.weights().zip(graph.roles());
        weights.map(|((_, weight), roles)| self.planned(weight, &roles, mix, &facts)).collect()
    }

    /// The tensor of a weight: norms are 1, so that what they make is as large as what they are given.
    fn planned(&self, weight: &Weight, roles: &[Role], mix: Mix, facts: &Facts) -> Planned {
        let (name, shape) = (weight.tensor.clone(), weight.tensor_shape());
        let format = quantize::choose(mix, &name, &shape, facts).unwrap_or(Format::F32);
        let content = match self.stretched {
            Some(factor) if name == ROPE_FREQS => Content::Values(self.rope_factors(factor)),
            _ if roles == [Role::Vector] && name.ends_with("_norm.weight") => {
                Content::Values(vec![1.0; weight.cols])
            }
            _ => Content::Random,
        };
        Planned { name, shape, format, content }
    }

    /// All that the file says beside its tensors.
    pub(super) fn metadata(&self, mix: Mix) -> Metadata {
        let mut metadata = Metadata::default();
        metadata.insert("general.architecture", Value::String(self.architecture.into()));
        metadata.insert("general.name", Value::String(format!("{}{RANDOM}", self.name)));
        metadata.insert("general.file_type", Value::U32(mix.file_type()));
        metadata.insert("general.quantization_version", Value::U32(2));
        for (key, value) in self.hyper_parameters().iter() {
            metadata.insert(key, value.clone());
        }
        self.tokenizer.describe(self.vocab, &mut metadata);
        metadata
    }

    /// What decides which tensors there are.
    fn hyper_parameters(&self) -> Metadata {
        let (mut metadata, architecture) = (Metadata::default(), self.architecture);
        metadata.insert("general.architecture", Value::String(architecture.into()));
        let [experts, experts_used] = self.experts.map_or([None; 2], |counts| counts.map(Some));
        let (dense, own) =
            if self.experts.is_some() { (None, Some(self.ffn)) } else { (Some(self.ffn), None) };
        for (key, size) in [
            ("block_count", Some(self.layers)),
            ("context_length", Some(self.context)),
            ("embedding_length", Some(self.hidden)),
            ("feed_forward_length", dense),
            ("expert_feed_forward_length", own),
            ("expert_count", experts),
            ("expert_used_count", experts_used),
            ("attention.head_count", Some(self.heads)),
            ("attention.head_count_kv", Some(self.kv_heads)),
            ("attention.key_length", Some(self.head_dim)),
            ("attention.value_length", Some(self.head_dim)),
            ("attention.sliding_window", self.window),
            ("rope.dimension_count", Some(self.head_dim)),
            ("vocab_size", Some(self.vocab)),
        ] {
            if let Some(size) = size {
                let size = Value::U32(u32::try_from(size).unwrap_or(u32::MAX));
                metadata.insert(format!("{architecture}.{key}"), size);
            }
        }
        metadata.insert(format!("{architecture}.attention.layer_norm_rms_epsilon"), Value::F32(self.rms_eps));
        metadata.insert(format!("{architecture}.rope.freq_base"), Value::F32(self.rope_base));
        if let Some(factor) = self.rope_factor {
            metadata.insert(format!("{architecture}.rope.scaling.type"), Value::String("linear".into()));
            metadata.insert(format!("{architecture}.rope.scaling.factor"), Value::F32(factor));
        }
        metadata
    }

    /// Divisors of the angles: 1 for short waves, `factor` for those longer than the 8192 tokens that the
    /// model was first trained on, between them from a quarter of these on (`llama3` of `modeling_rope_utils`
    /// in transformers).
    fn rope_factors(&self, factor: f64) -> Vec<f32> {
        let of_pair = |pair: usize| {
            let exponent = 2.0 * pair as f64 / self.head_dim as f64;
            let waves = 8192.0 / (std::f64::consts::TAU * f64::from(self.rope_base).powf(exponent));
            let smooth = ((waves - 1.0) / 3.0).clamp(0.0, 1.0);
            (1.0 / ((1.0 - smooth) / factor + smooth)) as f32
        };
        (0..self.head_dim / 2).map(of_pair).collect()
    }
}

const ROPE_FREQS: &str = "rope_freqs.weight";

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn shape(name: &str) -> &'static Shape {
        name.parse().expect("a shape")
    }

    /// As the model cards count them, and for the two `stories` karpathy/llama2.c's checkpoints do; of Gemma 3 4B the text
    /// alone.
    #[test]
    fn shapes_have_as_many_parameters_as_was_published() {
        for (name, parameters) in [
            ("stories260k", 260_032),
            ("stories15m", 15_191_712),
            ("qwen2.5-0.5b", 494_032_768),
            ("tinyllama-1.1b", 1_100_048_384),
            ("llama-3.2-1b", 1_235_814_400),
            ("llama-3.2-3b", 3_212_749_824),
            ("llama-2-7b", 6_738_415_616),
            ("llama-3-8b", 8_030_261_248),
            ("qwen3-0.6b", 596_049_920),
            ("qwen3-30b-a3b", 30_532_122_624),
            ("gemma-3-1b", 999_885_952),
            ("gemma-3-4b", 3_880_099_328),
        ] {
            assert_eq!(shape(name).parameters(), parameters, "{name}");
        }
    }

    #[test]
    fn names_are_found_and_mistakes_answered() {
        assert_eq!(shape("llama-8b"), shape("llama-3-8b"));
        assert_eq!(shape("TinyLlama-1.1B").name, "tinyllama-1.1b");
        let error = <&Shape>::from_str("gemma-2b").expect_err("is not there");
        assert!(
            error.contains("\"gemma-2b\"; there are stories260k, stories15m, qwen2.5-0.5b, qwen3-0.6b"),
            "{error}"
        );
    }

    /// transformers' `_compute_llama3_parameters` for Llama 3.2 1B: the first 15 waves are short enough, the
    /// last 13 or so too long.
    #[test]
    fn long_waves_are_stretched() {
        let factors = shape("llama-3.2-1b").rope_factors(32.0);
        assert_eq!(factors.len(), 32);
        assert_eq!((factors[0], factors[31]), (1.0, 32.0));
        assert!(factors.is_sorted(), "{factors:?}");
        // theta^(-30/64) makes waves of 2 pi * 500000^(30/64) = 2948 tokens, 8192 / 2948 = 2.779 a context:
        // smooth = 1.779 / 3 = 0.593, divisor 1 / (0.407 / 32 + 0.593) = 1.651.
        assert!((factors[15] - 1.651).abs() < 2e-3, "{factors:?}");
    }

    /// llama.cpp's `llama_model_quantize` makes so many bytes of tensors of these shapes, and of the second in these
    /// formats: rows of 896 values are no whole blocks of 256.
    #[test]
    fn a_mix_has_the_formats_of_the_real_file() {
        let tensors = shape("tinyllama-1.1b").tensors(Mix::Q4_K_M);
        let bytes = |tensor: &Planned| {
            let values = tensor.shape.iter().product::<usize>() as u64;
            tensor.format.bytes_for(values).expect("whole blocks")
        };
        assert_eq!(tensors.iter().map(bytes).sum::<u64>(), 667_078_656);
        assert_eq!(tensors.last().map(|tensor| tensor.format), Some(Format::Q6_K));

        let tensors = shape("qwen2.5-0.5b").tensors(Mix::Q4_K_M);
        assert_eq!(tensors.iter().map(bytes).sum::<u64>(), 391_859_712);
        for (format, expected) in [
            (Format::Q5_0, 132),
            (Format::F32, 121),
            (Format::Q8_0, 13),
            (Format::Q6_K, 12),
            (Format::Q4_K, 12),
        ] {
            let found = tensors.iter().filter(|tensor| tensor.format == format).count();
            assert_eq!(found, expected, "{format}");
        }
    }
}
