//! What can go wrong with any operation.

use graph::{Op, Value, ValueId, WeightId};

use super::{Candidate, Cause, Diagnosis, Rank, words};
use crate::judge::Region;
use crate::metrics::difference;
use crate::{Error, Matrix};

/// Values that are tried in place of an input, at most.
const OTHERS: usize = 60;

/// Rows in which the product with a large matrix is tried out first.
const SCREEN: usize = 4;

/// When the value holds NaN or infinities that its inputs do not account for.
pub(super) fn not_finite(s: &Candidate<'_>) -> Option<Cause> {
    let (rows, cols) = (s.found.rows, s.found.cols);
    let all = || (0..rows).flat_map(|r| (0..cols).map(move |c| (r, c)));
    let is_bad = |r: usize, c: usize| !s.found.at(r, c).is_finite() && s.expected.at(r, c).is_finite();
    let bad = all().filter(|&(r, c)| is_bad(r, c)).count();
    if bad == 0 {
        return None;
    }
    let nan = all().filter(|&(r, c)| is_bad(r, c) && s.found.at(r, c).is_nan()).count();
    let what = match nan {
        0 => "infinite",
        _ if nan == bad => "NaN",
        _ => "NaN or infinite",
    };
    let place = Region {
        rows: (0..rows).filter(|&r| (0..cols).any(|c| is_bad(r, c))).map(|r| s.first + r).collect(),
        cols: (0..cols).filter(|&c| (0..rows).any(|r| is_bad(r, c))).collect(),
    };
    // Other numbers may be wrong besides.
    let usual =
        s.limit * s.expected.data.iter().map(|&x| f64::from(x).powi(2)).sum::<f64>() / (rows * cols) as f64;
    let is_wrong = |r: usize, c: usize| difference(s.found.at(r, c), s.expected.at(r, c)).powi(2) > usual;
    let wrong = all().filter(|&(r, c)| is_bad(r, c) || is_wrong(r, c)).count();
    let explained = bad as f64 / wrong as f64;
    let hint = match s.call.op {
        Op::Attention { .. } => {
            ": does softmax subtract the largest score before exp, and is a row without any key possible?"
        }
        Op::Route { .. } => ": does softmax subtract the largest logit before exp?",
        Op::Gate { .. } => ": does exp overflow for large negative gates?",
        Op::RmsNorm { .. } => ": is eps under the root, and is the sum of squares in f32?",
        Op::Linear { .. } | Op::Experts { .. } => {
            ": is a scale of the weight's blocks read from the wrong place, or memory read past its end?"
        }
        Op::Input { .. }
        | Op::Embed { .. }
        | Op::Rope { .. }
        | Op::Scale { .. }
        | Op::Add { .. }
        | Op::AddBias { .. }
        | Op::OutputRows { .. } => "",
    };
    let text = format!(
        "{bad} {} {what} although all inputs are finite, {}{hint}",
        if bad == 1 { "number is" } else { "numbers are" },
        words::place(&place, (s.first + rows, cols), s.head_dim())
    );
    // Enough of them are a fault by themselves, whatever else is wrong.
    let likely = explained >= 0.5 || bad >= super::ENOUGH;
    Some(Cause { kind: "not-finite", text, nmse: 0.0, explained, likely })
}

/// Other weights of the same shape in place of `own`.
pub(super) fn other_weights(diagnosis: &mut Diagnosis<'_>, own: WeightId, what: &str) {
    let s = diagnosis.candidate;
    let graph = s.oracle.graph();
    let shape = |id: WeightId| {
        let weight = graph.weight(id);
        [weight.count, weight.rows, weight.cols]
    };
    let inputs: Vec<&Matrix> = s.inputs.iter().collect();
    for (id, other) in graph.weights().filter(|&(id, _)| id != own && shape(id) == shape(own)) {
        let call = s.call.with_other_weight(own, id);
        let run = |inputs: &[&Matrix]| s.oracle.run(&call, inputs);
        if is_worth(diagnosis, &inputs, &run) {
            let text = format!("the {what} is `{}` in place of `{}`", other.name, graph.weight(own).name);
            diagnosis.try_run("wrong-weight", Rank::Known, text, run(&inputs));
        }
    }
}

