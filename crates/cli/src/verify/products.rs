//! Linear layers one by one: made-up activations times rows of the model's own weights, on two backends.

use std::collections::HashMap;

use anyhow::{Context, ensure};
use backend::{Backend, Bucket, KvFormat, KvLayout, OutputRow, Sequence, Step, Taps, Weight, Weights};
use bytes::Bytes;
use engine::Model;
use graph::{Builder, Role};
use indicatif::ProgressBar;
use quant::Format;
use runner::FileWeights;

use super::numbers::nmse;
use super::report::measure;
use crate::backends::Candidate;
use crate::output::counted;

/// Rows of activations: one alone, some and, on a graphics processor, many may be computed by different code.
const ROWS: [usize; 3] = [1, 5, 19];

/// Weights that are multiplied, about. Of a model that has more, rows are left out evenly.
const VALUES: usize = 64 << 20;

/// Rows of a matrix that are multiplied, at least.
const LEAST_ROWS: usize = 64;

/// How near two backends have to be.
#[derive(Clone, Copy)]
pub(super) enum Limits {
    /// Kernel sets with the same activations: only sums are taken in another order.
    SameActivations,
    /// The reference: activations may have been rounded to 8 bits.
    Exact,
    /// The reference, on a graphics processor: activations of many rows may have been rounded to 11 bits.
    ExactGraphics,
}

impl Limits {
    fn nmse(self, format: Format) -> f64 {
        match self {
            Limits::SameActivations => 1e-10,
            Limits::ExactGraphics => 1e-6,
            Limits::Exact if format.block_len() == 1 => 1e-6,
            Limits::Exact => 5e-4,
        }
    }

    fn rows(self) -> &'static [usize] {
        match self {
            Limits::ExactGraphics => &ROWS,
            Limits::SameActivations | Limits::Exact => &ROWS[..2],
        }
    }
}

/// Rows of a matrix that are multiplied.
struct Sample<'a> {
    /// The weight's name in the graph.
    name: &'a str,
    weight: Weight,
    /// Rows of the whole weight.
    all_rows: usize,
}

/// That `candidate` computes the products of every linear layer, and of every expert, as `truth` does.
pub(super) fn agree(
    model: &Model,
    truth: &Candidate,
    candidate: &Candidate,
    limits: Limits,
    bar: &ProgressBar,
) -> anyhow::Result<String> {
    let samples = samples(model)?;
    let (mut rows, mut all_rows, mut worst) = (0, 0, (0.0, ""));
    measure(bar, samples.len());
    for together in samples.chunk_by(|a, b| a.number == b.number) {
        let together: Vec<&Sample<'_>> = together.iter().map(|sample| &sample.sample).collect();
        let of = |candidate: &Candidate| products((candidate.make)()?, &together, limits.rows());
        let (expected, found) = (of(truth)?, of(candidate)?);
        for (number, sample) in together.iter().enumerate() {
            let Sample { name, weight, all_rows: whole } = sample;
            let limit = limits.nmse(weight.format);
            for (at, &count) in limits.rows().iter().enumerate() {
                let nmse = nmse(&expected[at][number], &found[at][number]);
                ensure!(
                    nmse <= limit,
                    "`{name}` ({}): products with {} are not those of {}: NMSE {nmse:.2e}, at most {limit:.0e} is to \
                     be expected",
                    weight.format,
                    counted(count, "row"),
                    truth.name
                );
                if nmse >= worst.0 {
                    worst = (nmse, *name);
                }
            }
            (rows, all_rows) = (rows + weight.rows, all_rows + whole);
            bar.inc(1);
        }
    }
    model.file().check_intact()?;
    let which = if rows == all_rows { "all".to_owned() } else { format!("{rows} of") };
    Ok(format!(
        "{which} {} of {} beside {}: NMSE at most {:.1e} (`{}`)",
        counted(all_rows, "row"),
        counted(samples.len(), "matrix"),
        truth.name,
        worst.0,
        worst.1
    ))
}

/// A sample, and which of the graphs it is in.
struct Numbered<'a> {
    sample: Sample<'a>,
    number: usize,
}

