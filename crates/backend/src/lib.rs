//! What a backend is: the traits, a step's inputs and the K/V cache's shape.
//!
//! A backend gets a [`graph::Graph`], weights by name and the shape of a K/V store; it compiles the
//! graph into a [`Program`] and runs it step by step. It never sees files, model families or
//! requests.

mod bound;
mod error;
mod kv;
mod step;

use bytes::Bytes;
use graph::Graph;
use quant::Format;

pub use bound::Bound;
pub use error::Error;
pub use kv::{KvFormat, KvLayout, PAGE};
pub use step::{Span, Step};

/// A weight's bytes: `rows` rows of `cols` values in `format`, row after row as in the file.
///
/// The bytes are shared: as a rule a range of a file's map, which a backend uses in place.
#[derive(Clone, Debug)]
pub struct Weight {
    /// How the values are stored.
    pub format: Format,
    /// Rows.
    pub rows: usize,
    /// Values a row, whole blocks of `format`.
    pub cols: usize,
    /// `rows` times `format.bytes_for(cols)` bytes.
    pub bytes: Bytes,
}

impl Weight {
    /// Checks that the bytes are those of the shape.
    ///
    /// # Errors
    /// When they are not; `name` names the weight.
    pub fn check(&self, name: &str) -> Result<(), Error> {
        let row = self.format.bytes_for(self.cols as u64);
        let expected = row.and_then(|row| row.checked_mul(self.rows as u64));
        if expected == Some(self.bytes.len() as u64) {
            return Ok(());
        }
        Err(Error::WeightBytes {
            name: name.to_owned(),
            format: self.format,
            rows: self.rows,
            cols: self.cols,
            found: self.bytes.len(),
            expected: expected.map_or("whole blocks".to_owned(), |bytes| bytes.to_string()),
        })
    }

    /// The bytes of one row.
    pub fn row(&self, row: usize) -> &[u8] {
        let bytes = self.bytes.len() / self.rows;
        &self.bytes[row * bytes..][..bytes]
    }
}

/// How many rows a compiled program has room for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bucket {
    /// Tokens a step, at most.
    pub rows: usize,
    /// Rows of logits a step, at most.
    pub wanted: usize,
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
}

/// What a backend runs on and how, for people: `rustorch devices`.
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
pub struct Plain {
    /// Theirs in the file.
    pub format: Format,
    /// F16, or F32 where that has not all of their numbers.
    pub kept: Format,
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
    pub weights_plain: Vec<Plain>,
    /// The K/V store.
    pub kv: u64,
    /// Activations of the compiled programs. What threads keep to work in, about a megabyte each, is not counted.
    pub activations: u64,
}

/// One model on one device: its weights, its K/V store and the programs compiled from its graph.
pub trait Backend: Send {
    /// What it runs on.
    fn describe(&self) -> Description;

    /// Takes the weight called `name` in the graphs to come.
    ///
    /// # Errors
    /// When the bytes do not fit the shape or the device has no room.
    fn load(&mut self, name: &str, weight: Weight) -> Result<(), Error>;

    /// Makes the K/V store, empty; replaces an earlier one.
    ///
    /// # Errors
    /// When the device has no room for it.
    fn allocate_kv(&mut self, layout: KvLayout) -> Result<(), Error>;

    /// Compiles `graph` for steps of up to `bucket` rows.
    ///
    /// # Errors
    /// When a weight is missing or of another shape, or the K/V store does not fit the graph.
    fn compile(&mut self, graph: &Graph, bucket: Bucket, taps: Taps<'_>) -> Result<Box<dyn Program>, Error>;

    /// Does now what the first step would do else and what may take long, such as packing the weights of
    /// all graphs compiled so far. `copied` hears the name of each weight that has been copied: its bytes
    /// will hardly be read again.
    ///
    /// # Errors
    /// When the device has no room.
    fn prepare(&mut self, copied: &mut dyn FnMut(&str)) -> Result<(), Error> {
        let _ = copied;
        Ok(())
    }

    /// What it holds, or will when it is prepared.
    fn memory(&self) -> Memory;

    /// What steps since the last call have spent their time on, when the backend was made to take it.
    fn timings(&self) -> Vec<Timing> {
        Vec::new()
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

/// A graph made ready for steps of up to a bucket's rows.
pub trait Program: Send {
    /// Runs one step: computes every value and writes K and V of its tokens to the store.
    ///
    /// # Errors
    /// When the step does not fit the bucket, the vocabulary or the K/V store; nothing is written then.
    fn run(&mut self, step: &Step) -> Result<(), Error>;

    /// The last step's output, `[step.wanted().len(), n_vocab]`, row after row.
    fn output(&self) -> &[f32];

    /// The last step's value called `name`, `[rows, cols]`, row after row.
    ///
    /// # Errors
    /// When the graph has no such value or it was not tapped.
    fn read(&self, name: &str) -> Result<&[f32], Error>;
}