/// Zero and a factor, which every other hypothesis must surpass.
pub(super) fn plain(diagnosis: &mut Diagnosis<'_>) {
    let s = diagnosis.candidate;
    let text = "the value is zero: it was never written, or not added up";
    diagnosis.try_out("zero", Rank::General, text, &s.expected.map(|_| 0.0));
    let (factor, error) = fitted(s, &s.region.rows, &s.region.cols);
    if factor.abs() > 1e-6 {
        let dims: Vec<usize> =
            s.head_dim().into_iter().chain([s.value().cols]).chain(s.inputs.iter().map(|x| x.cols)).collect();
        let text = format!("the result is scaled by {}", words::factor(factor, error, &dims));
        let made = s.expected.map(|x| (f64::from(x) * factor) as f32);
        diagnosis.try_out("scaled", Rank::General, text, &made);
        diagnosis.plain = diagnosis.plain.min(s.region_error(&made));
    }
}

pub(super) fn diagnose(diagnosis: &mut Diagnosis<'_>) {
    clipped(diagnosis);
    squashed(diagnosis);
    rows(diagnosis);
    columns(diagnosis);
    inputs(diagnosis);
    by_row_and_column(diagnosis);
}

/// `sum a b / sum b^2` over the wrong region: the factor that brings `b` nearest to `a`; and three times its
/// own error, relative to it, if the errors of a row hang together.
fn fitted(s: &Candidate<'_>, rows: &[usize], cols: &[usize]) -> (f64, f64) {
    let (mut product, mut energy, mut found) = (0.0, 0.0, 0.0);
    for &r in rows {
        for &c in cols {
            let (a, b) = (f64::from(s.found.at(r, c)), f64::from(s.expected.at(r, c)));
            product += a * b;
            energy += b * b;
            found += a * a;
        }
    }
    if energy == 0.0 {
        return (0.0, 0.0);
    }
    let left = (found * energy / (product * product) - 1.0).max(0.0);
    (product / energy, 3.0 * (left / rows.len() as f64).sqrt())
}

fn clipped(diagnosis: &mut Diagnosis<'_>) {
    let s = diagnosis.candidate;
    let bound = s.found.data.iter().fold(0.0f32, |most, x| most.max(x.abs()));
    let beyond = s.expected.data.iter().filter(|x| x.abs() > bound * 1.001).count();
    let at = s.found.data.iter().filter(|x| x.abs() == bound).count();
    if beyond >= super::ENOUGH && at >= super::ENOUGH && bound > 0.0 {
        let text = format!("values are clipped to ±{bound}: nothing may bound them");
        diagnosis.try_out("clipped", Rank::Estimated, text, &s.expected.map(|x| x.clamp(-bound, bound)));
    }
}

/// `c * tanh(x / c)`, with the `c` that the largest numbers show.
fn squashed(diagnosis: &mut Diagnosis<'_>) {
    let s = diagnosis.candidate;
    let cap = |c: f64| move |x: f32| (c * (f64::from(x) / c).tanh()) as f32;
    let Some((&most, &found)) =
        s.expected.data.iter().zip(&s.found.data).max_by(|a, b| a.0.abs().total_cmp(&b.0.abs()))
    else {
        return;
    };
    let (most, found) = (f64::from(most.abs()), f64::from(found.abs()));
    if !(0.1 * most < found && found < 0.999 * most) {
        return;
    }
    // The result for the largest number grows with c, from c to that number.
    let (mut low, mut high) = (found, most * 100.0);
    for _ in 0..60 {
        let c = f64::midpoint(low, high);
        if c * (most / c).tanh() < found { low = c } else { high = c }
    }
    let text = format!("values are softcapped: {low:.4} * tanh(x / {low:.4})");
    diagnosis.try_out("softcap", Rank::Estimated, text, &s.expected.map(cap(low)));
}

