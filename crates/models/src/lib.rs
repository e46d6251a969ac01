//! Model families: from the metadata of a file to hyper-parameters and a graph.
//!
//! A [`Model`] has validated hyper-parameters and the graph that computes its logits. Each [`Family`] is one file under
//! `families` that reads like its paper, built from the shared `blocks`; weights are named as in the file. Every
//! metadata key of the architecture is read by its family, declared harmless by it, or refused by name.

mod blocks;
mod config;
mod error;
mod families;
mod keys;
mod pooling;

use std::collections::HashSet;

use gguf::{Gguf, Metadata, Value};
use graph::Graph;

pub use config::Config;
pub use error::Error;
pub use families::Family;
pub use pooling::Pooling;

use keys::Keys;

/// Whether the file has a tensor of this name.
pub(crate) type Tensors<'a> = &'a dyn Fn(&str) -> bool;

/// A supported model: hyper-parameters and graph.
#[derive(Debug)]
pub struct Model {
    /// Hyper-parameters.
    pub config: Config,
    /// The graph from tokens to logits or embeddings.
    pub graph: Graph,
}

impl Model {
    /// Reads the hyper-parameters of `file`, builds its graph, and checks that the file has exactly its tensors. Fails if the
    /// architecture is not supported, or a key or tensor is missing, invalid or unknown; multi-token prediction, and encoders of pictures and
    /// sound, may be unused.
    pub fn new(file: &Gguf) -> Result<Model, Error> {
        Model::read(file, Task::Default)
    }

    /// The same for embeddings in place of logits, with the file's pooling unless another one is requested.
    pub fn embedding(file: &Gguf, pooling: Option<Pooling>) -> Result<Model, Error> {
        Model::read(file, Task::Embed(pooling))
    }

    fn read(file: &Gguf, task: Task) -> Result<Model, Error> {
        let family = family(file.metadata())?;
        if file.tensors().len() == 0 {
            return Err(Error::NoTensors);
        }
        let model = build(family, file.metadata(), &|name| file.tensor(name).is_some(), task)?;
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
        let Config { block_count, prediction_blocks, .. } = model.config;
        let is_prediction = |name: &str| {
            let block = name.strip_prefix("blk.").and_then(|name| name.split('.').next()?.parse().ok());
            block.is_some_and(|block: usize| (block_count..block_count + prediction_blocks).contains(&block))
        };
        // Scales of 4-bit activations, which no backend has.
        let is_input_scale = |name: &str| {
            name.strip_suffix(".input_scale").is_some_and(|name| used.contains(&*format!("{name}.weight")))
        };
        // The head that another task needs.
        let is_other_head = |name: &str| {
            model.config.pooling.is_some() && ["cls.", "output."].iter().any(|head| name.starts_with(head))
                || family.name == "nomic-bert" && UNUSED.iter().any(|bias| name.ends_with(bias))
                || name == "cls.output.weight" && family.is_decoder()
        };
        // Keys and values of layers that read those of another one.
        let shared =
            model.config.hyper_parameters.iter().find(|(key, _)| *key == "attention.shared_kv_layers");
        let shared = shared.and_then(|(_, value)| value.integer()).map_or(0, |layers| layers as usize);
        let is_shared = |name: &str| {
            let place = name.strip_prefix("blk.").and_then(|name| name.split_once('.'));
            place.is_some_and(|(block, tensor)| {
                SHARED.contains(&tensor)
                    && block.parse().is_ok_and(|block: usize| {
                        (block_count.saturating_sub(shared)..block_count).contains(&block)
                    })
            })
        };
        let is_known = |name: &str| {
            used.contains(name)
                || is_prediction(name)
                || is_input_scale(name)
                || is_other_head(name)
                || is_shared(name)
                || is_other_modality(name)
        };
        let is_unused = |name: &str| !is_known(name);
        match file.tensors().find(|tensor| is_unused(&tensor.name)) {
            Some(tensor) => Err(Error::UnusedTensor { name: tensor.name.clone(), architecture: family.name }),
            None => Ok(model),
        }
    }

    /// The model that `metadata` describes. `has` reports the optional tensors, and `blk.N.attn_norm.weight` or
    /// `blk.N.attn_output.weight` of every layer. Fails if the architecture is not supported, or a key is missing or invalid.
    pub fn from_metadata(metadata: &Metadata, has: &dyn Fn(&str) -> bool) -> Result<Model, Error> {
        build(family(metadata)?, metadata, has, Task::Default)
    }
}

/// The error for a file that belongs to a model, but is none.
fn other_kind(metadata: &Metadata) -> Option<Error> {
    let text = |key: &str| metadata.str(key).ok().flatten();
    let (kind, architecture) = (text("general.type"), text("general.architecture"));
    let (what, advice) = match (kind, architecture) {
        (_, Some("controlvector")) => ("a control vector", "these are not supported; give the model itself"),
        (Some("adapter"), _) => {
            ("a LoRA adapter", "adapters are not supported; give the model, with the adapter merged into it")
        }
        (Some("imatrix"), _) => {
            ("an importance matrix", "give the model itself; `rustorch quantize --imatrix` takes this file")
        }
        (Some("mmproj"), _) | (_, Some("clip")) => (
            "a projector of pictures or sound",
            "these are not supported; give the model of text that it belongs to",
        ),
        _ => return None,
    };
    Some(Error::OtherKind { what, advice })
}

fn family(metadata: &Metadata) -> Result<&'static Family, Error> {
    if let Some(found) = other_kind(metadata) {
        return Err(found);
    }
    let key = "general.architecture";
    let name = metadata.str(key)?;
    let name = name.ok_or_else(|| Error::MissingKey { key: key.to_owned(), what: "the model's family" })?;
    let found = || Value::String(name.to_owned()).to_string();
    Family::from_name(name).ok_or_else(|| Error::Architecture { found: found(), supported: Family::names() })
}

/// Tensors of a layer that computes no keys and values: llama.cpp does not read them either.
const SHARED: [&str; 3] = ["attn_k.weight", "attn_v.weight", "attn_k_norm.weight"];

/// Whether the tensor `name` is of an encoder of pictures or sound beside the model of text, which is not run.
pub fn is_other_modality(name: &str) -> bool {
    ["v.", "a.", "mm.", "vision.", "audio.", "resampler."].iter().any(|part| name.starts_with(part))
}

/// Biases of the feed-forward network of `nomic-bert`, which llama.cpp does not add.
const UNUSED: [&str; 2] = ["ffn_up.bias", "ffn_down.bias"];

#[derive(Clone, Copy, Debug)]
enum Task {
    /// Logits, or an encoder's embeddings with the file's pooling.
    Default,
    /// Embeddings, with this pooling or the file's.
    Embed(Option<Pooling>),
}

fn build(family: &'static Family, metadata: &Metadata, has: Tensors<'_>, task: Task) -> Result<Model, Error> {
    let mut keys = Keys::new(metadata, family.name, family.harmless);
    let mut config = Config::read(&mut keys, has)?;
    config.pooling = match task {
        Task::Default if family.is_decoder() => None,
        Task::Default => Some(Pooling::read(&mut keys)?),
        Task::Embed(requested) => {
            let own = Pooling::read(&mut keys)?;
            Some(requested.unwrap_or(own))
        }
    };
    if config.pooling == Some(Pooling::Rank) && !has("cls.weight") && !has("cls.output.weight") {
        return Err(Error::NoClassifier);
    }
    let graph = (family.graph)(&config, &mut keys, has)?;
    config.hyper_parameters = keys.finish()?;
    Ok(Model { config, graph })
}
