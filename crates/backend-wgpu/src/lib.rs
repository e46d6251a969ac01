//! The GPU backend: Vulkan and Metal through wgpu.
//!
//! [`gpu`] lowers a graph to a list of fused passes. `compile.rs` lowers each pass to WGSL kernel launches with
//! parameters and buffer indices; that is enough to report memory requirements. `program.rs` allocates and binds the
//! buffers. A step then uploads its inputs, records or reuses a command buffer, and reads back the outputs.
//! Activations are f32, except that kernels with cooperative matrices (tensor cores, simdgroup matrices) round them
//! to f16.

mod attend;
mod compile;
mod device;
mod devices;
mod experts;
mod heads;
mod kernels;
mod memory;
mod model;
mod policy;
mod program;
mod recurrent;
#[cfg(test)]
mod tests;
mod timer;
mod weights;

use std::sync::{Arc, Mutex};

use backend::{
    Backend, BoundModel, BoundProgram, Bucket, Description, Error, KvFormat, KvLayout, LoadedModel, Memory,
    OpenOptions, Program, Taps, Timing, Weights, lock,
};
use gpu::Formats;
use graph::Graph;

use compile::Blueprint;
pub use device::{Adapter, adapters};
use device::{Device, Settings};
pub use devices::GpuDriver;
use model::{Model, ModelPlan};
use program::GpuProgram;

/// The GPU backend on an opened device.
#[derive(Debug)]
pub struct Gpu {
    device: Arc<Device>,
    formats: Mutex<Formats>,
}

impl Gpu {
    /// Opens `adapter` with default options.
    pub fn new(adapter: &Adapter) -> Result<Gpu, Error> {
        Gpu::with(adapter, &OpenOptions::default())
    }

    /// Opens `adapter`. `f32_activations` disables kernels with cooperative matrices, which round activations to f16.
    /// Loading or compiling beyond `memory` is [`Error::OutOfMemory`]; requirements are reported regardless of `memory`.
    pub fn with(adapter: &Adapter, options: &OpenOptions) -> Result<Gpu, Error> {
        let &OpenOptions { timed, f32_activations, memory: budget, .. } = options;
        let settings = Settings { timed, coop_matrix: !f32_activations, budget, ..Settings::default() };
        Ok(Gpu::on(Arc::new(Device::open(adapter, &settings)?)))
    }

    fn on(device: Arc<Device>) -> Gpu {
        Gpu { device, formats: Mutex::new(Formats::new(&kernels::FORMATS)) }
    }

    fn plan(&self, graph: &Graph, weights: &dyn Weights, kv_layout: &KvLayout) -> Result<ModelPlan, Error> {
        let format = kv_layout.format;
        if ![KvFormat::F16, KvFormat::F32].contains(&format) {
            let device = self.device.describe().device;
            let format = format.to_string();
            return Err(Error::KvFormat { device, format, supported: "f16 or f32 for both K and V" });
        }
        let bound = BoundModel::new(graph, weights, kv_layout)?;
        model::plan(&self.device, bound, &mut lock(&self.formats))
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
            Ok(Blueprint::new(&self.device, &plan, &bound, taps)?.bytes())
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
        tests::sanitizer::poison_stores(&model);
        Ok(Box::new(Loaded(Arc::new(model))))
    }
}

struct Loaded(Arc<Model>);

impl LoadedModel for Loaded {
    fn describe(&self) -> Description {
        self.0.device.describe()
    }

    fn compile(&mut self, bucket: Bucket, taps: Taps<'_>) -> Result<Box<dyn Program>, Error> {
        let Model { device, plan, .. } = &*self.0;
        let bound = BoundProgram::new(plan.bound.clone(), bucket, taps)?;
        let blueprint = Blueprint::new(device, plan, &bound, taps)?;
        Ok(Box::new(GpuProgram::new(self.0.clone(), blueprint)?))
    }

    fn prepare(&mut self, copied: &mut dyn FnMut(&str)) -> Result<(), Error> {
        self.0.upload(copied)
    }

    fn memory(&self) -> Memory {
        self.0.plan.memory(lock(&self.0.state).activations)
    }

    fn timings(&self) -> Vec<Timing> {
        std::mem::take(&mut lock(&self.0.state).timings)
    }
}
