//! Ids of values, weights and stores: indices into a graph's lists.

macro_rules! ids {
    ($($name:ident, $what:literal, $list:literal;)+) => {$(
        #[doc = concat!("Identifies a ", $what, " of a [`crate::Graph`].")]
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub struct $name(pub(crate) u32);

        impl $name {
            #[doc = concat!("The index in [`crate::Graph::", $list, "`].")]
            pub fn index(self) -> usize {
                self.0 as usize
            }
        }
    )+};
}

ids! {
    ValueId, "value", "values";
    WeightId, "weight", "weights";
    StoreId, "store", "stores";
}

impl ValueId {
    /// The value at this index of [`crate::Graph::values`].
    pub fn from_index(index: usize) -> ValueId {
        ValueId(index as u32)
    }
}
