//! Model families: configuration and graph.
//!
//! A model file becomes a [`Model`]: hyper-parameters that have been checked, and the graph that
//! computes logits from them. Weights are named as in the file. What would change the computation and
//! is not understood is refused by name.

mod architecture;
mod config;
mod error;
mod llama;

use std::collections::HashSet;

use gguf::Gguf;
use graph::Graph;

pub use architecture::Architecture;
pub use config::{Config, RopeScaling};
pub use error::Error;

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
    /// When the architecture is not supported, a key is missing or absurd, or a tensor is missing, of
    /// another shape, or not used by the graph.
    pub fn new(file: &Gguf) -> Result<Model, Error> {
        let config = Config::new(file)?;
        let graph = llama::graph(&config, |name| file.tensor(name).is_some());
        let mut used = HashSet::new();
        for (_, weight) in graph.weights() {
            let expected = if weight.rows == 1 { vec![weight.cols] } else { vec![weight.cols, weight.rows] };
            let tensor = file.tensor(&weight.name).ok_or_else(|| Error::MissingTensor {
                name: weight.name.clone(),
                expected: expected.clone(),
            })?;
            let mut found = tensor.shape.clone();
            while found.len() > 1 && found.last() == Some(&1) {
                found.pop();
            }
            if found != expected {
                return Err(Error::TensorShape {
                    name: weight.name.clone(),
                    found: tensor.shape.clone(),
                    expected,
                });
            }
            used.insert(weight.name.as_str());
        }
        match file.tensors().find(|tensor| !used.contains(tensor.name.as_str())) {
            Some(tensor) => {
                Err(Error::UnusedTensor { name: tensor.name.clone(), architecture: config.architecture })
            }
            None => Ok(Model { config, graph }),
        }
    }
}
