//! The interface of backends: traits, steps and their outputs, KV cache layout, devices.
//!
//! A [`Backend`] is a device without a model. It [loads](Backend::load) a [`LoadedModel`], which compiles a [`Program`] per bucket
//! of rows. Each is created by the previous one, which rules out calls in the wrong order. Backends know nothing of files, model
//! families or requests.

mod bind;
mod cache_block;
mod draw;
mod error;
mod group;
mod host;
mod kv_layout;
mod outputs;
mod registry;
mod step;
mod weight;

use graph::{Graph, Rows};
use quant::Format;

pub use bind::{BoundModel, BoundProgram};
pub use cache_block::CacheBlock;
pub use draw::{Draw, Filter, MAX_CANDIDATES, Penalties};
pub use error::{Error, Feature, MemoryKind, Remedy, readable_size};
pub use group::{GroupId, Member, lock};
pub use host::{HostBudget, free_threads, host_memory};
pub use kv_layout::{
    BlockTable, KV_BLOCK, KvFormat, KvLayout, KvType, SLOTS, StoreLayout, UnknownKvFormat, first_needed_block,
};
pub use outputs::{
    Answer, Outputs, Pending, Ticket, arg_max, greedy_token, log_sum_exp, top_log_probabilities,
};
pub use registry::{Device, DeviceInfo, DeviceKind, DeviceMemory, Driver, OpenOptions, Registry};
pub use step::{Input, Interrupt, Output, Row, Sequence, Slots, Step, Transfer};
pub use weight::{Shares, Weight, Weights};

/// The maximum numbers of rows and of output rows of the steps of a compiled program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[expect(missing_docs, reason = "see above")]
pub struct Bucket {
    pub rows: usize,
    pub outputs: usize,
}

impl Bucket {
    /// Maximum number of these rows.
    pub fn count(self, rows: Rows) -> usize {
        if rows == Rows::Step { self.rows } else { self.outputs }
    }
}

/// The values, besides the output, that can be read by name after a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[expect(missing_docs, reason = "the names say it")]
pub enum Taps<'a> {
    #[default]
    None,
    Names(&'a [&'a str]),
    All,
}

impl Taps<'_> {
    /// Whether value `name` is tapped.
    pub fn contains(&self, name: &str) -> bool {
        match self {
            Taps::None => false,
            Taps::Names(names) => names.contains(&name),
            Taps::All => true,
        }
    }

    /// Checks that all names are values of `graph`.
    pub fn check(&self, graph: &Graph) -> Result<(), Error> {
        let Taps::Names(names) = self else { return Ok(()) };
        match names.iter().find(|name| graph.find(name).is_none()) {
            Some(name) => Err(Error::Value { name: (*name).to_owned(), why: "is not in the graph" }),
            None => Ok(()),
        }
    }
}

/// The name of a backend, such as `cpu`, and its device, such as a CPU model, for display.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "see above")]
pub struct Description {
    pub name: &'static str,
    pub device: String,
    /// Properties to print: instruction sets, chosen kernels, threads.
    pub facts: Vec<(&'static str, String)>,
}

/// Weights that a device stores in a format other than the file's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names say it")]
pub struct ConvertedWeights {
    pub format: Format,
    /// F16, or F32 if a value exceeds the F16 range.
    pub device_format: Format,
    /// On the device.
    pub bytes: u64,
}

/// Memory use in bytes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Memory {
    /// Weights used in place, in the mapped file.
    pub weights_mapped: u64,
    /// Weights copied or repacked.
    pub weights_owned: u64,
    /// The part of `weights_owned` in device memory.
    pub weights_on_device: u64,
    /// The part of `weights_owned` converted because the device has no kernels for the file's format.
    pub weights_converted: Vec<ConvertedWeights>,
    /// The KV cache.
    pub kv: u64,
    /// Activations of the compiled programs and the scratch memory of their threads.
    pub activations: u64,
}

/// A device that runs a model. An instance loads one model.
pub trait Backend: Send {
    /// The backend and its device.
    fn describe(&self) -> Description;

    /// Memory that the model, its KV cache and programs for `buckets` with `taps` would take: a dry run of
    /// [`Backend::load`] and [`LoadedModel::compile`], which share code and errors.
    fn requirements(
        &self,
        graph: &Graph,
        weights: &dyn Weights,
        kv_layout: &KvLayout,
        buckets: &[Bucket],
        taps: Taps<'_>,
    ) -> Result<Memory, Error>;

    /// Makes it a member of a group, whose members sum values ([`graph::Op::AllReduce`]); before [`Backend::load`]. All members
    /// join at the same time, each in a thread of its own. Fails if the backend cannot sum over ranks.
    fn join(&mut self, member: Member) -> Result<(), Error> {
        let _ = member;
        let Description { name, device, .. } = self.describe();
        Err(Error::Group { device, why: format!("the {name} backend has no sums over several devices") })
    }

