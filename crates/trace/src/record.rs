//! Running a model and recording its values.

use std::path::Path;

use backend::{Backend, Bucket, KvFormat, KvLayout, PAGE, Program, Span, Step, Taps, Weight};
use gguf::Gguf;
use models::Model;

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
    /// The file's model.
    pub model: &'a Model,
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
    /// Runs on `backend`, which holds nothing yet, and writes the trace to `path`, if there is one.
    /// Returns what each value is like, in the order of the trace.
    ///
    /// # Errors
    /// When there are no tokens or no values are selected, the backend cannot compute the model or the
    /// tokens, or a file cannot be read or written.
    pub fn run(&self, mut backend: Box<dyn Backend>, path: Option<&Path>) -> Result<Vec<Summary>, Error> {
        if self.tokens.is_empty() {
            return Err(Error::NoTokens);
        }
        let graph = &self.model.graph;
        let output = &graph.value(graph.output()).name;
        let taps: Vec<&str> =
            graph.values().map(|(_, value)| &*value.name).filter(|name| (self.select)(name)).collect();
        if taps.is_empty() {
            return Err(Error::NothingSelected);
        }
        let kv = load(&mut *backend, self.file, self.model, self.tokens.len(), self.kv)?;

        let rows = self.tokens.len();
        let values = graph.values().filter(|(_, value)| taps.contains(&&*value.name));
        let shapes = values.flat_map(|(id, value)| {
            let shape = Shape { name: value.name.clone(), rows, cols: value.cols };
            let tapped = (id == graph.output()).then(|| Shape { name: tapped_name(output), ..shape.clone() });
            tapped.into_iter().chain([shape])
        });
        let values: Vec<Summary> = shapes.map(|shape| Summary { shape, stats: Stats::default() }).collect();
        let writer = path
            .map(|path| {
                Writer::create(path, &self.meta(&*backend, kv), values.iter().map(|v| v.shape.clone()))
            })
            .transpose()?;
        let mut out = Out { values, writer };

        let row_bytes: usize = out.values.iter().map(|value| value.shape.cols * size_of::<f32>()).sum();
        let rows = self.rows.min(STEP_BYTES / row_bytes).max(1);
        let bucket = Bucket { rows, wanted: rows };
        self.steps(&mut *backend.compile(graph, bucket, Taps::Names(&taps))?, rows, |program, first| {
            for &name in &taps {
                let data = program.read(name)?;
                if name == output {
                    out.add(&tapped_name(name), first, data)?
                } else {
                    out.add(name, first, data)?
                }
            }
            Ok(())
        })?;
        if taps.contains(&&**output) {
            self.steps(&mut *backend.compile(graph, bucket, Taps::None)?, rows, |program, first| {
                out.add(output, first, program.output())
            })?;
        }
        out.writer.map_or(Ok(()), Writer::finish)?;
        Ok(out.values)
    }

    /// Runs all tokens, `rows` a step, and shows `each` the program after each step and the position of
    /// the step's first token.
    fn steps(
        &self,
        program: &mut dyn Program,
        rows: usize,
        mut each: impl FnMut(&dyn Program, usize) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let pages: Vec<u32> = (0..).take(self.tokens.len().div_ceil(PAGE)).collect();
        let mut past = 0;
        for tokens in self.tokens.chunks(rows) {
            let span = Span { past, len: tokens.len(), pages: pages.clone() };
            let wanted = (0..).take(tokens.len()).collect();
            program.run(&Step::new(tokens.to_vec(), vec![span], wanted)?)?;
            self.file.check_intact()?;
            each(program, past)?;
            past += tokens.len();
        }
        Ok(())
    }

    fn meta(&self, backend: &dyn Backend, kv: KvFormat) -> Meta {
        let described = backend.describe();
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
            n_layer: self.model.config.block_count,
            types: formats.join(", "),
            kv,
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

/// Gives `backend` the weights and a store for one sequence; returns how it stores keys and values.
fn load(
    backend: &mut dyn Backend,
    file: &Gguf,
    model: &Model,
    positions: usize,
    kv: KvFormat,
) -> Result<KvFormat, Error> {
    for (_, weight) in model.graph.weights() {
        if let Some(tensor) = file.tensor(&weight.name) {
            let (rows, cols, bytes) = (tensor.rows(), tensor.row_len(), tensor.data.clone());
            backend.load(&weight.name, Weight { format: tensor.format, rows, cols, bytes })?;
        }
    }
    let Some(layout) = KvLayout::of(&model.graph, positions.div_ceil(PAGE), kv) else { return Ok(kv) };
    backend.allocate_kv(layout)?;
    // A backend need not store them as asked, and its memory says whether it did.
    let wide = KvLayout { format: KvFormat::F32, ..layout };
    Ok(if backend.memory().kv == wide.bytes() { KvFormat::F32 } else { kv })
}
