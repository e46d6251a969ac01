//! A value beside what it should be, some rows at a time: no more of it need be in memory.

use std::cell::OnceCell;
use std::convert::Infallible;
use std::ops::Range;

use backend::Weight;

use super::Rounding;
use crate::{Error, Matrix};

/// Numbers of a value that are in memory at a time, about: 8 MB of f32.
const NUMBERS: usize = 1 << 21;

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
    /// Of a product whose inputs an engine may round: the input and the weight.
    pub(crate) product: Option<(Matrix, Weight)>,
}

impl Block {
    /// What rounding the inputs makes of these numbers.
    pub(crate) fn rounding(&self) -> Rounding {
        match &self.product {
            Some((x, weight)) => Rounding::of(x, weight, &self.expected),
            None => Rounding::default(),
        }
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
