//! Architectures `qwen3`: Qwen 3, dense (Yang et al. 2025), `qwen3vl`: the text part of Qwen 3 VL, and `qwen3moe`: Qwen 3 with
//! experts in every layer. Each query and key head is normed before RoPE.

use super::prelude::*;

pub(super) const QWEN3: Family = Family {
    name: "qwen3",
    // The pooling of embedding models, which comes after everything else.
    harmless: &["pooling_type"],
    graph: dense,
};

pub(super) const QWEN3VL: Family = Family {
    name: "qwen3vl",
    // The share of RoPE's pairs per coordinate of an image, which are all equal for text; layers that add image features.
    harmless: &["rope.dimension_sections", "n_deepstack_layers"],
    graph: dense,
};

pub(super) const QWEN3MOE: Family = Family {
    name: "qwen3moe",
    // The size of a dense feed-forward network, which no layer has.
    harmless: &["feed_forward_length"],
    graph: moe,
};

fn attention(c: &Config, keys: &mut Keys<'_>) -> Result<Attention, Error> {
    let attention = Attention::read(c, keys, Pairing::Halves, LINEAR_OR_YARN)?;
    Ok(Attention { qk_norm: QkNorm::Head, ..attention })
}

fn dense(c: &Config, keys: &mut Keys<'_>, tensors: Tensors<'_>) -> Result<Graph, Error> {
    let (widths, attention, labels) = (keys.ffn_widths()?, attention(c, keys)?, labels(keys)?);
    let mut ctx = GraphContext::new(c, keys.rms_epsilon()?, tensors);
    ctx.labels = labels;

    Ok(PRE_NORM.decoder(ctx, |_| &attention, |ctx, il, h| ctx.swiglu(il, h, widths[il])))
}

fn moe(c: &Config, keys: &mut Keys<'_>, tensors: Tensors<'_>) -> Result<Graph, Error> {
    let moe = Moe::required(keys)?;
    let (widths, attention) = (moe.widths(keys)?, attention(c, keys)?);
    let ctx = GraphContext::new(c, keys.rms_epsilon()?, tensors);
    Ok(PRE_NORM.decoder(ctx, |_| &attention, |ctx, il, h| moe.mix(ctx, il, h, widths[il])))
}
