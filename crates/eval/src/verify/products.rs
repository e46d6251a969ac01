//! Linear layers one by one: synthetic activations times rows of the model's own weights, on two backends.

use std::collections::HashMap;

use backend::{Bucket, DeviceKind, KvFormat, KvLayout, Output, Row, Sequence, Step, Taps, Weight, Weights};
use bytes::Bytes;
use engine::Model;
use graph::{Builder, Role};
use quant::Format;
use runner::FileWeights;

use super::logits::nmse;
use super::{Candidate, Checked, Failure};

/// Numbers of activation rows, which may use different kernels; the last one on GPUs only.
const ROWS: [usize; 3] = [1, 5, 19];

/// Approximate limit of weights multiplied, in total and per graph. Rows of larger models are sampled evenly.
const VALUES: usize = 64 << 20;

/// Minimum rows of a matrix that are multiplied.
const MIN_ROWS: usize = 64;

struct Sample<'a> {
    name: &'a str,
    weight: Weight,
    all_rows: usize,
    graph: usize,
}

/// Compares the products of every linear layer and every expert on `candidate` with those on `truth`.
pub(super) fn agree(
    model: &Model,
    truth: &Candidate,
    candidate: &Candidate,
    progress: &mut dyn FnMut(u64, u64),
) -> Checked {
    let rows = if candidate.is_gpu() { &ROWS[..] } else { &ROWS[..2] };
    let limit = |format: Format| match truth.kind {
        // Both quantise activations alike: only the order of sums differs.
        DeviceKind::Cpu => 1e-10,
        _ if !candidate.quantizes_activations || format.block_len() == 1 => 1e-6,
        _ => 5e-4,
    };
    let samples = samples(model)?;
    let (all, mut done, mut worst) = (samples.len(), 0, (0.0, ""));
    for samples in samples.chunk_by(|a, b| a.graph == b.graph) {
        let (expected, found) = (multiply(truth, samples, rows)?, multiply(candidate, samples, rows)?);
        for (expected, found) in expected.iter().zip(&found) {
            let products = samples.iter().zip(expected.products.iter().zip(&found.products));
            for (Sample { name, weight, .. }, (expected_values, values)) in products {
                let (nmse, limit) = (nmse(expected_values, values), limit(weight.format));
                if nmse >= worst.0 {
                    worst = (nmse, *name);
                }
                // False for NaN, too.
                let is_close = nmse <= limit;
                if !is_close {
                    return Err(format!(
                        "`{name}` ({}) times {} activation row(s) differs from {}: NMSE {nmse:.2e} (limit {limit:.0e})",
                        weight.format, expected.rows, truth.name
                    )
                    .into());
                }
            }
        }
        done += samples.len();
        progress(done as u64, all as u64);
    }
    model.file().check_intact()?;
    let (multiplied, all) =
        samples.iter().fold((0, 0), |(rows, all), sample| (rows + sample.weight.rows, all + sample.all_rows));
    let share = if multiplied == all { "all".to_owned() } else { format!("{multiplied} of") };
    let (matrices, truth, (nmse, name)) = (samples.len(), &truth.name, worst);
    Ok((
        format!(
            "{share} {all} rows of {matrices} matrices, compared with {truth}: NMSE at most {nmse:.1e} (`{name}`)"
        ),
        (),
    ))
}

fn samples(model: &Model) -> Result<Vec<Sample<'_>>, Failure> {
    let (graph, file) = (model.graph(), FileWeights(model.file()));
    let roles = graph.roles();
    let is_multiplied = |role: &Role| matches!(role, Role::Matrix | Role::Experts);
    let multiplied = graph.weights().filter(|(id, _)| roles[id.index()].iter().any(is_multiplied));
    let multiplied: Vec<&graph::Weight> = multiplied.map(|(_, weight)| weight).collect();
    let total: usize = multiplied.iter().map(|weight| weight.count * weight.rows * weight.cols).sum();
    let share = (VALUES as f64 / total as f64).min(1.0);
    let (mut values, mut samples) = (0, Vec::new());
    for weight in multiplied {
        let whole = file.weight(weight).ok_or_else(|| format!("no tensor `{}`", weight.tensor))?;
        let all_rows = whole.count * whole.rows;
        let rows = ((all_rows as f64 * share).ceil() as usize).max(MIN_ROWS).min(all_rows);
        let bytes = if rows == all_rows {
            whole.bytes.clone()
        } else {
            let chosen = (0..rows).map(|i| (i as u128 * all_rows as u128 / rows as u128) as usize);
            Bytes::from(chosen.flat_map(|row| whole.row(row)).copied().collect::<Vec<_>>())
        };
        let weight_rows = Weight::matrix(whole.format, rows, whole.cols, bytes);
        samples.push(Sample { name: &weight.name, weight: weight_rows, all_rows, graph: values / VALUES });
        values += rows * whole.cols;
    }
    Ok(samples)
}

struct Products {
    rows: usize,
    products: Vec<Vec<f32>>,
}

/// Multiplies each of `samples` in one graph, for each number of activation rows in `counts`.
fn multiply(
    candidate: &Candidate,
    samples: &[Sample<'_>],
    counts: &[usize],
) -> Result<Vec<Products>, Failure> {
    let most = counts.iter().copied().max().unwrap_or(1);
    let (mut g, mut weights, mut inputs) = (Builder::new(), HashMap::new(), HashMap::new());
    let (mut names, mut last) = (Vec::new(), None);
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
        names.push(format!("y-{number}"));
        last = Some(g.linear(("y", number), x, w));
    }
    let Some(last) = last else { return Ok(Vec::new()) };
    let graph = g.finish(last);
    let taps: Vec<&str> = names.iter().map(String::as_str).collect();
    let mut loaded =
        (candidate.open)()?.load(&graph, &weights, &KvLayout::uniform(&graph, 0, KvFormat::F16))?;
    let run = |&rows: &usize| {
        let mut program = loaded.compile(Bucket { rows, outputs: rows }, Taps::Names(&taps))?;
        let tokens: Vec<u32> = (0..rows as u32).collect();
        program
            .run(&Step::new(Row::all(tokens, &Output::Logits), vec![Sequence::uniform(0, rows, 0, [])])?)?;
        let products = taps.iter().map(|name| Ok(program.read(name)?.to_vec()));
        Ok(Products { rows, products: products.collect::<Result<_, Failure>>()? })
    };
    counts.iter().map(run).collect()
}

/// Uniformly distributed in [-1, 1], with outliers like those of real activations.
fn activation(i: usize) -> f32 {
    let even = (i as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40;
    let value = even as f32 / (1u32 << 23) as f32 - 1.0;
    if i.is_multiple_of(97) { 2.0 * value } else { value }
}
