//! Architecture `olmo2`: OLMo 2 and 3 (Team OLMo 2024, 2025). Norms follow attention and feed-forward network instead of
//! preceding them; queries and keys are normed over all heads. OLMo 3 has a sliding window in three of four layers, whose
//! RoPE is not scaled.

use graph::{Activation, Graph, Mask, Pairing, Rope};

use super::Family;
use crate::blocks::{Attention, GraphContext, LINEAR_OR_YARN, Layer, PRE_NORM, QkNorm, feed_forward};
use crate::{Config, Error, Keys, Tensors};

pub(super) const FAMILY: Family = Family { name: "olmo2", harmless: &[], graph };

const LAYER: Layer = Layer { norms_inputs: false, norms_outputs: true, ..PRE_NORM };

fn graph(c: &Config, keys: &mut Keys<'_>, tensors: Tensors<'_>) -> Result<Graph, Error> {
    let widths = keys.sizes("feed_forward_length", "the FFN hidden size", c.block_count)?;
    let global =
        Attention { qk_norm: QkNorm::Row, ..Attention::read(c, keys, Pairing::Halves, LINEAR_OR_YARN)? };
    let window = keys.count("attention.sliding_window")?;
    let is_local = keys.pattern("attention.sliding_window_pattern", 4, c.block_count)?;
    let theta = keys.positive_or("rope.freq_base_swa", global.rope.map_or(10_000.0, |rope| rope.theta))?;
    let rope = global.rope.map(|rope| Rope { theta, scale: 1.0, yarn: None, magnitude: 1.0, ..rope });
    let local = Attention { mask: Mask::Window(window), rope, ..global.clone() };
    let mut ctx = GraphContext::new(c, keys.rms_epsilon()?, tensors);

    let mut x = ctx.embed("embd"); // [rows, hidden]
    for (il, ffn) in widths.into_iter().enumerate() {
        let attention = if window > 0 && is_local[il] { &local } else { &global };
        x = LAYER.build(&mut ctx, il, x, attention, |ctx, h| {
            Ok(feed_forward(ctx, il, h, ffn, Activation::Silu))
        })?; // [rows, hidden]
    }
    Ok(ctx.logits(x))
}
