//! Quantised weights: each with its scales as one tensor.

use std::sync::Arc;

use bytes::Bytes;
use indexmap::IndexMap;
use serde_json::Value;

use super::shards::Sources;
use super::source::{Elements, Scales, Source};
use super::view::View;
use crate::Error;
use crate::config::Config;

/// Endings of scales that only activations or the KV cache have.
const ACTIVATION_SCALES: &str =
    ".activation_scale _activation_scale .input_scale .k_scale .v_scale .q_scale .output_scale";

/// The tensors, weights joined with their scales as `quantization_config` says.
pub(super) fn combine(config: &Config, sources: Sources) -> Result<IndexMap<String, View>, Error> {
    let Some(quantization) = config.value("quantization_config") else { return views(sources) };
    let text = |key: &str| quantization.get(key).and_then(Value::as_str).unwrap_or_default();
    match text("quant_method") {
        "fp8" => {
            let block = quantization.get("weight_block_size").and_then(lens);
            views(scaled(sources, "_scale_inv", block.as_deref())?)
        }
        "compressed-tensors" if text("format") == "float-quantized" => {
            let weights =
                quantization.pointer("/config_groups/group_0/weights/block_structure").and_then(lens);
            views(scaled(sources, "_scale", weights.as_deref())?)
        }
        "mxfp4" => views(blocks(sources)?),
        method => {
            let format = text("format");
            let of_format = if format.is_empty() { String::new() } else { format!(", format {format:?}") };
            Err(config.error(format!(
                "the weights are quantised with the method {method:?}{of_format}, expected \"fp8\", \"mxfp4\", or \
                 \"compressed-tensors\" with format \"float-quantized\"; use the checkpoint that is not quantised"
            )))
        }
    }
}

pub(super) fn views(sources: Sources) -> Result<IndexMap<String, View>, Error> {
    Ok(sources.into_iter().map(|(name, source)| (name, View::new(Arc::new(source)))).collect())
}

fn lens(value: &Value) -> Option<Vec<usize>> {
    value.as_array()?.iter().map(|len| usize::try_from(len.as_u64()?).ok().filter(|&len| len > 0)).collect()
}

/// Joins 8-bit weights with the tensors of their names and `ending`.
fn scaled(mut sources: Sources, ending: &str, block: Option<&[usize]>) -> Result<Sources, Error> {
    sources.retain(|name, _| !ACTIVATION_SCALES.split(' ').any(|ending| name.ends_with(ending)));
    let names: Vec<String> = sources.keys().filter(|name| name.ends_with(ending)).cloned().collect();
    for name in names {
        let weight = name.strip_suffix(ending).unwrap_or(&name).to_owned();
        let Some(scales) = sources.shift_remove(&name) else { continue };
        let Some(source) = sources.get_mut(&weight) else {
            return Err(Error::tensor(&name, "there is no weight for these scales"));
        };
        if let Elements::F8(_, joined) = &mut source.elements {
            *joined = Some(fit(&source.shape, &scales, block)?);
        } else {
            return Err(Error::tensor(&weight, "it has scales, but is not of 8-bit floats"));
        }
    }
    Ok(sources)
}

/// Scales for a tensor of this shape: missing last dimensions are of length 1.
fn fit(shape: &[usize], scales: &Source, block: Option<&[usize]>) -> Result<Scales, Error> {
    let mut blocks = if scales.len() == 1 { Vec::new() } else { scales.shape.clone() };
    blocks.resize(shape.len().max(blocks.len()), 1);
    let wrong = || {
        let why = format!("its shape {:?} does not fit the shape {shape:?} of its weight", scales.shape);
        Error::tensor(&scales.name, why)
    };
    if blocks.len() != shape.len() || matches!(scales.elements, Elements::Mxfp4 { .. }) {
        return Err(wrong());
    }
    let leading = shape.len().saturating_sub(block.map_or(0, <[usize]>::len));
    let lens: Vec<usize> = (0..shape.len())
        .map(|axis| match block {
            Some(block) if axis >= leading && scales.len() != 1 => block[axis - leading],
            _ => shape[axis].div_ceil(blocks[axis]),
        })
        .collect();
    if (0..shape.len()).any(|axis| shape[axis].div_ceil(lens[axis]) != blocks[axis]) {
        return Err(wrong());
    }
    let mut values = Vec::new();
    scales.read(0, scales.len(), &mut values);
    Ok(Scales { scales: values.into(), blocks, block: lens })
}

/// Joins `NAME_blocks` and `NAME_scales` to `NAME`, whose last dimension counts blocks.
fn blocks(mut sources: Sources) -> Result<Sources, Error> {
    let names: Vec<String> = sources.keys().filter(|name| name.ends_with("_blocks")).cloned().collect();
    for name in names {
        let weight = name.strip_suffix("_blocks").unwrap_or(&name).to_owned();
        let scales: Option<Bytes> = sources.shift_remove(&format!("{weight}_scales")).map(|found| found.data);
        let Some(packed) = sources.shift_remove(&name) else { continue };
        let Some((&16, shape)) = packed.shape.split_last() else {
            let why = format!("its shape {:?} does not end in 16 bytes", packed.shape);
            return Err(Error::tensor(&name, why));
        };
        let shape = shape.to_vec();
        let fitting = scales.filter(|scales| scales.len() == shape.iter().product::<usize>());
        let (Some(scales), Elements::U8) = (fitting, &packed.elements) else {
            let why = format!("{weight}_scales has no scale for each block of 16 bytes");
            return Err(Error::tensor(&name, why));
        };
        let elements = Elements::Mxfp4 { scales };
        sources.insert(weight.clone(), Source { name: weight, shape, data: packed.data, elements });
    }
    Ok(sources)
}
