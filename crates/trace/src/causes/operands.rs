//! Another operand is read, or an operand in another order or orientation, with the wrong sign, in part, or not at all.

use backend::Weight;
use graph::{Op, Operand, Role, ValueId, WeightId};

use super::Candidate;
use super::diagnosis::{Diagnosis, Rank};
use crate::Matrix;
use crate::metrics::difference;
use crate::oracle::Call;

const OTHERS: usize = 60;

/// The most elements of a matrix that is tried in the other orientation.
const LARGEST: usize = 1 << 24;

/// The fewest inputs that are left out of a sum together.
const PART: usize = 32;

/// Columns and rows in which parts of a sum are left out.
const FEW: usize = 8;

pub(super) fn diagnose(diagnosis: &mut Diagnosis<'_>) {
    inputs(diagnosis);
    exchanged(diagnosis);
    other_inputs(diagnosis);
    other_tokens(diagnosis);
    weights(diagnosis);
    parts(diagnosis);
}

/// Each input, unchanged, changed or left out.
fn inputs(diagnosis: &mut Diagnosis<'_>) {
    let s = diagnosis.candidate;
    for (slot, (id, x)) in s.ids().into_iter().zip(&s.inputs).enumerate() {
        let name = s.name(id);
        if s.inputs.len() == 1 && (x.rows, x.cols) == (s.found.rows, s.found.cols) {
            let text = format!("it is its input `{name}` unchanged: the operation was not done");
            diagnosis.try_result("unchanged", Rank::Known, text, x);
        }
        let means: Vec<f32> = (0..x.rows).map(|r| x.row(r).iter().sum::<f32>() / x.cols as f32).collect();
        let centred = Matrix::from_fn(x.rows, x.cols, |r, c| x.at(r, c) - means[r]);
        let from = |shift: usize| Matrix::from_fn(x.rows, x.cols, |r, c| x.at(r, (c + shift) % x.cols));
        for (kind, text, changed) in [
            ("input-missing", "is left out: it counts as zero", x.map(|_| 0.0)),
            ("input-twice", "counts twice", x.map(|x| 2.0 * x)),
            ("input-sign", "has the wrong sign", x.map(|x| -x)),
            ("input-centred", "has the mean of its rows subtracted first, as LayerNorm does", centred),
            ("input-shift", "is read one column too early", from(x.cols - 1)),
            ("input-shift", "is read one column too late", from(1)),
        ] {
            let text = format!("its input `{name}` {text}");
            diagnosis.try_inputs(kind, Rank::General, text, &s.with_input(slot, changed));
        }
    }
}

fn exchanged(diagnosis: &mut Diagnosis<'_>) {
    let s = diagnosis.candidate;
    let ids = s.ids();
    let pairs = |n: usize| (0..n).flat_map(|b| (0..b).map(move |a| (a, b)));
    for (a, b) in pairs(ids.len()) {
        if s.inputs[a].cols == s.inputs[b].cols && ids[a] != ids[b] {
            let mut inputs = s.inputs.clone();
            inputs.swap(a, b);
            let text = format!("its inputs `{}` and `{}` are exchanged", s.name(ids[a]), s.name(ids[b]));
            diagnosis.try_inputs("exchanged", Rank::Known, text, &inputs);
        }
    }
    let weights: Vec<WeightId> = s.call.op.weights().map(|(id, _)| id).collect();
    for (a, b) in pairs(weights.len()).map(|(a, b)| (weights[a], weights[b])) {
        if shape(s, a) == shape(s, b) {
            let op = with_weights(s.call.op, |id| match id {
                id if id == a => b,
                id if id == b => a,
                id => id,
            });
            let [a, b] = [a, b].map(|id| &s.oracle.graph.weight(id).name);
            let text = format!("its weights `{a}` and `{b}` are exchanged");
            diagnosis.try_call("exchanged", Rank::Known, text, &s.call.with_op(op));
        }
    }
}

