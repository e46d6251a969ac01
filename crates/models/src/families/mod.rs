//! The supported families, one file each.

mod bert;
mod command_r;
mod deepseek2;
mod falcon_h1;
mod gemma2;
mod gemma3;
mod gemma4;
mod glm;
mod gpt_oss;
mod granite;
mod hunyuan_moe;
mod lfm2;
mod llama;
mod llama4;
mod mamba2;
mod minimax_m2;
mod modern_bert;
mod nemotron_h;
mod olmo2;
mod phi3;
mod qwen2;
mod qwen3;
mod qwen35;
mod smollm3;
mod stablelm;
mod starcoder2;

use std::fmt;

use graph::Graph;

use crate::{Config, Error, Keys, Tensors};

/// The imports of every family file.
mod prelude {
    pub(super) use graph::{Activation, Gating, Glu, Graph, Mask, NormKind, Pairing, Pool, Rope, ValueId};

    pub(super) use super::Family;
    pub(super) use crate::blocks::{
        Attention, DeltaNet, GraphContext, Growth, LINEAR_OR_YARN, Latent, Layer, Linear, Mamba, Mixer, Moe,
        PRE_NORM, QkNorm, SCALINGS, Scaling, SharedAttention, ShortConv, check_sections, full_mask, labels,
        mixer_layer, original_context,
    };
    pub(super) use crate::{Config, Error, Keys, Tensors, UNUSED};
}

static FAMILIES: &[Family] = &[
    llama::LLAMA,
    llama::MISTRAL3,
    llama4::FAMILY,
    qwen2::QWEN2,
    qwen2::QWEN2MOE,
    qwen3::QWEN3,
    qwen3::QWEN3VL,
    qwen3::QWEN3MOE,
    qwen35::QWEN35,
    qwen35::QWEN35MOE,
    qwen35::QWEN3NEXT,
    gemma2::FAMILY,
    gemma3::FAMILY,
    gemma4::FAMILY,
    qwen2::ERNIE_4_5,
    glm::GLM4,
    granite::GRANITE,
    granite::GRANITEMOE,
    olmo2::FAMILY,
    phi3::FAMILY,
    smollm3::FAMILY,
    command_r::COMMAND_R,
    command_r::COHERE2,
    starcoder2::FAMILY,
    stablelm::FAMILY,
    gpt_oss::FAMILY,
    deepseek2::FAMILY,
    glm::GLM4MOE,
    minimax_m2::FAMILY,
    hunyuan_moe::FAMILY,
    lfm2::LFM2,
    lfm2::LFM2MOE,
    mamba2::FAMILY,
    granite::GRANITEHYBRID,
    falcon_h1::FAMILY,
    nemotron_h::NEMOTRON_H,
    nemotron_h::NEMOTRON_H_MOE,
];

/// Those whose result is embeddings.
static ENCODERS: &[Family] = &[
    bert::BERT,
    bert::NOMIC_BERT,
    bert::NOMIC_BERT_MOE,
    bert::JINA_BERT_V2,
    modern_bert::FAMILY,
    gemma3::EMBEDDING,
];

/// A model family, identified by `general.architecture`.
#[derive(Debug)]
pub struct Family {
    /// The name, which is also the prefix of its keys, such as `qwen2.block_count`.
    pub name: &'static str,
    /// Keys, without the prefix, of the family's files that it does not read and that do not affect the computation.
    pub harmless: &'static [&'static str],
    /// Builds the graph from tokens to logits or embeddings and reads all keys that it depends on.
    pub(crate) graph: Build,
}

type Build = fn(&Config, &mut Keys<'_>, Tensors<'_>) -> Result<Graph, Error>;

impl Family {
    /// All families.
    pub fn all() -> impl Iterator<Item = &'static Family> {
        FAMILIES.iter().chain(ENCODERS)
    }

    /// Whether its models compute logits, and not only embeddings.
    pub fn is_decoder(&self) -> bool {
        FAMILIES.iter().any(|family| family.name == self.name)
    }

    /// The family of an architecture name, if supported.
    pub fn from_name(name: &str) -> Option<&'static Family> {
        Family::all().find(|family| family.name == name)
    }

    /// The names of all families, for messages.
    pub fn names() -> String {
        Family::all().map(|family| family.name).collect::<Vec<_>>().join(", ")
    }
}

impl fmt::Display for Family {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name)
    }
}
