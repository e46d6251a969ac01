//! A model on a device: weights and KV cache, as a plan and as allocated buffers.

use std::sync::{Arc, Mutex, OnceLock};

use backend::{BoundModel, Error, KvFormat, Memory, PAGE, StoreLayout, Timing, Weight};
use graph::{Op, Role, Value};
use passes::{Formats, Purpose, model_memory};

use crate::device::{Buffer, Device, STORAGE, allocated_size};
use crate::weights::{Matrix, MatrixLayout};

/// How the weights and the KV cache of a model are stored on a device.
#[derive(Debug)]
pub(crate) struct ModelPlan {
    pub(crate) bound: Arc<BoundModel>,
    /// By weight; `None` for single-row weights, which programs hold as f32 constants.
    matrices: Vec<Option<MatrixLayout>>,
    /// By store: sizes of keys and values in bytes.
    stores: Vec<[u64; 2]>,
    /// By value: the size of the slots of a recurrent operation in bytes.
    states: Vec<Option<u64>>,
}

impl ModelPlan {
    pub(crate) fn new(device: &Device, bound: BoundModel, formats: &mut Formats) -> Result<ModelPlan, Error> {
        let roles = bound.graph().roles();
        // Weights that hold both gate and up of each expert, which stay together.
        let mut has_pairs = vec![false; roles.len()];
        for (_, value) in bound.graph().values() {
            if let Op::Experts { hidden, .. } = value.op {
                let is_pairs = hidden.matrices_per_expert() == 2;
                hidden.weights().iter().for_each(|weight| has_pairs[weight.index()] |= is_pairs);
            }
        }
        let matrix = |((weight, roles), &has_pairs): ((&Weight, &Vec<Role>), &bool)| {
            let is_matrix = roles.iter().any(|role| match role {
                Role::Table | Role::Matrix | Role::Experts => true,
                Role::Vector => false,
            });
            let unit_rows = match roles.contains(&Role::Experts) {
                true if has_pairs => 2 * weight.rows,
                true => weight.rows,
                false => 1,
            };
            is_matrix.then(|| MatrixLayout::new(device, weight, formats.get(weight), unit_rows)).transpose()
        };
        let matrices =
            bound.weights().iter().zip(&roles).zip(&has_pairs).map(matrix).collect::<Result<_, Error>>()?;
        let store = |layout: &StoreLayout| {
            let bytes = [layout.store.k_dim, layout.store.v_dim].map(|dim| store_bytes(layout, dim));
            bytes.iter().try_for_each(|&bytes| device.check_size(Purpose::Store, bytes, STORAGE))?;
            Ok(bytes)
        };
        let stores = bound.stores().iter().map(store).collect::<Result<_, Error>>()?;
        let state = |(id, value): (_, &Value)| {
            if !value.op.is_recurrent() {
                return Ok(None);
            }
            let values = bound.slots().saturating_mul(bound.graph().state_len(id));
            let bytes = allocated_size((values as u64).saturating_mul(size_of::<f32>() as u64));
            device.check_size(Purpose::Store, bytes, STORAGE).map(|()| Some(bytes))
        };
        let states = bound.graph().values().map(state).collect::<Result<_, Error>>()?;
        Ok(ModelPlan { bound: Arc::new(bound), matrices, stores, states })
    }

    /// The layout of a weight that is not a vector.
    pub(crate) fn matrix(&self, id: graph::WeightId) -> &MatrixLayout {
        self.matrices[id.index()].as_ref().expect("weights of matmuls are matrices")
    }

    /// Memory use, with `activations` bytes for all programs.
    pub(crate) fn memory(&self, activations: u64) -> Memory {
        let on_device =
            |matrix: &Option<MatrixLayout>| matrix.as_ref().map(|matrix| (matrix.format, matrix.bytes()));
        let weights = self.bound.weights().iter().zip(self.matrices.iter().map(on_device));
        let kv = self.stores.iter().flatten().chain(self.states.iter().flatten()).copied();
        model_memory(weights, kv, activations)
    }
}

