//! The reference backend: f32 values, f64 accumulation.
//!
//! The oracle for every other backend: slow, short and evidently correct. Each operation is a direct transcription of
//! its formula in [`graph::Op`]. Intermediate values, K and V are f32, whatever format is requested.

mod attention;
mod devices;
mod ops;
mod recurrent;
mod sums;

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};

use attention::Store;
use backend::{
    Backend, BoundModel, BoundProgram, Bucket, CacheBlock, Description, Error, Feature, HostBudget, KvFormat,
    KvLayout, LoadedModel, Member, Memory, Outputs, Pending, Program, Remedy, Step, Taps, Ticket, Weights,
    lock,
};
pub use devices::ReferenceDriver;
use graph::{Graph, Op, ValueId};
use recurrent::Slots;

/// The reference backend.
#[derive(Debug, Default)]
pub struct Reference {
    memory_limit: Option<u64>,
    member: Option<Member>,
}

impl Reference {
    /// A backend without a model.
    pub fn new() -> Reference {
        Reference::default()
    }

    /// Sets the memory that a model may use besides its mapped file; by default the memory available at load time.
    pub fn with_memory_limit(self, bytes: u64) -> Reference {
        Reference { memory_limit: Some(bytes), ..self }
    }

    fn bind(graph: &Graph, weights: &dyn Weights, kv_layout: &KvLayout) -> Result<BoundModel, Error> {
        BoundModel::new(graph, weights, &KvLayout { format: KvFormat::F32, ..kv_layout.clone() })
    }
}

impl Backend for Reference {
    fn describe(&self) -> Description {
        describe()
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
        let needed = buckets.iter().try_fold(0u64, |needed, &bucket| {
            Ok(needed.saturating_add(activations(&BoundProgram::new(model.clone(), bucket, taps)?)))
        });
        Ok(memory(&model, needed?))
    }

    fn join(&mut self, member: Member) -> Result<(), Error> {
        self.member = Some(member);
        Ok(())
    }

    fn load(
        self: Box<Self>,
        graph: &Graph,
        weights: &dyn Weights,
        kv_layout: &KvLayout,
    ) -> Result<Box<dyn LoadedModel>, Error> {
        let model = Reference::bind(graph, weights, kv_layout)?;
        model.check_member(self.member.as_ref())?;
        let mut budget = HostBudget::new(self.memory_limit);
        budget.take("the KV cache", model.kv_bytes(), Remedy::SmallerContext)?;
        let stores = model.stores().iter().map(Store::new).collect::<Result<_, Error>>()?;
        let slots = graph.values().map(|(id, _)| Slots::new(&model, id));
        let slots = slots.collect::<Result<_, Error>>()?;
        let state = State { stores, slots, budget, activation_bytes: 0, member: self.member };
        Ok(Box::new(Loaded { model: Arc::new(model), state: Arc::new(Mutex::new(state)) }))
    }
}

fn describe() -> Description {
    Description {
        name: "reference",
        device: "CPU".into(),
        facts: vec![("arithmetic", "weights dequantised to f32, sums in f64, K/V in f32".into())],
    }
}

struct Loaded {
    model: Arc<BoundModel>,
    state: Arc<Mutex<State>>,
}

struct State {
    /// KV stores, by [`graph::StoreId`].
    stores: Vec<Store>,
    /// The states of recurrent operations, by [`ValueId`]; other operations have none.
    slots: Vec<Slots>,
    budget: HostBudget,
    activation_bytes: u64,
    member: Option<Member>,
}

impl LoadedModel for Loaded {
    fn describe(&self) -> Description {
        describe()
    }

    fn compile(&mut self, bucket: Bucket, taps: Taps<'_>) -> Result<Box<dyn Program>, Error> {
        let bound = BoundProgram::new(self.model.clone(), bucket, taps)?;
        let bytes = activations(&bound);
        let state = &mut *lock(&self.state);
        state.budget.take("activations", bytes, Remedy::SmallerBatch)?;
        state.activation_bytes += bytes;
        let results = vec![Vec::new(); bound.graph().values().len()];
        Ok(Box::new(Interpreter { bound, results, state: self.state.clone(), pending: Pending::default() }))
    }

    fn memory(&self) -> Memory {
        memory(&self.model, lock(&self.state).activation_bytes)
    }

    fn kv_format(&self, _requested: KvFormat) -> KvFormat {
        KvFormat::F32
    }

    fn supports(&self, _: Feature) -> bool {
        true
    }

    fn with_block(&mut self, block: CacheBlock, work: &mut dyn FnMut(Vec<&mut [u8]>)) -> Result<(), Error> {
        let State { stores, slots, .. } = &mut *lock(&self.state);
        let states = slots.iter_mut().map(|slots| &mut slots.states);
        work(self.model.block_parts(block, stores, Store::block, states)?);
        Ok(())
    }
}

fn memory(model: &BoundModel, activations: u64) -> Memory {
    Memory {
        weights_mapped: model.weights().iter().map(|weight| weight.bytes.len() as u64).sum(),
        kv: model.kv_bytes(),
        activations,
        ..Memory::default()
    }
}

/// Peak bytes of the values when the bucket is full.
fn activations(bound: &BoundProgram) -> u64 {
    let bytes = |id: ValueId| {
        let (value, rows) = (bound.value(id), bound.bucket().count(bound.value(id).rows));
        (rows.saturating_mul(value.cols) as u64).saturating_mul(size_of::<f32>() as u64)
    };
    let (mut held, mut most): (u64, u64) = (0, 0);
    for (id, value) in bound.graph().values() {
        held = held.saturating_add(bytes(id));
        most = most.max(held);
        for read in BTreeSet::from_iter(value.op.inputs().chain([id])) {
            if bound.last_read(read) == Some(id.index()) {
                held = held.saturating_sub(bytes(read));
            }
        }
    }
    most
}

/// Computes the values of a graph one after the other.
struct Interpreter {
    bound: BoundProgram,
    results: Vec<Vec<f32>>,
    state: Arc<Mutex<State>>,
    pending: Pending,
}

impl Drop for Interpreter {
    fn drop(&mut self) {
        let (bytes, state) = (activations(&self.bound), &mut *lock(&self.state));
        state.activation_bytes -= bytes;
        state.budget.give_back(bytes);
    }
}

impl Program for Interpreter {
    fn submit(&mut self, step: &Step) -> Result<Ticket, Error> {
        self.bound.check(step)?;
        let state = &mut *lock(&self.state);
        for (id, value) in self.bound.graph().values() {
            step.check_interrupt()?;
            let mut result = ops::compute(&self.bound, id, &self.results, step, state);
            if let (Op::AllReduce { .. }, Some(member)) = (value.op, &state.member) {
                member.all_reduce(&mut result)?;
            }
            self.results[id.index()] = result;
            for read in value.op.inputs().chain([id]) {
                if self.bound.last_read(read) == Some(id.index()) {
                    self.results[read.index()] = Vec::new();
                }
            }
        }
        Ok(self.pending.begin(step))
    }

    fn wait(&mut self, ticket: Ticket) -> Result<Outputs<'_>, Error> {
        let output_rows = self.pending.end(ticket)?;
        Ok(self.bound.outputs(output_rows, |id| &self.results[id.index()]))
    }

    fn read(&self, name: &str) -> Result<&[f32], Error> {
        Ok(&self.results[self.bound.readable(name)?.index()])
    }
}
