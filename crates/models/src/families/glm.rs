//! Architectures `glm4`: GLM 4 0414 (Zhipu 2025), whose outputs of attention and feed-forward network are normed, too, and whose
//! RoPE rotates a part of each head; and `glm4moe`: GLM 4.5 and 4.6 (Zhipu 2025), whose first layers have a dense network, the
//! others experts and a shared one; the router adds a bias for the choice.

use super::prelude::*;

pub(super) const GLM4: Family = Family { name: "glm4", harmless: &[], graph: dense };

pub(super) const GLM4MOE: Family = Family {
    name: "glm4moe",
    // Coordinates of images, which are all equal for text.
    harmless: &["rope.dimension_sections"],
    graph: moe,
};

fn dense(c: &Config, keys: &mut Keys<'_>, tensors: Tensors<'_>) -> Result<Graph, Error> {
    const LAYER: Layer = Layer { norms_outputs: true, ..PRE_NORM };
    let widths = keys.ffn_widths()?;
    // Models that read images, too, give each pair of columns a coordinate; all are equal for text.
    let sections = keys.counts("rope.dimension_sections")?;
    let has_coordinates = matches!(sections[..], [first, second, ..] if first > 0 && second > 0);
    let pairing = if has_coordinates { Pairing::Halves } else { Pairing::Interleaved };
    let attention = Attention::read(c, keys, pairing, LINEAR_OR_YARN)?;
    let ctx = GraphContext::new(c, keys.rms_epsilon()?, tensors);
    Ok(LAYER.decoder(ctx, |_| &attention, |ctx, il, h| ctx.fused_ffn(il, h, widths[il], Activation::Silu)))
}

fn moe(c: &Config, keys: &mut Keys<'_>, tensors: Tensors<'_>) -> Result<Graph, Error> {
    const LAYER: Layer = Layer { ffn_norm: "post_attention_norm", ..PRE_NORM };
    let widths = keys.ffn_widths()?;
    let dense = keys.count("leading_dense_block_count")?;
    let mut moe = Moe::required(keys)?;
    moe.read_gating(keys, Gating::Sigmoid)?;
    moe.read_norm(keys)?;
    moe.read_scale(keys)?;
    let expert = keys.expert_width()?;
    moe.shared = expert * keys.count("expert_shared_count")?;
    let mut attention = Attention::read(c, keys, Pairing::Halves, LINEAR_OR_YARN)?;
    let mut ctx = GraphContext::new(c, keys.rms_epsilon()?, tensors);
    if ctx.in_layers("attn_q_norm.weight") {
        attention.qk_norm = QkNorm::Head;
    }

    Ok(LAYER.decoder(
        ctx,
        |_| &attention,
        |ctx, il, h| {
            if il < dense { ctx.swiglu(il, h, widths[il]) } else { moe.mix(ctx, il, h, expert) }
        },
    ))
}
