//! Places and numbers in words.

use crate::Matrix;
use crate::judge::Region;

/// Numbers such as `3`, `4–7` or `0, 2, 4, …`.
pub(crate) fn list(numbers: &[usize]) -> String {
    let mut runs: Vec<(usize, usize)> = Vec::new();
    for &n in numbers {
        match runs.last_mut() {
            Some((_, last)) if *last + 1 == n => *last = n,
            _ => runs.push((n, n)),
        }
    }
    let run = |&(first, last): &(usize, usize)| match last - first {
        0 => first.to_string(),
        1 => format!("{first}, {last}"),
        _ => format!("{first}–{last}"),
    };
    let mut text = runs.iter().take(6).map(run).collect::<Vec<_>>().join(", ");
    if runs.len() > 6 {
        text += ", …";
    }
    text
}

/// Where a value is wrong, such as `positions 28–31, heads 4–7`.
pub(crate) fn place(region: &Region, value: &Matrix, head_dim: Option<usize>) -> String {
    let mut parts = Vec::new();
    let plural = |word: &str, n: usize| if n == 1 { word.to_owned() } else { format!("{word}s") };
    if region.rows.len() < value.rows {
        let rows = &region.rows;
        let is_tail = rows.len() > 1 && rows.len() + rows[0] == value.rows;
        parts.push(match is_tail {
            true => format!("positions from {}", rows[0]),
            false => format!("{} {}", plural("position", rows.len()), list(rows)),
        });
    }
    if region.cols.len() < value.cols {
        let heads =
            head_dim.filter(|&dim| dim < value.cols).and_then(|dim| whole_heads(region, value.cols, dim));
        parts.push(match heads {
            Some(heads) => format!("{} {}", plural("head", heads.len()), list(&heads)),
            None => format!("{} {}", plural("column", region.cols.len()), list(&region.cols)),
        });
    }
    if parts.is_empty() { "everywhere".to_owned() } else { parts.join(", ") }
}

/// The heads that the wrong columns make up, if they are most columns of some heads and none of others.
fn whole_heads(region: &Region, cols: usize, dim: usize) -> Option<Vec<usize>> {
    let wrong = |head: usize| region.cols.iter().filter(|&&c| c / dim == head).count();
    let heads: Vec<usize> = (0..cols / dim).filter(|&head| wrong(head) * 2 > dim).collect();
    let covered: usize = heads.iter().map(|&head| wrong(head)).sum();
    (!heads.is_empty() && heads.len() < cols / dim && covered == region.cols.len()).then_some(heads)
}

/// A factor by its name, such as `1/8` or `√32`, when it has one within `error`, the relative error that
/// it is known with; else as a number. 1 is never its name.
pub(super) fn factor(factor: f64, error: f64, dims: &[usize]) -> String {
    let mut names: Vec<(f64, String)> = Vec::new();
    for n in [1usize, 2, 3, 4, 8, 10, 16, 32, 64, 100, 128, 256, 1000] {
        names.push((n as f64, n.to_string()));
        names.push((1.0 / n as f64, format!("1/{n}")));
    }
    for &dim in dims {
        let (d, root) = (dim as f64, (dim as f64).sqrt());
        names.push((root, format!("√{dim}")));
        names.push((1.0 / root, format!("1/√{dim}")));
        names.push((d, dim.to_string()));
        names.push((1.0 / d, format!("1/{dim}")));
    }
    let sign = if factor < 0.0 { "−" } else { "" };
    // Beyond the last, another number than the one meant may be as near.
    let error = error.clamp(1e-6, 2e-3);
    let near = |(value, _): &&(f64, String)| {
        (factor.abs() / value - 1.0).abs() < error && (factor < 0.0 || *value != 1.0)
    };
    match names.iter().find(near) {
        Some((_, name)) => format!("{sign}{name}"),
        None if (factor - 1.0).abs() < 1e-2 => format!("{factor:.6}"),
        None => format!("{factor:.5}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_read_at_a_glance() {
        let value = Matrix::from_fn(8, 16, |_, _| 0.0);
        let of = |rows: &[usize], cols: &[usize]| {
            place(&Region { rows: rows.to_vec(), cols: cols.to_vec() }, &value, Some(4))
        };
        let all: Vec<usize> = (0..16).collect();
        assert_eq!(of(&[3], &all), "position 3");
        assert_eq!(of(&[5, 6, 7], &all[8..]), "positions from 5, heads 2, 3");
        assert_eq!(of(&[0, 1, 2, 3, 4, 5, 6, 7], &[1, 5, 9]), "columns 1, 5, 9");
        assert_eq!(of(&[0, 1, 2, 3, 4, 5, 6, 7], &all), "everywhere");
    }

    #[test]
    fn factors_have_names() {
        assert_eq!(factor(0.12501, 1e-3, &[]), "1/8");
        assert_eq!(factor(-5.65685, 1e-5, &[32]), "−√32");
        assert_eq!(factor(0.7311, 1e-3, &[32]), "0.73110");
        assert_eq!(factor(0.12501, 1e-5, &[]), "0.12501", "it is known not to be 1/8");
        assert_eq!(factor(1.0015, 1.0, &[]), "1.001500", "nothing is scaled by 1");
        assert_eq!(factor(-1.0, 0.0, &[]), "−1");
    }
}