/// Rows of each matrix of a model, in graphs of about [`VALUES`] values.
fn samples(model: &Model) -> anyhow::Result<Vec<Numbered<'_>>> {
    let (graph, file) = (model.graph(), FileWeights(model.file()));
    let is_multiplied = |role: &Role| matches!(role, Role::Matrix | Role::Experts);
    let roles = graph.roles();
    let multiplied = graph.weights().filter(|(id, _)| roles[id.index()].iter().any(is_multiplied));
    let multiplied: Vec<&graph::Weight> = multiplied.map(|(_, weight)| weight).collect();
    let total: usize = multiplied.iter().map(|weight| weight.count * weight.rows * weight.cols).sum();
    let mut values = 0;
    let mut samples = Vec::new();
    for weight in multiplied {
        let found = file.weight(weight).with_context(|| format!("no tensor `{}`", weight.tensor))?;
        let (sample, number) = (sample(&weight.name, &found, total), values / VALUES);
        values += sample.weight.rows * sample.weight.cols;
        samples.push(Numbered { sample, number });
    }
    Ok(samples)
}

/// Rows of a weight, evenly chosen of all its matrices, of a model whose matrices have `total` values.
fn sample<'a>(name: &'a str, whole: &Weight, total: usize) -> Sample<'a> {
    let all_rows = whole.count * whole.rows;
    let share = all_rows as f64 * (VALUES as f64 / total as f64).min(1.0);
    let rows = (share.ceil() as usize).max(LEAST_ROWS).min(all_rows);
    let bytes = if rows == all_rows {
        whole.bytes.clone()
    } else {
        let chosen = (0..rows).map(|i| (i as u128 * all_rows as u128 / rows as u128) as usize);
        Bytes::from(chosen.flat_map(|row| whole.row(row)).copied().collect::<Vec<_>>())
    };
    Sample { name, weight: Weight::matrix(whole.format, rows, whole.cols, bytes), all_rows }
}

/// Rows of activations times each of `samples`, for each of `counts`, the number of rows.
fn products(
    backend: Box<dyn Backend>,
    samples: &[&Sample<'_>],
    counts: &[usize],
) -> anyhow::Result<Vec<Vec<Vec<f32>>>> {
    let most = counts.iter().copied().max().unwrap_or(1);
    let (mut g, mut weights, mut inputs) = (Builder::new(), HashMap::new(), HashMap::new());
    let mut names = Vec::new();
    for (number, sample) in samples.iter().enumerate() {
        let cols = sample.weight.cols;
        let x = *inputs.entry(cols).or_insert_with(|| {
            let values: Vec<u8> = (0..most * cols).flat_map(|i| activation(i).to_le_bytes()).collect();
            let table = format!("activations of {cols}");
            weights.insert(table.clone(), Weight::matrix(Format::F32, most, cols, values.into()));
            let table = g.weight(table, most, cols);
            let x = g.embed(("x", cols), table);
            g.output_rows(("outputs", cols), x)
        });
        let w = g.weight(sample.name, sample.weight.rows, cols);
        weights.insert(sample.name.to_owned(), sample.weight.clone());
        names.push((format!("y-{number}"), g.linear(("y", number), x, w)));
    }
    let Some((_, last)) = names.last() else { return Ok(vec![Vec::new(); counts.len()]) };
    let graph = g.finish(*last);
    let taps: Vec<&str> = names.iter().map(|(name, _)| &**name).collect();
    let mut loaded = backend.load(&graph, &weights, &KvLayout::uniform(&graph, 0, KvFormat::F16))?;
    let run = |&rows: &usize| {
        let mut program = loaded.compile(Bucket { rows, outputs: rows }, Taps::Names(&taps))?;
        let tokens: Vec<u32> = (0..rows as u32).collect();
        let outputs = OutputRow::all(tokens.iter().copied());
        program.run(&Step::new(tokens, vec![Sequence::uniform(0, rows, 0, [])], outputs)?)?;
        let read = taps.iter().map(|name| Ok(program.read(name)?.to_vec()));
        read.collect::<anyhow::Result<Vec<_>>>()
    };
    counts.iter().map(run).collect()
}

/// Evenly spread from -1 to 1, in no order, but a few larger, as the activations of models are.
fn activation(i: usize) -> f32 {
    let even = (i as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40;
    let value = even as f32 / (1u32 << 23) as f32 - 1.0;
    if i.is_multiple_of(97) { 2.0 * value } else { value }
}
