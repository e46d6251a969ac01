//! The CUDA backend: NVIDIA cards from compute capability 8.0 on.
//!
//! [`gpu`] lowers a graph to fused passes. `compile.rs` lowers each pass to kernel launches, whose arguments (`arguments.rs`) name
//! buffers; that is enough to report memory requirements. `program.rs` allocates the buffers and builds the launches. A
//! step then uploads its inputs, replays a recorded graph of its shape, and reads back the outputs. Kernels are CUDA C++
//! in `kernels`, compiled ahead by `kernels/build` and part of the library; the driver is opened at run time.
//!
//! Activations are f32. GEMV kernels quantise them to 8 bits per 32 values, tensor cores round them to f16.

mod algorithm;
mod arguments;
mod attend;
mod choose;
mod compile;
mod decode;
mod devices;
mod driver;
mod experts;
mod launch;
mod matmul;
mod model;
mod occupancy;
mod program;
mod recurrent;
mod route;
mod rows;
mod shared_memory;
mod upload;

use std::sync::{Arc, Mutex};

use backend::{
    Backend, BoundModel, BoundProgram, Bucket, Description, Error, KvFormat, KvLayout, KvType, LoadedModel,
    Member, Memory, OpenOptions, Program, Taps, Timing, Weights, lock,
};
use gpu::Formats;
use graph::Graph;
use quant::Format;

use compile::Blueprint;
pub use devices::CudaDriver;
use driver::Device;
pub use driver::{Card, cards};
use model::{Model, ModelPlan, tensor_map_bytes};
use program::CudaProgram;

/// The CUDA backend on an opened card.
#[derive(Debug)]
pub struct Cuda {
    device: Arc<Device>,
    formats: Mutex<Formats>,
    member: Option<Member>,
}

impl Cuda {
    /// Opens `card` with default options.
    pub fn new(card: &Card) -> Result<Cuda, Error> {
        Cuda::with(card, &OpenOptions::default())
    }

    /// Opens `card`. `f32_activations` disables kernels that quantise activations or round them to f16. Loading or
    /// compiling beyond `memory` is [`Error::OutOfMemory`]; requirements are reported regardless of `memory`.
    pub fn with(card: &Card, options: &OpenOptions) -> Result<Cuda, Error> {
        let &OpenOptions { timed, f32_activations, memory, .. } = options;
        let device = Device::open(card, timed, f32_activations, memory)?;
        Ok(Cuda { device: Arc::new(device), formats: Mutex::new(Formats::new(&Format::ALL)), member: None })
    }

    fn plan(&self, graph: &Graph, weights: &dyn Weights, kv_layout: &KvLayout) -> Result<ModelPlan, Error> {
        let KvFormat { k, v } = kv_layout.format;
        if k != v || k == KvType::Q4_0 {
            let (device, format) = (self.device.describe().device, kv_layout.format.to_string());
            let supported = "f16, bf16, fp8, q8_0 or f32 for both K and V";
            return Err(Error::KvFormat { device, format, supported });
        }
        let bound = BoundModel::new(graph, weights, kv_layout)?;
        model::plan(bound, &mut lock(&self.formats))
    }
}

impl Backend for Cuda {
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
        Ok(plan.memory(bytes.saturating_add(tensor_map_bytes(&plan))))
    }

    fn join(&mut self, member: Member) -> Result<(), Error> {
        self.device.join(&member)?;
        self.member = Some(member);
        Ok(())
    }

    fn load(
        self: Box<Self>,
        graph: &Graph,
        weights: &dyn Weights,
        kv_layout: &KvLayout,
    ) -> Result<Box<dyn LoadedModel>, Error> {
        let plan = self.plan(graph, weights, kv_layout)?;
        plan.bound.check_member(self.member.as_ref())?;
        Ok(Box::new(Loaded(Arc::new(Model::new(self.device, plan)?))))
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
        Ok(Box::new(CudaProgram::new(self.0.clone(), blueprint)?))
    }

    fn prepare(&mut self, copied: &mut dyn FnMut(&str)) -> Result<(), Error> {
        self.0.upload(copied)
    }

    fn memory(&self) -> Memory {
        let Model { plan, state, .. } = &*self.0;
        plan.memory(lock(state).activations.saturating_add(tensor_map_bytes(plan)))
    }

    fn timings(&self) -> Vec<Timing> {
        std::mem::take(&mut lock(&self.0.state).timings)
    }
}
