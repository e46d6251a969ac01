//! Architectures `nemotron_h` and `nemotron_h_moe`: Nemotron-H and Nemotron 3, dense and with experts (NVIDIA 2025). Each layer is
//! Mamba 2, attention without positions, or a feed-forward network without gate.

use super::prelude::*;

const ACT: Activation = Activation::ReluSquared;

pub(super) const NEMOTRON_H: Family = Family { name: "nemotron_h", harmless: &[], graph };
pub(super) const NEMOTRON_H_MOE: Family = Family {
    name: "nemotron_h_moe",
    // expert_shared_feed_forward_length has the columns of all shared experts.
    harmless: &["expert_shared_count"],
    graph,
};

fn graph(c: &Config, keys: &mut Keys<'_>, tensors: Tensors<'_>) -> Result<Graph, Error> {
    let layers = c.block_count;
    let widths = keys.counts_per_layer("feed_forward_length", 0)?;
    // A file may have the parameters of RoPE nevertheless.
    let attention = Attention::read_hybrid(c, keys, Pairing::Halves, LINEAR_OR_YARN)?;
    let attention = Attention { rope: None, ..attention };
    let moe = experts(keys)?;
    keys.implied("expert_gating_func", 2.0);
    let latent = keys.count("moe_latent_size")?;
    let expert_widths = match &moe {
        Some(moe) if !keys.has("expert_feed_forward_length") => {
            widths.iter().map(|width| width / moe.router.used).collect()
        }
        _ => keys.counts_per_layer("expert_feed_forward_length", 0)?,
    };
    let shared = keys.count("expert_shared_feed_forward_length")?;
    let eps = keys.layer_norm_epsilon()?;
    let eps = keys.positive_or("attention.layer_norm_rms_epsilon", eps)?;
    let mamba = Mamba::read(keys, eps)?;
    let mut ctx = GraphContext::new(c, eps, tensors);

    let mut x = ctx.embed("embd"); // [rows, hidden]
    for il in 0..layers {
        let mixer: &dyn Mixer = if attention.kv_heads[il] == 0 { &mamba } else { &attention };
        if widths[il] == 0 {
            x = mixer_layer(&mut ctx, il, x, mixer); // [rows, hidden]
            continue;
        }
        let residual = ctx.keep_output("l_inp_outputs", il, x);
        let h = ctx.norm(("attn_norm", il), residual, "attn_norm"); // [rows, hidden]
        let h = match &moe {
            None => ctx.ungated_ffn(il, h, widths[il], ACT),
            Some(moe) => mix(&mut ctx, il, h, moe, [expert_widths[il], shared, latent]),
        };
        x = ctx.g.add(("l_out", il), h, residual);
        ctx.g.end_layer(x);
    }
    Ok(ctx.logits(x))
}

/// A mixture of experts with `width` hidden columns. If `latent` is not 0, their inputs are projected to `latent` columns and their
/// outputs back. If `shared` is not 0, a shared expert with `shared` hidden columns is added.
fn mix(
    ctx: &mut GraphContext<'_>,
    il: usize,
    x: ValueId,
    moe: &Moe,
    [width, shared, latent]: [usize; 3],
) -> ValueId {
    let hidden = ctx.hidden();
    let logits = moe.logits(ctx, il, x);
    let routes = moe.route(ctx, il, logits);
    let through =
        |ctx: &mut GraphContext<'_>, [name, tensor]: [&'static str; 2], x, [rows, cols]: [usize; 2]| {
            if latent == 0 {
                return x;
            }
            let weight = ctx.g.weight(format!("blk.{il}.{tensor}.weight"), rows, cols);
            ctx.linear((name, il), x, weight)
        };
    let h = through(ctx, ["ffn_latent", "ffn_latent_down"], x, [latent, hidden]);
    let cols = if latent > 0 { latent } else { hidden };
    let h = moe.ungated_experts(ctx, il, h, routes, [width, cols], ACT);
    let h = through(ctx, ["ffn_latent_out", "ffn_latent_up"], h, [hidden, latent]);
    if shared == 0 {
        return h;
    }
    let shared = ctx.shared_relu_squared(il, x, shared);
    ctx.g.add(("ffn_out", il), h, shared)
}

fn experts(keys: &mut Keys<'_>) -> Result<Option<Moe>, Error> {
    let Some(mut moe) = Moe::read(keys)? else { return Ok(None) };
    moe.router.gating = Gating::Sigmoid;
    moe.read_norm(keys)?;
    moe.read_scale(keys)?;
    Ok(Some(moe))
}
