//! All models with [`goldens`]: random weights in all formats, and the demo model.

use quant::Format;

use crate::fixtures::{self, Spec};
use crate::goldens::{self, POSITIONS};

/// A model and the token sequences of its goldens.
pub struct Case {
    /// Name of the goldens.
    pub name: String,
    /// Whether the weights are floating-point.
    pub is_float: bool,
    /// Whether the model has experts. Rounding may change the choice of experts, so a few positions may differ widely.
    pub has_experts: bool,
    source: Source,
}

enum Source {
    Random(Box<Spec>),
    Demo(&'static [u8]),
}

impl Case {
    /// The GGUF file.
    pub fn file(&self) -> Vec<u8> {
        match &self.source {
            Source::Random(spec) => spec.file(),
            Source::Demo(file) => file.to_vec(),
        }
    }

    /// The token sequences, each from position 0.
    pub fn tokens(&self) -> Vec<[u32; POSITIONS]> {
        match self.source {
            Source::Random(_) => goldens::tokens(),
            Source::Demo(_) => goldens::demo_tokens(),
        }
    }
}

/// All cases.
pub fn cases() -> Vec<Case> {
    let random = fixtures::models().into_iter().map(|(name, spec)| Case {
        name,
        is_float: spec.format.block_len() == 1,
        has_experts: spec.experts.is_some(),
        source: Source::Random(Box::new(spec)),
    });
    let demo = |format: Format, file| Case {
        name: format!("demo-{}", format.name().to_lowercase()),
        is_float: format.block_len() == 1,
        has_experts: false,
        source: Source::Demo(file),
    };
    let demo = [demo(Format::F16, demo_model::MASTER_F16), demo(Format::Q6_K, demo_model::EMBEDDED)];
    random.chain(demo).collect()
}
