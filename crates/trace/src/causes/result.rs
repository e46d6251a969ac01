//! Patterns in the result, whatever the operation.

use graph::ValueId;

use super::diagnosis::{Diagnosis, ENOUGH, Rank};
use super::{Candidate, Cause, words};
use crate::Matrix;
use crate::judge::Region;
use crate::metrics::difference;

const OTHERS: usize = 60;

/// NaN or infinities that the inputs do not explain.
pub(super) fn not_finite(s: &Candidate<'_>) -> Option<Cause> {
    let shape = (s.found.rows, s.found.cols);
    let is_bad = |r: usize, c: usize| !s.found.at(r, c).is_finite() && s.expected.at(r, c).is_finite();
    let place = Region::of(shape, is_bad)?;
    let count = |is: &dyn Fn(usize, usize) -> bool| {
        (0..shape.0).map(|r| (0..shape.1).filter(|&c| is(r, c)).count()).sum::<usize>()
    };
    let bad = count(&is_bad);
    let what = match count(&|r, c| is_bad(r, c) && s.found.at(r, c).is_nan()) {
        0 => "infinite",
        nan if nan == bad => "NaN",
        _ => "NaN or infinite",
    };
    // Other elements may be wrong, too.
    let energy = s.expected.data.iter().map(|&x| f64::from(x).powi(2)).sum::<f64>();
    let usual = s.limit * energy / s.expected.data.len() as f64;
    let is_wrong = |r: usize, c: usize| difference(s.found.at(r, c), s.expected.at(r, c)).powi(2) > usual;
    let explained = bad as f64 / count(&|r, c| is_bad(r, c) || is_wrong(r, c)) as f64;
    let place = Region { rows: place.rows.iter().map(|r| s.first + r).collect(), ..place };
    let text = format!(
        "{bad} {} {what} although all inputs are finite, {}: does exp overflow, is something divided by zero, or \
         memory read that was not written?",
        if bad == 1 { "value is" } else { "values are" },
        words::place(&place, (s.first + shape.0, shape.1), s.head_dim())
    );
    // Enough of them are wrong by themselves, whatever else is wrong.
    let likely = explained >= 0.5 || bad >= ENOUGH;
    Some(Cause { kind: "not-finite", text, nmse: 0.0, explained, likely })
}

pub(super) fn plain(diagnosis: &mut Diagnosis<'_>) {
    let s = diagnosis.candidate;
    let text = "the value is zero: it was never written, or not added up";
    diagnosis.try_result("zero", Rank::General, text, &s.expected.map(|_| 0.0));
    let (factor, error) = fitted(s, &s.region.rows, &s.region.cols);
    if factor.abs() > 1e-6 {
        let dims: Vec<usize> =
            s.head_dim().into_iter().chain([s.found.cols]).chain(s.inputs.iter().map(|x| x.cols)).collect();
        let text = format!("the result is scaled by {}", words::factor(factor, error, &dims));
        let made = s.expected.map(|x| (f64::from(x) * factor) as f32);
        diagnosis.try_result("scaled", Rank::General, text, &made);
        diagnosis.plain = diagnosis.plain.min(s.region_error(&made));
    }
}

pub(super) fn diagnose(diagnosis: &mut Diagnosis<'_>) {
    permuted(diagnosis);
    other_value(diagnosis);
    function(diagnosis);
    by_row_and_column(diagnosis);
}

/// The least-squares factor from expected to found, `sum a b / sum b^2`, and three times its error if rows are correlated.
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

/// Rows, columns, heads, or the columns of each head, are in another order.
fn permuted(diagnosis: &mut Diagnosis<'_>) {
    let s = diagnosis.candidate;
    let (rows, cols) = (s.found.rows, s.found.cols);
    let mut with = |kind, rank, text: &str, from: &dyn Fn(usize, usize) -> (usize, usize)| {
        let expected = |(r, c)| s.expected.at(r, c);
        diagnosis.try_result(kind, rank, text, &Matrix::from_fn(rows, cols, |r, c| expected(from(r, c))));
    };
    let (next, last) = (|i: usize, n: usize| (i + 1) % n, |i: usize, n: usize| (i + n - 1) % n);
    let (before, after) =
        ("each position has the row before its own", "each position has the row after its own");
    with("row-shift", Rank::General, before, &|r, c| (last(r, rows), c));
    with("row-shift", Rank::General, after, &|r, c| (next(r, rows), c));
    let (right, left) = ("columns are shifted by one to the right", "columns are shifted by one to the left");
    with("column-shift", Rank::General, right, &|r, c| (r, last(c, cols)));
    with("column-shift", Rank::General, left, &|r, c| (r, next(c, cols)));
    let Some(dim) = s.head_dim().filter(|dim| dim.is_multiple_of(2) && *dim <= cols) else { return };
    let (half, heads) = (dim / 2, cols / dim);
    let halves = "columns of each head are in the order of halves, not of neighbouring pairs: rows of the weight as in \
                  Hugging Face's files, not as in GGUF";
    with("head-permuted", Rank::Known, halves, &|r, c| {
        (r, c / dim * dim + if c % dim < half { c % dim * 2 } else { (c % dim - half) * 2 + 1 })
    });
    let pairs = "columns of each head are in the order of neighbouring pairs, not of halves";
    with("head-permuted", Rank::Known, pairs, &|r, c| {
        (r, c / dim * dim + c % dim / 2 + if c % 2 == 1 { half } else { 0 })
    });
    let distance = |head: usize, other: usize| -> f64 {
        let square = |r: usize, i: usize| {
            difference(s.found.at(r, head * dim + i), s.expected.at(r, other * dim + i)).powi(2)
        };
        s.region.rows.iter().map(|&r| (0..dim).map(|i| square(r, i)).sum::<f64>()).sum()
    };
    let nearest = |head: usize| (0..heads).min_by(|&a, &b| distance(head, a).total_cmp(&distance(head, b)));
    let from: Vec<usize> = (0..heads).filter_map(nearest).collect();
    if let Some(first) = (0..heads).find(|&head| from[head] != head) {
        let text = format!("heads are exchanged: head {first} holds head {}", from[first]);
        with("head-order", Rank::Fitted, &text, &|r, c| (r, from[c / dim] * dim + c % dim));
    }
}

