//! Ids of values, weights and stores.

/// Identifies a value of a [`crate::Graph`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ValueId(pub(crate) u32);

/// Identifies a weight of a [`crate::Graph`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct WeightId(pub(crate) u32);

impl ValueId {
    /// The value at this index of [`crate::Graph::values`].
    pub fn from_index(index: usize) -> ValueId {
        ValueId(index as u32)
    }

    /// The index in [`crate::Graph::values`].
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

impl WeightId {
    /// The index in [`crate::Graph::weights`].
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// Identifies a store of a [`crate::Graph`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct StoreId(pub(crate) u32);

impl StoreId {
    /// The index in [`crate::Graph::stores`].
    pub fn index(self) -> usize {
        self.0 as usize
    }
}
