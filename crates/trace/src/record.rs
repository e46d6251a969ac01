//! Running a model and recording its values.

use std::path::Path;

use backend::{Backend, Bucket, KvFormat, KvLayout, OutputRow, PAGE, Sequence, Step};
use gguf::Gguf;
use graph::Graph;
use runner::ModelRunner;

use crate::{Error, Meta, Shape, Stats, Summary, Writer, digest};

/// Bytes of values that a step may hold: what recording takes does not grow with the tokens.
const STEP_BYTES: usize = 64 << 20;

/// A run to be recorded: one sequence from position 0 on.
///
/// The run is done twice. In the first all selected values can be read after each step; whatever a
/// backend would otherwise fuse, it must compute one by one. The second is the run that everyone else
/// gets, of which only the output can be read. Both outputs are recorded, the first as
/// [`tapped_name`], so that a fault of what is fused shows as a difference between the two.
pub struct Recording<'a> {
    /// The weights.
    pub file: &'a Gguf,
    /// What the file's model computes.
    pub graph: &'a Graph,
    /// The ids at positions 0, 1, ….
    pub tokens: &'a [u32],
    /// How keys and values are to be stored; a backend may have but one way.
    pub kv: KvFormat,
    /// Tokens a step, at most; fewer are taken when the values of so many are too large.
    pub rows: usize,
    /// Which values, by their names.
    pub select: &'a dyn Fn(&str) -> bool,
    /// What the trace names as its producer.
    pub producer: &'a str,
}

/// The name under which the output of the run whose values were read is recorded.
pub fn tapped_name(output: &str) -> String {
    format!("{output}.tapped")
}

impl Recording<'_> {
    /// The names of the selected values.
    pub fn selected(&self) -> Vec<&str> {
        self.graph.values().map(|(_, value)| &*value.name).filter(|name| (self.select)(name)).collect()
    }

    /// What its steps are.
    pub fn bucket(&self) -> Bucket {
        let selected = self.graph.values().filter(|(_, value)| (self.select)(&value.name));
        // The output is recorded twice.
        let cols = |(id, value): (graph::ValueId, &graph::Value)| {
            value.cols * if id == self.graph.output() { 2 } else { 1 }
        };
        let row_bytes = selected.map(cols).sum::<usize>() * size_of::<f32>();
        let rows = self.rows.min(self.tokens.len()).min(STEP_BYTES / row_bytes.max(1)).max(1);
        Bucket { rows, outputs: rows }
    }

    /// Runs on `backend`, which holds nothing yet, and writes the trace to `path`, if there is one.
    /// Returns what each value is like, in the order of the trace.
    ///
    /// # Errors
    /// When there are no tokens or no values are selected, the backend cannot compute the model or the
    /// tokens, or a file cannot be read or written.
    pub fn run(&self, backend: Box<dyn Backend>, path: Option<&Path>) -> Result<Vec<Summary>, Error> {
        if self.tokens.is_empty() {
            return Err(Error::NoTokens);
        }
        let graph = self.graph;
        let output = &graph.value(graph.output()).name;
        let taps = self.selected();
        if taps.is_empty() {
            return Err(Error::NothingSelected);
        }
        let n_ctx = self.tokens.len();
        let kv_layout = KvLayout { n_ctx, ..KvLayout::uniform(graph, n_ctx.div_ceil(PAGE), self.kv) };
        let mut runner = ModelRunner::new(self.file, graph, backend, &kv_layout, &[])?;

        let rows = self.tokens.len();
        let values = graph.values().filter(|(_, value)| taps.contains(&&*value.name));
        let shapes = values.flat_map(|(id, value)| {
            let shape = Shape { name: value.name.clone(), rows, cols: value.cols };
            let tapped = (id == graph.output()).then(|| Shape { name: tapped_name(output), ..shape.clone() });
            tapped.into_iter().chain([shape])
        });
        let values: Vec<Summary> = shapes.map(|shape| Summary { shape, stats: Stats::default() }).collect();
        let writer = path
            .map(|path| Writer::create(path, &self.meta(&runner), values.iter().map(|v| v.shape.clone())))
            .transpose()?;
        let mut out = Out { values, writer };

        let bucket = self.bucket();
        let rows = bucket.rows;
        runner.tap(&taps)?;
        runner.compile(bucket)?;
        self.steps(rows, |step, first| {
            runner.run(step)?;
            self.file.check_intact()?;
            for &name in &taps {
                let data = runner.read(name)?;
                if name == output {
                    out.add(&tapped_name(name), first, data)?
                } else {
                    out.add(name, first, data)?
                }
            }
            Ok(())
        })?;
        if taps.contains(&&**output) {
            runner.tap(&[])?;
            self.steps(rows, |step, first| {
                let outputs = runner.run(step)?;
                self.file.check_intact()?;
                out.add(output, first, outputs.values())
            })?;
        }
        out.writer.map_or(Ok(()), Writer::finish)?;
        Ok(out.values)
    }

    /// Shows `run` all tokens, `rows` a step, and the position of each step's first token.
    fn steps(
        &self,
        rows: usize,
        mut run: impl FnMut(&Step, usize) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let pages = self.tokens.len().div_ceil(PAGE) as u32;
        let mut n_past = 0;
        for tokens in self.tokens.chunks(rows) {
            let sequence = Sequence::uniform(n_past, tokens.len(), self.graph.groups().len(), 0..pages);
            let outputs = OutputRow::all(0..tokens.len() as u32);
            run(&Step::new(tokens.to_vec(), vec![sequence], outputs)?, n_past)?;
            n_past += tokens.len();
        }
        Ok(())
    }

    fn meta(&self, runner: &ModelRunner) -> Meta {
        let described = runner.loaded().describe();
        let facts = described.facts.iter().map(|(name, fact)| format!("{name}: {fact}"));
        let facts: Vec<String> = std::iter::once(described.device).chain(facts).collect();
        let mut formats: Vec<(quant::Format, usize)> = Vec::new();
        for tensor in self.file.tensors() {
            match formats.iter_mut().find(|(format, _)| *format == tensor.format) {
                Some((_, count)) => *count += 1,
                None => formats.push((tensor.format, 1)),
            }
        }
        formats.sort();
        let formats: Vec<String> =
            formats.iter().map(|(format, count)| format!("{format} {count}")).collect();
        Meta {
            producer: self.producer.to_owned(),
            backend: described.name.to_owned(),
            facts: facts.join("; "),
            model: self.file.file().to_owned(),
            model_digest: Some(digest(self.file)),
            n_layer: self.graph.layers(),
            types: formats.join(", "),
            kv: runner.loaded().kv_format(self.kv),
            tokens: self.tokens.to_vec(),
        }
    }
}

/// Where recorded rows go.
struct Out {
    values: Vec<Summary>,
    writer: Option<Writer>,
}

impl Out {
    fn add(&mut self, name: &str, first: usize, data: &[f32]) -> Result<(), Error> {
        if let Some(value) = self.values.iter_mut().find(|value| value.shape.name == name) {
            value.stats.add(data);
        }
        self.writer.as_mut().map_or(Ok(()), |writer| writer.write(name, first, data))
    }
}
