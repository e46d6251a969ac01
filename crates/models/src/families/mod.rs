//! The supported families, one file each.

mod gemma3;
mod llama;
mod qwen2;
mod qwen3;
mod qwen3moe;

use std::fmt;

use graph::Graph;

use crate::{Config, Error, Keys, Tensors};

static FAMILIES: &[Family] = &[llama::FAMILY, qwen2::FAMILY, qwen3::FAMILY, qwen3moe::FAMILY, gemma3::FAMILY];

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
