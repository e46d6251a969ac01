//! Architecture `smollm3`: SmolLM 3 (Hugging Face 2025). Every fourth layer has no RoPE (Yang et al. 2025, "RoPE to NoPE and
//! back again").

use graph::{Activation, Graph, Pairing};

use super::Family;
use crate::blocks::{Attention, GraphContext, LINEAR_OR_YARN, PRE_NORM, feed_forward};
use crate::{Config, Error, Keys, Tensors};

pub(super) const FAMILY: Family = Family { name: "smollm3", harmless: &[], graph };

/// The last of so many layers has no RoPE.
const PERIOD: usize = 4;

fn graph(c: &Config, keys: &mut Keys<'_>, tensors: Tensors<'_>) -> Result<Graph, Error> {
    let widths = keys.sizes("feed_forward_length", "the FFN hidden size", c.block_count)?;
    let attention = Attention::read(c, keys, Pairing::Interleaved, LINEAR_OR_YARN)?;
    let scale = keys.positive_or_zero("attention.scale")?.unwrap_or(attention.scale);
    let attention = Attention { scale, ..attention };
    let without_rope = Attention { rope: None, ..attention.clone() };
    let mut ctx = GraphContext::new(c, keys.rms_epsilon()?, tensors);

    let mut x = ctx.embed("embd"); // [rows, hidden]
    for (il, ffn) in widths.into_iter().enumerate() {
        let attention = if (il + 1).is_multiple_of(PERIOD) { &without_rope } else { &attention };
        x = PRE_NORM.build(&mut ctx, il, x, attention, |ctx, h| {
            Ok(feed_forward(ctx, il, h, ffn, Activation::Silu))
        })?; // [rows, hidden]
    }
    Ok(ctx.logits(x))
}
