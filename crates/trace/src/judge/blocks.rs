//! A value beside what it should be, some rows at a time: no more of it need be in memory.

use std::cell::OnceCell;
use std::convert::Infallible;
use std::ops::Range;

use super::{Products, Rounding};
use crate::{Error, Matrix};

/// Numbers of a value that are in memory at a time, about: 4 MB of f32. What is computed from them takes
/// up to some 20 times that.
const NUMBERS: usize = 1 << 20;

/// Rows of `cols` columns that are taken together.
pub(crate) fn rows_at_once(cols: usize) -> usize {
    (NUMBERS / cols.max(1)).max(1)
}

/// Some rows.
#[derive(Clone, Copy)]
pub(crate) struct View<'a> {
    /// The row of the value that is the first of these.
    pub(crate) first: usize,
    /// What should be.
    pub(crate) expected: &'a Matrix,
    /// What was recorded.
    pub(crate) found: &'a Matrix,
    /// What rounding the inputs makes of these numbers; computed when it is first asked for.
    pub(crate) rounding: &'a dyn Fn() -> &'a Rounding,
}

/// A value that can be looked at as often as need be, row after row.
pub(crate) trait Rows {
    /// Why its rows may not be had.
    type Error;

    /// Rows and columns.
    fn shape(&self) -> (usize, usize);

    /// Shows all rows, from the first to the last.
    ///
    /// # Errors
    /// When they cannot be had.
    fn each(&self, visit: &mut dyn FnMut(View<'_>)) -> Result<(), Self::Error>;
}

/// A value that is in memory.
pub(crate) struct Pair<'a> {
    pub(crate) expected: &'a Matrix,
    pub(crate) found: &'a Matrix,
    pub(crate) rounding: &'a Rounding,
}

impl Rows for Pair<'_> {
    type Error = Infallible;

    fn shape(&self) -> (usize, usize) {
        (self.found.rows, self.found.cols)
    }

    fn each(&self, visit: &mut dyn FnMut(View<'_>)) -> Result<(), Infallible> {
        let Pair { expected, found, rounding } = *self;
        visit(View { first: 0, expected, found, rounding: &|| rounding });
        Ok(())
    }
}

/// Some rows, with what they were computed from.
pub(crate) struct Block {
    pub(crate) expected: Matrix,
    pub(crate) found: Matrix,
    /// The products, whose inputs an engine may round.
    pub(crate) products: Option<Products>,
    /// Whether the input is what was rounded, and not computed from that.
    pub(crate) is_exact: bool,
}

impl Block {
    /// Rows of which no more is known.
    pub(crate) fn plain(expected: Matrix, found: Matrix) -> Block {
        Block { expected, found, products: None, is_exact: false }
    }

    /// What rounding the inputs makes of these numbers.
    pub(crate) fn rounding(&self) -> Rounding {
        let Some(products) = &self.products else { return Rounding::default() };
        let rounding = products.rounding(&self.expected);
        if self.is_exact { rounding } else { rounding.without_direction() }
    }
}

/// A value whose rows are made when they are looked at. What is one block is made once.
pub(crate) struct Blocks<'a> {
    shape: (usize, usize),
    rows_at_once: usize,
    make: &'a dyn Fn(Range<usize>) -> Result<Block, Error>,
    only: OnceCell<(Block, OnceCell<Rounding>)>,
}

impl<'a> Blocks<'a> {
    /// A value of `shape`, rows and columns, of which `make` makes `rows_at_once`.
    pub(crate) fn new(
        shape: (usize, usize),
        rows_at_once: usize,
        make: &'a dyn Fn(Range<usize>) -> Result<Block, Error>,
    ) -> Blocks<'a> {
        Blocks { shape, rows_at_once, make, only: OnceCell::new() }
    }
}

impl Rows for Blocks<'_> {
    type Error = Error;

    fn shape(&self) -> (usize, usize) {
        self.shape
    }

    fn each(&self, visit: &mut dyn FnMut(View<'_>)) -> Result<(), Error> {
        let rows = self.shape.0;
        let mut show = |first: usize, (block, rounding): &(Block, OnceCell<Rounding>)| {
            let rounding = || rounding.get_or_init(|| block.rounding());
            visit(View { first, expected: &block.expected, found: &block.found, rounding: &rounding });
        };
        if let Some(only) = self.only.get() {
            show(0, only);
            return Ok(());
        }
        for first in (0..rows).step_by(self.rows_at_once) {
            let block = ((self.make)(first..rows.min(first + self.rows_at_once))?, OnceCell::new());
            show(first, &block);
            if self.rows_at_once >= rows {
                // Empty until now.
                let _ = self.only.set(block);
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::judge::judge;
    use crate::metrics::Largest;

    /// Numbers that are 1, those of rows from 5 on and column 2 being 2 where they were recorded.
    fn block(rows: Range<usize>) -> Block {
        let ones = Matrix::from_fn(rows.len(), 4, |_, _| 1.0);
        let found =
            Matrix::from_fn(rows.len(), 4, |r, c| if rows.start + r >= 5 && c == 2 { 2.0 } else { 1.0 });
        Block::plain(ones, found)
    }

    #[test]
    fn it_is_all_one_how_many_rows_are_taken_together() {
        for at_once in [1, 2, 3, 8, 100] {
            let make = |rows: Range<usize>| {
                assert!(rows.len() <= at_once && rows.end <= 8, "{rows:?} of {at_once}");
                Ok(block(rows))
            };
            let judgement = judge(&Blocks::new((8, 4), at_once, &make), 1e-6).expect("rows");
            let region = judgement.region.expect("it is wrong");
            assert_eq!((&region.rows[..], &region.cols[..]), (&[5, 6, 7][..], &[2][..]), "{at_once}");
            assert_eq!(judgement.metrics.nmse, 3.0 / 32.0);
            assert_eq!(judgement.metrics.largest, Largest { difference: 1.0, position: 5, column: 2 });
        }
    }

    #[test]
    fn what_cannot_be_had_is_said() {
        let make = |rows: Range<usize>| match rows.start {
            0 => Ok(block(rows)),
            _ => Err(Error::Compare("no more rows".to_owned())),
        };
        assert!(judge(&Blocks::new((8, 4), 4, &make), 1e-6).is_err());
        assert_eq!(rows_at_once(128_256), 8);
        assert_eq!(rows_at_once(usize::MAX), 1);
    }
}
