//! What a file cannot express of a checkpoint, or what this program would not run.

use std::collections::{HashMap, HashSet};

use gguf::Metadata;
use graph::{Gating, Op};

use crate::Error;
use crate::config::Config;
use crate::output::Output;
use crate::rope::Rope;
use crate::rules::number_after;

/// Fails if the model's graph needs a tensor that is not there or weighs experts otherwise, or if positions would be scaled otherwise.
/// Returns warnings.
pub(crate) fn find(config: &Config, metadata: &Metadata, outputs: &[Output]) -> Result<Vec<String>, Error> {
    let shapes: HashMap<&str, Vec<usize>> =
        outputs.iter().map(|output| (output.name.as_str(), output.file_shape())).collect();
    scaling(config, metadata, &shapes)?;
    blocks(config, metadata, outputs)?;
    let mut warnings = Vec::new();
    warnings.extend(window(config, metadata)?);
    warnings.extend(activation(config, metadata)?);
    warnings.extend(dense(config)?);
    match models::Model::from_metadata(metadata, &|name| shapes.contains_key(name)) {
        Ok(model) => {
            normalisation(config, &model)?;
            warnings.extend(graph(&model, &shapes)?);
        }
        // The file is right for other programs.
        Err(why) => warnings.push(format!("this program would not run the file: {why}")),
    }
    Ok(warnings)
}

fn graph(model: &models::Model, shapes: &HashMap<&str, Vec<usize>>) -> Result<Option<String>, Error> {
    let mut used = HashSet::new();
    for (_, weight) in model.graph.weights() {
        let (name, expected) = (&weight.tensor, weight.tensor_shape());
        let Some(found) = shapes.get(name.as_str()) else {
            return Err(Error::tensor(name, "no tensor of the checkpoint becomes it; is a shard missing?"));
        };
        let significant = found.iter().rposition(|len| *len != 1).map_or(1, |last| last + 1);
        if found[..significant.min(found.len())] != expected {
            let why = format!("it would have the shape {found:?}, but the configuration says {expected:?}");
            return Err(Error::tensor(name, why));
        }
        used.insert(name.as_str());
    }
    // Blocks that predict further tokens come after those of the graph, and nomic-bert's biases are left out on purpose.
    let is_of_graph = |name: &str| {
        number_after("blk.", name).is_some_and(|block| block < model.config.block_count)
            && !["ffn_up.bias", "ffn_down.bias"].iter().any(|bias| name.ends_with(bias))
    };
    let unused = shapes.keys().filter(|name| is_of_graph(name) && !used.contains(*name)).min();
    Ok(unused.map(|name| format!("this program would not run the file: it has no use for the tensor {name}")))
}

/// No tensor is of a block that the file does not announce.
fn blocks(config: &Config, metadata: &Metadata, outputs: &[Output]) -> Result<(), Error> {
    let architecture = metadata.str("general.architecture").ok().flatten().unwrap_or_default();
    let count = metadata.u32(&format!("{architecture}.block_count")).ok().flatten().unwrap_or_default();
    let is_further = |name: &str| number_after("blk.", name).is_some_and(|block| block >= count as usize);
    let Some(further) = outputs.iter().find(|output| is_further(&output.name)) else { return Ok(()) };
    let layers = config.layers()?;
    let why = format!(
        "it comes after the {layers} layers of the configuration, where no key announces further ones"
    );
    Err(Error::tensor(&further.name, why))
}

