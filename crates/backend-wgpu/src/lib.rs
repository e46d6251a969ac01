//! The GPU backend: Vulkan and Metal through wgpu.
//!
//! `plan.rs` turns a graph into a list of fused passes. `compile.rs` turns each pass into WGSL kernel launches with
//! parameters and buffer indices; that is enough to report memory requirements. `program.rs` allocates and binds the
//! buffers. A step then uploads its inputs, records or reuses a command buffer, and reads back the outputs.
//! Activations are f32, except that kernels with cooperative matrices (tensor cores, simdgroup matrices) round them
//! to f16.

mod attend;
mod compile;
mod device;
mod devices;
mod experts;
mod facts;
mod formats;
#[cfg(test)]
mod guard;
mod inputs;
mod kernels;
mod launch;
mod loaded;
mod lock;
mod memory;
mod model;
mod plan;
mod policy;
mod program;
#[cfg(test)]
mod sanitizer;
#[cfg(test)]
mod tests;
mod timer;
mod weights;

use std::sync::{Arc, Mutex};

use backend::{
    Backend, BoundModel, BoundProgram, Bucket, Description, Error, KvLayout, LoadedModel, Memory, Taps,
    Weights,
};
use graph::Graph;

use compile::Blueprint;
pub use device::{Adapter, adapters};
use device::{Device, Settings};
pub use devices::GpuDriver;
pub use facts::{Facts, may_have_gpu};
use loaded::Loaded;
use lock::lock;
use memory::formats;
use model::{Formats, Model, ModelPlan};

/// The GPU backend on an opened device.
#[derive(Debug)]
pub struct Gpu {
    device: Arc<Device>,
    formats: Mutex<Formats>,
}

/// Options of a backend instance.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// Whether launches are timed, if the device supports timestamps. Slower.
    pub is_timed: bool,
    /// Whether activations stay f32: no kernels with cooperative matrices, which round them to f16. Slower on devices
    /// that have them.
    pub f32_activations: bool,
    /// Memory budget for all buffers, in bytes. Loading or compiling beyond it is [`Error::OutOfMemory`];
    /// requirements are reported whatever the budget.
    pub memory: Option<u64>,
}

impl Gpu {
    /// Opens `adapter` with default options.
    ///
    /// # Errors
    /// When the device cannot be opened.
    pub fn new(adapter: &Adapter) -> Result<Gpu, Error> {
        Gpu::with(adapter, Options::default())
    }

    /// Opens `adapter` with `options`.
    ///
    /// # Errors
    /// When the device cannot be opened.
    pub fn with(adapter: &Adapter, options: Options) -> Result<Gpu, Error> {
        let Options { is_timed: timed, f32_activations, memory: budget } = options;
        let settings = Settings { timed, coop_matrix: !f32_activations, budget, ..Settings::default() };
        Ok(Gpu::on(Arc::new(Device::open(adapter, &settings)?)))
    }

    fn on(device: Arc<Device>) -> Gpu {
        Gpu { device, formats: Mutex::default() }
    }

    fn plan(&self, graph: &Graph, weights: &dyn Weights, kv_layout: &KvLayout) -> Result<ModelPlan, Error> {
        let bound = BoundModel::new(graph, weights, kv_layout)?;
        ModelPlan::new(&self.device, bound, &mut lock(&self.formats))
    }
}

impl Backend for Gpu {
    fn describe(&self) -> Description {
        self.device.describe()
    }

    fn requirements(
        &self,
        graph: &Graph,
        weights: &dyn Weights,
        kv_layout: &KvLayout,
        buckets: &[Bucket],
        taps: Taps<'_>,
    ) -> Result<Memory, Error> {
        let plan = self.plan(graph, weights, kv_layout)?;
        let bytes = buckets.iter().map(|&bucket| {
            let bound = BoundProgram::new(plan.bound.clone(), bucket, taps)?;
            Ok(Blueprint::new(&self.device, &plan, bound, taps)?.bytes())
        });
        let bytes = bytes.sum::<Result<u64, Error>>()?;
        Ok(plan.memory(bytes))
    }

    fn load(
        self: Box<Self>,
        graph: &Graph,
        weights: &dyn Weights,
        kv_layout: &KvLayout,
    ) -> Result<Box<dyn LoadedModel>, Error> {
        let plan = self.plan(graph, weights, kv_layout)?;
        let model = Model::new(self.device, plan)?;
        #[cfg(test)]
        sanitizer::poison_stores(&model);
        Ok(Box::new(Loaded(Arc::new(model))))
    }
}
