//! The shapes of real models: hyper-parameters as their authors published them.

use std::fmt;
use std::io::Write;
use std::num::NonZeroU32;
use std::str::FromStr;

use gguf::{Gguf, Metadata, WriteError};
use quant::Format;
use quant::mix::{Facts, Mix, choose};

use crate::spec::{PlannedTensor, ROPE_FREQS, RopeFreqs, RopeScaling, Spec, write};
use crate::vocabulary::Vocabulary;

const RANDOM: &str = ", random weights";

/// The shape of a real model.
#[derive(Debug, PartialEq)]
pub struct Shape {
    /// The model's name.
    pub name: &'static str,
    spec: Spec,
}

static SHAPES: [Shape; 14] = [
    shape("stories260k", Spec { vocab: 512, tied: true, ..LLAMA_2 }, [5, 64, 172, 8, 4, 8, 512]),
    shape("stories15m", Spec { tied: true, ..LLAMA_2 }, [6, 288, 768, 6, 6, 48, 256]),
    shape("qwen2.5-0.5b", QWEN_2_5, [24, 896, 4864, 14, 2, 64, 32768]),
    shape("qwen3-0.6b", QWEN_3, [28, 1024, 3072, 16, 8, 128, 40960]),
    shape("gemma-3-1b", GEMMA_3, [26, 1152, 6912, 4, 1, 256, 32768]),
    shape("tinyllama-1.1b", LLAMA_2, [22, 2048, 5632, 32, 4, 64, 2048]),
    shape("llama-3.2-1b", LLAMA_3_2, [16, 2048, 8192, 32, 8, 64, 131_072]),
    shape("llama-3.2-3b", LLAMA_3_2, [28, 3072, 8192, 24, 8, 128, 131_072]),
    shape(
        "gemma-3-4b",
        Spec { rope_scaling: Some(RopeScaling::Linear(8.0)), window: Some(1024), ..GEMMA_3 },
        [34, 2560, 10240, 8, 4, 256, 131_072],
    ),
    shape("llama-2-7b", LLAMA_2, [32, 4096, 11008, 32, 32, 128, 4096]),
    shape("llama-3-8b", LLAMA_3, [32, 4096, 14336, 32, 8, 128, 8192]),
    shape(
        "qwen3-30b-a3b",
        Spec { architecture: "qwen3moe", experts: Some([128, 8]), tied: false, ..QWEN_3 },
        [48, 2048, 768, 32, 4, 128, 40960],
    ),
    shape("gpt-oss-20b", GPT_OSS, [24, 2880, 2880, 64, 8, 64, 131_072]),
    shape(
        "mixtral-8x7b",
        Spec { experts: Some([8, 2]), rope_base: 1e6, ..LLAMA_2 },
        [32, 4096, 14336, 32, 8, 128, 32768],
    ),
];

const fn shape(
    name: &'static str,
    family: Spec,
    [layers, hidden, ffn, heads, kv_heads, head_length, context]: [u32; 7],
) -> Shape {
    let head_length = Some(head_length);
    Shape { name, spec: Spec { layers, hidden, ffn, heads, kv_heads, head_length, context, ..family } }
}

/// Llama 2 (Touvron et al. 2023).
const LLAMA_2: Spec = Spec { vocab: 32000, vocabulary: Vocabulary::Llama2, ..Spec::new(Format::F32) };

/// Llama 3 (Grattafiori et al. 2024).
const LLAMA_3: Spec =
    Spec { vocab: 128_256, rope_base: 500_000.0, vocabulary: Vocabulary::Llama3, ..Spec::new(Format::F32) };

const LLAMA_3_2: Spec = Spec { tied: true, rope_freqs: RopeFreqs::Llama3(32.0), ..LLAMA_3 };

/// Qwen 2.5 (Yang et al. 2024).
const QWEN_2_5: Spec = Spec {
    architecture: "qwen2",
    vocab: 151_936,
    rms_eps: 1e-6,
    rope_base: 1e6,
    tied: true,
    biases: "attn_q attn_k attn_v",
    vocabulary: Vocabulary::Qwen2,
    ..Spec::new(Format::F32)
};

/// Qwen 3 (Yang et al. 2025).
const QWEN_3: Spec = Spec { architecture: "qwen3", biases: "", ..QWEN_2_5 };

/// Gemma 3 (Gemma Team 2025).
const GEMMA_3: Spec = Spec {
    architecture: "gemma3",
    vocab: 262_144,
    window: Some(512),
    biases: "",
    vocabulary: Vocabulary::Llama2,
    ..QWEN_2_5
};

/// gpt-oss (OpenAI 2025).
const GPT_OSS: Spec = Spec {
    architecture: "gpt-oss",
    experts: Some([32, 4]),
    vocab: 201_088,
    rope_base: 150_000.0,
    rope_scaling: Some(RopeScaling::Yarn(32.0, 4096)),
    window: Some(128),
    biases: "attn_q attn_k attn_v attn_output ffn_gate_inp ffn_gate_exps",
    optional: "attn_sinks.weight",
    keys: &["expert_feed_forward_length=2880"],
    vocabulary: Vocabulary::GptOss,
    ..Spec::new(Format::F32)
};

