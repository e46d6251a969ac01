//! Where a value is wrong.

use std::ops::Range;

use serde::Serialize;

/// The rows and columns in which a value is wrong.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Region {
    /// Rows, rising.
    pub rows: Vec<usize>,
    /// Columns, rising.
    pub cols: Vec<usize>,
}

/// What is known of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Row {
    /// Beyond what it may show.
    Wrong,
    /// Within it, but further off than a right row is as a rule.
    Open,
    /// As good as any.
    Right,
}

/// Numbers of a row that are enough to say that it is right: one that is lost may be near 0 anyway.
const ENOUGH: usize = 8;

/// The wrong rows, by `cols` numbers of each. Where a value is wrong throughout, some rows are within the
/// limit by chance: such a row after the first wrong one counts as wrong if it is not as good as a right one,
/// or if it has few numbers and stands among rows that are nearly all wrong.
pub(super) fn rows(rows: &[Row], cols: usize) -> Vec<usize> {
    let Some(first) = rows.iter().position(|&row| row == Row::Wrong) else {
        return (0..rows.len()).collect();
    };
    let wrong: Vec<usize> = (first..rows.len()).filter(|&r| rows[r] != Row::Right).collect();
    let last = wrong.last().map_or(first, |&last| last);
    if cols < ENOUGH && wrong.len() * 4 >= (last + 1 - first) * 3 { (first..=last).collect() } else { wrong }
}

/// The wrong columns; all when nearly all are, or none stands out.
pub(super) fn cols(bad: &[bool]) -> Vec<usize> {
    let wrong: Vec<usize> = (0..bad.len()).filter(|&c| bad[c]).collect();
    if wrong.is_empty() || wrong.len() > bad.len() * 9 / 10 { (0..bad.len()).collect() } else { wrong }
}

impl Region {
    /// Its part in the rows of `range`, counted from there.
    pub(crate) fn within(&self, range: Range<usize>) -> Region {
        let rows = self.rows.iter().filter(|&r| range.contains(r)).map(|r| r - range.start);
        Region { rows: rows.collect(), cols: self.cols.clone() }
    }

    /// Takes in what is wrong in later rows, counted from `first`.
    pub(crate) fn extend(&mut self, first: usize, other: &Region) {
        self.rows.extend(other.rows.iter().map(|r| first + r));
        self.cols.extend(&other.cols);
        self.cols.sort_unstable();
        self.cols.dedup();
    }

    /// A sum over its rows and columns.
    pub(crate) fn sum(&self, of: impl Fn(usize, usize) -> f64) -> f64 {
        self.rows.iter().map(|&r| self.cols.iter().map(|&c| of(r, c)).sum::<f64>()).sum()
    }
}