/// Tries other recorded values in place of an input. If there are several further inputs, such as K and V, also tries those of
/// another operation of the same kind in their place.
fn other_inputs(diagnosis: &mut Diagnosis<'_>) {
    let s = diagnosis.candidate;
    let (graph, ids) = (s.oracle.graph, s.ids());
    // A later value cannot be an input; a near one is likelier.
    let before: Vec<ValueId> = graph.values().map(|(id, _)| id).filter(|&id| id < s.id).collect();
    let fits = |other: &ValueId| ids.iter().any(|&id| graph.value(id).cols == graph.value(*other).cols);
    for &other in before.iter().rev().filter(|other| fits(other)).take(OTHERS) {
        let Some(table) = (s.recorded)(other).filter(|table| table.rows == s.found.rows) else { continue };
        for (slot, &id) in ids.iter().enumerate() {
            if s.inputs[slot].cols == table.cols && id != other {
                let text = format!("the input is `{}` in place of `{}`", s.name(other), s.name(id));
                diagnosis.try_inputs("wrong-input", Rank::General, text, &s.with_input(slot, table.clone()));
            }
        }
    }
    if ids.len() < 3 {
        return;
    }
    let names =
        |ids: &[ValueId]| ids.iter().map(|&id| format!("`{}`", s.name(id))).collect::<Vec<_>>().join(" and ");
    for op in before.iter().rev().map(|&id| graph.value(id).op).filter(|op| op.name() == s.call.op.name()) {
        let others: Vec<ValueId> = op.inputs().collect();
        let tables: Vec<Matrix> = others.iter().filter_map(|&id| (s.recorded)(id)).collect();
        if tables.len() == ids.len() && tables.iter().zip(&s.inputs).all(|(a, b)| a.cols == b.cols) {
            let inputs = [&s.inputs[..1], &tables[1..]].concat();
            let text = format!("the inputs are {} in place of {}", names(&others[1..]), names(&ids[1..]));
            diagnosis.try_inputs("wrong-input", Rank::Known, text, &inputs);
        }
    }
}

/// Tries the row before or after that of each token in a table.
fn other_tokens(diagnosis: &mut Diagnosis<'_>) {
    let s = diagnosis.candidate;
    let mut tables = s.call.op.weights().filter(|(_, role)| *role == Role::Table);
    let Some(most) = tables.next().map(|(id, _)| s.oracle.graph.weight(id).rows as u32 - 1) else { return };
    for (shift, text) in [(-1, "before"), (1, "after")] {
        let tokens = s.call.tokens.iter().map(|token| token.saturating_add_signed(shift).min(most));
        let call = Call { tokens: tokens.collect(), ..s.call.clone() };
        let text = format!("each token has the row {text} its own in the table");
        diagnosis.try_call("wrong-row", Rank::Known, text, &call);
    }
}

/// Tries for each weight: another weight of its shape, the other orientation, changed values, and no weight.
fn weights(diagnosis: &mut Diagnosis<'_>) {
    let s = diagnosis.candidate;
    let graph = s.oracle.graph;
    for (own, role) in s.call.op.weights() {
        let (Ok(weight), name) = (s.oracle.weight(own), &graph.weight(own).name) else { continue };
        for (id, other) in graph.weights().filter(|&(id, _)| id != own && shape(s, id) == shape(s, own)) {
            let op = with_weights(s.call.op, |read| if read == own { id } else { read });
            let text = format!("the weight is `{}` in place of `{name}`", other.name);
            diagnosis.try_call("wrong-weight", Rank::Known, text, &s.call.with_op(op));
        }
        if role == Role::Vector {
            let w = dequantized(&weight);
            for (kind, text, changed) in [
                ("weight-missing", "is left out: it counts as 1", w.map(|_| 1.0)),
                ("weight-sign", "has the wrong sign", w.map(|w| -w)),
                ("weight-twice", "counts twice", w.map(|w| 2.0 * w)),
                ("weight-twice", "is multiplied twice", w.map(|w| w * w)),
                ("weight-offset", "has 1 added", w.map(|w| 1.0 + w)),
            ] {
                let text = format!("its weight `{name}` {text}");
                diagnosis.try_call(kind, Rank::General, text, &s.call.with_weight(own, changed.weight()));
            }
        } else if weight.count == 1 && weight.rows > 1 && weight.rows * weight.cols <= LARGEST {
            let w = dequantized(&weight);
            let flipped = Matrix::from_fn(w.rows, w.cols, |r, c| w.data[c * w.rows + r]);
            let text = format!(
                "the weight is read transposed: `{name}` has {} rows of {} contiguous values, w[row * {1} + column]",
                w.rows, w.cols
            );
            let call = s.call.with_weight(own, flipped.weight());
            diagnosis.try_call("transposed", Rank::Known, text, &call);
        }
    }
}

