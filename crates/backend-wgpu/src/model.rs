//! A model on a device: its weights and its stores, planned, and as the device has them.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, OnceLock};

use backend::{BoundModel, ConvertedWeights, Error, KvFormat, Memory, PAGE, StoreLayout, Timing, Weight};
use bytes::Bytes;
use graph::Role;

use crate::device::{Buffer, Device, Purpose, WRITTEN};
use crate::formats::DeviceFormat;
use crate::weights::{Matrix, MatrixLayout};

/// Which formats weights become that have to be looked at for it, by where their bytes are; these stay there meanwhile.
#[derive(Debug, Default)]
pub(crate) struct Formats(HashMap<(usize, usize), (Bytes, DeviceFormat)>);

impl Formats {
    /// What `weight` becomes.
    fn of(&mut self, weight: &Weight) -> DeviceFormat {
        match DeviceFormat::of(weight.format) {
            DeviceFormat::F16 if weight.format != quant::Format::F16 => {
                let place = (weight.bytes.as_ptr().addr(), weight.bytes.len());
                let looked_at = || (weight.bytes.clone(), DeviceFormat::of_weight(weight));
                self.0.entry(place).or_insert_with(looked_at).1
            }
            format => format,
        }
    }
}

/// What a model takes on a device, and how its weights and stores lie there.
#[derive(Debug)]
pub(crate) struct ModelPlan {
    pub(crate) bound: Arc<BoundModel>,
    /// By weight; none for those of one row, which programs have as f32.
    matrices: Vec<Option<MatrixLayout>>,
    /// By store, bytes of keys and of values.
    stores: Vec<[u64; 2]>,
}

impl ModelPlan {
    /// # Errors
    /// When the device cannot bind a weight or a store, however much room it has.
    pub(crate) fn new(device: &Device, bound: BoundModel, formats: &mut Formats) -> Result<ModelPlan, Error> {
        let roles = bound.graph().roles();
        let matrix = |(weight, roles): (&Weight, &Vec<Role>)| {
            let is_matrix = roles.iter().any(|role| match role {
                Role::Table | Role::Matrix | Role::Experts => true,
                Role::Vector => false,
            });
            let are_whole = roles.contains(&Role::Experts);
            is_matrix.then(|| MatrixLayout::new(device, weight, formats.of(weight), are_whole)).transpose()
        };
        let matrices = bound.weights().iter().zip(&roles).map(matrix).collect::<Result<_, Error>>()?;
        let store = |layout: &StoreLayout| {
            let bytes = [layout.store.k_dim, layout.store.v_dim].map(|dim| bytes_of_store(layout, dim));
            bytes.iter().try_for_each(|&bytes| device.check_size(Purpose::Store, bytes, WRITTEN))?;
            Ok(bytes)
        };
        let stores = bound.stores().iter().map(store).collect::<Result<_, Error>>()?;
        Ok(ModelPlan { bound: Arc::new(bound), matrices, stores })
    }

    /// A weight that is no vector.
    pub(crate) fn matrix(&self, id: graph::WeightId) -> &MatrixLayout {
        self.matrices[id.index()].as_ref().expect("operations multiply what is a matrix to them")
    }

    /// What it takes, with so many bytes of programs.
    pub(crate) fn memory(&self, activations: u64) -> Memory {
        let weights = || self.bound.weights().iter().zip(&self.matrices);
        let vectors = weights().filter(|(_, matrix)| matrix.is_none());
        let matrices = weights().filter_map(|(weight, matrix)| Some((weight, matrix.as_ref()?)));
        let on_device = matrices.clone().map(|(_, matrix)| matrix.bytes()).sum();
        let mut converted = BTreeMap::new();
        for (weight, matrix) in matrices {
            let (from, to) = (weight.format, matrix.format.format());
            if from != to {
                *converted.entry((from, to)).or_insert(0) += matrix.bytes();
            }
        }
        let converted_weights =
            |((format, device_format), bytes)| ConvertedWeights { format, device_format, bytes };
        Memory {
            weights_mapped: vectors.map(|(weight, _)| weight.bytes.len() as u64).sum(),
            weights_owned: on_device,
            weights_on_device: on_device,
            weights_converted: converted.into_iter().map(converted_weights).collect(),
            kv: self.stores.iter().flatten().fold(0, |all, bytes| all.saturating_add(*bytes)),
            activations,
        }
    }
}

