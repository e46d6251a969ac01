//! Architectures `qwen35` and `qwen35moe`: Qwen 3.5 and 3.6, dense and with experts, and `qwen3next`: Qwen3-Next (Qwen Team
//! 2025). Most layers are gated delta nets; the others have gated attention.

use super::prelude::*;

/// The size of a dense feed-forward network, which no layer has.
const DENSE: &[&str] = &["feed_forward_length"];

pub(super) const QWEN35: Family = Family { name: "qwen35", harmless: &[], graph: qwen35 };
pub(super) const QWEN35MOE: Family = Family { name: "qwen35moe", harmless: DENSE, graph: qwen35 };
pub(super) const QWEN3NEXT: Family = Family { name: "qwen3next", harmless: DENSE, graph: qwen3next };

const LAYER: Layer = Layer { ffn_norm: "post_attention_norm", ..PRE_NORM };

fn qwen35(c: &Config, keys: &mut Keys<'_>, tensors: Tensors<'_>) -> Result<Graph, Error> {
    let attention = attention(c, keys)?;
    check_sections(keys, &attention)?;
    graph(c, keys, tensors, &attention, true)
}

fn qwen3next(c: &Config, keys: &mut Keys<'_>, tensors: Tensors<'_>) -> Result<Graph, Error> {
    let attention = attention(c, keys)?;
    graph(c, keys, tensors, &attention, false)
}

fn attention(c: &Config, keys: &mut Keys<'_>) -> Result<Attention, Error> {
    let attention = Attention::read_hybrid(c, keys, Pairing::Halves, LINEAR_OR_YARN)?;
    Ok(Attention { qk_norm: QkNorm::Head, is_gated: true, ..attention })
}

fn graph(
    c: &Config,
    keys: &mut Keys<'_>,
    tensors: Tensors<'_>,
    attention: &Attention,
    is_tiled: bool,
) -> Result<Graph, Error> {
    let delta_net = DeltaNet::read(keys, is_tiled)?;
    let by_interval = keys.pattern("full_attention_interval", 4)?;
    let is_recurrent = if keys.has("attention.recurrent_layers") {
        keys.pattern("attention.recurrent_layers", 0)?
    } else {
        by_interval
    };
    if let Some(il) = (0..c.block_count).find(|&il| !is_recurrent[il] && attention.kv_heads[il] == 0) {
        let expected = format!("KV heads for layer {il}, which has attention");
        return Err(keys.bad("attention.head_count_kv", 0, expected));
    }
    let moe = experts(keys)?;
    let widths = match &moe {
        Some(moe) => moe.widths(keys)?,
        None => keys.ffn_widths()?,
    };
    let ctx = GraphContext::new(c, keys.rms_epsilon()?, tensors);

    let mixer = |il: usize| -> &dyn Mixer { if is_recurrent[il] { &delta_net } else { attention } };
    Ok(LAYER.decoder(ctx, mixer, |ctx, il, h| ctx.swiglu_or_moe(il, h, widths[il], moe.as_ref())))
}

/// Experts beside a network that every row uses; their weights are renormalised probabilities.
fn experts(keys: &mut Keys<'_>) -> Result<Option<Moe>, Error> {
    let Some(mut moe) = Moe::read(keys)? else { return Ok(None) };
    moe.router.gating = Gating::Softmax;
    moe.router.renormalises = true;
    moe.shared = match keys.count("expert_shared_feed_forward_length")? {
        0 => keys.size("feed_forward_length", "the hidden size of the shared expert")?,
        shared => shared,
    };
    Ok(Some(moe))
}
