//! Architectures `lfm2` and `lfm2moe`: LFM2, dense and with experts (Liquid AI 2025). Most layers are gated short convolutions;
//! those with KV heads have attention.

use super::prelude::*;

pub(super) const LFM2: Family = Family { name: "lfm2", harmless: &[], graph };
pub(super) const LFM2MOE: Family = Family { name: "lfm2moe", harmless: &[], graph };

fn graph(c: &Config, keys: &mut Keys<'_>, tensors: Tensors<'_>) -> Result<Graph, Error> {
    let widths = keys.ffn_widths()?;
    let mut attention = Attention::read_hybrid(c, keys, Pairing::Halves, LINEAR_OR_YARN)?;
    attention.qk_norm = QkNorm::Head;
    let moe = experts(keys)?;
    if moe.is_none() {
        let window = keys.count("attention.sliding_window")?;
        attention.mask = if window > 0 { Mask::Window(window) } else { Mask::Causal };
    }
    let taps = keys.size("shortconv.l_cache", "the rows that a convolution spans")?;
    let short_conv = ShortConv { hidden: c.embedding_length, taps };
    let mut ctx = GraphContext::new(c, keys.rms_epsilon()?, tensors);
    ctx.output_norm = "token_embd_norm";

    let mixer =
        |il: usize| -> &dyn Mixer { if attention.kv_heads[il] == 0 { &short_conv } else { &attention } };
    Ok(PRE_NORM.decoder(ctx, mixer, |ctx, il, h| match &moe {
        Some((moe, dense, width)) if il >= *dense => moe.mix(ctx, il, h, *width),
        _ => ctx.swiglu(il, h, widths[il]),
    }))
}

fn experts(keys: &mut Keys<'_>) -> Result<Option<(Moe, usize, usize)>, Error> {
    let Some(mut moe) = Moe::read(keys)? else { return Ok(None) };
    moe.read_gating(keys, Gating::Softmax)?;
    moe.router.renormalises = true;
    let dense = keys.count("leading_dense_block_count")?;
    Ok(Some((moe, dense, keys.expert_width()?)))
}
