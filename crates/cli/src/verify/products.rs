//! Linear layers one by one: made-up activations times rows of the model's own weights, on two backends.

use std::collections::HashSet;

use anyhow::{Context, ensure};
use backend::{Backend, Bucket, Span, Step, Taps, Weight};
use bytes::Bytes;
use engine::Model;
use gguf::Tensor;
use graph::{Builder, Op};
use indicatif::ProgressBar;
use quant::Format;

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

/// That `candidate` computes the products of every linear layer as `truth` does.
pub(super) fn agree(
    model: &Model,
    truth: &Candidate,
    candidate: &Candidate,
    limits: Limits,
    bar: &ProgressBar,
) -> anyhow::Result<String> {
    let graph = model.graph();
    let mut seen = HashSet::new();
    let linear = graph.values().filter_map(|(_, value)| match value.op {
        Op::Linear { weight, .. } => seen.insert(weight).then_some(&graph.weight(weight).name),
        _ => None,
    });
    let tensors = linear.map(|name| model.file().tensor(name).with_context(|| format!("no tensor `{name}`")));
    let tensors = tensors.collect::<anyhow::Result<Vec<_>>>()?;
    let total: usize = tensors.iter().map(|tensor| tensor.rows() * tensor.row_len()).sum();
    let (mut truth_backend, mut candidate_backend) = ((truth.make)()?, (candidate.make)()?);
    let (mut rows, mut all_rows, mut worst) = (0, 0, (0.0, ""));
    measure(bar, tensors.len());
    for tensor in &tensors {
        let weight = sample(tensor, total);
        let limit = limits.nmse(tensor.format);
        for &count in limits.rows() {
            let expected = products(&mut *truth_backend, &weight, count);
            let found = products(&mut *candidate_backend, &weight, count);
            let nmse = nmse(&expected?, &found?);
            ensure!(
                nmse <= limit,
                "`{}` ({}): products with {} are not those of {}: NMSE {nmse:.2e}, at most {limit:.0e} is to be \
                 expected",
                tensor.name,
                tensor.format,
                counted(count, "row"),
                truth.name
            );
            if nmse >= worst.0 {
                worst = (nmse, &tensor.name);
            }
        }
        (rows, all_rows) = (rows + weight.rows, all_rows + tensor.rows());
        bar.inc(1);
    }
    model.file().check_intact()?;
    let which = if rows == all_rows { "all".to_owned() } else { format!("{rows} of") };
    Ok(format!(
        "{which} {} of {} beside {}: NMSE at most {:.1e} (`{}`)",
        counted(all_rows, "row"),
        counted(tensors.len(), "matrix"),
        truth.name,
        worst.0,
        worst.1
    ))
}

/// Rows of a tensor, evenly chosen, of a model whose linear layers have `total` weights.
fn sample(tensor: &Tensor, total: usize) -> Weight {
    let share = tensor.rows() as f64 * (VALUES as f64 / total as f64).min(1.0);
    let rows = (share.ceil() as usize).max(LEAST_ROWS).min(tensor.rows());
    let bytes = if rows == tensor.rows() {
        tensor.data.clone()
    } else {
        let chosen = (0..rows).map(|i| (i as u128 * tensor.rows() as u128 / rows as u128) as usize);
        Bytes::from(chosen.flat_map(|row| tensor.row(row).unwrap_or_default()).copied().collect::<Vec<_>>())
    };
    Weight { format: tensor.format, rows, cols: tensor.row_len(), bytes }
}

/// `count` rows of activations times `weight`: `[count, weight.rows]`.
fn products(backend: &mut dyn Backend, weight: &Weight, count: usize) -> anyhow::Result<Vec<f32>> {
    let activations: Vec<u8> = (0..count * weight.cols).flat_map(|i| activation(i).to_le_bytes()).collect();
    let table = Weight { format: Format::F32, rows: count, cols: weight.cols, bytes: activations.into() };
    let mut graph = Builder::new();
    let x = graph.weight("activations", table.rows, table.cols);
    let w = graph.weight("weight", weight.rows, weight.cols);
    let x = graph.embed("x", x);
    let x = graph.take_rows("wanted", x);
    let y = graph.linear("y", x, w);
    backend.load("activations", table)?;
    backend.load("weight", weight.clone())?;
    let mut program = backend.compile(&graph.finish(y), Bucket { rows: count, wanted: count }, Taps::None)?;
    let tokens: Vec<u32> = (0..count as u32).collect();
    let spans = vec![Span { past: 0, len: count, pages: vec![0] }];
    program.run(&Step::new(tokens.clone(), spans, tokens)?)?;
    Ok(program.output().to_vec())
}

/// Evenly spread from -1 to 1, in no order, but a few larger, as the activations of models are.
fn activation(i: usize) -> f32 {
    let even = (i as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40;
    let value = even as f32 / (1u32 << 23) as f32 - 1.0;
    if i.is_multiple_of(97) { 2.0 * value } else { value }
}
