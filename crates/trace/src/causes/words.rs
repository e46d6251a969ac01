//! Text for indices and factors; indices of whole heads are named as heads.

use graph::{Op, Value, ValueId};

use crate::Oracle;
use crate::judge::Region;

/// Indices below `all`, such as `position 3`, `heads 4–7`, `every 2nd column from 1 to 9` or `columns 0, 2, 5, …`.
fn list(noun: &str, numbers: &[usize], all: usize) -> String {
    if let [first, second, _, ..] = numbers
        && let step = second - first
        && step > 1
        && numbers.windows(2).all(|pair| pair[1] - pair[0] == step)
    {
        let ending = match (step % 10, step % 100) {
            (_, 11..=13) => "th",
            (1, _) => "st",
            (2, _) => "nd",
            (3, _) => "rd",
            _ => "th",
        };
        let last = numbers.last().filter(|&last| last + step < all);
        let to = last.map_or_else(String::new, |last| format!(" to {last}"));
        return format!("every {step}{ending} {noun} from {first}{to}");
    }
    let run = |run: &[usize]| match run {
        [first, .., last] if last - first > 1 => format!("{first}–{last}"),
        few => few.iter().map(usize::to_string).collect::<Vec<_>>().join(", "),
    };
    let runs: Vec<String> = numbers.chunk_by(|a, b| a + 1 == *b).map(run).collect();
    let plural = if numbers.len() == 1 { "" } else { "s" };
    let more = if runs.len() > 6 { ", …" } else { "" };
    format!("{noun}{plural} {}{more}", runs[..runs.len().min(6)].join(", "))
}

/// Where a value of `rows` and `cols` is wrong, such as `positions 28–31, heads 4–7` or `every 2nd position from 1`.
pub(crate) fn place(region: &Region, (rows, cols): (usize, usize), head_dim: Option<usize>) -> String {
    let mut parts = Vec::new();
    if region.rows.len() < rows {
        parts.push(match &region.rows[..] {
            [first, _, ..] if region.rows.len() + first == rows => format!("positions from {first}"),
            wrong => list("position", wrong, rows),
        });
    }
    if region.cols.len() < cols {
        let heads = head_dim.filter(|&dim| dim < cols).and_then(|dim| whole_heads(region, cols, dim));
        parts.push(match heads {
            Some(heads) => list("head", &heads, cols / head_dim.unwrap_or(1)),
            None => list("column", &region.cols, cols),
        });
    }
    if parts.is_empty() { "everywhere".to_owned() } else { parts.join(", ") }
}

/// The wrong heads, if most columns of some heads are wrong and none of others.
fn whole_heads(region: &Region, cols: usize, dim: usize) -> Option<Vec<usize>> {
    let wrong = |head: usize| region.cols.iter().filter(|&&c| c / dim == head).count();
    let heads: Vec<usize> = (0..cols / dim).filter(|&head| wrong(head) * 2 > dim).collect();
    let covered: usize = heads.iter().map(|&head| wrong(head)).sum();
    (!heads.is_empty() && heads.len() < cols / dim && covered == region.cols.len()).then_some(heads)
}

/// A factor by name, such as `1/8` or `√32`, if it has one (never 1) within its relative `error`, else as a number.
pub(super) fn factor(factor: f64, error: f64, dims: &[usize]) -> String {
    let numbers = [1, 2, 3, 4, 8, 10, 16, 32, 64, 100, 128, 256, 1000].iter().chain(dims);
    let whole = numbers.map(|&n| (n as f64, n.to_string()));
    let roots = dims.iter().map(|&n| ((n as f64).sqrt(), format!("√{n}")));
    let names = whole.chain(roots).flat_map(|(x, name)| [(x, name.clone()), (1.0 / x, format!("1/{name}"))]);
    let sign = if factor < 0.0 { "−" } else { "" };
    // The significant decimals.
    let decimals = if error > 0.0 { (-error.log10()).ceil().clamp(2.0, 5.0) as usize } else { 5 };
    // A larger error would match several names.
    let error = error.clamp(1e-6, 2e-3);
    let mut near = names
        .filter(|(value, _)| (factor.abs() / value - 1.0).abs() < error && (factor < 0.0 || *value != 1.0));
    match near.next() {
        Some((_, name)) => format!("{sign}{name}"),
        None if (factor - 1.0).abs() < 1e-2 => format!("{factor:.6}"),
        None => format!("{factor:.decimals$}"),
    }
}

