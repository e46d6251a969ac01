//! Block formats of GGUF tensors: sizes and scalar dequantisation.
//!
//! A row of a quantised tensor is a run of equal blocks; [`Format`] says how many values a block
//! holds and how many bytes it takes, and turns blocks into `f32`. Each family has a file with its
//! byte table. Nothing here knows files, tensors or hardware.

mod format;

pub use format::{Format, UnsupportedFormat};
