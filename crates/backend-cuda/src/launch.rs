//! Building blocks of a program: buffers and launches by index, before anything is allocated.

use graph::{Rows, StoreId, ValueId, WeightId};
use passes::{Cost, StepShape};

use crate::driver::Purpose;

pub(crate) const F32: usize = size_of::<f32>();

/// Names a buffer before it is allocated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BufferId {
    /// A buffer of the program, by index.
    Own(usize),
    Weight(WeightId),
    /// The keys (0) or values (1) of a store.
    Store(StoreId, usize),
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
    pub(crate) cost: Cost,
}

/// A unit of work to queue; `L` is [`LaunchPlan`] or a built launch.
pub(crate) enum Work<L> {
    /// Launches the first variant that matches the step.
    Dispatch { rows: Rows, variants: Vec<Variant<L>> },
    /// Uploads the input rows of a step, before everything else.
    Input { buffer: usize, col: usize, cols: usize, stride: usize },
    /// Copies a value to the staging memory, by the index of its [`Readback`](crate::compile::Readback).
    Readback(usize),
}

/// One way to compute a pass, with the steps it applies to.
pub(crate) struct Variant<L> {
    /// Maximum number of rows.
    pub(crate) max_rows: usize,
    /// Only for steps with one row per sequence.
    pub(crate) is_decode: bool,
    /// Only for steps whose attention runs in tiles.
    pub(crate) is_tiled: bool,
    /// Only for steps that request only tokens.
    pub(crate) is_tokens_only: bool,
    /// Weights whose values must all be finite in f16.
    pub(crate) f16_weights: Vec<WeightId>,
    pub(crate) launches: Vec<L>,
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

    /// The blocks for `rows` rows of a step of this shape.
    pub(crate) fn blocks(&self, rows: usize, shape: &StepShape) -> [u32; 3] {
        let (y, z) = match self.each {
            Each::Rows(tile) => (rows.div_ceil(tile), 1),
            Each::Part(group) => (rows, shape.splits[group]),
            Each::Tile => (shape.tiles, 1),
            Each::Sequence => (shape.sequences, 1),
            Each::Entry(used) => (rows * used, 1),
            Each::Group { experts, used } => (max_groups(rows, experts, used), 1),
            Each::Step => (1, 1),
        };
        [self.groups, y, z].map(|n| n as u32)
    }
}

/// Rows per tile of one expert.
pub(crate) const GROUP_ROWS: usize = 32;

/// Maximum number of tiles for the experts of `rows` rows.
pub(crate) fn max_groups(rows: usize, experts: usize, used: usize) -> usize {
    let entries = rows * used;
    entries / GROUP_ROWS + entries.min(experts)
}

impl<L> Default for Variant<L> {
    fn default() -> Variant<L> {
        Variant {
            max_rows: usize::MAX,
            is_decode: false,
            is_tiled: false,
            is_tokens_only: false,
            f16_weights: Vec::new(),
            launches: Vec::new(),
        }
    }
}

impl<L> Variant<L> {
    /// A variant for all steps.
    pub(crate) fn always(launches: Vec<L>) -> Variant<L> {
        Variant { launches, ..Variant::default() }
    }

    /// Whether it applies to a pass of `rows` rows in a step of this shape.
    pub(crate) fn is_for(&self, rows: usize, shape: &StepShape, fits_f16: impl Fn(WeightId) -> bool) -> bool {
        rows <= self.max_rows
            && (!self.is_decode || shape.is_decode)
            && (!self.is_tiled || shape.tiles > 0)
            && (!self.is_tokens_only || shape.is_tokens_only)
            && self.f16_weights.iter().all(|&weight| fits_f16(weight))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Rows per expert that need as many tiles as possible: one more than whole tiles for all but one expert.
    #[test]
    fn groups_of_rows_fit_the_grid() {
        for (rows, experts, used) in [(1, 8, 2), (16, 5, 2), (64, 128, 8), (300, 8, 2), (512, 3, 3)] {
            let (mut left, mut tiles) = (rows * used, 0usize);
            for _ in 1..experts {
                let own = left.min(1);
                (left, tiles) = (left - own, tiles + own);
            }
            tiles += left.div_ceil(GROUP_ROWS);
            let most = max_groups(rows, experts, used);
            assert!(tiles <= most, "{rows} rows, {used} of {experts} experts: {tiles} tiles in {most}");
        }
    }

    #[test]
    fn grids_follow_the_step() {
        let shape = StepShape { sequences: 3, splits: vec![1, 4], tiles: 5, ..StepShape::default() };
        let blocks = |each| Grid { groups: 7, each }.blocks(33, &shape);
        assert_eq!(blocks(Each::Rows(32)), [7, 2, 1]);
        assert_eq!(blocks(Each::Part(1)), [7, 33, 4]);
        assert_eq!(blocks(Each::Tile), [7, 5, 1]);
        assert_eq!(blocks(Each::Sequence), [7, 3, 1]);
        assert_eq!(blocks(Each::Entry(2)), [7, 66, 1]);
        assert_eq!(blocks(Each::Step), [7, 1, 1]);
    }
}