/// Columns of a head of the value `id`; `None` when it has no heads.
pub(crate) fn head_dim(oracle: &Oracle<'_>, id: ValueId) -> Option<usize> {
    let graph = oracle.graph;
    let of = |id: ValueId| {
        let value = graph.value(id);
        if let Op::Attention { heads, .. } = value.op {
            Some(value.cols / heads)
        } else {
            by_heads(oracle, id)
        }
    };
    let read_by = |(reader_id, reader): (ValueId, &Value)| {
        if let Op::AddBias { x, .. } = reader.op
            && x == id
        {
            return head_dim(oracle, reader_id);
        }
        if let Op::Attention { q, kv, store, .. } = reader.op {
            let (store, [k, v]) = (graph.store(store), kv.unwrap_or([q; 2]));
            let dim = if id == v && v != q { store.v_dim } else { store.k_dim };
            return [q, k, v].contains(&id).then_some(dim);
        }
        by_heads(oracle, reader_id).filter(|_| reader.op.inputs().any(|x| x == id))
    };
    of(id).or_else(|| graph.values().find_map(read_by))
}

/// Columns of a head if the operation of `id` treats heads one by one.
fn by_heads(oracle: &Oracle<'_>, id: ValueId) -> Option<usize> {
    let value = oracle.graph.value(id);
    if let Op::Rope { rope, .. } = value.op {
        return Some(rope.head_dim);
    }
    if let Op::Norm { weight: Some(weight), .. } = value.op {
        return Some(oracle.graph.weight(weight).cols).filter(|&cols| cols < value.cols);
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_read_at_a_glance() {
        let of = |rows: &[usize], cols: &[usize]| {
            place(&Region { rows: rows.to_vec(), cols: cols.to_vec() }, (8, 16), Some(4))
        };
        let all: Vec<usize> = (0..16).collect();
        assert_eq!(of(&[3], &all), "position 3");
        assert_eq!(of(&[5, 6, 7], &all[8..]), "positions from 5, heads 2, 3");
        assert_eq!(of(&[0, 1, 2, 3, 4, 5, 6, 7], &[1, 5, 8]), "columns 1, 5, 8");
        assert_eq!(of(&[1, 3, 5, 7], &all), "every 2nd position from 1");
        assert_eq!(
            of(&[1, 3, 5], &[0, 3, 6, 9]),
            "every 2nd position from 1 to 5, every 3rd column from 0 to 9"
        );
        assert_eq!(of(&[1, 3], &[0, 1, 2, 3, 8, 9, 10, 11]), "positions 1, 3, heads 0, 2");
        assert_eq!(of(&[0, 1, 2, 3, 4, 5, 6, 7], &all), "everywhere");
    }

    #[test]
    fn factors_have_names() {
        assert_eq!(factor(0.12501, 1e-3, &[]), "1/8");
        assert_eq!(factor(-5.65685, 1e-5, &[32]), "−√32");
        assert_eq!(factor(0.7311, 1e-6, &[32]), "0.73110");
        assert_eq!(factor(0.97944, 5e-3, &[]), "0.979", "more is not known");
        assert_eq!(factor(0.12501, 1e-5, &[]), "0.12501", "it is known not to be 1/8");
        assert_eq!(factor(1.0015, 1.0, &[]), "1.001500", "nothing is scaled by 1");
        assert_eq!(factor(-1.0, 0.0, &[]), "−1");
    }
}
