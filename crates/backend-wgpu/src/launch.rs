//! What a program is made of: buffers and launches, planned (a number each) or as the device has them.

use backend::Step;
use graph::{Rows, StoreId, WeightId};

use crate::device::{Buffer, Purpose};
use crate::kernels::Kernel;

pub(crate) const F32: usize = size_of::<f32>();

/// A buffer that launches name before it is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BufferId {
    /// Of the program, by number.
    Own(usize),
    /// Some rows of a weight: its shard.
    Weight(WeightId, usize),
    /// Of a store its keys (0) or values (1).
    Store(StoreId, usize),
}

/// A buffer that a program needs.
#[derive(Clone, Debug)]
pub(crate) struct BufferPlan {
    pub(crate) purpose: Purpose,
    pub(crate) bytes: u64,
    pub(crate) usage: wgpu::BufferUsages,
    /// What it holds from the beginning; nothing for zeros.
    pub(crate) words: Vec<u32>,
}

/// A kernel with its parameters and buffers.
#[derive(Clone, Debug)]
pub(crate) struct LaunchPlan {
    pub(crate) kernel: Kernel,
    pub(crate) params: Vec<u32>,
    pub(crate) buffers: Vec<BufferId>,
    pub(crate) grid: Grid,
    pub(crate) cost: Cost,
}

/// The same on the device.
pub(crate) struct Launch {
    pub(crate) pipeline: wgpu::ComputePipeline,
    pub(crate) group: wgpu::BindGroup,
    pub(crate) grid: Grid,
    pub(crate) cost: Cost,
    /// Counted as long as it is used.
    pub(crate) _params: Buffer,
}

/// Something to be encoded; `L` is a [`LaunchPlan`] or a [`Launch`].
pub(crate) enum Work<L> {
    /// The first of these that is for such a step.
    Dispatch { rows: Rows, variants: Vec<Variant<L>> },
    /// The rows that come with the step are written to where they are read: before everything else. `rows` is as long
    /// as the buffer, so that steps allocate none.
    Input { buffer: usize, col: usize, cols: usize, stride: usize, rows: Vec<f32> },
    /// A value is copied to where it can be read back, by the number of its [`Readback`].
    Keep(usize),
}

/// A way to compute what a pass makes.
pub(crate) struct Variant<L> {
    /// Rows that it is for, at most.
    pub(crate) up_to: usize,
    /// Whether it is for steps where several workgroups share a row's positions in this group of stores.
    pub(crate) split: Option<usize>,
    /// Whether it is for steps of one row a sequence.
    pub(crate) is_alone: bool,
    /// Whether it is for steps of tiles of rows.
    pub(crate) is_tiled: bool,
    /// Whether it is for steps that ask for tokens only.
    pub(crate) is_tokens_only: bool,
    /// Weights all of whose values have to fit f16.
    pub(crate) f16_weights: Vec<WeightId>,
    pub(crate) launches: Vec<L>,
}

/// How many workgroups there are.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Grid {
    pub(crate) groups: usize,
    /// What there are so many for each of.
    pub(crate) each: Each,
}

/// What workgroups share among them.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Each {
    /// As many rows.
    Rows(usize),
    /// A row, and a part of its positions in a group of stores.
    Part(usize),
    /// A tile of rows that attention is computed in.
    Tile,
}

/// What a launch is and what it has to do, at least.
#[derive(Clone, Debug, Default)]
pub(crate) struct Cost {
    pub(crate) what: String,
    pub(crate) bytes: u64,
    /// For each row.
    pub(crate) row_bytes: u64,
    pub(crate) row_multiply_adds: u64,
    /// For each position of each sequence.
    pub(crate) position_bytes: u64,
    /// For each position that each row sees.
    pub(crate) pair_multiply_adds: u64,
    /// Positions that a row sees at most.
    pub(crate) window: Option<usize>,
}

/// What the commands of a step depend on.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct StepShape {
    pub(crate) rows: usize,
    pub(crate) outputs: usize,
    /// By group of stores, workgroups that share a row's positions.
    pub(crate) splits: Vec<usize>,
    /// Tiles of rows that attention is computed in; none when rows are too far apart.
    pub(crate) tiles: usize,
    /// Whether each sequence has one row.
    pub(crate) is_alone: bool,
    /// Whether output rows ask for a token only.
    pub(crate) is_tokens_only: bool,
}

impl StepShape {
    pub(crate) fn rows(&self, rows: Rows) -> usize {
        match rows {
            Rows::Step => self.rows,
            Rows::Output => self.outputs,
        }
    }
}

impl Grid {
    /// Row by row.
    pub(crate) fn rows(groups: usize) -> Grid {
        Grid { groups, each: Each::Rows(1) }
    }
}

impl Cost {
    /// Bytes of each row alone.
    pub(crate) fn row(what: &str, bytes: usize) -> Cost {
        Cost { what: what.to_owned(), row_bytes: bytes as u64, ..Cost::default() }
    }

    /// Bytes and multiply-adds of so many rows of a step.
    pub(crate) fn of(&self, step: &Step, rows: usize) -> (u64, u64) {
        let seen = |position: usize| (position + 1).min(self.window.unwrap_or(usize::MAX)) as u64;
        let sequences = step.sequences().iter();
        let positions: u64 = sequences
            .map(|sequence| {
                let all = sequence.n_past + sequence.len;
                all.min(self.window.map_or(usize::MAX, |window| window.saturating_add(sequence.len - 1)))
                    as u64
            })
            .sum();
        let pairs: u64 = match self.pair_multiply_adds {
            0 => 0,
            _ => step.rows().map(|(_, position)| seen(position)).sum(),
        };
        let bytes = self.bytes + self.row_bytes * rows as u64 + self.position_bytes * positions;
        (bytes, self.row_multiply_adds * rows as u64 + self.pair_multiply_adds * pairs)
    }
}

impl<L> Default for Variant<L> {
    fn default() -> Variant<L> {
        Variant {
            up_to: usize::MAX,
            split: None,
            is_alone: false,
            is_tiled: false,
            is_tokens_only: false,
            f16_weights: Vec::new(),
            launches: Vec::new(),
        }
    }
}

impl<L> Variant<L> {
    /// What is for every step.
    pub(crate) fn always(launches: Vec<L>) -> Variant<L> {
        Variant { launches, ..Variant::default() }
    }

    /// Whether it is for such a step of as many rows; `fits_f16` says whether all values of a weight fit f16.
    pub(crate) fn is_for(&self, rows: usize, shape: &StepShape, fits_f16: impl Fn(WeightId) -> bool) -> bool {
        rows <= self.up_to
            && self.split.is_none_or(|group| shape.splits[group] > 1)
            && (!self.is_alone || shape.is_alone)
            && (!self.is_tiled || shape.tiles > 0)
            && (!self.is_tokens_only || shape.is_tokens_only)
            && self.f16_weights.iter().all(|&weight| fits_f16(weight))
    }
}
