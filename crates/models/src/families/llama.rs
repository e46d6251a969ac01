//! Architecture `llama`: Llama 1 to 3 (Touvron et al. 2023), TinyLlama, Mistral 7B and models with the same tensors;
//! with experts, Mixtral (Jiang et al. 2024). Architecture `mistral3`.

use graph::{Activation, Graph, Pairing};

use super::Family;
use crate::blocks::{Attention, GraphContext, Growth, Moe, PRE_NORM, Scaling, feed_forward};
use crate::{Config, Error, Keys, Tensors};

const SCALINGS: &[Scaling] = &[Scaling::Linear, Scaling::Yarn, Scaling::LongRope];

pub(super) const LLAMA: Family = Family { name: "llama", harmless: &[], graph };
/// Ministral 3 and Mistral models of 2025: queries grow beyond the original context.
pub(super) const MISTRAL3: Family = Family { name: "mistral3", harmless: &[], graph };

fn graph(c: &Config, keys: &mut Keys<'_>, tensors: Tensors<'_>) -> Result<Graph, Error> {
    let widths = keys.sizes("feed_forward_length", "the FFN hidden size", c.block_count)?;
    let moe = Moe::read(keys)?;
    let mut attention = Attention::read(c, keys, Pairing::Interleaved, SCALINGS)?;
    if c.architecture == MISTRAL3.name {
        let beta = keys.float_or("attention.temperature_scale", 0.0)?;
        let interval = keys.size_or("rope.scaling.original_context_length", c.context_length)? as f32;
        attention.growth = (beta != 0.0).then_some(Growth { beta, offset: 0.0, interval });
        attention.scale = keys.positive_or_zero("attention.scale")?.unwrap_or(attention.scale);
    }
    let mut ctx = GraphContext::new(c, keys.rms_epsilon()?, tensors);

    let mut x = ctx.embed("embd"); // [rows, hidden]
    attention.add_rope_factors(&mut ctx); // Llama 3.1 and later
    for (il, ffn) in widths.into_iter().enumerate() {
        x = PRE_NORM.build(&mut ctx, il, x, &attention, |ctx, h| match &moe {
            None => Ok(feed_forward(ctx, il, h, ffn, Activation::Silu)),
            Some(moe) => moe.mix(ctx, il, h, ffn),
        })?; // [rows, hidden]
    }
    Ok(ctx.logits(x))
}
