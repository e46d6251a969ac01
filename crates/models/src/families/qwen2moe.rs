//! Architecture `qwen2moe`: Qwen 1.5 and Qwen 2 with experts (Yang et al. 2024). The weights of the chosen experts are their
//! probabilities among all; a shared expert has a gate of its own.

use graph::{Gating, Graph, Pairing};

use super::Family;
use crate::blocks::{Attention, GraphContext, LINEAR_OR_YARN, Moe, PRE_NORM};
use crate::{Config, Error, Keys, Tensors};

pub(super) const FAMILY: Family = Family { name: "qwen2moe", harmless: &[], graph };

fn graph(c: &Config, keys: &mut Keys<'_>, tensors: Tensors<'_>) -> Result<Graph, Error> {
    let mut moe = Moe::required(keys)?;
    moe.router.gating = Gating::Softmax;
    moe.read_scale(keys)?;
    let widths = moe.widths(keys, c.block_count)?;
    let shared = keys.count("expert_shared_feed_forward_length")?;
    let dense = keys.size("feed_forward_length", "the FFN hidden size")?;
    moe.shared = if shared > 0 { shared } else { dense };
    let attention = Attention::read(c, keys, Pairing::Halves, LINEAR_OR_YARN)?;
    let mut ctx = GraphContext::new(c, keys.rms_epsilon()?, tensors);

    let mut x = ctx.embed("embd"); // [rows, hidden]
    for (il, ffn) in widths.into_iter().enumerate() {
        x = PRE_NORM.build(&mut ctx, il, x, &attention, |ctx, h| moe.mix(ctx, il, h, ffn))?; // [rows, hidden]
    }
    Ok(ctx.logits(x))
}