/// Whether the weights of the chosen experts sum to 1 is a key in few architectures; in the others, engines know it.
fn normalisation(config: &Config, model: &models::Model) -> Result<(), Error> {
    const KEYS: [&str; 2] = ["norm_topk_prob", "moe_normalize_expert_weights"];
    let mut routers = model.graph.values().filter_map(|(_, value)| {
        let Op::Route { router, .. } = value.op else { return None };
        Some(router.renormalises || router.gating == Gating::ChosenSoftmax)
    });
    let Some(expected) = routers.next() else { return Ok(()) };
    let Some(key) = KEYS.into_iter().find(|key| config.value(key).is_some()) else { return Ok(()) };
    let found = config.bool(key)?;
    if found == expected {
        return Ok(());
    }
    let of_whom = if config.is_default(key) { ", transformers' default without the key" } else { "" };
    let architecture = model.config.architecture;
    Err(config.error(format!(
        "{key:?} is {found}{of_whom}, expected {expected}: engines decide by the architecture, {architecture}, whether the weights \
         of the chosen experts are divided by their sum, and the file cannot say otherwise"
    )))
}

/// Every kind of RoPE scaling is a key or a tensor of the file.
fn scaling(config: &Config, metadata: &Metadata, shapes: &HashMap<&str, Vec<usize>>) -> Result<(), Error> {
    let rope = Rope::of(config)?;
    let kind = rope.kind().to_ascii_lowercase();
    let has = |name: &str| metadata.iter().any(|(key, _)| key.ends_with(name));
    let is_there = match kind.as_str() {
        "default" | "mrope" => true,
        "llama3" | "proportional" => shapes.contains_key("rope_freqs.weight"),
        "longrope" | "su" => shapes.contains_key("rope_factors_long.weight"),
        _ => has("rope.scaling.type"),
    };
    // Cohere's models have no scaling whatever the configuration says.
    if is_there || !has("rope.freq_base") {
        return Ok(());
    }
    Err(config
        .error(format!("positions are scaled by {kind:?}, which this architecture's files cannot express")))
}

/// A window of attention that the file lacks.
fn window(config: &Config, metadata: &Metadata) -> Result<Option<String>, Error> {
    let is_used = config.value("use_sliding_window").is_none() || config.bool("use_sliding_window")?;
    let window = config.u32(&["sliding_window"])?.filter(|window| is_used && *window > 0);
    let context = config.u32(&["max_position_embeddings"])?.unwrap_or(u32::MAX);
    let is_written = metadata.iter().any(|(key, _)| key.ends_with("attention.sliding_window"));
    let lacking = window.filter(|window| *window < context && !is_written);
    Ok(lacking.map(|window| {
        format!("the file has no sliding window of {window} tokens: longer texts give other results than in transformers")
    }))
}

/// A function of the feed-forward network that engines do not compute in this architecture.
fn activation(config: &Config, metadata: &Metadata) -> Result<Option<String>, Error> {
    const GELU_TANH: &[&str] = &["gelu_pytorch_tanh", "gelu_tanh", "gelu_new", "gelu_fast"];
    let computed = match metadata.str("general.architecture").ok().flatten().unwrap_or_default() {
        "gemma2" | "gemma3" | "gemma4" | "gemma-embedding" | "starcoder2" => GELU_TANH,
        "bert" => &["gelu"],
        // A key of the file, or a function of its own.
        "modern-bert" | "nomic-bert" | "nomic-bert-moe" | "jina-bert-v2" | "nemotron_h"
        | "nemotron_h_moe" => return Ok(None),
        _ => &["silu", "swish"],
    };
    let found = config.str(&["hidden_activation", "hidden_act", "activation"])?;
    let other = found.filter(|found| !computed.contains(found));
    Ok(other.map(|found| format!("the activation is {found}, but engines compute {} here", computed[0])))
}

/// Matrices after the pooling, which are not converted.
fn dense(config: &Config) -> Result<Option<String>, Error> {
    let modules = config.beside("modules.json")?.unwrap_or_default();
    let has_dense = modules.as_array().is_some_and(|modules| {
        modules.iter().any(|module| module["type"].as_str().is_some_and(|kind| kind.ends_with(".Dense")))
    });
    let warning = "the dense modules of sentence-transformers are left out: embeddings are those before them";
    Ok(has_dense.then(|| warning.to_owned()))
}
