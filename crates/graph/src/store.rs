//! KV stores, and the groups that share a block table.

/// A KV store: the keys and values of one attention layer for every cached position of every sequence.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Store {
    /// KV heads.
    pub heads: usize,
    /// Columns of a key.
    pub k_dim: usize,
    /// Columns of a value.
    pub v_dim: usize,
    /// Sliding window: the number of visible positions, including the row's own; `None` without one. Pages that fell
    /// out of the window are freed.
    pub window: Option<usize>,
}

/// Stores with the same window. They share a block table; a page holds the same positions in each of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Group {
    /// The window of its stores.
    pub window: Option<usize>,
}

impl Group {
    /// The first position visible to the row at `position`.
    pub fn first_visible(&self, position: usize) -> usize {
        self.window.map_or(0, |window| (position + 1).saturating_sub(window))
    }
}
