//! The supported families, one file each.

mod command_r;
mod deepseek2;
mod gemma2;
mod gemma3;
mod gemma4;
mod glm4;
mod glm4moe;
mod gpt_oss;
mod granite;
mod hunyuan_moe;
mod llama;
mod minimax_m2;
mod olmo2;
mod phi3;
mod qwen2;
mod qwen2moe;
mod qwen3;
mod qwen3moe;
mod smollm3;
mod stablelm;
mod starcoder2;

use std::fmt;

use graph::Graph;

use crate::{Config, Error, Keys, Tensors};

static FAMILIES: &[Family] = &[
    llama::LLAMA,
    llama::MISTRAL3,
    qwen2::FAMILY,
    qwen2moe::FAMILY,
    qwen3::QWEN3,
    qwen3::QWEN3VL,
    qwen3moe::FAMILY,
    gemma2::FAMILY,
    gemma3::FAMILY,
    gemma4::FAMILY,
    qwen2::ERNIE_4_5,
    glm4::FAMILY,
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
    glm4moe::FAMILY,
    minimax_m2::FAMILY,
    hunyuan_moe::FAMILY,
];

/// A model family, identified by `general.architecture`.
#[derive(Debug)]
pub struct Family {
    /// The name, which is also the prefix of its keys, such as `qwen2.block_count`.
    pub name: &'static str,
    /// Keys, without the prefix, that occur in files of the family, that it does not read, and that do not affect the
    /// computation.
    pub harmless: &'static [&'static str],
    /// Builds the graph from tokens to logits and reads all keys that it depends on.
    pub(crate) graph: Build,
}

type Build = fn(&Config, &mut Keys<'_>, Tensors<'_>) -> Result<Graph, Error>;

impl Family {
    /// All families.
    pub fn all() -> impl ExactSizeIterator<Item = &'static Family> {
        FAMILIES.iter()
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
