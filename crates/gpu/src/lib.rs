//! Lowering that the GPU backends share: graphs to fused passes, passes to buffers and launches, step inputs, packed weights.
//! Nothing here knows a device: backends add kernels and buffers.

mod compile;
mod draws;
mod formats;
mod inputs;
mod layout;
mod model;
mod pack;
mod plan;
mod readback;
mod rows;
mod step;
mod tiled;
mod tiles;
mod variant;

pub use compile::{
    Blueprint, BufferId, BufferPlan, Compiler, Each, F32, Grid, InputRows, Lower, Operand, Scratch, Work,
};
pub use formats::{CHUNK, Formats, kernel_name, may_fit_f16};
pub use inputs::{
    Clusters, FOLLOWS, Inputs, MAX_CLUSTER, MAX_SPLIT_ROWS, MAX_SPLITS, RopeTable, Splits, partials_bytes,
};
pub use layout::Layout;
pub use model::{MatrixLayout, ModelPlan, Purpose, State, out_of_memory};
pub use plan::{Addend, Attend, Experts, LinearOutput, List, Location, Norm, Part, Pass, Plan, Slot};
pub use readback::{Readback, outputs, read};
pub use rows::{Operation, RowWise};
pub use step::{Cost, Draws, StepShape, chosen_words};
pub use tiled::{TiledLayout, tile_bytes};
pub use tiles::{FLASH_ROWS, GROUP_ROWS, max_groups, max_tiles, min_grouped_rows, tiles};
pub use variant::{Variant, When};
