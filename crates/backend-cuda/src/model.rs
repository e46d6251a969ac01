//! A model on a card: weights and KV cache, as a plan and as allocated buffers.

use std::sync::{Arc, Mutex, OnceLock};

use backend::{BoundModel, Error, KV_BLOCK, KvFormat, Remedy, Weight};
use gpu::{Formats, Purpose, State, TiledLayout, kernel_name, may_fit_f16, out_of_memory};
use graph::{Op, WeightId};
use quant::Format;

use crate::driver::{Buffer, Device, TENSOR_MAP_BYTES, allocated_size};
use crate::upload::{Upload, upload};

pub(crate) type ModelPlan = gpu::ModelPlan<MatrixLayout>;

/// Columns of a head in a cache are a multiple of this (`kernels/attention.cuh`).
const CACHE_COLS: usize = 8;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct MatrixLayout {
    /// Rows per matrix.
    pub(crate) rows: usize,
    pub(crate) layout: TiledLayout,
}

impl MatrixLayout {
    fn new(weight: &Weight, format: Format) -> Result<MatrixLayout, Error> {
        let layout = TiledLayout { format, rows: weight.count * weight.rows, cols: weight.cols };
        // Kernels count the bytes of a pair of rows in 32 bits.
        if layout.pitch() > i32::MAX as usize / 2 {
            return Err(out_of_memory("a weight with rows of 1 GiB", layout.bytes() as u64, Remedy::UseCpu));
        }
        Ok(MatrixLayout { rows: weight.rows, layout })
    }

    /// Bytes of a row, and whether rows come in pairs.
    pub(crate) fn pitch_and_pairs(&self) -> (u32, bool) {
        (self.layout.pitch() as u32, self.layout.is_paired())
    }
}

impl gpu::MatrixLayout for MatrixLayout {
    fn format(&self) -> Format {
        self.layout.format
    }

    fn bytes(&self) -> u64 {
        allocated_size(self.layout.bytes() as u64)
    }
}

pub(crate) fn plan(bound: BoundModel, formats: &mut Formats) -> Result<ModelPlan, Error> {
    let is_unquantised = differing_formats(&bound, formats);
    ModelPlan::new(bound, CACHE_COLS, |id, weight, _| {
        let is_unquantised = is_unquantised[id.index()];
        let format = if is_unquantised { formats.unquantised(weight) } else { formats.get(weight) };
        MatrixLayout::new(weight, format)
    })
}

/// Bytes of the tensor maps of all stores.
pub(crate) fn tensor_map_bytes(plan: &ModelPlan) -> u64 {
    allocated_size((plan.stores.len() * 2 * TENSOR_MAP_BYTES) as u64)
}

/// By weight: whether it is one of the experts' gates and up projections that differ in format. A kernel multiplies both.
fn differing_formats(bound: &BoundModel, formats: &mut Formats) -> Vec<bool> {
    let mut differ = vec![false; bound.weights().len()];
    for (_, value) in bound.graph().values() {
        let Op::Experts { hidden, .. } = value.op else { continue };
        let mut names = hidden.weights().iter().map(|&id| kernel_name(formats.get(bound.weight(id))));
        let first = names.next();
        if names.any(|name| Some(name) != first) {
            hidden.weights().iter().for_each(|id| differ[id.index()] = true);
        }
    }
    differ
}

/// A model whose buffers are allocated.
#[derive(Debug)]
pub(crate) struct Model {
    pub(crate) device: Arc<Device>,
    pub(crate) plan: ModelPlan,
    pub(crate) matrices: Vec<Option<Matrix>>,
    /// By store: keys and values.
    pub(crate) stores: Vec<[Buffer; 2]>,
    /// By store: the tensor maps of keys and of values, if kernels use them.
    pub(crate) tensor_maps: Buffer,
    /// By value: the slots of recurrent operations.
    pub(crate) states: Vec<Option<Buffer>>,
    pub(crate) state: Mutex<State>,
    is_uploaded: OnceLock<()>,
}

/// `kernels/wgmma.cuh` has weights that are not stored as f16 times this number.
const F16_SCALE: f32 = 64.0;

/// Largest weight in f16, so scaled: rounding does not bring it to infinity.
const MAX_F16: f32 = 65_000.0;

