//! The families that are built, one file each.

mod gemma3;
mod llama;
mod qwen2;
mod qwen3;
mod qwen3moe;

use std::fmt;

use graph::Graph;

use crate::{Config, Error, Keys, Tensors};

/// The registry.
static FAMILIES: &[Family] = &[llama::FAMILY, qwen2::FAMILY, qwen3::FAMILY, qwen3moe::FAMILY, gemma3::FAMILY];

/// A family of models, as `general.architecture` names it.
#[derive(Debug)]
pub struct Family {
    name: &'static str,
    /// Keys that its files carry and that change nothing.
    harmless: &'static [&'static str],
    /// The graph from tokens to logits, and all keys that it depends on.
    graph: Build,
}

type Build = fn(&Config, &mut Keys<'_>, Tensors<'_>) -> Result<Graph, Error>;

impl Family {
    /// All of them.
    pub fn all() -> impl ExactSizeIterator<Item = &'static Family> {
        FAMILIES.iter()
    }

    /// The family that `general.architecture` names, if it is built.
    pub fn from_name(name: &str) -> Option<&'static Family> {
        Family::all().find(|family| family.name == name)
    }

    /// The names of all, for people.
    pub fn names() -> String {
        Family::all().map(Family::name).collect::<Vec<_>>().join(", ")
    }

    /// Its name, which is also what its keys begin with, such as `qwen2.block_count`.
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// Keys, without the name before them, that its files carry, that no line of it reads and that change nothing in
    /// what it computes.
    pub fn harmless(&self) -> &'static [&'static str] {
        self.harmless
    }

    pub(crate) fn graph(
        &self,
        c: &Config,
        keys: &mut Keys<'_>,
        tensors: Tensors<'_>,
    ) -> Result<Graph, Error> {
        (self.graph)(c, keys, tensors)
    }
}

impl fmt::Display for Family {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name)
    }
}
