//! Architecture `minimax-m2`: MiniMax M2 (MiniMax 2025). Queries and keys are normed as whole rows; the router has a bias.

use super::prelude::*;

pub(super) const FAMILY: Family = Family {
    name: "minimax-m2",
    // The size of a dense feed-forward network, which no layer has.
    harmless: &["feed_forward_length"],
    graph,
};

fn graph(c: &Config, keys: &mut Keys<'_>, tensors: Tensors<'_>) -> Result<Graph, Error> {
    let mut moe = Moe::required(keys)?;
    moe.read_gating(keys, Gating::Sigmoid)?;
    moe.read_scale(keys)?;
    moe.router.renormalises = true;
    let widths = keys.sizes("expert_feed_forward_length", "the hidden size of an expert")?;
    let attention =
        Attention { qk_norm: QkNorm::Row, ..Attention::read(c, keys, Pairing::Halves, LINEAR_OR_YARN)? };
    let ctx = GraphContext::new(c, keys.rms_epsilon()?, tensors);
    Ok(PRE_NORM.decoder(ctx, |_| &attention, |ctx, il, h| moe.mix(ctx, il, h, widths[il])))
}
