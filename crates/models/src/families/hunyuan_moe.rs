//! Architecture `hunyuan-moe`: Hunyuan A13B (Tencent 2025). Heads are normed after RoPE; there is a shared expert.

use super::prelude::*;

pub(super) const FAMILY: Family = Family {
    name: "hunyuan-moe",
    // Experts have the size of the dense network.
    harmless: &["expert_feed_forward_length", "expert_shared_count"],
    graph,
};

fn graph(c: &Config, keys: &mut Keys<'_>, tensors: Tensors<'_>) -> Result<Graph, Error> {
    let mut moe = Moe::required(keys)?;
    moe.read_scale(keys)?;
    let widths = keys.sizes("feed_forward_length", "the hidden size of an expert")?;
    let shared = keys.count("expert_shared_feed_forward_length")?;
    let attention = Attention {
        qk_norm: QkNorm::HeadAfterRope,
        ..Attention::read(c, keys, Pairing::Halves, LINEAR_OR_YARN)?
    };
    let ctx = GraphContext::new(c, keys.rms_epsilon()?, tensors);
    Ok(PRE_NORM.decoder(
        ctx,
        |_| &attention,
        |ctx, il, h| {
            let moe = Moe { shared: if shared > 0 { shared } else { widths[il] }, ..moe };
            moe.mix(ctx, il, h, widths[il])
        },
    ))
}
