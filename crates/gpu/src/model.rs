//! Device memory: what it is for, and how a model is stored in it.

use std::collections::BTreeMap;
use std::sync::Arc;

use backend::{
    BoundModel, ConvertedWeights, Error, KV_BLOCK, Memory, MemoryKind, Remedy, StoreLayout, Timing, Weight,
};
use graph::{Role, WeightId};
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

/// How a table or matrix, or all matrices of the experts, is stored on the device.
#[expect(missing_docs, reason = "the names say it")]
pub trait MatrixLayout {
    fn format(&self) -> Format;
    fn bytes(&self) -> u64;
}

/// How the weights and the KV cache of a model are stored on a device.
#[derive(Debug)]
#[expect(missing_docs, reason = "the names say it")]
pub struct ModelPlan<M> {
    pub bound: Arc<BoundModel>,
    /// By weight; `None` for single-row weights, which programs hold as f32 constants.
    pub matrices: Vec<Option<M>>,
    /// By store: sizes of keys and values in bytes.
    pub stores: Vec<[u64; 2]>,
    /// By value: the size of the slots of a recurrent operation in bytes.
    pub states: Vec<Option<u64>>,
}

impl<M: MatrixLayout> ModelPlan<M> {
    /// Lays out the weights as `matrix` says; heads in the KV cache have a multiple of `padding` columns.
    pub fn new(
        bound: BoundModel,
        padding: usize,
        mut matrix: impl FnMut(WeightId, &Weight, &[Role]) -> Result<M, Error>,
    ) -> Result<ModelPlan<M>, Error> {
        let roles = bound.graph().roles();
        let matrices = bound.graph().weights().zip(&roles).map(|((id, _), roles)| {
            let is_matrix = roles.iter().any(|role| *role != Role::Vector);
            is_matrix.then(|| matrix(id, bound.weight(id), roles)).transpose()
        });
        let matrices = matrices.collect::<Result<_, Error>>()?;
        let store = |layout: &StoreLayout| {
            let size = |row: usize| {
                let counts = [layout.blocks, KV_BLOCK, layout.store.heads];
                counts.iter().fold(row as u64, |all, &count| all.saturating_mul(count as u64))
            };
            let [k, v] = [layout.store.k_dim, layout.store.v_dim].map(|dim| dim.next_multiple_of(padding));
            [size(layout.format.k.row_bytes(k)), size(layout.format.v.row_bytes(v))]
        };
        let stores = bound.stores().iter().map(store).collect();
        let slots = bound.kv_layout().slots;
        let state = |id| (slots.saturating_mul(bound.graph().state_len(id)) as u64).saturating_mul(4);
        let states = bound.graph().values().map(|(id, value)| value.op.is_recurrent().then(|| state(id)));
        let states = states.collect();
        Ok(ModelPlan { bound: Arc::new(bound), matrices, stores, states })
    }

    /// The layout of a weight that is not a vector.
    pub fn matrix(&self, id: WeightId) -> &M {
        self.matrices[id.index()].as_ref().expect("weights of matmuls are matrices")
    }

    /// Memory use, with `activations` bytes for all programs.
    pub fn memory(&self, activations: u64) -> Memory {
        let kv = self.stores.iter().flatten().chain(self.states.iter().flatten());
        let kv = kv.fold(0, |all: u64, &bytes| all.saturating_add(bytes));
        let mut memory = Memory { activations, kv, ..Memory::default() };
        let mut converted = BTreeMap::new();
        for (weight, matrix) in self.bound.weights().iter().zip(&self.matrices) {
            let Some(matrix) = matrix else {
                memory.weights_mapped += weight.bytes.len() as u64;
                continue;
            };
            memory.weights_on_device += matrix.bytes();
            if weight.format != matrix.format() {
                *converted.entry((weight.format, matrix.format())).or_insert(0) += matrix.bytes();
            }
        }
        memory.weights_owned = memory.weights_on_device;
        let converted = converted.into_iter();
        let converted =
            converted.map(|((format, to), bytes)| ConvertedWeights { format, device_format: to, bytes });
        memory.weights_converted = converted.collect();
        memory
    }

    /// The weights in file order, those that are parts of one tensor together, with the tensor's name.
    pub fn tensors(&self) -> Vec<(&str, Vec<WeightId>)> {
        let mut weights: Vec<_> = self.bound.graph().weights().collect();
        weights.sort_by_key(|(id, _)| self.bound.weight(*id).bytes.as_ptr());
        let tensors = weights.chunk_by(|(_, a), (_, b)| a.tensor == b.tensor);
        tensors.map(|parts| (&*parts[0].1.tensor, parts.iter().map(|(id, _)| *id).collect())).collect()
    }
}

/// State that a model's programs share: the bytes of all their activations, and kernel times.
#[derive(Debug, Default)]
#[expect(missing_docs, reason = "see above")]
pub struct State {
    pub activations: u64,
    pub timings: Vec<Timing>,
}

impl State {
    /// Adds to the times of the kernel `what`.
    pub fn add_timing(&mut self, what: String, seconds: f64, (bytes, multiply_adds): (u64, u64)) {
        let index = self.timings.iter().position(|timing| timing.what == what).unwrap_or_else(|| {
            self.timings.push(Timing { what, calls: 0, seconds: 0.0, bytes: 0, multiply_adds: 0 });
            self.timings.len() - 1
        });
        let timing = &mut self.timings[index];
        timing.calls += 1;
        timing.seconds += seconds;
        timing.bytes += bytes;
        timing.multiply_adds += multiply_adds;
    }
}
