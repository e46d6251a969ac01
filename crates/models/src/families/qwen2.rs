//! Architectures `qwen2`: Qwen 1.5, 2 and 2.5, dense (Yang et al. 2024), whose queries, keys and values usually have biases;
//! `qwen2moe`: the same with experts, weighted by their probabilities among all, and a shared expert with a gate of its own;
//! and `ernie4_5`: ERNIE 4.5, dense (Baidu 2025), which pairs neighbouring columns.

use super::prelude::*;

pub(super) const QWEN2: Family = Family {
    name: "qwen2",
    harmless: &[],
    graph: |c, keys, tensors| dense(c, keys, tensors, Pairing::Halves),
};

pub(super) const ERNIE_4_5: Family = Family {
    name: "ernie4_5",
    harmless: &[],
    graph: |c, keys, tensors| dense(c, keys, tensors, Pairing::Interleaved),
};

pub(super) const QWEN2MOE: Family = Family { name: "qwen2moe", harmless: &[], graph: moe };

fn dense(c: &Config, keys: &mut Keys<'_>, tensors: Tensors<'_>, pairing: Pairing) -> Result<Graph, Error> {
    let widths = keys.ffn_widths()?;
    let attention = Attention::read(c, keys, pairing, LINEAR_OR_YARN)?;
    let ctx = GraphContext::new(c, keys.rms_epsilon()?, tensors);
    Ok(PRE_NORM.decoder(ctx, |_| &attention, |ctx, il, h| ctx.swiglu(il, h, widths[il])))
}

fn moe(c: &Config, keys: &mut Keys<'_>, tensors: Tensors<'_>) -> Result<Graph, Error> {
    let mut moe = Moe::required(keys)?;
    moe.router.gating = Gating::Softmax;
    moe.read_scale(keys)?;
    let widths = moe.widths(keys)?;
    let shared = keys.count("expert_shared_feed_forward_length")?;
    let dense = keys.size("feed_forward_length", "the FFN hidden size")?;
    moe.shared = if shared > 0 { shared } else { dense };
    let attention = Attention::read(c, keys, Pairing::Halves, LINEAR_OR_YARN)?;
    let ctx = GraphContext::new(c, keys.rms_epsilon()?, tensors);
    Ok(PRE_NORM.decoder(ctx, |_| &attention, |ctx, il, h| moe.mix(ctx, il, h, widths[il])))
}
