//! Device memory: what it is for, and what a model takes.

use std::collections::BTreeMap;

use backend::{ConvertedWeights, Error, Memory, MemoryKind, Remedy, Weight};
use quant::Format;

/// What device memory is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names say it")]
pub enum Purpose {
    Weights,
    Store,
    Activations,
    AttentionParts,
    Inputs,
    Results,
    Constants,
    Times,
}

impl Purpose {
    /// The name in error messages, and what the user can do when allocation fails.
    pub fn name_and_remedy(self) -> (&'static str, Remedy) {
        match self {
            Purpose::Weights => ("weights", Remedy::FewerLayers),
            Purpose::Store => ("the KV cache", Remedy::SmallerContext),
            Purpose::Activations => ("activations", Remedy::SmallerBatch),
            Purpose::AttentionParts => ("partial results of attention", Remedy::SmallerBatch),
            Purpose::Inputs => ("step inputs", Remedy::SmallerBatch),
            Purpose::Results => ("results", Remedy::SmallerBatch),
            Purpose::Constants => ("constants", Remedy::FewerLayers),
            Purpose::Times => ("timestamps", Remedy::SmallerBatch),
        }
    }
}

/// The error of a failed allocation of device memory.
pub fn out_of_memory(what: &'static str, bytes: u64, remedy: Remedy) -> Error {
    Error::OutOfMemory { what, bytes, memory: MemoryKind::Device, remedy }
}

/// Memory of a model: each weight with its format on the device and its size, or none if it is a vector; sizes of stores and states;
/// bytes of all programs.
pub fn model_memory<'a>(
    weights: impl Iterator<Item = (&'a Weight, Option<(Format, u64)>)>,
    kv: impl Iterator<Item = u64>,
    activations: u64,
) -> Memory {
    let mut memory = Memory { activations, kv: kv.fold(0, u64::saturating_add), ..Memory::default() };
    let mut converted = BTreeMap::new();
    for (weight, on_device) in weights {
        let Some((device_format, bytes)) = on_device else {
            memory.weights_mapped += weight.bytes.len() as u64;
            continue;
        };
        memory.weights_on_device += bytes;
        let (from, to) = (weight.format, device_format);
        if from != to {
            *converted.entry((from, to)).or_insert(0) += bytes;
        }
    }
    memory.weights_owned = memory.weights_on_device;
    let converted_weights =
        |((format, device_format), bytes)| ConvertedWeights { format, device_format, bytes };
    memory.weights_converted = converted.into_iter().map(converted_weights).collect();
    memory
}
