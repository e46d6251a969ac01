//! A model on a backend: weights, KV cache, and programs by bucket.

use backend::{
    Backend, Bucket, Error, KvLayout, LoadedModel, Memory, Outputs, Program, Step, Taps, Ticket, Timing,
    Weights,
};
use gguf::Gguf;
use graph::Graph;

use crate::FileWeights;

/// A loaded model and its compiled programs.
///
/// Programs are sorted by bucket, smallest first; a step runs on the first program that it fits.
pub struct ModelRunner {
    graph: Graph,
    loaded: Box<dyn LoadedModel>,
    programs: Vec<(Bucket, Box<dyn Program>)>,
    tapped: Vec<String>,
    /// The program of the last step.
    last: Option<usize>,
}

/// A step that was submitted and is to be waited for.
#[derive(Debug)]
#[must_use = "wait for the step to get its outputs"]
pub struct Submitted {
    program: usize,
    ticket: Ticket,
}

impl ModelRunner {
    /// Loads the model of `file`, whose graph is `graph`, on `backend`, allocates its KV cache, and compiles programs
    /// for `buckets`.
    pub fn new(
        file: &Gguf,
        graph: &Graph,
        backend: Box<dyn Backend>,
        kv_layout: &KvLayout,
        buckets: &[Bucket],
    ) -> Result<ModelRunner, Error> {
        ModelRunner::with_weights(&FileWeights(file), graph, backend, kv_layout, buckets)
    }

    /// The same with weights from elsewhere.
    pub fn with_weights(
        weights: &dyn Weights,
        graph: &Graph,
        backend: Box<dyn Backend>,
        kv_layout: &KvLayout,
        buckets: &[Bucket],
    ) -> Result<ModelRunner, Error> {
        let loaded = backend.load(graph, weights, kv_layout)?;
        let (graph, programs, tapped) = (graph.clone(), Vec::new(), Vec::new());
        let mut runner = ModelRunner { graph, loaded, programs, tapped, last: None };
        runner.recompile(buckets)?;
        Ok(runner)
    }

    /// The graph.
    pub fn graph(&self) -> &Graph {
        &self.graph
    }

    /// The loaded model.
    pub fn loaded(&self) -> &dyn LoadedModel {
        &*self.loaded
    }

    /// The loaded model, to read and write its cache between steps.
    pub fn loaded_mut(&mut self) -> &mut dyn LoadedModel {
        &mut *self.loaded
    }

    /// Memory in use.
    pub fn memory(&self) -> Memory {
        self.loaded.memory()
    }

    /// Kernel timings since the last call, if the device was opened with profiling.
    pub fn timings(&self) -> Vec<Timing> {
        self.loaded.timings()
    }

    /// Does slow work ahead of the first step, such as packing weights, and releases the mapped blocks of tensors that
    /// were copied.
    pub fn prepare(&mut self, file: &Gguf) -> Result<(), Error> {
        self.loaded.prepare(&mut |name| {
            if let Some(tensor) = file.tensor(name) {
                file.release(&tensor.data);
            }
        })
    }

    /// Compiles a program for `bucket`, unless there is one.
    pub fn compile(&mut self, bucket: Bucket) -> Result<(), Error> {
        let key = |bucket: Bucket| (bucket.rows, bucket.outputs);
        if let Err(at) = self.programs.binary_search_by_key(&key(bucket), |(bucket, _)| key(*bucket)) {
            let names: Vec<&str> = self.tapped.iter().map(String::as_str).collect();
            let program = self.loaded.compile(bucket, Taps::Names(&names))?;
            self.programs.insert(at, (bucket, program));
            self.last = None;
        }
        Ok(())
    }

    /// Recompiles all programs so that exactly the values `names`, besides the output, can be read after steps. The old
    /// programs are dropped first, because the memory may not suffice for both.
    ///
    /// # Errors
    /// If the graph has no such value, or if memory is exhausted. The old programs are then compiled again; if that fails
    /// too, there are none.
    pub fn tap(&mut self, names: &[&str]) -> Result<(), Error> {
        Taps::Names(names).check(&self.graph)?;
        let buckets = self.buckets();
        let names = names.iter().map(|&name| name.to_owned()).collect();
        let before = std::mem::replace(&mut self.tapped, names);
        let compiled = self.recompile(&buckets);
        if compiled.is_err() {
            self.tapped = before;
            self.recompile(&buckets)?;
        }
        compiled
    }

    fn recompile(&mut self, buckets: &[Bucket]) -> Result<(), Error> {
        (self.programs, self.last) = (Vec::new(), None);
        buckets.iter().try_for_each(|&bucket| self.compile(bucket))
    }

    /// Runs a step on the smallest program that it fits.
    pub fn run(&mut self, step: &Step) -> Result<Outputs<'_>, Error> {
        let submitted = self.submit(step)?;
        self.wait(submitted)
    }

    /// Submits a step to the smallest program that it fits. No program may be compiled before it was waited for.
    ///
    /// # Errors
    /// If no program fits, the step does not match the vocabulary or the KV cache, or the device failed.
    pub fn submit(&mut self, step: &Step) -> Result<Submitted, Error> {
        let (rows, outputs) = (step.rows().len(), step.outputs().len());
        let Some(program) = self.program_for(rows, outputs) else {
            let why = format!("{rows} rows and {outputs} outputs exceed all programs: {:?}", self.buckets());
            return Err(Error::Step(why));
        };
        self.last = Some(program);
        Ok(Submitted { program, ticket: self.programs[program].1.submit(step)? })
    }

    /// Whether a step of up to `rows` rows, each an output row, may be submitted before the outputs of `before` are waited for,
    /// and take its tokens.
    pub fn can_follow(&self, before: &Submitted, rows: usize) -> bool {
        self.program_for(rows, rows) == Some(before.program) && self.programs[before.program].1.can_follow()
    }

    /// Waits for a step and returns its outputs. Fails if a step was submitted since that
    /// [may not follow](ModelRunner::can_follow).
    pub fn wait(&mut self, step: Submitted) -> Result<Outputs<'_>, Error> {
        self.programs[step.program].1.wait(step.ticket)
    }

    fn buckets(&self) -> Vec<Bucket> {
        self.programs.iter().map(|(bucket, _)| *bucket).collect()
    }

    /// The number of the smallest program for a step of this size.
    fn program_for(&self, rows: usize, outputs: usize) -> Option<usize> {
        self.programs.iter().position(|(bucket, _)| rows <= bucket.rows && outputs <= bucket.outputs)
    }

    /// Value `name`, which was tapped, of the last step, row-major `[rows, cols]`.
    pub fn read(&self, name: &str) -> Result<&[f32], Error> {
        let none = || Error::Value { name: name.to_owned(), why: "has not been computed" };
        self.programs[self.last.ok_or_else(none)?].1.read(name)
    }
}

impl std::fmt::Debug for ModelRunner {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ModelRunner").field("buckets", &self.buckets()).finish_non_exhaustive()
    }
}