/// Rows that hold what belongs into others.
fn rows(diagnosis: &mut Diagnosis<'_>) {
    let s = diagnosis.candidate;
    let rows = s.found.rows;
    for (shift, text) in [
        (1, "each position has the row of the position before it"),
        (-1, "each position has the row of the position after it"),
    ] {
        let from = |r: usize| (r as i64 - shift).rem_euclid(rows as i64) as usize;
        let made = Matrix::from_fn(rows, s.found.cols, |r, c| s.expected.at(from(r), c));
        // The first or last row has none to take.
        diagnosis.try_out("row-shift", Rank::General, text, &made);
    }
    // A row is known by enough of its numbers.
    if rows > 512 || s.region.cols.len() < super::ENOUGH {
        return;
    }
    let distance = |r: usize, q: usize| -> f64 {
        s.region.cols.iter().map(|&c| difference(s.found.at(r, c), s.expected.at(q, c)).powi(2)).sum()
    };
    let mut from: Vec<usize> = (0..rows).collect();
    for &r in &s.region.rows {
        from[r] = (0..rows).min_by(|&a, &b| distance(r, a).total_cmp(&distance(r, b))).unwrap_or(r);
    }
    let moved: Vec<usize> = s.region.rows.iter().copied().filter(|&r| from[r] != r).collect();
    if let Some(&first) = moved.first() {
        let made = Matrix::from_fn(rows, s.found.cols, |r, c| s.expected.at(from[r], c));
        let text = format!(
            "rows hold what belongs to other positions: position {} has the row of position {}: was it \
             left from another row, or is the row's index wrong?",
            s.first + first,
            s.first + from[first]
        );
        diagnosis.try_out("row-moved", Rank::Fitted, text, &made);
    }
}

/// Columns and heads that hold what belongs into others.
fn columns(diagnosis: &mut Diagnosis<'_>) {
    let s = diagnosis.candidate;
    let cols = s.found.cols;
    let mut permuted = |kind, rank, text: String, from: &dyn Fn(usize) -> usize| {
        diagnosis.try_out(
            kind,
            rank,
            text,
            &Matrix::from_fn(s.found.rows, cols, |r, c| s.expected.at(r, from(c))),
        );
    };
    permuted("column-shift", Rank::General, "columns are shifted by one to the right".into(), &|c| {
        (c + cols - 1) % cols
    });
    permuted("column-shift", Rank::General, "columns are shifted by one to the left".into(), &|c| {
        (c + 1) % cols
    });
    let Some(dim) = s.head_dim().filter(|dim| dim.is_multiple_of(2) && *dim <= cols) else { return };
    let half = dim / 2;
    permuted(
        "head-permuted",
        Rank::Known,
        "columns of each head are in the order of halves, not of neighbouring pairs: rows of the weight as in \
         Hugging Face's files, not as in GGUF"
            .into(),
        &|c| c / dim * dim + if c % dim < half { c % dim * 2 } else { (c % dim - half) * 2 + 1 },
    );
    permuted(
        "head-permuted",
        Rank::Known,
        "columns of each head are in the order of neighbouring pairs, not of halves".into(),
        &|c| c / dim * dim + c % dim / 2 + if c % 2 == 1 { half } else { 0 },
    );
    let heads = cols / dim;
    if heads < 2 {
        return;
    }
    let distance = |head: usize, other: usize| -> f64 {
        let square = |r: usize, i: usize| {
            difference(s.found.at(r, head * dim + i), s.expected.at(r, other * dim + i)).powi(2)
        };
        s.region.rows.iter().map(|&r| (0..dim).map(|i| square(r, i)).sum::<f64>()).sum()
    };
    let from: Vec<usize> = (0..heads)
        .map(|head| {
            (0..heads).min_by(|&a, &b| distance(head, a).total_cmp(&distance(head, b))).unwrap_or(head)
        })
        .collect();
    if let Some(first) = (0..heads).find(|&head| from[head] != head) {
        let text = format!("heads are exchanged: head {first} holds head {}", from[first]);
        permuted("heads-exchanged", Rank::Fitted, text, &|c| from[c / dim] * dim + c % dim);
    }
}

