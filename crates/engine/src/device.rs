//! A model on a backend: weights, KV cache and the programs compiled from its graph.

use backend::{Backend, Bucket, KvFormat, KvLayout, Program, Span, Step, Taps, Weight};
use graph::Graph;

use crate::Error;
use crate::model::Model;
use crate::scheduler::{Chunk, Limits};

/// Bytes of logits that a step of [`Device::all_logits`] may hold.
const LOGITS_BYTES: usize = 64 << 20;

/// Tokens that a step takes, at most, when [`Engine::logits`](crate::Engine::logits) computes more than the last
/// logits: all of them are held at once, for a vocabulary of `n_vocab`.
pub fn all_logits_rows(n_vocab: usize, n_batch: usize) -> usize {
    let fitting = LOGITS_BYTES / (size_of::<f32>() * n_vocab.max(1));
    fitting.clamp(1, n_batch.max(1))
}

/// A backend that holds one model.
pub(crate) struct Device {
    backend: Box<dyn Backend>,
    limits: Limits,
    n_vocab: usize,
    /// One row for each sequence.
    decode: Box<dyn Program>,
    /// Up to `n_batch` rows.
    prefill: Box<dyn Program>,
    /// Logits of every row; compiled when first asked for.
    all_logits: Option<Box<dyn Program>>,
    /// The values that can be read after a step.
    tapped: Vec<String>,
    observer: Option<Observer>,
}

/// Who sees the values of steps.
pub(crate) type Observer = Box<dyn FnMut(&Step, &dyn Program) + Send>;

/// In the place of a program that made room for another, which could not be compiled.
struct Absent;

impl Program for Absent {
    fn run(&mut self, _: &Step) -> Result<(), backend::Error> {
        Err(backend::Error::Step("there is no program for it since one could not be compiled".into()))
    }

    fn output(&self) -> &[f32] {
        &[]
    }

    fn read(&self, name: &str) -> Result<&[f32], backend::Error> {
        Err(backend::Error::Value { name: name.to_owned(), why: "has not been computed" })
    }
}

impl Device {
    /// Loads the weights of `model`, makes the KV cache and compiles.
    pub(crate) fn new(
        model: &Model,
        mut backend: Box<dyn Backend>,
        limits: Limits,
        format: KvFormat,
    ) -> Result<Device, Error> {
        let graph = model.graph();
        for (_, weight) in graph.weights() {
            if let Some(tensor) = model.file().tensor(&weight.name) {
                let (rows, cols, bytes) = (tensor.rows(), tensor.row_len(), tensor.data.clone());
                backend.load(&weight.name, Weight { format: tensor.format, rows, cols, bytes })?;
            }
        }
        if let Some(layout) = KvLayout::of(graph, limits.pages, format) {
            backend.allocate_kv(layout)?;
        }
        let [decode, prefill] = programs(&mut *backend, graph, limits, &[])?;
        let n_vocab = graph.value(graph.output()).cols;
        let (all_logits, tapped, observer) = (None, Vec::new(), None);
        Ok(Device { backend, limits, n_vocab, decode, prefill, all_logits, tapped, observer })
    }

    /// Shows `observer` the program after each step, with the values called `names` to be read.
    pub(crate) fn tap(&mut self, graph: &Graph, names: &[&str], observer: Observer) -> Result<(), Error> {
        if let Some(name) = names.iter().find(|name| graph.find(name).is_none()) {
            let name = (*name).to_owned();
            return Err(backend::Error::Value { name, why: "is not in the graph" }.into());
        }
        let names: Vec<String> = names.iter().map(|&name| name.to_owned()).collect();
        if let Err(error) = self.compile(graph, &names) {
            // For what there was before, there is room.
            let before = std::mem::take(&mut self.tapped);
            self.compile(graph, &before)?;
            self.tapped = before;
            return Err(error);
        }
        (self.tapped, self.observer) = (names, Some(observer));
        Ok(())
    }

    /// Compiles with other values to be read. The programs there are go first: a device may have no room for both.
    fn compile(&mut self, graph: &Graph, tapped: &[String]) -> Result<(), Error> {
        (self.decode, self.prefill, self.all_logits) = (Box::new(Absent), Box::new(Absent), None);
        [self.decode, self.prefill] = programs(&mut *self.backend, graph, self.limits, tapped)?;
        Ok(())
    }

