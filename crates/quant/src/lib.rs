//! Block formats of GGUF tensors: sizes, scalar dequantisation and quantisation.
//!
//! A row of a quantised tensor is a run of equal blocks; [`Format`] says how many values a block
//! holds and how many bytes it takes, and turns blocks into `f32` and back. Each family has a file with its
//! byte table. Nothing here knows files, tensors or hardware.

mod block;
mod encode;
mod fit;
mod float;
mod format;
mod groups;
mod iq4;
mod q2_k;
mod q3_k;
mod q4;
mod q4_k;
mod q5;
mod q5_k;
mod q6_k;
mod q8;

pub use block::Block;
pub use float::{Bf16Le, F16Le, F32Le};
pub use format::{Format, UnsupportedFormat};
pub use groups::{Groups, Halves};
pub use iq4::{BlockIQ4_NL, BlockIQ4_XS, IQ4_VALUES};
pub use q2_k::BlockQ2_K;
pub use q3_k::BlockQ3_K;
pub use q4::{BlockQ4_0, BlockQ4_1};
pub use q4_k::BlockQ4_K;
pub use q5::{BlockQ5_0, BlockQ5_1};
pub use q5_k::BlockQ5_K;
pub use q6_k::BlockQ6_K;
pub use q8::BlockQ8_0;
