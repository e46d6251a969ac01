//! Block formats of GGUF tensors: sizes, scalar dequantisation and quantisation.
//!
//! A row of a quantised tensor is a sequence of blocks. [`Format`] gives the number of values and bytes per block, and
//! converts blocks to `f32` and back. Each format family has a module with its byte layout. The crate is independent of
//! files, tensors and hardware.

mod block;
mod codec;
mod e4m3;
mod encode;
mod fit;
mod float;
mod format;
mod grid_block;
mod grids;
mod groups;
mod iq1;
mod iq2;
mod iq3;
mod iq4;
mod k_quants;
mod legacy;
pub mod mix;
mod mxfp4;
mod nvfp4;
mod ternary;

pub use block::{Block, BlockBytes};
pub use e4m3::E4M3;
pub use float::{Bf16Le, F16Le, F32Le};
pub use format::{Format, UnsupportedFormat};
pub use grid_block::GridBlock;
pub use groups::{Groups, Halves};
pub use iq1::{BlockIQ1_M, BlockIQ1_S};
pub use iq2::{BlockIQ2_S, BlockIQ2_XS, BlockIQ2_XXS};
pub use iq3::{BlockIQ3_S, BlockIQ3_XXS};
pub use iq4::{BlockIQ4_NL, BlockIQ4_XS, IQ4_VALUES};
pub use k_quants::{BlockQ2_K, BlockQ3_K, BlockQ4_K, BlockQ5_K, BlockQ6_K};
pub use legacy::{BlockQ4_0, BlockQ4_1, BlockQ5_0, BlockQ5_1, BlockQ8_0};
pub use mix::Mix;
pub use mxfp4::{BlockMXFP4, MXFP4_VALUES};
pub use nvfp4::BlockNVFP4;
pub use ternary::{BlockTQ1_0, BlockTQ2_0};
