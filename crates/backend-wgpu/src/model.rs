//! A model on a device: weights and KV cache, as a plan and as allocated buffers.

use std::sync::{Arc, Mutex, OnceLock};

use backend::{BoundModel, Error, KvFormat, StoreLayout};
use gpu::{Formats, Purpose, State};
use graph::{Op, Role};

use crate::device::{Buffer, Device, allocated_size};
use crate::weights::{Matrix, MatrixLayout};

pub(crate) type ModelPlan = gpu::ModelPlan<MatrixLayout>;

/// Columns of a head in a cache are a multiple of this (`kernels/rope.wgsl`).
const CACHE_COLS: usize = 2;

pub(crate) fn plan(device: &Device, bound: BoundModel, formats: &mut Formats) -> Result<ModelPlan, Error> {
    // Weights that hold both gate and up of each expert, which stay together.
    let mut has_pairs = vec![false; bound.weights().len()];
    for (_, value) in bound.graph().values() {
        if let Op::Experts { hidden, .. } = value.op {
            let is_pairs = hidden.matrices_per_expert() == 2;
            hidden.weights().iter().for_each(|weight| has_pairs[weight.index()] |= is_pairs);
        }
    }
    let mut plan = ModelPlan::new(bound, CACHE_COLS, |id, weight, roles| {
        let unit_rows = match (roles.contains(&Role::Experts), has_pairs[id.index()]) {
            (true, true) => 2 * weight.rows,
            (true, false) => weight.rows,
            (false, _) => 1,
        };
        MatrixLayout::new(device, weight, formats.get(weight), unit_rows)
    })?;
    plan.states.iter_mut().flatten().for_each(|bytes| *bytes = allocated_size(*bytes));
    for &bytes in plan.stores.iter().flatten().chain(plan.states.iter().flatten()) {
        device.check_size(Purpose::Store, bytes)?;
    }
    Ok(plan)
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
    is_uploaded: OnceLock<()>,
}

impl Model {
    pub(crate) fn new(device: Arc<Device>, plan: ModelPlan) -> Result<Model, Error> {
        let matrix = |layout: &Option<MatrixLayout>| {
            layout.as_ref().map(|layout| Matrix::new(&device, layout)).transpose()
        };
        let matrices = plan.matrices.iter().map(matrix).collect::<Result<_, Error>>()?;
        let store = |bytes| device.buffer(Purpose::Store, bytes);
        let stores = plan.stores.iter().map(|&[k, v]| Ok([store(k)?, store(v)?]));
        let stores = stores.collect::<Result<_, Error>>()?;
        let states = plan.states.iter().map(|bytes| bytes.map(store).transpose());
        let states = states.collect::<Result<_, Error>>()?;
        let (state, is_uploaded) = (Mutex::default(), OnceLock::new());
        Ok(Model { device, plan, matrices, stores, states, state, is_uploaded })
    }

    /// Uploads the weights that are not on the device yet, in file order. Calls `copied` with the name of each
    /// uploaded tensor.
    pub(crate) fn upload(&self, mut copied: impl FnMut(&str)) -> Result<(), Error> {
        if self.is_uploaded.get().is_some() {
            return Ok(());
        }
        for (tensor, parts) in self.plan.tensors() {
            let mut is_on_device = true;
            for id in parts {
                match self.matrices[id.index()].as_ref() {
                    Some(matrix) => {
                        matrix.upload(&self.device, self.plan.matrix(id), self.plan.bound.weight(id))?
                    }
                    None => is_on_device = false,
                }
            }
            if is_on_device {
                copied(tensor);
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
