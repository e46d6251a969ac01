//! Mistakes of products with a weight: which weight, how it lies, and which part of it is not summed.

use std::ops::Range;

use backend::Weight;
use graph::WeightId;

use super::close::Close;
use super::{Candidate, Diagnosis, Rank, blocks, general};
use crate::{Error, Matrix};

/// Numbers of a matrix that are held in memory, about.
const NUMBERS: usize = 1 << 21;

/// Inputs that lie together in a sum, at least, when a part of it is looked for.
const PART: usize = 8;

/// Rows `rows` of the same bytes read with the listed dimensions the other way round: `w[o][k]` is taken
/// from `k * weight.rows + o` in place of `o * weight.cols + k`.
pub(super) fn transposed(weight: &Weight, rows: Range<usize>) -> Matrix {
    let (len, bytes) = (weight.format.block_len(), weight.format.block_bytes());
    let mut made = Matrix::from_fn(rows.len(), weight.cols, |_, _| 0.0);
    let mut flat = Vec::new();
    for k in 0..weight.cols {
        let (from, to) = (k * weight.rows + rows.start, k * weight.rows + rows.end);
        let blocks = from / len..to.div_ceil(len);
        flat.resize(blocks.len() * len, 0.0);
        weight.format.dequantize(&weight.bytes[blocks.start * bytes..blocks.end * bytes], &mut flat);
        for (o, &w) in flat[from - blocks.start * len..].iter().take(rows.len()).enumerate() {
            made.data[o * weight.cols + k] = w;
        }
    }
    made
}

/// The product of `x` with the weight read the other way round.
fn on_transposed(s: &Candidate<'_>, own: WeightId, weight: &Weight, x: &Matrix) -> Result<Matrix, Error> {
    let mut made = Matrix::from_fn(x.rows, weight.rows, |_, _| 0.0);
    for first in (0..weight.rows).step_by((NUMBERS / weight.cols).max(1)) {
        let rows = first..weight.rows.min(first + (NUMBERS / weight.cols).max(1));
        let part = s.oracle.run(&s.call.with_weight(own, transposed(weight, rows.clone()).weight()), &[x])?;
        for r in 0..x.rows {
            made.data[r * weight.rows..][rows.clone()].copy_from_slice(part.row(r));
        }
    }
    Ok(made)
}

pub(super) fn diagnose(diagnosis: &mut Diagnosis<'_>, own: WeightId) {
    let s = diagnosis.candidate;
    let Ok(weight) = s.oracle.weight(own) else { return };
    let name = &s.oracle.graph().weight(own).name;
    if weight.rows > 1 {
        let run = |inputs: &[&Matrix]| on_transposed(s, own, &weight, inputs[0]);
        if general::is_worth(diagnosis, &[&s.inputs[0]], &run) {
            let text = format!(
                "the weight is read transposed: `{name}` has {} rows of {} contiguous values, y[o] = sum_k w[o * {1} + k] * x[k]",
                weight.rows, weight.cols
            );
            diagnosis.try_run("transposed", Rank::Known, text, run(&[&s.inputs[0]]));
        }
    }
    general::other_weights(diagnosis, own, "weight");
    let close = Close::new(diagnosis, &weight);
    parts(diagnosis, &close, &weight);
    blocks::diagnose(diagnosis, &close, own, &weight);
}

/// Rows from which a factor, or a range for a single column, is estimated, at least: with fewer, one of the
/// many ranges fits by chance.
const ROWS: usize = 8;

/// How many times as much the whole sum may leave unexplained and is still the better explanation.
const WHOLE: f64 = 1.5;

/// A range of inputs whose products with some columns are lost or scaled.
struct Part {
    range: Range<usize>,
    /// What their sum is multiplied by; 0 when they are lost.
    factor: f64,
    /// How well the factor is known, relative to it.
    error: f64,
    /// The part of the error that is left.
    left: f64,
}

