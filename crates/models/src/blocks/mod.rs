//! Shared blocks of families. Optional biases and fused matrices follow from the tensors in the file.

mod attention;
mod embeddings;
mod ffn;
mod graph_context;
mod latent;
mod layer;
mod moe;
mod rope;
mod shared_attention;

pub(crate) use attention::{ATTN_OUTPUT, Attention, Growth, QkNorm};
pub(crate) use embeddings::{full_mask, labels};
pub(crate) use ffn::{feed_forward, fused_feed_forward, shared_expert, unbiased_feed_forward, ungated_feed_forward};
pub(crate) use graph_context::{GraphContext, Linear};
pub(crate) use latent::Latent;
pub(crate) use layer::{Layer, Mixer, PRE_NORM};
pub(crate) use moe::Moe;
pub(crate) use rope::{LINEAR_OR_YARN, Scaling};
pub(crate) use shared_attention::SharedAttention;
