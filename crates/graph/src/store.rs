//! What sequences carry from step to step: stores, and the groups that share a block table.

/// What a layer keeps of each position of each sequence: the keys and values that attention reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Store {
    /// Key and value heads.
    pub heads: usize,
    /// Values of a key.
    pub k_dim: usize,
    /// Values of a value.
    pub v_dim: usize,
    /// Positions that a row sees, its own included; none when it sees all up to its own. What nobody can see any
    /// more is given back.
    pub window: Option<usize>,
}

/// Stores whose positions live equally long: they share a block table, in which a page holds the same positions in
/// each of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Group {
    /// That of its stores.
    pub window: Option<usize>,
}

impl Group {
    /// The first position that the row at `position` sees.
    pub fn first_visible(&self, position: usize) -> usize {
        self.window.map_or(0, |window| (position + 1).saturating_sub(window))
    }
}
