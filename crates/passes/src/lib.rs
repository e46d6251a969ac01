//! Passes of GPU backends: graphs lowered to fused passes, step inputs, packed weights.
//!
//! `plan.rs` lowers a graph to a list of passes over buffers. `inputs.rs` lays out what changes from step to step,
//! `step.rs` says what the commands of a step depend on and what they cost, and `tiles.rs` cuts sequences into tiles of
//! attention. `formats.rs` packs weights for kernels. Backends add kernels and buffers of a device; nothing here knows
//! any.

mod formats;
mod inputs;
mod plan;
mod step;
mod tiles;

pub use formats::{CHUNK, DeviceFormat, Formats, Layout};
pub use inputs::{Inputs, RopeTable, partials_bytes};
pub use plan::{Addend, Attend, Experts, LinearOutput, List, Location, Norm, Part, Pass, Plan, Slot};
pub use step::{Cost, StepShape};
pub use tiles::{FLASH_ROWS, max_tiles, tiles};
