//! What a backend is: the traits, a step's inputs and outputs, and the layout of what sequences carry.
//!
//! A [`Backend`] is a device that holds nothing yet. It [loads](Backend::load) a model, which is a [`graph::Graph`],
//! weights by name and a [`KvLayout`]; the [`LoadedModel`] compiles programs for buckets of rows; a [`Program`]
//! runs steps. Each comes from the one before, so that no call can come too early. A backend never sees files, model
//! families or requests.

mod bind;
mod block_table;
mod error;
mod kv_layout;
mod outputs;
mod registry;
mod step;
mod weight;

use graph::Graph;
use quant::Format;

pub use bind::{BoundModel, BoundProgram};
pub use block_table::BlockTable;
pub use error::{Error, MemoryKind, Remedy};
pub use kv_layout::{KvFormat, KvLayout, PAGE, StoreLayout, first_needed_page};
pub use outputs::{
    Outputs, Pending, Ticket, are_tokens_only, arg_max, greedy_token, log_sum_exp, top_log_probabilities,
};
pub use registry::{
    Device, DeviceInfo, DeviceKind, DeviceMemory, Driver, OpenOptions, Registry, readable_size,
};
pub use step::{OutputRow, Sequence, Step};
pub use weight::{Weight, Weights};

/// How many rows a compiled program has room for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Bucket {
    /// Tokens a step, at most.
    pub rows: usize,
    /// Output rows a step, at most.
    pub outputs: usize,
}

/// Which values can be read by name after a step, besides the output.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Taps<'a> {
    /// None.
    #[default]
    None,
    /// These.
    Names(&'a [&'a str]),
    /// Every value of the graph.
    All,
}

impl Taps<'_> {
    /// Whether the value `name` can be read.
    pub fn contains(&self, name: &str) -> bool {
        match self {
            Taps::None => false,
            Taps::Names(names) => names.contains(&name),
            Taps::All => true,
        }
    }

    /// Whether all that are named are values of `graph`.
    ///
    /// # Errors
    /// With the first that is not.
    pub fn check(&self, graph: &Graph) -> Result<(), Error> {
        let names = if let Taps::Names(names) = self { names } else { &[][..] };
        match names.iter().find(|name| graph.find(name).is_none()) {
            Some(name) => Err(Error::Value { name: (*name).to_owned(), why: "is not in the graph" }),
            None => Ok(()),
        }
    }
}

/// What a backend runs on and how, for people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Description {
    /// The name it is chosen by, such as `cpu`.
    pub name: &'static str,
    /// The device, such as a processor's name.
    pub device: String,
    /// Facts worth printing: instruction sets, kernels chosen, threads.
    pub facts: Vec<(&'static str, String)>,
}

/// Weights that a device has in another format than the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConvertedWeights {
    /// Theirs in the file.
    pub format: Format,
    /// F16, or F32 where that has not all of their numbers.
    pub device_format: Format,
    /// What they take so.
    pub bytes: u64,
}

/// Bytes a backend holds, besides the weights it uses in place.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Memory {
    /// Weights used where they lie, in the file's map.
    pub weights_mapped: u64,
    /// Weights copied or repacked.
    pub weights_owned: u64,
    /// Those of them that are in the memory of a device.
    pub weights_on_device: u64,
    /// Those of them whose format the device has no kernels for.
    pub weights_converted: Vec<ConvertedWeights>,
    /// The K/V store.
    pub kv: u64,
    /// Activations of the compiled programs. What threads keep to work in, about a megabyte each, is not counted.
    pub activations: u64,
}

/// A device that models are put on. An instance takes one model.
pub trait Backend: Send {
    /// What it runs on.
    fn describe(&self) -> Description;

    /// What a model would take, by the same way that [`Backend::load`] and [`LoadedModel::compile`] go, without taking it:
    /// its weights, its stores, and programs for `buckets` with these values to be read.
    ///
    /// # Errors
    /// As those of the two.
    fn requirements(
        &self,
        graph: &Graph,
        weights: &dyn Weights,
        kv_layout: &KvLayout,
        buckets: &[Bucket],
        taps: Taps<'_>,
    ) -> Result<Memory, Error>;

    /// Takes a model: `graph` with its weights, and empty stores of this layout.
    ///
    /// # Errors
    /// When a weight is missing or of another shape, or the device has no room.
    fn load(
        self: Box<Self>,
        graph: &Graph,
        weights: &dyn Weights,
        kv_layout: &KvLayout,
    ) -> Result<Box<dyn LoadedModel>, Error>;
}

/// A model on a device: its weights, its stores and the programs compiled from its graph.
pub trait LoadedModel: Send {
    /// What it runs on.
    fn describe(&self) -> Description;

    /// Compiles the graph for steps of up to `bucket` rows.
    ///
    /// # Errors
    /// When a tapped value is not in the graph, or the device has no room.
    fn compile(&mut self, bucket: Bucket, taps: Taps<'_>) -> Result<Box<dyn Program>, Error>;

    /// Does now what the first step would do else and what may take long, such as packing weights. `copied` hears the
    /// name of each tensor that has been copied and whose bytes nobody reads again.
    ///
    /// # Errors
    /// When the device has no room.
    fn prepare(&mut self, copied: &mut dyn FnMut(&str)) -> Result<(), Error> {
        let _ = copied;
        Ok(())
    }

    /// What it holds, or will when it is prepared.
    fn memory(&self) -> Memory;

    /// The devices that compute it, one after the other, each with what the model takes there.
    fn stages(&self) -> Vec<(Description, Memory)> {
        vec![(self.describe(), self.memory())]
    }

    /// What steps since the last call have spent their time on, when the backend was made to take it.
    fn timings(&self) -> Vec<Timing> {
        Vec::new()
    }
}

/// A graph made ready for steps of up to a bucket's rows.
pub trait Program: Send {
    /// Begins a step: computes every value and writes K and V of its tokens to the stores, now or by the time it is
    /// waited for.
    ///
    /// # Errors
    /// When the step does not fit the bucket, the vocabulary or the stores; nothing is written then.
    fn submit(&mut self, step: &Step) -> Result<Ticket, Error>;

    /// Waits for the step that was submitted last, and gives what its output rows asked for.
    ///
    /// # Errors
    /// When the device has failed, or the ticket is of another step.
    fn wait(&mut self, ticket: Ticket) -> Result<Outputs<'_>, Error>;

    /// The value called `name` of the step that was waited for last, `[rows, cols]`, row after row.
    ///
    /// # Errors
    /// When the graph has no such value or it was not tapped.
    fn read(&self, name: &str) -> Result<&[f32], Error>;

    /// Submits a step and waits for it.
    ///
    /// # Errors
    /// As those of the two.
    fn run(&mut self, step: &Step) -> Result<Outputs<'_>, Error> {
        let ticket = self.submit(step)?;
        self.wait(ticket)
    }
}

/// What one kind of work took, all times together.
#[derive(Clone, Debug, PartialEq)]
pub struct Timing {
    /// The kernel, formats and shapes.
    pub what: String,
    /// How many times it was done.
    pub calls: u64,
    /// Time on the device.
    pub seconds: f64,
    /// Bytes that have to be read and written at least.
    pub bytes: u64,
    /// Multiplications with an addition.
    pub multiply_adds: u64,
}