/// Size in bytes of a store's keys (`dim` = `k_dim`) or values (`v_dim`), in the layout of `kernels/rope.wgsl`.
fn store_bytes(layout: &StoreLayout, dim: usize) -> u64 {
    let values = [layout.pages, PAGE, layout.store.heads, dim.next_multiple_of(2)];
    let bytes = if is_kv_f32(layout) { 4 } else { 2 };
    values.iter().fold(bytes, |all, &factor| all.saturating_mul(factor as u64))
}

pub(crate) fn is_kv_f32(layout: &StoreLayout) -> bool {
    layout.format == KvFormat::F32
}

/// A model whose buffers are allocated.
#[derive(Debug)]
pub(crate) struct Model {
    pub(crate) device: Arc<Device>,
    pub(crate) plan: ModelPlan,
    pub(crate) matrices: Vec<Option<Matrix>>,
    /// By store: keys and values.
    pub(crate) stores: Vec<[Buffer; 2]>,
    /// By value: the slots of recurrent operations.
    pub(crate) states: Vec<Option<Buffer>>,
    pub(crate) state: Mutex<State>,
    /// Set once all weights are uploaded.
    is_uploaded: OnceLock<()>,
}

/// State shared by the programs of a model.
#[derive(Debug, Default)]
pub(crate) struct State {
    /// Bytes of all programs.
    pub(crate) activations: u64,
    pub(crate) timings: Vec<Timing>,
}

impl Model {
    pub(crate) fn new(device: Arc<Device>, plan: ModelPlan) -> Result<Model, Error> {
        let store = |bytes: &[u64; 2]| {
            let buffer = |bytes| device.buffer(Purpose::Store, bytes, STORAGE);
            Ok([buffer(bytes[0])?, buffer(bytes[1])?])
        };
        let matrix = |layout: &Option<MatrixLayout>| {
            layout.as_ref().map(|layout| Matrix::new(&device, layout)).transpose()
        };
        let matrices = plan.matrices.iter().map(matrix).collect::<Result<_, Error>>()?;
        let stores = plan.stores.iter().map(store).collect::<Result<_, Error>>()?;
        let state = |bytes: &Option<u64>| {
            bytes.map(|bytes| device.buffer(Purpose::Store, bytes, STORAGE)).transpose()
        };
        let states = plan.states.iter().map(state).collect::<Result<_, Error>>()?;
        Ok(Model {
            device,
            plan,
            matrices,
            stores,
            states,
            state: Mutex::default(),
            is_uploaded: OnceLock::new(),
        })
    }

    /// Uploads the weights that are not on the device yet, in file order. Calls `copied` with the name of each
    /// uploaded tensor.
    pub(crate) fn upload(&self, mut copied: impl FnMut(&str)) -> Result<(), Error> {
        if self.is_uploaded.get().is_some() {
            return Ok(());
        }
        let graph = self.plan.bound.graph();
        let mut weights: Vec<_> = graph.weights().collect();
        weights.sort_by_key(|(id, _)| self.plan.bound.weight(*id).bytes.as_ptr());
        // Weights that are parts of one tensor are adjacent.
        for parts in weights.chunk_by(|(_, a), (_, b)| a.tensor == b.tensor) {
            let mut on_device = true;
            for (id, _) in parts {
                let layout = self.plan.matrices[id.index()].as_ref();
                match self.matrices[id.index()].as_ref().zip(layout) {
                    Some((matrix, layout)) => {
                        matrix.upload(&self.device, layout, self.plan.bound.weight(*id))?
                    }
                    None => on_device = false,
                }
            }
            if on_device {
                copied(&parts[0].1.tensor);
            }
        }
        self.is_uploaded.get_or_init(|| ());
        Ok(())
    }

    /// Whether a weight is uploaded and all its values are finite in f16.
    pub(crate) fn fits_f16(&self, id: graph::WeightId) -> bool {
        let matrix = self.matrices[id.index()].as_ref();
        matrix.is_some_and(|matrix| matrix.fits_f16(self.plan.matrix(id)))
    }
}
