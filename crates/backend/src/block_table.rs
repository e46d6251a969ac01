//! Block tables: which pages hold the positions of a sequence.

use std::ops::Range;

use crate::PAGE;

/// Where the positions of a sequence lie in the stores of a group: position `p` in `pages[p / PAGE - first]`. Pages
/// before `first` were given back.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BlockTable {
    /// The first page that is there, counted from position 0.
    pub first: usize,
    /// From this page on.
    pub pages: Vec<u32>,
}

impl BlockTable {
    /// A table from position 0 on.
    pub fn new(pages: impl IntoIterator<Item = u32>) -> BlockTable {
        BlockTable { first: 0, pages: pages.into_iter().collect() }
    }

    /// The positions that it has room for.
    pub fn positions(&self) -> Range<usize> {
        self.first * PAGE..(self.first + self.pages.len()) * PAGE
    }

    /// Where `position` lies: page, and offset in the page.
    pub fn slot(&self, position: usize) -> (usize, usize) {
        (self.pages[position / PAGE - self.first] as usize, position % PAGE)
    }
}
