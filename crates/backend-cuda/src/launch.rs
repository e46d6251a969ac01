//! Planned launches, and the clusters of their blocks.

use std::sync::Arc;

use gpu::{Cost, Each, Grid, StepShape};

use crate::arguments::Arguments;

#[derive(Clone, Debug)]
pub(crate) struct LaunchPlan {
    /// Module and function, such as `rows/arg_max`.
    pub(crate) kernel: String,
    pub(crate) args: Arc<dyn Arguments>,
    pub(crate) grid: Grid,
    pub(crate) threads: u32,
    /// Dynamic shared memory in bytes.
    pub(crate) shared: usize,
    /// More of it per warp, in a kernel that computes with any number of warps instead of `threads`; 0 in others.
    pub(crate) shared_per_warp: usize,
    pub(crate) cluster: Cluster,
    pub(crate) cost: Cost,
}

/// Blocks that divide the work of each block of a grid, and form a cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Cluster {
    /// Maximum number of blocks of a cluster.
    pub(crate) most: usize,
    /// Maximum number of blocks of the grid.
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

/// The blocks of `grid` for `rows` rows of a step of this shape, or its clusters.
pub(crate) fn blocks(grid: &Grid, rows: usize, shape: &StepShape) -> [u32; 3] {
    let [units, splits] = grid.units(rows, shape);
    [grid.groups, units, splits].map(|n| n as u32)
}

/// Blocks of a cluster for a step of this shape, if that depends on it.
pub(crate) fn cluster(grid: &Grid, shape: &StepShape) -> Option<u32> {
    let Each::Cluster(group) = grid.each else { return None };
    Some(shape.splits[group] as u32)
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
    fn clusters_follow_the_step() {
        let shape = StepShape { splits: vec![1, 4], ..StepShape::default() };
        let grid = Grid { groups: 7, each: Each::Cluster(1) };
        assert_eq!((blocks(&grid, 33, &shape), cluster(&grid, &shape)), ([7, 33, 1], Some(4)));
    }
}
