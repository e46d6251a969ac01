//! The reference backend: f32 values, f64 accumulation.
//!
//! The oracle for every other backend: slow, short and evidently correct. Each operation is a direct transcription of its
//! formula in [`graph::Op`]. Intermediate values, K and V are f32, whatever format is requested.

mod attention;
mod devices;
mod ops;
mod sums;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use attention::Store;
use backend::{
    Backend, BoundModel, BoundProgram, Bucket, Description, Error, KvFormat, KvLayout, LoadedModel, Memory,
    Outputs, Pending, Program, Step, Taps, Ticket, Weights,
};
pub use devices::ReferenceDriver;
use graph::Graph;

/// The reference backend.
#[derive(Debug, Default)]
pub struct Reference;

impl Reference {
    /// A backend without a model.
    pub fn new() -> Reference {
        Reference
    }

    fn bind(graph: &Graph, weights: &dyn Weights, kv_layout: &KvLayout) -> Result<BoundModel, Error> {
        BoundModel::new(graph, weights, &KvLayout { format: KvFormat::F32, ..kv_layout.clone() })
    }
}

impl Backend for Reference {
    fn describe(&self) -> Description {
        Description {
            name: "reference",
            device: "CPU".into(),
            facts: vec![("arithmetic", "weights dequantised to f32, sums in f64, K/V in f32".into())],
        }
    }

    fn requirements(
        &self,
        graph: &Graph,
        weights: &dyn Weights,
        kv_layout: &KvLayout,
        buckets: &[Bucket],
        taps: Taps<'_>,
    ) -> Result<Memory, Error> {
        let model = Arc::new(Reference::bind(graph, weights, kv_layout)?);
        for &bucket in buckets {
            BoundProgram::new(model.clone(), bucket, taps)?;
        }
        Ok(memory(&model))
    }

    fn load(
        self: Box<Self>,
        graph: &Graph,
        weights: &dyn Weights,
        kv_layout: &KvLayout,
    ) -> Result<Box<dyn LoadedModel>, Error> {
        let model = Reference::bind(graph, weights, kv_layout)?;
        let stores = model.stores().iter().map(Store::new).collect::<Result<_, Error>>()?;
        Ok(Box::new(Loaded { model: Arc::new(model), stores: Arc::new(Mutex::new(stores)) }))
    }
}

/// A model and its KV stores.
struct Loaded {
    model: Arc<BoundModel>,
    stores: Arc<Mutex<Vec<Store>>>,
}

impl LoadedModel for Loaded {
    fn describe(&self) -> Description {
        Reference.describe()
    }

    fn compile(&mut self, bucket: Bucket, taps: Taps<'_>) -> Result<Box<dyn Program>, Error> {
        let bound = BoundProgram::new(self.model.clone(), bucket, taps)?;
        let results = vec![Vec::new(); bound.graph().values().len()];
        Ok(Box::new(Interpreter { bound, results, stores: self.stores.clone(), pending: Pending::default() }))
    }

    fn memory(&self) -> Memory {
        memory(&self.model)
    }

    fn kv_format(&self, _asked: KvFormat) -> KvFormat {
        KvFormat::F32
    }
}

fn memory(model: &BoundModel) -> Memory {
    Memory {
        weights_mapped: model.weights().iter().map(|weight| weight.bytes.len() as u64).sum(),
        kv: model.kv_bytes(),
        ..Memory::default()
    }
}

/// Computes the values of a graph one after the other.
struct Interpreter {
    bound: BoundProgram,
    results: Vec<Vec<f32>>,
    stores: Arc<Mutex<Vec<Store>>>,
    pending: Pending,
}

impl Program for Interpreter {
    fn submit(&mut self, step: &Step) -> Result<Ticket, Error> {
        self.bound.check(step)?;
        let mut stores = lock(&self.stores);
        for (id, value) in self.bound.graph().values() {
            self.results[id.index()] = ops::compute(&self.bound, value, &self.results, step, &mut stores);
            for read in value.op.inputs().chain([id]) {
                if self.bound.last_read(read) == Some(id.index()) {
                    self.results[read.index()] = Vec::new();
                }
            }
        }
        Ok(self.pending.begin(step))
    }

    fn wait(&mut self, ticket: Ticket) -> Result<Outputs<'_>, Error> {
        let (asked, output) = (self.pending.end(ticket)?, self.bound.output());
        Ok(Outputs::new(asked, &self.results[output.index()], self.bound.value(output).cols))
    }

    fn read(&self, name: &str) -> Result<&[f32], Error> {
        Ok(&self.results[self.bound.readable(name)?.index()])
    }
}

/// Ignores poisoning: a step that panicked leaves only rows that the next step overwrites.
fn lock(stores: &Mutex<Vec<Store>>) -> MutexGuard<'_, Vec<Store>> {
    stores.lock().unwrap_or_else(PoisonError::into_inner)
}
