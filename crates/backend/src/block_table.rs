//! Block tables: the pages that hold a sequence's positions.

use std::ops::Range;

use crate::PAGE;

/// The pages of a sequence in a group of stores: position `p` is in `pages[p / PAGE - first]`. Pages before `first` were
/// freed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BlockTable {
    /// Index of the first allocated page, counted from position 0.
    pub first: usize,
    /// Indices into the store's pages, from page `first` on.
    pub pages: Vec<u32>,
}

impl BlockTable {
    /// A table that starts at position 0.
    pub fn new(pages: impl IntoIterator<Item = u32>) -> BlockTable {
        BlockTable { first: 0, pages: pages.into_iter().collect() }
    }

    /// The positions that the table covers.
    pub fn positions(&self) -> Range<usize> {
        self.first * PAGE..(self.first + self.pages.len()) * PAGE
    }

    /// The slot of `position`: page number, and offset within the page.
    pub fn slot(&self, position: usize) -> (usize, usize) {
        (self.pages[position / PAGE - self.first] as usize, position % PAGE)
    }
}