    /// Compiles what [`Device::all_logits`] runs, if it has not been.
    pub(crate) fn prepare_all_logits(&mut self, graph: &Graph) -> Result<(), Error> {
        if self.all_logits.is_none() {
            self.all_logits = Some(self.compile_all_logits(graph)?);
        }
        Ok(())
    }

    fn compile_all_logits(&mut self, graph: &Graph) -> Result<Box<dyn Program>, Error> {
        let rows = self.all_logits_rows();
        compile(&mut *self.backend, graph, Bucket { rows, wanted: rows }, &self.tapped)
    }

    /// Does what takes long before the first step; weights that the backend has copied leave the memory
    /// that their file took.
    pub(crate) fn prepare(&mut self, model: &Model) -> Result<(), Error> {
        let file = model.file();
        self.backend.prepare(&mut |name| {
            if let Some(tensor) = file.tensor(name) {
                file.release(&tensor.data);
            }
        })?;
        Ok(())
    }

    /// What it runs on.
    pub(crate) fn backend(&self) -> &dyn Backend {
        &*self.backend
    }

    /// Runs a plan's chunks. Returns a row of logits for each chunk that wants one, in order.
    pub(crate) fn run(&mut self, chunks: &[Chunk]) -> Result<std::slice::ChunksExact<'_, f32>, Error> {
        let mut tokens = Vec::new();
        let mut spans = Vec::new();
        let mut wanted = Vec::new();
        for chunk in chunks {
            tokens.extend_from_slice(&chunk.tokens);
            spans.push(Span { past: chunk.past, len: chunk.tokens.len(), pages: chunk.pages.clone() });
            if chunk.logits {
                wanted.push(tokens.len() as u32 - 1);
            }
        }
        let program =
            if tokens.len() <= self.limits.sequences { &mut self.decode } else { &mut self.prefill };
        let step = Step::new(tokens, spans, wanted)?;
        program.run(&step)?;
        if let Some(observer) = &mut self.observer {
            observer(&step, &**program);
        }
        Ok(program.output().chunks_exact(self.n_vocab))
    }

    /// Runs `tokens` as positions from `past` on of a sequence in `pages`; returns the logits of those
    /// from position `first` on.
    pub(crate) fn all_logits(
        &mut self,
        graph: &Graph,
        tokens: &[u32],
        past: usize,
        pages: &[u32],
        first: usize,
    ) -> Result<std::slice::ChunksExact<'_, f32>, Error> {
        let span = Span { past, len: tokens.len(), pages: pages.to_vec() };
        let wanted = (0..tokens.len() as u32).skip(first - past).collect();
        let step = Step::new(tokens.to_vec(), vec![span], wanted)?;
        let program = match self.all_logits.take() {
            Some(program) => program,
            None => self.compile_all_logits(graph)?,
        };
        let program = self.all_logits.insert(program);
        program.run(&step)?;
        if let Some(observer) = &mut self.observer {
            observer(&step, &**program);
        }
        Ok(program.output().chunks_exact(self.n_vocab))
    }

    /// Tokens that [`Device::all_logits`] takes at once.
    pub(crate) fn all_logits_rows(&self) -> usize {
        all_logits_rows(self.n_vocab, self.limits.n_batch)
    }
}

/// The programs that decode and that take prompts.
fn programs(
    backend: &mut dyn Backend,
    graph: &Graph,
    limits: Limits,
    tapped: &[String],
) -> Result<[Box<dyn Program>; 2], Error> {
    let wanted = limits.sequences;
    let decode = compile(backend, graph, Bucket { rows: wanted, wanted }, tapped)?;
    let prefill = compile(backend, graph, Bucket { rows: limits.n_batch, wanted }, tapped)?;
    Ok([decode, prefill])
}

/// A program whose values called `tapped` can be read.
fn compile(
    backend: &mut dyn Backend,
    graph: &Graph,
    bucket: Bucket,
    tapped: &[String],
) -> Result<Box<dyn Program>, Error> {
    let names: Vec<&str> = tapped.iter().map(String::as_str).collect();
    Ok(backend.compile(graph, bucket, Taps::Names(&names))?)
}