/// Other recorded values in place of the inputs, and in place of the result.
fn inputs(diagnosis: &mut Diagnosis<'_>) {
    let s = diagnosis.candidate;
    let graph = s.oracle.graph();
    let ids: Vec<ValueId> = s.call.op.inputs().collect();
    for (&id, input) in ids.iter().zip(&s.inputs) {
        if ids.len() == 1 && (input.rows, input.cols) == (s.found.rows, s.found.cols) {
            let text = format!("it is its input `{}` unchanged: the operation was not done", s.name(id));
            diagnosis.try_out("unchanged", Rank::Known, text, input);
        }
    }
    let near = |other: &ValueId| other.index().abs_diff(s.id.index());
    let is_copy = |value: &Value| matches!(value.op, Op::OutputRows { .. });
    let mut others: Vec<ValueId> =
        graph.values().filter(|(id, value)| *id != s.id && !is_copy(value)).map(|(id, _)| id).collect();
    others.sort_by_key(near);
    let mut tried = 0;
    for other in others {
        let cols = graph.value(other).cols;
        let fits = ids.iter().any(|&id| graph.value(id).cols == cols && id != other);
        if (!fits && cols != s.found.cols) || tried == OTHERS {
            continue;
        }
        let Some(table) = (s.recorded)(other).filter(|table| table.rows == s.found.rows) else { continue };
        tried += 1;
        let name = s.name(other);
        if cols == s.found.cols && !ids.contains(&other) {
            let text =
                format!("it is the value `{name}`: a buffer that was not written, or the wrong one read");
            diagnosis.try_out("other-value", Rank::General, text, &table);
        }
        // What comes later cannot be an input, whatever goes wrong.
        if other.index() > s.id.index() {
            continue;
        }
        for (slot, &id) in ids.iter().enumerate() {
            if graph.value(id).cols != cols || id == other {
                continue;
            }
            let mut given: Vec<&Matrix> = s.inputs.iter().collect();
            given[slot] = &table;
            if !is_worth(diagnosis, &given, &|inputs| s.on(inputs)) {
                continue;
            }
            let text = format!("the input is `{name}` in place of `{}`", s.name(id));
            diagnosis.try_run("wrong-input", Rank::General, text, s.on(&given));
        }
    }
}

/// Multiply-adds a row from which products are tried out in a few rows first.
const MANY: usize = 1 << 18;

/// Whether `run` on all rows of `inputs` is worth its time: of large products, what the first wrong rows bear out.
pub(super) fn is_worth(
    diagnosis: &Diagnosis<'_>,
    inputs: &[&Matrix],
    run: &dyn Fn(&[&Matrix]) -> Result<Matrix, Error>,
) -> bool {
    let s = diagnosis.candidate;
    let products = s.oracle.graph().cost(s.id).matmuls;
    let of_weight = |&(id, used): &(WeightId, usize)| {
        let weight = s.oracle.graph().weight(id);
        weight.rows * weight.cols * used
    };
    if products.iter().map(of_weight).sum::<usize>() < MANY {
        return true;
    }
    let rows = &s.region.rows[..SCREEN.min(s.region.rows.len())];
    let few: Vec<Matrix> = inputs.iter().map(|x| x.take_rows(rows)).collect();
    let Ok(made) = run(&few.iter().collect::<Vec<_>>()) else { return false };
    let error = |of: &dyn Fn(usize, usize) -> f32| -> f64 {
        let square = |i: usize, c: usize| difference(of(i, c), s.found.at(rows[i], c)).powi(2);
        (0..rows.len()).map(|i| s.region.cols.iter().map(|&c| square(i, c)).sum::<f64>()).sum()
    };
    error(&|i, c| made.at(i, c)) < 0.5 * error(&|i, c| s.expected.at(rows[i], c))
}

/// Each row or each column has a factor of its own, or each column an offset.
fn by_row_and_column(diagnosis: &mut Diagnosis<'_>) {
    let s = diagnosis.candidate;
    let (rows, cols) = (&s.region.rows, &s.region.cols);
    if cols.len() >= 8 && rows.len() > 1 {
        let mut made = s.expected.clone();
        for &r in rows {
            let (factor, _) = fitted(s, &[r], cols);
            cols.iter().for_each(|&c| made.data[r * made.cols + c] *= factor as f32);
        }
        diagnosis.try_out(
            "row-scaled",
            Rank::Fitted,
            "each position is scaled by a factor of its own",
            &made,
        );
    }
    if rows.len() >= 8 && cols.len() > 1 {
        let mut made = s.expected.clone();
        for &c in cols {
            let (factor, _) = fitted(s, rows, &[c]);
            rows.iter().for_each(|&r| made.data[r * made.cols + c] *= factor as f32);
        }
        diagnosis.try_out(
            "column-scaled",
            Rank::Fitted,
            "each column is scaled by a factor of its own: a vector is missing or multiplied twice",
            &made,
        );
    }
    if rows.len() >= 8 {
        let mut made = s.expected.clone();
        for &c in cols {
            let difference = |r: usize| f64::from(s.found.at(r, c)) - f64::from(s.expected.at(r, c));
            let offset = rows.iter().map(|&r| difference(r)).sum::<f64>() / rows.len() as f64;
            rows.iter().for_each(|&r| made.data[r * made.cols + c] += offset as f32);
        }
        diagnosis.try_out(
            "bias",
            Rank::Fitted,
            "each column has an offset: a bias is added or missing",
            &made,
        );
    }
}
