//! Shared blocks of families. Optional biases and fused matrices follow from the tensors in the file.

mod attention;
mod delta_net;
mod embeddings;
mod ffn;
mod graph_context;
mod latent;
mod layer;
mod mamba;
mod moe;
mod rope;
mod shared_attention;
mod short_conv;

pub(crate) use attention::{ATTN_OUTPUT, Attention, Growth, QkNorm};
pub(crate) use delta_net::DeltaNet;
pub(crate) use embeddings::{full_mask, labels};
pub(crate) use graph_context::{GraphContext, Linear};
pub(crate) use latent::Latent;
pub(crate) use layer::{Layer, Mixer, PRE_NORM, mixer_layer};
pub(crate) use mamba::Mamba;
pub(crate) use moe::Moe;
pub(crate) use rope::{LINEAR_OR_YARN, SCALINGS, Scaling, check_sections, original_context};
pub(crate) use shared_attention::SharedAttention;
pub(crate) use short_conv::ShortConv;
