//! Building blocks of a program: buffers and launches, first as plans by index, then as device objects.

use graph::{Rows, StoreId, ValueId, WeightId};
use passes::{Cost, Purpose, Variant};

use crate::device::Buffer;
use crate::kernels::Kernel;

pub(crate) const F32: usize = size_of::<f32>();

/// Names a buffer before it is allocated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BufferId {
    /// A buffer of the program, by index.
    Own(usize),
    /// A shard of a weight.
    Weight(WeightId, usize),
    /// The keys (0) or values (1) of a store.
    Store(StoreId, usize),
    /// The slots of a recurrent operation.
    State(ValueId),
}

#[derive(Clone, Debug)]
pub(crate) struct BufferPlan {
    pub(crate) purpose: Purpose,
    pub(crate) bytes: u64,
    pub(crate) usage: wgpu::BufferUsages,
    /// Initial contents; empty for zeros.
    pub(crate) words: Vec<u32>,
}

/// A kernel launch: parameters, buffers and grid.
#[derive(Clone, Debug)]
pub(crate) struct LaunchPlan {
    pub(crate) kernel: Kernel,
    pub(crate) params: Vec<u32>,
    pub(crate) buffers: Vec<BufferId>,
    pub(crate) grid: Grid,
    pub(crate) cost: Cost,
}

/// A launch with its pipeline and bind group.
pub(crate) struct Launch {
    pub(crate) pipeline: wgpu::ComputePipeline,
    pub(crate) group: wgpu::BindGroup,
    pub(crate) grid: Grid,
    pub(crate) cost: Cost,
    /// Held so that its memory stays counted.
    pub(crate) _params: Buffer,
}

/// A unit of work to encode; `L` is [`LaunchPlan`] or [`Launch`].
pub(crate) enum Work<L> {
    /// Launches the first variant that matches the step.
    Dispatch { rows: Rows, variants: Vec<Variant<L>> },
    /// Uploads the input rows of a step, before everything else. `rows` is a host buffer of full size, so that steps
    /// do not allocate.
    Input { buffer: usize, col: usize, cols: usize, stride: usize, rows: Vec<f32> },
    /// Copies a value to the staging buffer, by the index of its [`Readback`](passes::Readback).
    Readback(usize),
}

/// Workgroups of a dispatch: `groups` for each unit.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Grid {
    pub(crate) groups: usize,
    pub(crate) each: Each,
}

/// The unit of work that `groups` workgroups compute.
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
    /// A tile of `groups.wgsl`.
    Group { experts: usize, used: usize },
}

impl Grid {
    /// One unit per row.
    pub(crate) fn rows(groups: usize) -> Grid {
        Grid { groups, each: Each::Rows(1) }
    }
}
