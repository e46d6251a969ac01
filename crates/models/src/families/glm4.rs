//! Architecture `glm4`: GLM 4 0414 (Zhipu 2025). The outputs of attention and feed-forward network are normed, too; RoPE
//! rotates a part of each head.

use graph::{Activation, Graph, Pairing};

use super::Family;
use crate::blocks::{Attention, GraphContext, LINEAR_OR_YARN, Layer, PRE_NORM, fused_feed_forward};
use crate::{Config, Error, Keys, Tensors};

pub(super) const FAMILY: Family = Family { name: "glm4", harmless: &[], graph };

const LAYER: Layer = Layer { norms_outputs: true, ..PRE_NORM };

fn graph(c: &Config, keys: &mut Keys<'_>, tensors: Tensors<'_>) -> Result<Graph, Error> {
    let widths = keys.sizes("feed_forward_length", "the FFN hidden size", c.block_count)?;
    // Models that read images, too, give each pair of columns a coordinate; all are equal for text.
    let sections = keys.counts("rope.dimension_sections")?;
    let has_coordinates = matches!(sections[..], [first, second, ..] if first > 0 && second > 0);
    let pairing = if has_coordinates { Pairing::Halves } else { Pairing::Interleaved };
    let attention = Attention::read(c, keys, pairing, LINEAR_OR_YARN)?;
    let mut ctx = GraphContext::new(c, keys.rms_epsilon()?, tensors);

    let mut x = ctx.embed("embd"); // [rows, hidden]
    for (il, ffn) in widths.into_iter().enumerate() {
        x = LAYER.build(&mut ctx, il, x, &attention, |ctx, h| {
            Ok(fused_feed_forward(ctx, il, h, ffn, Activation::Silu))
        })?; // [rows, hidden]
    }
    Ok(ctx.logits(x))
}