#[derive(Debug)]
pub(crate) struct Matrix {
    pub(crate) buffer: Buffer,
    /// Set after the upload: whether all values are finite in f16.
    fits_f16: OnceLock<bool>,
}

impl Matrix {
    fn is_uploaded(&self) -> bool {
        self.fits_f16.get().is_some()
    }
}

impl Model {
    pub(crate) fn new(device: Arc<Device>, plan: ModelPlan) -> Result<Model, Error> {
        let matrix = |layout: &Option<MatrixLayout>| {
            let matrix = |layout: &MatrixLayout| {
                let buffer = device.buffer(Purpose::Weights, layout.layout.bytes() as u64)?;
                Ok(Matrix { buffer, fits_f16: OnceLock::new() })
            };
            layout.as_ref().map(matrix).transpose()
        };
        let matrices = plan.matrices.iter().map(matrix).collect::<Result<_, Error>>()?;
        let store = |bytes: u64| device.buffer(Purpose::Store, bytes);
        let stores = plan.stores.iter().map(|&[k, v]| Ok([store(k)?, store(v)?]));
        let stores = stores.collect::<Result<Vec<_>, Error>>()?;
        let tensor_maps = device.buffer(Purpose::Activations, tensor_map_bytes(&plan))?;
        for ((store, layout), at) in
            stores.iter().zip(plan.bound.stores()).zip((0..).step_by(2 * TENSOR_MAP_BYTES))
        {
            if layout.format == KvFormat::F16 && layout.blocks > 0 && device.card.has_wgmma() {
                let rows = layout.blocks * layout.store.heads * KV_BLOCK;
                let [k, v] = [(&store[0], layout.store.k_dim), (&store[1], layout.store.v_dim)]
                    .map(|(buffer, dim)| device.tensor_map(buffer, rows, dim.next_multiple_of(CACHE_COLS)));
                device.write(&tensor_maps, at as u64, &[k?, v?].concat())?;
            }
        }
        let states = plan.states.iter().map(|bytes| bytes.map(store).transpose());
        let states = states.collect::<Result<_, Error>>()?;
        let state = Mutex::default();
        Ok(Model { device, plan, matrices, stores, tensor_maps, states, state, is_uploaded: OnceLock::new() })
    }

    /// Uploads the weights that are not on the device yet, in file order. Calls `copied` with the name of each
    /// uploaded tensor.
    pub(crate) fn upload(&self, mut copied: impl FnMut(&str)) -> Result<(), Error> {
        if self.is_uploaded.get().is_some() {
            return Ok(());
        }
        let tensors = self.plan.tensors();
        let matrix = |id: WeightId| self.matrices[id.index()].as_ref();
        let mut copied_if_whole = |(tensor, parts): &(&str, Vec<WeightId>)| {
            if parts.iter().all(|&id| matrix(id).is_some_and(Matrix::is_uploaded)) {
                copied(tensor);
            }
        };
        let (mut left, mut uploads) = (Vec::new(), Vec::new());
        for tensor in &tensors {
            copied_if_whole(tensor);
            for &id in &tensor.1 {
                if let Some(matrix) = matrix(id).filter(|matrix| !matrix.is_uploaded()) {
                    let (weight, layout) = (self.plan.bound.weight(id), &self.plan.matrix(id).layout);
                    left.push((tensor, matrix));
                    uploads.push(Upload { weight, layout, to: &matrix.buffer });
                }
            }
        }
        upload(&self.device, &uploads, |i, bound| {
            let (tensor, matrix) = left[i];
            let format = uploads[i].layout.format;
            let may_fit = may_fit_f16(format);
            let is_scaled = self.device.card.has_wgmma() && format != Format::F16;
            let limit = if is_scaled { MAX_F16 / F16_SCALE } else { half::f16::MAX.into() };
            matrix.fits_f16.get_or_init(|| may_fit && bound <= limit);
            copied_if_whole(tensor);
        })?;
        self.is_uploaded.get_or_init(|| ());
        Ok(())
    }

    /// Whether a weight is uploaded and all its values are finite in f16.
    pub(crate) fn fits_f16(&self, id: WeightId) -> bool {
        self.matrices[id.index()].as_ref().is_some_and(|matrix| matrix.fits_f16.get() == Some(&true))
    }
}
