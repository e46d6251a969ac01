//! A model on a backend: weights, KV cache and the programs compiled from its graph.

use backend::{Backend, Bucket, KvFormat, KvLayout, Program, Span, Step, Taps, Weight};
use graph::Graph;

use crate::Error;
use crate::model::Model;
use crate::scheduler::{Chunk, Limits};

/// Bytes of logits that a step of [`Device::all_logits`] may hold.
const LOGITS_BYTES: usize = 64 << 20;

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
    tap: Option<Tap>,
}

/// Who sees the values of steps.
pub(crate) type Observer = Box<dyn FnMut(&Step, &dyn Program) + Send>;

/// The values that can be read after a step, and who reads them.
struct Tap {
    names: Vec<String>,
    observer: Observer,
}

impl Tap {
    fn see(tap: &mut Option<Tap>, step: &Step, program: &dyn Program) {
        if let Some(tap) = tap {
            (tap.observer)(step, program);
        }
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
        let [decode, prefill] = programs(&mut *backend, graph, limits, Taps::None)?;
        let n_vocab = graph.value(graph.output()).cols;
        Ok(Device { backend, limits, n_vocab, decode, prefill, all_logits: None, tap: None })
    }

    /// Shows `observer` the program after each step, with the values called `names` to be read.
    pub(crate) fn tap(&mut self, graph: &Graph, names: &[&str], observer: Observer) -> Result<(), Error> {
        [self.decode, self.prefill] = programs(&mut *self.backend, graph, self.limits, Taps::Names(names))?;
        self.all_logits = None;
        self.tap = Some(Tap { names: names.iter().map(|&name| name.to_owned()).collect(), observer });
        Ok(())
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
        Tap::see(&mut self.tap, &step, &**program);
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
        let rows = self.all_logits_rows();
        let program = match &mut self.all_logits {
            Some(program) => program,
            none => {
                let names = self.tap.iter().flat_map(|tap| &tap.names);
                let names: Vec<&str> = names.map(String::as_str).collect();
                let bucket = Bucket { rows, wanted: rows };
                none.insert(self.backend.compile(graph, bucket, Taps::Names(&names))?)
            }
        };
        let span = Span { past, len: tokens.len(), pages: pages.to_vec() };
        let wanted = (0..tokens.len() as u32).skip(first - past).collect();
        let step = Step::new(tokens.to_vec(), vec![span], wanted)?;
        program.run(&step)?;
        Tap::see(&mut self.tap, &step, &**program);
        Ok(program.output().chunks_exact(self.n_vocab))
    }

    /// Tokens that [`Device::all_logits`] takes at once.
    pub(crate) fn all_logits_rows(&self) -> usize {
        let fitting = LOGITS_BYTES / (size_of::<f32>() * self.n_vocab.max(1));
        fitting.clamp(1, self.limits.n_batch)
    }
}

/// The programs that decode and that take prompts.
fn programs(
    backend: &mut dyn Backend,
    graph: &Graph,
    limits: Limits,
    taps: Taps<'_>,
) -> Result<[Box<dyn Program>; 2], Error> {
    let wanted = limits.sequences;
    let decode = backend.compile(graph, Bucket { rows: wanted, wanted }, taps)?;
    let prefill = backend.compile(graph, Bucket { rows: limits.n_batch, wanted }, taps)?;
    Ok([decode, prefill])
}
