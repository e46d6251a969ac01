//! Shared blocks of families. Optional biases and fused matrices follow from the tensors in the file.

mod attention;
mod ffn;
mod graph_context;
mod layer;
mod moe;
mod rope;

pub(crate) use attention::{ATTN_OUTPUT, Attention, QkNorm};
pub(crate) use ffn::{feed_forward, fused_feed_forward, shared_expert, ungated_feed_forward};
pub(crate) use graph_context::{GraphContext, Linear};
pub(crate) use layer::{Layer, PRE_NORM};
pub(crate) use moe::Moe;
pub(crate) use rope::{LINEAR_OR_YARN, Scaling};
