//! The GPU backend: Metal and Vulkan through wgpu.
//!
//! A graph becomes a list of passes over buffers (`plan.rs`), each a kernel in WGSL with its parameters and buffers, by
//! number (`compile.rs`): that is all that [`Gpu`] needs to say what a model would take. A program makes the buffers and
//! binds them; a step uploads what changes, encodes the list, and reads back what is asked for (`program.rs`).
//! Activations are f32.

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
mod tests;
mod timer;
#[cfg(test)]
mod watched;
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
pub use memory::{Room, formats};
use model::{Formats, Model, ModelPlan};

/// The backend: an opened device.
#[derive(Debug)]
pub struct Gpu {
    device: Arc<Device>,
    formats: Mutex<Formats>,
}

/// How an instance computes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// Whether it times what it does, where the device has a clock: slower for it.
    pub is_timed: bool,
    /// Whether no activations are rounded, as matrix units need it: slower where there are any.
    pub f32_activations: bool,
    /// Bytes that its buffers may have together. What would go beyond is [`Error::OutOfMemory`] when it is loaded or
    /// compiled; what a model would take is told all the same.
    pub memory: Option<u64>,
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
        let settings = Settings { timed, matrices: !f32_activations, budget, ..Settings::default() };
        Ok(Gpu::on(Arc::new(Device::open(adapter, &settings)?)))
    }

    fn on(device: Arc<Device>) -> Gpu {
        Gpu { device, formats: Mutex::default() }
    }

    /// How a model would lie on the device.
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
        watched::poison_stores(&model);
        Ok(Box::new(Loaded(Arc::new(model))))
    }
}
