//! What families are made of. A block follows from which tensors the file has: optional biases, fused matrices.

mod attention;
mod draft;
mod ffn;
mod moe;

pub(crate) use attention::{ATTN_OUTPUT, Attention, BIASED_ATTN_OUTPUT};
pub(crate) use draft::{Draft, Linear};
pub(crate) use ffn::{BIASED_FFN, FFN, feed_forward};
pub(crate) use moe::Moe;
