//! Launches, first as plans by index, then as device objects.

use gpu::{BufferId, Cost, Grid};

use crate::device::Buffer;
use crate::kernels::Kernel;

#[derive(Clone, Debug)]
pub(crate) struct LaunchPlan {
    pub(crate) kernel: Kernel,
    pub(crate) params: Vec<u32>,
    pub(crate) buffers: Vec<BufferId>,
    pub(crate) grid: Grid,
    pub(crate) cost: Cost,
}

pub(crate) struct Launch {
    pub(crate) pipeline: wgpu::ComputePipeline,
    pub(crate) group: wgpu::BindGroup,
    pub(crate) grid: Grid,
    pub(crate) cost: Cost,
    /// Held so that its memory stays counted.
    pub(crate) _params: Buffer,
}
