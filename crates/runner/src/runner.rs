//! A model on a backend: weights, stores, and programs by bucket.

use backend::{
    Backend, Bucket, Error, KvLayout, LoadedModel, Memory, Outputs, Program, Step, Taps, Ticket, Timing,
};
use gguf::Gguf;
use graph::Graph;

use crate::FileWeights;

/// A model that a device has loaded, and the programs compiled from it.
///
/// Programs are kept by bucket, the smallest first; a step runs on the first that has room for it.
pub struct ModelRunner {
    graph: Graph,
    loaded: Box<dyn LoadedModel>,
    programs: Vec<(Bucket, Box<dyn Program>)>,
    /// The values that can be read after a step.
    tapped: Vec<String>,
    /// The program that took the last step.
    last: Option<usize>,
}

impl ModelRunner {
    /// Puts the model of `file`, whose graph this is, on `backend`, with room for so much state and programs for
    /// `buckets`.
    ///
    /// # Errors
    /// When the file lacks a weight, or the backend cannot hold or compute the model.
    pub fn new(
        file: &Gguf,
        graph: &Graph,
        backend: Box<dyn Backend>,
        kv_layout: &KvLayout,
        buckets: &[Bucket],
    ) -> Result<ModelRunner, Error> {
        let loaded = backend.load(graph, &FileWeights(file), kv_layout)?;
        let (graph, programs, tapped) = (graph.clone(), Vec::new(), Vec::new());
        let mut runner = ModelRunner { graph, loaded, programs, tapped, last: None };
        buckets.iter().try_for_each(|&bucket| runner.compile(bucket))?;
        Ok(runner)
    }

    /// What it computes.
    pub fn graph(&self) -> &Graph {
        &self.graph
    }

    /// What it runs on.
    pub fn loaded(&self) -> &dyn LoadedModel {
        &*self.loaded
    }

    /// What the device holds.
    pub fn memory(&self) -> Memory {
        self.loaded.memory()
    }

    /// What steps since the last call have spent their time on, where the device was asked to take it.
    pub fn timings(&self) -> Vec<Timing> {
        self.loaded.timings()
    }

    /// Does what takes long before the first step; weights that the device has copied leave the memory that their file
    /// took.
    ///
    /// # Errors
    /// When the device has no room.
    pub fn prepare(&mut self, file: &Gguf) -> Result<(), Error> {
        self.loaded.prepare(&mut |name| {
            if let Some(tensor) = file.tensor(name) {
                file.release(&tensor.data);
            }
        })
    }

    /// Makes a program for steps of up to `bucket` rows, unless there is one.
    ///
    /// # Errors
    /// When the device has no room.
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

    /// Compiles anew, so that the values called `names` can be read after steps, and no others but the output. The
    /// programs there are go first: a device may have no room for both.
    ///
    /// # Errors
    /// When the graph has no such value, or the device has no room. The programs there were are there again then, unless
    /// the device refuses what it had room for before.
    pub fn tap(&mut self, names: &[&str]) -> Result<(), Error> {
        Taps::Names(names).check(&self.graph)?;
        let buckets: Vec<Bucket> = self.programs.drain(..).map(|(bucket, _)| bucket).collect();
        self.last = None;
        let names = names.iter().map(|&name| name.to_owned()).collect();
        let before = std::mem::replace(&mut self.tapped, names);
        let compiled = buckets.iter().try_for_each(|&bucket| self.compile(bucket));
        if compiled.is_err() {
            (self.programs, self.last) = (Vec::new(), None);
            self.tapped = before;
            buckets.iter().try_for_each(|&bucket| self.compile(bucket))?;
        }
        compiled
    }

    /// Begins a step on the smallest program that has room for it.
    ///
    /// # Errors
    /// When none has, or the step does not fit the vocabulary or the stores.
    pub fn submit(&mut self, step: &Step) -> Result<Ticket, Error> {
        let (rows, outputs) = (step.tokens().len(), step.outputs().len());
        let fits = |(bucket, _): &(Bucket, _)| rows <= bucket.rows && outputs <= bucket.outputs;
        let Some(number) = self.programs.iter().position(fits) else {
            let buckets: Vec<Bucket> = self.programs.iter().map(|(bucket, _)| *bucket).collect();
            return Err(Error::Step(format!(
                "{rows} rows, {outputs} outputs, but there are programs for {buckets:?}"
            )));
        };
        self.last = Some(number);
        self.programs[number].1.submit(step)
    }

    /// Waits for the step that was submitted last.
    ///
    /// # Errors
    /// When the device has failed, or the ticket is of another step.
    pub fn wait(&mut self, ticket: Ticket) -> Result<Outputs<'_>, Error> {
        let last = self.last.ok_or_else(|| Error::Step("no step was submitted".into()))?;
        self.programs[last].1.wait(ticket)
    }

    /// Runs a step.
    ///
    /// # Errors
    /// As those of [`ModelRunner::submit`] and [`ModelRunner::wait`].
    pub fn run(&mut self, step: &Step) -> Result<Outputs<'_>, Error> {
        let ticket = self.submit(step)?;
        self.wait(ticket)
    }

    /// The value called `name` of the last step, `[rows, cols]`, row after row.
    ///
    /// # Errors
    /// When no step was run, the graph has no such value, or it was not tapped.
    pub fn read(&self, name: &str) -> Result<&[f32], Error> {
        let none = || Error::Value { name: name.to_owned(), why: "has not been computed" };
        self.programs[self.last.ok_or_else(none)?].1.read(name)
    }
}

impl std::fmt::Debug for ModelRunner {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let buckets: Vec<Bucket> = self.programs.iter().map(|(bucket, _)| *bucket).collect();
        f.debug_struct("ModelRunner").field("buckets", &buckets).finish_non_exhaustive()
    }
}
