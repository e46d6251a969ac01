//! Building blocks of a program: buffers and launches by index, before anything is allocated.

use graph::{Rows, StoreId, ValueId, WeightId};
use passes::{Cost, Purpose, StepShape, Variant, max_groups};

pub(crate) const F32: usize = size_of::<f32>();

/// Names a buffer before it is allocated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BufferId {
    /// A buffer of the program, by index.
    Own(usize),
    /// The step inputs, which kernels find in each of their arguments; this is for those that write them.
    Inputs,
    /// The tokens or candidates that a step chooses, and those of the step before.
    Chosen,
    ChosenBefore,
    Weight(WeightId),
    /// The keys (0) or values (1) of a store.
    Store(StoreId, usize),
    /// The tensor maps of the keys and of the values of a store.
    TensorMaps(StoreId),
    /// The slots of a recurrent operation.
    State(ValueId),
}

#[derive(Clone, Debug)]
pub(crate) struct BufferPlan {
    pub(crate) purpose: Purpose,
    pub(crate) bytes: u64,
    /// Initial contents; empty for zeros.
    pub(crate) words: Vec<u32>,
}

/// A kernel launch. The kernel takes one struct: the step inputs, `buffers`, and then `words`. A missing buffer is a null
/// pointer.
#[derive(Clone, Debug)]
pub(crate) struct LaunchPlan {
    pub(crate) kernel: String,
    pub(crate) buffers: Vec<Option<BufferId>>,
    pub(crate) words: Vec<u32>,
    pub(crate) grid: Grid,
    pub(crate) threads: u32,
    /// Dynamic shared memory in bytes.
    pub(crate) shared: usize,
    /// More of it per warp, in a kernel that computes with any number of warps instead of `threads`; 0 in others.
    pub(crate) shared_of_warp: usize,
    pub(crate) cluster: Cluster,
    pub(crate) cost: Cost,
}

/// Blocks that divide the work of each block of a grid, and form a cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Cluster {
    /// Blocks of a cluster at most.
    pub(crate) most: usize,
    /// Blocks of the grid at most.
    pub(crate) grid: usize,
}

impl Cluster {
    /// The largest cluster with which the grid is one wave, if `active` clusters of a size run at the same time. A pair shares two
    /// multiprocessors that lie together; more blocks must find room in one part of the card, beside blocks of other kernels: there
    /// must be room for a quarter more of them.
    pub(crate) fn size(self, active: impl Fn(usize) -> usize) -> usize {
        let needed = |size| if size > 2 { self.grid + self.grid.div_ceil(4) } else { self.grid };
        (2..=self.most).rev().find(|&size| active(size) >= needed(size)).unwrap_or(1)
    }
}

/// A unit of work to queue; `L` is [`LaunchPlan`] or a built launch.
pub(crate) enum Work<L> {
    /// Launches the first variant that matches the step.
    Dispatch { rows: Rows, variants: Vec<Variant<L>> },
    /// Uploads the input rows of a step, before everything else.
    Input { buffer: usize, col: usize, cols: usize, stride: usize },
    /// Sums rows of `cols` values over the ranks, in place.
    AllReduce { rows: Rows, buffer: usize, cols: usize },
    /// Copies a value to the staging memory, by the index of its [`Readback`](passes::Readback).
    Readback(usize),
}

/// Blocks of a launch: `groups` for each unit.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Grid {
    pub(crate) groups: usize,
    pub(crate) each: Each,
}

/// The unit of work that `groups` blocks compute.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Each {
    /// This many rows.
    Rows(usize),
    /// A row and a split of its positions, for this group of stores.
    Part(usize),
    /// A row, whose splits are the blocks of a cluster.
    Cluster(usize),
    /// An attention tile.
    Tile,
    /// A sequence.
    Sequence,
    /// An entry of a row's list of experts, of this many.
    Entry(usize),
    /// A tile of rows of one expert.
    Group { experts: usize, used: usize },
    /// Everything at once.
    Step,
}

impl Grid {
    /// One unit per row.
    pub(crate) fn rows(groups: usize) -> Grid {
        Grid { groups, each: Each::Rows(1) }
    }

    /// The blocks for `rows` rows of a step of this shape, or the clusters.
    pub(crate) fn blocks(&self, rows: usize, shape: &StepShape) -> [u32; 3] {
        let (y, z) = match self.each {
            Each::Rows(tile) => (rows.div_ceil(tile), 1),
            Each::Part(group) => (rows, shape.splits[group]),
            Each::Cluster(_) => (rows, 1),
            Each::Tile => (shape.tiles, 1),
            Each::Sequence => (shape.sequences, 1),
            Each::Entry(used) => (rows * used, 1),
            Each::Group { experts, used } => (max_groups(rows, experts, used), 1),
            Each::Step => (1, 1),
        };
        [self.groups, y, z].map(|n| n as u32)
    }

    /// Blocks of a cluster for a step of this shape, if that depends on it.
    pub(crate) fn cluster(&self, shape: &StepShape) -> Option<u32> {
        let Each::Cluster(group) = self.each else { return None };
        Some(shape.splits[group] as u32)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An H100 with two blocks per multiprocessor, in parts of 32 and 36 blocks; clusters lie within one of them.
    #[test]
    fn clusters_run_at_the_same_time() {
        let active = |size: usize| 6 * (32 / size) + 2 * (36 / size);
        let size = |most, grid| Cluster { most, grid }.size(active);
        assert_eq!(size(8, 32), 6, "of 8 blocks 32 would leave no room");
        assert_eq!((size(8, 8), size(4, 8)), (8, 4));
        assert_eq!((size(8, 128), size(8, 224), size(1, 1)), (2, 1, 1));
    }

    #[test]
    fn grids_follow_the_step() {
        let shape = StepShape { sequences: 3, splits: vec![1, 4], tiles: 5, ..StepShape::default() };
        let blocks = |each| Grid { groups: 7, each }.blocks(33, &shape);
        assert_eq!(blocks(Each::Rows(32)), [7, 2, 1]);
        assert_eq!(blocks(Each::Part(1)), [7, 33, 4]);
        assert_eq!(blocks(Each::Cluster(1)), [7, 33, 1]);
        assert_eq!(Grid { groups: 7, each: Each::Cluster(1) }.cluster(&shape), Some(4));
        assert_eq!(blocks(Each::Tile), [7, 5, 1]);
        assert_eq!(blocks(Each::Sequence), [7, 3, 1]);
        assert_eq!(blocks(Each::Entry(2)), [7, 66, 1]);
        assert_eq!(blocks(Each::Step), [7, 1, 1]);
    }
}