fn other_value(diagnosis: &mut Diagnosis<'_>) {
    let s = diagnosis.candidate;
    let graph = s.oracle.graph;
    let shape = |id: ValueId| (graph.value(id).rows, graph.value(id).cols);
    let fits = |&id: &ValueId| shape(id) == shape(s.id) && id != s.id && !s.ids().contains(&id);
    let mut others: Vec<ValueId> = graph.values().map(|(id, _)| id).filter(fits).collect();
    others.sort_by_key(|id| id.index().abs_diff(s.id.index()));
    for id in others.into_iter().take(OTHERS) {
        if let Some(table) = (s.recorded)(id).filter(|table| table.rows == s.found.rows) {
            let name = s.name(id);
            let text =
                format!("it is the value `{name}`: a buffer that was not written, or the wrong one read");
            diagnosis.try_result("other-value", Rank::General, text, &table);
        }
    }
}

/// Tests whether the found values are a function of the expected ones: sorts elements by expected value, and predicts each found
/// value from its two neighbours by linear interpolation.
fn function(diagnosis: &mut Diagnosis<'_>) {
    let s = diagnosis.candidate;
    let (rows, cols) = (&s.region.rows, &s.region.cols);
    let at = |&i: &usize| (f64::from(s.expected.data[i]), f64::from(s.found.data[i]));
    let mut order: Vec<usize> =
        rows.iter().flat_map(|r| cols.iter().map(move |c| r * s.found.cols + c)).collect();
    order.sort_by(|&a, &b| s.expected.data[a].total_cmp(&s.expected.data[b]));
    let mut made = s.expected.clone();
    for three in order.windows(3) {
        let [(x0, y0), (x, _), (x1, y1)] = [0, 1, 2].map(|i| at(&three[i]));
        let part = if x1 > x0 { (x - x0) / (x1 - x0) } else { 0.5 };
        made.data[three[1]] = (y0 + part * (y1 - y0)) as f32;
    }
    let [Some(&first), Some(&last)] = [order.first(), order.last()] else { return };
    if let [_, second, .., before, _] = order[..] {
        (made.data[first], made.data[last]) = (s.found.data[second], s.found.data[before]);
    }
    let ((low, low_found), (high, high_found)) = (at(&first), at(&last));
    let text = format!(
        "each value is a function of what it should be, such as a bound or a softcap: {low:.4} becomes \
         {low_found:.4}, and {high:.4} becomes {high_found:.4}"
    );
    diagnosis.try_result("function", Rank::Fitted, text, &made);
}

/// Each row or column has a factor of its own, or each column an offset.
fn by_row_and_column(diagnosis: &mut Diagnosis<'_>) {
    let s = diagnosis.candidate;
    let (rows, cols) = (&s.region.rows, &s.region.cols);
    let mut with = |kind, text: &str, number: &dyn Fn(usize, usize) -> f64| {
        let mut made = s.expected.clone();
        for &r in rows {
            cols.iter().for_each(|&c| made.data[r * made.cols + c] = number(r, c) as f32);
        }
        diagnosis.try_result(kind, Rank::Fitted, text, &made);
    };
    let expected = |r: usize, c: usize| f64::from(s.expected.at(r, c));
    if cols.len() >= ENOUGH && rows.len() > 1 {
        let factors: Vec<f64> = (0..s.found.rows).map(|r| fitted(s, &[r], cols).0).collect();
        let text = "each position is scaled by a factor of its own";
        with("row-scaled", text, &|r, c| expected(r, c) * factors[r]);
    }
    if rows.len() < ENOUGH {
        return;
    }
    if cols.len() > 1 {
        let factors: Vec<f64> = (0..s.found.cols).map(|c| fitted(s, rows, &[c]).0).collect();
        let text = "each column is scaled by a factor of its own: a vector is missing or multiplied twice";
        with("column-scaled", text, &|r, c| expected(r, c) * factors[c]);
    }
    let offset = |c: usize| {
        let sum = rows.iter().map(|&r| f64::from(s.found.at(r, c)) - expected(r, c)).sum::<f64>();
        sum / rows.len() as f64
    };
    let offsets: Vec<f64> = (0..s.found.cols).map(offset).collect();
    with("bias", "each column has an offset: a bias is added or missing", &|r, c| {
        expected(r, c) + offsets[c]
    });
}
