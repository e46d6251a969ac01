//! Model families: from a file's metadata to hyper-parameters and a graph.
//!
//! A model file becomes a [`Model`]: hyper-parameters that have been checked, and the graph that computes logits from
//! them. Each [`Family`] is a file under `families` that reads like its paper, made of the shared `blocks`; weights are
//! named as in the file. Every metadata key of the architecture is read by its family, declared harmless by it, or
//! refused by name.

mod blocks;
mod config;
mod error;
mod families;
mod keys;

use std::collections::HashSet;

use gguf::{Gguf, Metadata, Value};
use graph::Graph;

pub use config::Config;
pub use error::Error;
pub use families::Family;

use keys::Keys;

/// Whether there is a tensor of this name.
pub(crate) type Tensors<'a> = &'a dyn Fn(&str) -> bool;

/// A model that can be computed: its hyper-parameters and its graph.
#[derive(Debug)]
pub struct Model {
    /// Hyper-parameters.
    pub config: Config,
    /// From tokens to logits.
    pub graph: Graph,
}

impl Model {
    /// Reads the hyper-parameters of `file`, builds its graph and checks that the file holds the
    /// tensors of the graph and no other.
    ///
    /// # Errors
    /// When the architecture is not supported, a key is missing, absurd or unknown, or a tensor is missing, of
    /// another shape, or not used by the graph.
    pub fn new(file: &Gguf) -> Result<Model, Error> {
        let family = family(file.metadata())?;
        if file.tensors().len() == 0 {
            return Err(Error::NoTensors);
        }
        let model = build(family, file.metadata(), &|name| file.tensor(name).is_some())?;
        let mut used = HashSet::new();
        for (_, weight) in model.graph.weights() {
            let (name, expected) = (&weight.tensor, weight.tensor_shape());
            let Some(tensor) = file.tensor(name) else {
                return Err(Error::MissingTensor { name: name.clone(), expected });
            };
            let mut found = tensor.shape.clone();
            while found.len() > 1 && found.last() == Some(&1) {
                found.pop();
            }
            if found != expected {
                return Err(Error::TensorShape { name: name.clone(), found: tensor.shape.clone(), expected });
            }
            used.insert(name.as_str());
        }
        match file.tensors().find(|tensor| !used.contains(tensor.name.as_str())) {
            Some(tensor) => {
                Err(Error::UnusedTensor { name: tensor.name.clone(), architecture: family.name() })
            }
            None => Ok(model),
        }
    }

    /// The model that `metadata` describes, where `has` says which tensors there are: a family's optional ones, and
    /// `blk.N.attn_norm.weight` of every layer. The graph's list of weights is the list of the tensors of its file.
    ///
    /// # Errors
    /// When the architecture is not supported, or a key is missing, absurd or unknown.
    pub fn of(metadata: &Metadata, has: &dyn Fn(&str) -> bool) -> Result<Model, Error> {
        build(family(metadata)?, metadata, has)
    }
}

/// The family that `general.architecture` names.
fn family(metadata: &Metadata) -> Result<&'static Family, Error> {
    let key = "general.architecture";
    let name = metadata.str(key)?;
    let name = name.ok_or_else(|| Error::MissingKey { key: key.to_owned(), what: "the model's family" })?;
    let found = || Value::String(name.to_owned()).to_string();
    Family::from_name(name).ok_or_else(|| Error::Architecture { found: found(), supported: Family::names() })
}

fn build(family: &'static Family, metadata: &Metadata, has: Tensors<'_>) -> Result<Model, Error> {
    let mut keys = Keys::new(metadata, family.name(), family.harmless());
    let mut config = Config::read(&mut keys, has)?;
    let graph = family.graph(&config, &mut keys, has)?;
    config.hyper_parameters = keys.finish()?;
    Ok(Model { config, graph })
}