/// Bytes of keys (`dim` = `k_dim`) or values (`v_dim`): `kernels/rope.wgsl` says how they lie.
fn bytes_of_store(layout: &StoreLayout, dim: usize) -> u64 {
    let values = [layout.pages, PAGE, layout.store.heads, dim.next_multiple_of(2)];
    let bytes = layout.format.bytes() as u64;
    values.iter().fold(bytes, |all, &factor| all.saturating_mul(factor as u64))
}

/// Whether a store has f32.
pub(crate) fn is_kv_f32(layout: &StoreLayout) -> bool {
    layout.format == KvFormat::F32
}

/// A model on its device.
#[derive(Debug)]
pub(crate) struct Model {
    pub(crate) device: Arc<Device>,
    pub(crate) plan: ModelPlan,
    pub(crate) matrices: Vec<Option<Matrix>>,
    /// By store, keys and values.
    pub(crate) stores: Vec<[Buffer; 2]>,
    pub(crate) state: Mutex<State>,
    /// Set once all weights are on the device.
    is_uploaded: OnceLock<()>,
}

/// What programs of a model share and change.
#[derive(Debug, Default)]
pub(crate) struct State {
    /// Of all programs.
    pub(crate) activations: u64,
    pub(crate) timings: Vec<Timing>,
}

impl Model {
    /// # Errors
    /// When the device has no room.
    pub(crate) fn new(device: Arc<Device>, plan: ModelPlan) -> Result<Model, Error> {
        let store = |bytes: &[u64; 2]| {
            let buffer = |bytes| device.buffer(Purpose::Store, bytes, WRITTEN);
            Ok([buffer(bytes[0])?, buffer(bytes[1])?])
        };
        let matrix = |layout: &Option<MatrixLayout>| {
            layout.as_ref().map(|layout| Matrix::new(&device, layout)).transpose()
        };
        let matrices = plan.matrices.iter().map(matrix).collect::<Result<_, Error>>()?;
        let stores = plan.stores.iter().map(store).collect::<Result<_, Error>>()?;
        Ok(Model { device, plan, matrices, stores, state: Mutex::default(), is_uploaded: OnceLock::new() })
    }

    /// Copies weights to the device that are not there, in the order of the file; `copied` hears their names.
    ///
    /// # Errors
    /// When the device is gone.
    pub(crate) fn upload(&self, mut copied: impl FnMut(&str)) -> Result<(), Error> {
        if self.is_uploaded.get().is_some() {
            return Ok(());
        }
        let graph = self.plan.bound.graph();
        let mut weights: Vec<_> = graph.weights().collect();
        weights.sort_by_key(|(id, _)| self.plan.bound.weight(*id).bytes.as_ptr());
        // Parts of one tensor are neighbours.
        for parts in weights.chunk_by(|(_, a), (_, b)| a.tensor == b.tensor) {
            let mut is_copied = true;
            for (id, _) in parts {
                let layout = self.plan.matrices[id.index()].as_ref();
                match self.matrices[id.index()].as_ref().zip(layout) {
                    Some((matrix, layout)) => {
                        matrix.upload(&self.device, layout, self.plan.bound.weight(*id))?
                    }
                    None => is_copied = false,
                }
            }
            if is_copied {
                copied(&parts[0].1.tensor);
            }
        }
        self.is_uploaded.get_or_init(|| ());
        Ok(())
    }

    /// Whether a weight is on the device and all its values fit f16.
    pub(crate) fn fits_f16(&self, id: graph::WeightId) -> bool {
        let matrix = self.matrices[id.index()].as_ref();
        matrix.is_some_and(|matrix| matrix.fits_f16(self.plan.matrix(id)))
    }
}
