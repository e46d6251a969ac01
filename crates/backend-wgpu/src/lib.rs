//! The GPU backend: Metal and Vulkan through wgpu.
//!
//! A graph is compiled to a list of passes over buffers on the device (`plan.rs`), each a kernel in WGSL with its
//! buffers bound (`compile.rs`); a step uploads what changes, encodes the list, and reads back what is asked for
//! (`program.rs`). Weights meet activations of f32.

mod attend;
mod compile;
mod device;
mod facts;
mod formats;
#[cfg(test)]
mod guard;
mod kernels;
mod kv;
mod memory;
mod plan;
mod policy;
mod program;
#[cfg(test)]
mod tests;
mod timer;
mod weights;

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use backend::{Backend, Bound, Bucket, Description, Error, KvLayout, Memory, Program, Taps, Timing, Weight};
use graph::{Graph, Op, WeightId};

pub use device::{Adapter, adapters};
use device::{Device, Settings, lock};
pub use facts::{Facts, may_have_gpu};
use kv::Kv;
pub use memory::{Needs, Room, formats};
use weights::Matrix;

/// The backend. One instance holds one model.
#[derive(Debug)]
pub struct Gpu {
    device: Arc<Device>,
    weights: HashMap<String, Weight>,
    /// Tables and weights of linear layers, by name.
    matrices: HashMap<String, Arc<Matrix>>,
    state: Arc<Mutex<State>>,
}

/// How an instance computes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// Whether it times what it does, where the device has a clock: slower for it.
    pub is_timed: bool,
    /// Whether no activations are rounded, as matrix units need it: slower where there are any.
    pub f32_activations: bool,
    /// Bytes that its buffers may have together; what would go beyond is [`Error::OutOfMemory`].
    pub memory: Option<u64>,
}

/// Matrices of a graph.
type Matrices = HashMap<WeightId, Arc<Matrix>>;

/// What the programs of an instance share.
#[derive(Debug, Default)]
struct State {
    kv: Option<Kv>,
    activation_bytes: u64,
    timings: Vec<Timing>,
}

impl Gpu {
    /// An instance on `adapter`.
    ///
    /// # Errors
    /// When the device cannot be opened.
    pub fn new(adapter: &Adapter) -> Result<Gpu, Error> {
        Gpu::with(adapter, Options::default())
    }

    /// An instance on `adapter` that computes so.
    ///
    /// # Errors
    /// When the device cannot be opened.
    pub fn with(adapter: &Adapter, options: Options) -> Result<Gpu, Error> {
        let Options { is_timed: timed, f32_activations, memory: budget } = options;
        Gpu::open(adapter, &Settings { timed, matrices: !f32_activations, budget, ..Settings::default() })
    }

    fn open(adapter: &Adapter, settings: &Settings) -> Result<Gpu, Error> {
        Ok(Gpu::on(Arc::new(Device::open(adapter, settings)?)))
    }

    fn on(device: Arc<Device>) -> Gpu {
        Gpu { device, weights: HashMap::new(), matrices: HashMap::new(), state: Arc::default() }
    }
}

impl Backend for Gpu {
    fn describe(&self) -> Description {
        let info = &self.device.info;
        Description {
            name: info.backend.to_str(),
            device: info.name.clone(),
            facts: vec![
                ("driver", format!("{} {}", info.driver, info.driver_info)),
                ("subgroups", format!("{} to {}", info.subgroup_min_size, info.subgroup_max_size)),
            ],
        }
    }

    fn load(&mut self, name: &str, weight: Weight) -> Result<(), Error> {
        weight.check(name)?;
        self.matrices.remove(name);
        self.weights.insert(name.to_owned(), weight);
        Ok(())
    }

    fn allocate_kv(&mut self, layout: KvLayout) -> Result<(), Error> {
        // The old store goes first, so that there is room for the new one.
        lock(&self.state).kv = None;
        let kv = Kv::new(&self.device, layout)?;
        lock(&self.state).kv = Some(kv);
        Ok(())
    }

    fn compile(&mut self, graph: &Graph, bucket: Bucket, taps: Taps<'_>) -> Result<Box<dyn Program>, Error> {
        let layout = lock(&self.state).kv.as_ref().map(|kv| kv.layout);
        let bound = Bound::new(graph, &self.weights, layout, bucket, taps)?;
        let mut matrices = Matrices::new();
        for (_, value) in graph.values() {
            if let Op::Embed { table: id } | Op::Linear { weight: id, .. } = value.op {
                let name = &graph.weight(id).name;
                let matrix = match self.matrices.get(name) {
                    Some(matrix) => matrix.clone(),
                    None => Arc::new(Matrix::new(&self.device, bound.weight(id).clone())?),
                };
                self.matrices.insert(name.clone(), matrix.clone());
                matrices.insert(id, matrix);
            }
        }
        Ok(Box::new(compile::compile(&self.device, bound, &matrices, &self.state)?))
    }

    fn prepare(&mut self, copied: &mut dyn FnMut(&str)) -> Result<(), Error> {
        let mut matrices: Vec<(&String, &Arc<Matrix>)> = self.matrices.iter().collect();
        matrices.sort_by_key(|(_, matrix)| matrix.weight().bytes.as_ptr());
        for (name, matrix) in matrices {
            matrix.upload(&self.device)?;
            copied(name);
        }
        Ok(())
    }

    fn memory(&self) -> Memory {
        let state = lock(&self.state);
        let loaded: u64 = self.weights.values().map(|weight| weight.bytes.len() as u64).sum();
        let copied: u64 = self.matrices.values().map(|matrix| matrix.weight().bytes.len() as u64).sum();
        let on_device = self.matrices.values().map(|matrix| matrix.bytes()).sum();
        Memory {
            weights_mapped: loaded - copied,
            weights_owned: on_device,
            weights_on_device: on_device,
            weights_plain: memory::plain(self.matrices.values()),
            kv: state.kv.as_ref().map_or(0, |kv| kv.layout.bytes()),
            activations: state.activation_bytes,
        }
    }

    fn timings(&self) -> Vec<Timing> {
        std::mem::take(&mut lock(&self.state).timings)
    }
}
