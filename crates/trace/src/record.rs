//! Running a model and recording its values.

use std::collections::BTreeMap;
use std::path::Path;

use backend::{Backend, Bucket, KV_BLOCK, KvFormat, KvLayout, Output, Row, Sequence, Step};
use gguf::Gguf;
use graph::{Graph, Value, ValueId};
use runner::ModelRunner;

use crate::{Error, Meta, Shape, Stats, Summary, Writer, digest};

/// Bytes of values per step: the memory that recording takes does not grow with the tokens.
const STEP_BYTES: usize = 64 << 20;

/// A run to record: one sequence from position 0 on.
///
/// It runs twice: with taps on all selected values, so that nothing is fused, and as usual, when only the output can be
/// read. Both outputs are recorded, the first as `NAME.tapped`: a difference is a bug in a fusion.
pub struct Recording<'a> {
    /// The weights.
    pub file: &'a Gguf,
    /// The model of the file.
    pub graph: &'a Graph,
    /// The ids at positions 0, 1, ….
    pub tokens: &'a [u32],
    /// The requested format of the KV cache; a backend may support only one.
    pub kv: KvFormat,
    /// The most tokens per step; fewer when their values are too large, all if a row sees later ones.
    pub rows: usize,
    /// Selects values by name.
    pub select: &'a dyn Fn(&str) -> bool,
    /// The producer in the metadata.
    pub producer: &'a str,
}

/// The name under which the output of the run with taps is recorded.
pub(crate) fn tapped_name(output: &str) -> String {
    format!("{output}.tapped")
}

impl Recording<'_> {
    fn values(&self) -> impl Iterator<Item = (ValueId, &Value)> {
        self.graph.values().filter(|(_, value)| (self.select)(&value.name))
    }

    /// The names of the selected values.
    pub fn selected(&self) -> Vec<&str> {
        self.values().map(|(_, value)| &*value.name).collect()
    }

    /// The size of its steps.
    pub fn bucket(&self) -> Bucket {
        if self.graph.groups().iter().any(|group| !group.mask.is_causal()) {
            let rows = self.tokens.len().max(1);
            return Bucket { rows, outputs: rows };
        }
        // The output is recorded twice.
        let cols =
            |(id, value): (ValueId, &Value)| value.cols * if id == self.graph.output() { 2 } else { 1 };
        let row_bytes = self.values().map(cols).sum::<usize>() * size_of::<f32>();
        let rows = self.rows.min(self.tokens.len()).min(STEP_BYTES / row_bytes.max(1)).max(1);
        Bucket { rows, outputs: rows }
    }

    /// Runs on `backend`, which holds no model yet, and writes the trace to `path`, if given. Returns a summary of each value. Fails
    /// without tokens or values, if the backend refuses the model or tokens, or if a file cannot be read or written.
    pub fn run(&self, backend: Box<dyn Backend>, path: Option<&Path>) -> Result<Vec<Summary>, Error> {
        let rows = self.tokens.len();
        if rows == 0 {
            return Err(Error::NoTokens);
        }
        let graph = self.graph;
        let output = &*graph.value(graph.output()).name;
        let taps = self.selected();
        if taps.is_empty() {
            return Err(Error::NothingSelected);
        }
        let kv_layout =
            KvLayout { n_ctx: rows, ..KvLayout::uniform(graph, rows.div_ceil(KV_BLOCK), self.kv) };
        let mut runner = ModelRunner::new(self.file, graph, backend, &kv_layout, &[])?;

        let mut values = Vec::new();
        for (id, value) in self.values() {
            let tapped = (id == graph.output()).then(|| tapped_name(output));
            values.extend(tapped.into_iter().chain([value.name.clone()]).map(|name| {
                let shape = Shape { name, rows, cols: value.cols };
                Summary { shape, stats: Stats::default() }
            }));
        }
        let shapes = values.iter().map(|value| value.shape.clone());
        let mut writer = path.map(|path| Writer::create(path, &self.meta(&runner), shapes)).transpose()?;
        let mut add = |name: &str, first: usize, data: &[f32]| {
            if let Some(value) = values.iter_mut().find(|value| value.shape.name == name) {
                value.stats.add(data);
            }
            writer.as_mut().map_or(Ok(()), |writer| writer.write(name, first, data))
        };

        runner.tap(&taps)?;
        runner.compile(self.bucket())?;
        self.steps(|step, first| {
            runner.run(step)?;
            self.file.check_intact()?;
            for &name in &taps {
                let recorded = if name == output { &tapped_name(name) } else { name };
                add(recorded, first, runner.read(name)?)?;
            }
            Ok(())
        })?;
        if taps.contains(&output) {
            runner.tap(&[])?;
            self.steps(|step, first| {
                let outputs = runner.run(step)?;
                self.file.check_intact()?;
                add(output, first, outputs.values())
            })?;
        }
        writer.map_or(Ok(()), Writer::finish)?;
        Ok(values)
    }

    /// Calls `run` with each step, and the position of its first token.
    fn steps(&self, mut run: impl FnMut(&Step, usize) -> Result<(), Error>) -> Result<(), Error> {
        let blocks = self.tokens.len().div_ceil(KV_BLOCK) as u32;
        let mut n_past = 0;
        for tokens in self.tokens.chunks(self.bucket().rows) {
            let sequence = Sequence::uniform(n_past, tokens.len(), self.graph.groups().len(), 0..blocks);
            let rows = Row::all(tokens.iter().copied(), &Output::Logits);
            run(&Step::new(rows, vec![sequence])?, n_past)?;
            n_past += tokens.len();
        }
        Ok(())
    }

    fn meta(&self, runner: &ModelRunner) -> Meta {
        let described = runner.loaded().describe();
        let facts = described.facts.iter().map(|(name, fact)| format!("{name}: {fact}"));
        let facts: Vec<String> = std::iter::once(described.device).chain(facts).collect();
        let mut formats = BTreeMap::<quant::Format, usize>::new();
        self.file.tensors().for_each(|tensor| *formats.entry(tensor.format).or_default() += 1);
        let formats = formats.iter().map(|(format, count)| format!("{format} {count}"));
        Meta {
            producer: self.producer.to_owned(),
            backend: described.name.to_owned(),
            facts: facts.join("; "),
            model: self.file.file().to_owned(),
            model_digest: Some(digest(self.file)),
            n_layer: self.graph.layers(),
            types: formats.collect::<Vec<_>>().join(", "),
            kv: runner.loaded().kv_format(self.kv),
            tokens: self.tokens.to_vec(),
        }
    }
}