/// Looks for a range of inputs that is not summed, or with a wrong factor: in all wrong columns alike, or
/// in each its own.
fn parts(diagnosis: &mut Diagnosis<'_>, close: &Close, weight: &Weight) {
    let s = diagnosis.candidate;
    let x = &s.inputs[0];
    let sums: Vec<Vec<Vec<f64>>> =
        (0..close.cols.len()).map(|o| prefix_sums(x, close.weights.row(o))).collect();
    let all: Vec<usize> = (0..close.cols.len()).collect();
    if close.cols.len() > 1
        && let Some(part) = best(&sums, close, &all, &s.region.rows, x.cols)
    {
        let Range { start, end } = part.range;
        let whole = start == 0 && end == x.cols;
        let masked =
            Matrix::from_fn(x.rows, x.cols, |r, k| if (start..end).contains(&k) { x.at(r, k) } else { 0.0 });
        if !whole
            && part.left < 0.5
            && let Ok(lost) = s.oracle.run(&s.call, &[&masked])
        {
            let made = Matrix::from_fn(s.found.rows, s.found.cols, |r, c| {
                s.expected.at(r, c) + ((part.factor - 1.0) * f64::from(lost.at(r, c))) as f32
            });
            diagnosis.try_out("part-of-sum", Rank::Estimated, described(&part, weight, None), &made);
        }
    }
    if close.cols.len() < s.region.cols.len() || close.cols.len() > 16 || s.region.rows.len() < ROWS {
        return;
    }
    let mut made = s.expected.clone();
    let mut text = None;
    for (o, &c) in close.cols.iter().enumerate() {
        let Some(part) = best(&sums, close, &[o], &s.region.rows, x.cols) else { return };
        for &r in &s.region.rows {
            let lost = sums[o][r][part.range.end.div_ceil(PART)] - sums[o][r][part.range.start / PART];
            made.data[r * made.cols + c] += ((part.factor - 1.0) * lost) as f32;
        }
        text.get_or_insert_with(|| described(&part, weight, Some(c)));
    }
    let many = if close.cols.len() > 1 {
        format!("; {} columns are wrong so", close.cols.len())
    } else {
        String::new()
    };
    if let Some(text) = text {
        diagnosis.try_out("part-of-sum", Rank::Estimated, text + &many, &made);
    }
}

fn described(part: &Part, weight: &Weight, column: Option<usize>) -> String {
    let Range { start, end } = part.range;
    let what = if part.factor == 0.0 {
        "count as zero".to_owned()
    } else {
        format!("count {} times", super::words::factor(part.factor, part.error, &[]))
    };
    let row = column.map_or("of every wrong row".to_owned(), |column| format!("of row {column}"));
    if let Some(column) = column
        && (start, end) == (0, weight.cols)
    {
        let lost =
            if part.factor == 0.0 { ": its blocks are lost, or its output is not computed" } else { "" };
        return format!("all weights of row {column} {what}{lost}");
    }
    let block = weight.format.block_len();
    let place = if block > 1 && start.is_multiple_of(block) && end - start == block {
        format!(" (block {} of {})", start / block, weight.format)
    } else if block > 1 {
        format!(" (blocks of {} have {block} values)", weight.format)
    } else {
        String::new()
    };
    format!("weights {start}–{} {row}{place} {what}", end - 1)
}

/// `[rows][K / PART + 1]` sums of products up to an input.
fn prefix_sums(x: &Matrix, w: &[f32]) -> Vec<Vec<f64>> {
    let row = |r: usize| {
        let (mut sum, mut sums) = (0.0, vec![0.0]);
        for (x, w) in x.row(r).chunks(PART).zip(w.chunks(PART)) {
            sum += x.iter().zip(w).map(|(&x, &w)| f64::from(x) * f64::from(w)).sum::<f64>();
            sums.push(sum);
        }
        sums
    };
    (0..x.rows).map(row).collect()
}

/// The range whose loss or factor explains the errors of these columns best.
fn best(sums: &[Vec<Vec<f64>>], close: &Close, columns: &[usize], rows: &[usize], k: usize) -> Option<Part> {
    let parts = k.div_ceil(PART);
    let aligned = (0..).map(|i| 1usize << i).take_while(|&len| len < parts);
    let mut ranges: Vec<(usize, usize)> =
        aligned.flat_map(|len| (0..parts).step_by(len).map(move |at| (at, (at + len).min(parts)))).collect();
    ranges.extend((0..parts).map(|at| (at, parts)));
    ranges.extend((1..parts).map(|at| (0, at)));
    let fit = |(start, end): (usize, usize)| -> Option<Part> {
        let (mut ee, mut ec, mut cc) = (0.0, 0.0, 0.0);
        for &o in columns {
            for &r in rows {
                let (e, c) = (close.errors[o][r], sums[o][r][end] - sums[o][r][start]);
                (ee, ec, cc) = (ee + e * e, ec + e * c, cc + c * c);
            }
        }
        if ee == 0.0 || cc == 0.0 || rows.len() < 2 {
            return None;
        }
        let lost = (ee + 2.0 * ec + cc) / ee;
        let fitted = 1.0 - ec * ec / (cc * ee);
        // A loss has nothing fitted, so it wins unless a factor does much better.
        let (left, factor) = if rows.len() < ROWS || lost < 2.0 * fitted + 1e-3 {
            (lost, 0.0)
        } else {
            (fitted, 1.0 + ec / cc)
        };
        let error = 3.0 * (left * ee / cc / rows.len() as f64).sqrt() / factor.abs();
        Some(Part { range: start * PART..(end * PART).min(k), factor, error, left })
    };
    let mut best: Option<Part> = None;
    for part in ranges.into_iter().filter_map(fit) {
        if best.as_ref().is_none_or(|best| part.left < best.left * 0.99) {
            best = Some(part);
        }
    }
    // Nearly all of the sum explains nearly what all of it does.
    let whole = fit((0, parts));
    match (whole, best) {
        (Some(whole), Some(best)) if whole.left < best.left * WHOLE => Some(whole),
        (_, best) => best,
    }
}