    /// Loads a model: `graph`, its weights, and an empty KV cache. Fails if a weight is missing or has another shape.
    fn load(
        self: Box<Self>,
        graph: &Graph,
        weights: &dyn Weights,
        kv_layout: &KvLayout,
    ) -> Result<Box<dyn LoadedModel>, Error>;
}

/// A model on a device: weights, KV cache and compiled programs.
pub trait LoadedModel: Send {
    /// The backend and its device.
    fn describe(&self) -> Description;

    /// Compiles the graph for steps that fit `bucket`. Fails if a tapped value is not in the graph.
    fn compile(&mut self, bucket: Bucket, taps: Taps<'_>) -> Result<Box<dyn Program>, Error>;

    /// Does slow work ahead of the first step, such as packing weights. `copied` is called with the name of each tensor
    /// whose bytes in the file are no longer needed.
    fn prepare(&mut self, copied: &mut dyn FnMut(&str)) -> Result<(), Error> {
        let _ = copied;
        Ok(())
    }

    /// Memory in use, including what [`LoadedModel::prepare`] has yet to allocate.
    fn memory(&self) -> Memory;

    /// The K/V format in use when `requested` is configured; a backend may support only one.
    fn kv_format(&self, requested: KvFormat) -> KvFormat {
        requested
    }

    /// Whether the backend supports `feature`.
    fn supports(&self, feature: Feature) -> bool {
        let _ = feature;
        false
    }

    /// Calls `work` with the bytes of a block of the cache, which may be in several places, when no step is in progress. Fails
    /// if the block is out of range, or the backend does not support it.
    fn with_block(&mut self, block: CacheBlock, work: &mut dyn FnMut(Vec<&mut [u8]>)) -> Result<(), Error> {
        let _ = (block, work);
        Err(Error::Unsupported { backend: self.describe().name.into(), feature: Feature::CacheBlocks })
    }

    /// The pipeline stages: each device with its memory use.
    fn stages(&self) -> Vec<(Description, Memory)> {
        vec![(self.describe(), self.memory())]
    }

    /// Kernel timings since the last call, if the backend was opened with profiling.
    fn timings(&self) -> Vec<Timing> {
        Vec::new()
    }
}

/// A compiled graph for steps that fit a bucket.
pub trait Program: Send {
    /// Starts a step, which computes all values and writes K and V to the cache. [`Program::wait`] waits for its end. Fails if
    /// the step does not fit the bucket, the vocabulary or the KV cache, which is then unchanged.
    fn submit(&mut self, step: &Step) -> Result<Ticket, Error>;

    /// Whether a step may be submitted before the one before it was waited for, and take tokens of its output rows
    /// ([`Input::Ahead`]). Their outputs are waited for in order. The step before must have requested tokens alone.
    fn can_follow(&self) -> bool {
        false
    }

    /// Waits for a submitted step and returns its outputs. Fails if another step was submitted since, unless that one
    /// [may follow](Program::can_follow).
    fn wait(&mut self, ticket: Ticket) -> Result<Outputs<'_>, Error>;

    /// Value `name`, which was tapped, of the last step that was waited for, row-major `[rows, cols]`.
    fn read(&self, name: &str) -> Result<&[f32], Error>;

    /// Submits a step and waits for it.
    fn run(&mut self, step: &Step) -> Result<Outputs<'_>, Error> {
        let ticket = self.submit(step)?;
        self.wait(ticket)
    }
}

/// Accumulated device time, minimum bytes read and written, and multiply-adds of one kind of kernel.
#[derive(Clone, Debug, PartialEq)]
#[expect(missing_docs, reason = "see above")]
pub struct Timing {
    /// Kernel, formats and shapes.
    pub what: String,
    pub calls: u64,
    pub seconds: f64,
    pub bytes: u64,
    pub multiply_adds: u64,
}

impl dyn LoadedModel + '_ {
    /// The bytes of a block of the cache, in an order of the backend's own.
    pub fn read_block(&mut self, block: CacheBlock) -> Result<Vec<u8>, Error> {
        let mut bytes = Vec::new();
        self.with_block(block, &mut |parts| bytes = parts.concat())?;
        Ok(bytes)
    }

    /// Overwrites a block of the cache with the bytes of one of the same model and type of cache.
    pub fn write_block(&mut self, block: CacheBlock, mut bytes: &[u8]) -> Result<(), Error> {
        let (found, mut expected) = (bytes.len(), 0);
        self.with_block(block, &mut |parts| {
            expected = parts.iter().map(|part| part.len()).sum();
            for part in parts.into_iter().filter(|_| found == expected) {
                part.copy_from_slice(bytes.split_off(..part.len()).unwrap_or_default());
            }
        })?;
        if found == expected { Ok(()) } else { Err(Error::CacheBytes { block, found, expected }) }
    }
}
