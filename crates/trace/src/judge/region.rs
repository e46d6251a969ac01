//! Where a value is wrong.

use std::ops::Range;

use serde::Serialize;

/// Rows and columns, both ascending.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Region {
    pub rows: Vec<usize>,
    pub cols: Vec<usize>,
}

/// Minimum elements of a row that can be judged correct: a single element may be near 0 anyway.
const ENOUGH: usize = 8;

/// The wrong rows: `wrong` ones exceed the limit, `open` ones have an unusual error, and are wrong after the first wrong one, as
/// are rows of few `cols` if nearly all others are: some are within the limit by chance.
pub(super) fn rows(wrong: &[bool], open: &[bool], cols: usize) -> Vec<usize> {
    let Some(first) = wrong.iter().position(|&wrong| wrong) else { return (0..wrong.len()).collect() };
    let rows: Vec<usize> = (first..wrong.len()).filter(|&r| wrong[r] || open[r]).collect();
    let last = rows.last().map_or(first, |&last| last);
    if cols < ENOUGH && rows.len() * 4 >= (last + 1 - first) * 3 { (first..=last).collect() } else { rows }
}

/// The wrong columns; all of them when nearly all are wrong, or none stands out.
pub(super) fn cols(bad: &[bool]) -> Vec<usize> {
    let wrong: Vec<usize> = (0..bad.len()).filter(|&c| bad[c]).collect();
    if wrong.is_empty() || wrong.len() > bad.len() * 9 / 10 { (0..bad.len()).collect() } else { wrong }
}

impl Region {
    /// The rows and columns of a matrix in which an element is `bad`, if there are any.
    pub(crate) fn of((rows, cols): (usize, usize), bad: impl Fn(usize, usize) -> bool) -> Option<Region> {
        let rows = (0..rows).filter(|&r| (0..cols).any(|c| bad(r, c))).collect::<Vec<_>>();
        let cols = (0..cols).filter(|&c| rows.iter().any(|&r| bad(r, c))).collect();
        (!rows.is_empty()).then_some(Region { rows, cols })
    }

    pub(crate) fn within(&self, range: Range<usize>) -> Region {
        let rows = self.rows.iter().filter(|&r| range.contains(r)).map(|r| r - range.start);
        Region { rows: rows.collect(), cols: self.cols.clone() }
    }

    /// Adds a region of later rows, counted from `first`.
    pub(crate) fn extend(&mut self, first: usize, other: &Region) {
        self.rows.extend(other.rows.iter().map(|r| first + r));
        self.cols.extend(&other.cols);
        self.cols.sort_unstable();
        self.cols.dedup();
    }

    pub(crate) fn sum(&self, of: impl Fn(usize, usize) -> f64) -> f64 {
        self.rows.iter().map(|&r| self.cols.iter().map(|&c| of(r, c)).sum::<f64>()).sum()
    }
}