/// A range of inputs that a matmul leaves out, searched in a few outputs.
fn parts(diagnosis: &mut Diagnosis<'_>) {
    let s = diagnosis.candidate;
    let mut weights = s.call.op.weights();
    let (Some((own, Role::Matrix)), [x]) = (weights.next(), &s.inputs[..]) else { return };
    let Ok(weight) = s.oracle.weight(own) else { return };
    if weight.rows != s.found.cols || x.cols <= PART {
        return;
    }
    let [cols, rows] = [&s.region.cols, &s.region.rows].map(|wrong| &wrong[..FEW.min(wrong.len())]);
    let bytes: Vec<u8> = cols.iter().flat_map(|&c| weight.row(c)).copied().collect();
    let few = Weight { rows: cols.len(), bytes: bytes.into(), ..weight };
    let (call, x_few) = (s.call.with_weight(own, few), x.take_rows(rows));
    let left = |part: &(usize, usize)| -> Option<f64> {
        let made = s.oracle.run(&call, &[without(&x_few, *part)]).ok()?;
        let square = |i: usize, j: usize| difference(made.at(i, j), s.found.at(rows[i], cols[j])).powi(2);
        Some((0..rows.len()).map(|i| (0..cols.len()).map(|j| square(i, j)).sum::<f64>()).sum())
    };
    let ends = (0..x.cols).step_by(PART).skip(1);
    let lens = (0..).map(|i| PART << i).take_while(|&len| len < x.cols);
    let ranges = lens.flat_map(|len| (0..x.cols).step_by(len).map(move |at| (at, (at + len).min(x.cols))));
    let ranges = ranges.chain(ends.flat_map(|end| [(0, end), (end, x.cols)]));
    let best = ranges.filter_map(|part| Some((left(&part)?, part))).min_by(|a, b| a.0.total_cmp(&b.0));
    if let Some((_, part)) = best {
        let text =
            format!("columns {}–{} of its input `{}` are not summed", part.0, part.1 - 1, s.name(s.ids()[0]));
        diagnosis.try_inputs("part-of-sum", Rank::Estimated, text, &[without(x, part)]);
    }
}

fn without(x: &Matrix, (start, end): (usize, usize)) -> Matrix {
    Matrix::from_fn(x.rows, x.cols, |r, c| if (start..end).contains(&c) { 0.0 } else { x.at(r, c) })
}

fn dequantized(weight: &Weight) -> Matrix {
    let mut data = vec![0.0; weight.rows * weight.cols];
    weight.format.dequantize(&weight.bytes, &mut data);
    Matrix::new(weight.cols, data)
}

fn shape(s: &Candidate<'_>, id: WeightId) -> [usize; 3] {
    let weight = s.oracle.graph.weight(id);
    [weight.count, weight.rows, weight.cols]
}

fn with_weights(mut op: Op, other: impl Fn(WeightId) -> WeightId) -> Op {
    op.operands(|operand| {
        if let Operand::Weight(id, _) = operand {
            *id = other(*id);
        }
    });
    op
}