const ALIASES: [(&str, &str); 3] =
    [("llama-8b", "llama-3-8b"), ("llama-7b", "llama-2-7b"), ("tinyllama", "tinyllama-1.1b")];

impl Shape {
    /// All names, separated by commas.
    pub fn names() -> String {
        SHAPES.iter().map(|shape| shape.name).collect::<Vec<_>>().join(", ")
    }
}

impl FromStr for &'static Shape {
    type Err = String;

    fn from_str(name: &str) -> Result<&'static Shape, String> {
        let lower = name.to_lowercase();
        let full = ALIASES.iter().find(|(alias, _)| *alias == lower).map_or(&*lower, |(_, full)| *full);
        let found = SHAPES.iter().find(|shape| shape.name == full);
        found.ok_or_else(|| format!("no shape {name:?}; there are {}", Shape::names()))
    }
}

/// A shape and the formats of its weights, such as `llama-3.2-1b:Q8_0`.
#[derive(Clone, Copy, Debug)]
pub struct Synth {
    /// The shape.
    pub shape: &'static Shape,
    /// Number of layers; the shape's if `None`.
    pub layers: Option<NonZeroU32>,
    /// The formats of its tensors.
    pub mix: Mix,
}

impl fmt::Display for Synth {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.shape.name, self.mix)?;
        self.layers.map_or(Ok(()), |layers| write!(f, " of {layers} layers"))
    }
}

impl FromStr for Synth {
    type Err = String;

    fn from_str(text: &str) -> Result<Synth, String> {
        let example = "such as llama-3.2-1b:Q8_0";
        let (shape, mix) = text.split_once(':').ok_or_else(|| format!("expected SHAPE:TYPE, {example}"))?;
        Ok(Synth { mix: mix.parse()?, layers: None, shape: shape.parse()? })
    }
}

impl Synth {
    fn spec(&self) -> Spec {
        let spec = &self.shape.spec;
        Spec { layers: self.layers.map_or(spec.layers, NonZeroU32::get), ..spec.clone() }
    }

    /// The number of parameters, as in the names of models.
    pub fn parameters(&self) -> usize {
        let tensors = self.spec().plan().into_iter().filter(|tensor| tensor.name != ROPE_FREQS);
        tensors.map(|tensor| tensor.values()).sum()
    }

    /// Writes the file.
    pub fn write(&self, out: impl Write) -> Result<(), WriteError> {
        write(&self.metadata(), &self.tensors(), out).map(drop)
    }

    /// Whether `file` was written by [`Synth::write`].
    pub fn wrote(file: &Gguf) -> bool {
        let name = file.metadata().str("general.name");
        name.is_ok_and(|name| name.is_some_and(|name| name.ends_with(RANDOM)))
    }

    fn tensors(&self) -> Vec<PlannedTensor> {
        let spec = self.spec();
        let facts = Facts {
            architecture: spec.architecture,
            layers: spec.layers as usize,
            heads: spec.heads as usize,
            kv_heads: spec.kv_heads as usize,
            experts: spec.experts.map_or(0, |[experts, _]| experts as usize),
            tied: spec.tied,
            imatrix: false,
            pure: false,
        };
        let mut tensors = spec.plan();
        for tensor in &mut tensors {
            tensor.format = choose(self.mix, &tensor.name, &tensor.shape, &facts).unwrap_or(tensor.format);
        }
        tensors
    }

    fn metadata(&self) -> Metadata {
        let mut metadata = self.spec().metadata();
        metadata.insert("general.name", format!("{}{RANDOM}", self.shape.name));
        metadata.insert("general.file_type", self.mix.file_type());
        metadata
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn shape(name: &str) -> &'static Shape {
        name.parse().expect("a shape")
    }

    fn synth(name: &str, mix: Mix) -> Synth {
        Synth { shape: shape(name), layers: None, mix }
    }

    /// From the model cards; for `stories` from karpathy/llama2.c's checkpoints; of Gemma 3 4B without vision.
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
            ("mixtral-8x7b", 46_702_792_704),
            ("gpt-oss-20b", 20_914_757_184),
            ("gemma-3-1b", 999_885_952),
            ("gemma-3-4b", 3_880_099_328),
        ] {
            assert_eq!(synth(name, Mix::F32).parameters(), parameters, "{name}");
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

    /// `_compute_llama3_parameters` of transformers for Llama 3.2 1B: the first 15 wavelengths are short enough, the last 13 or
    /// so are too long.
    #[test]
    fn long_waves_are_stretched() {
        let factors = shape("llama-3.2-1b").spec.rope_factors(ROPE_FREQS);
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
        let tensors = synth("tinyllama-1.1b", Mix::Q4_K_M).tensors();
        let bytes =
            |tensor: &PlannedTensor| tensor.format.bytes_for(tensor.values() as u64).expect("whole blocks");
        assert_eq!(tensors.iter().map(bytes).sum::<u64>(), 667_078_656);
        assert_eq!(tensors.last().map(|tensor| tensor.format), Some(Format::Q6_K));

        let tensors = synth("qwen2.5-0.5b", Mix::Q4_K_M).tensors();
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
