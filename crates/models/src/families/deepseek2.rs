//! Architecture `deepseek2`: DeepSeek V2, V3 and R1 (DeepSeek-AI 2024), Kimi K2, GLM 4.7 Flash. Keys and values of a row are one
//! short vector, which the matrices of each head expand (multi-head latent attention).

use super::prelude::*;

pub(super) const FAMILY: Family = Family { name: "deepseek2", harmless: &["attention.head_count_kv"], graph };

fn graph(c: &Config, keys: &mut Keys<'_>, tensors: Tensors<'_>) -> Result<Graph, Error> {
    let widths = keys.ffn_widths()?;
    let dense = keys.count("leading_dense_block_count")?;
    let expert = keys.expert_width()?;
    let moe = Moe { shared: expert * keys.count("expert_shared_count")?, ..experts(c, keys)? };
    let latent = Latent::read(c, keys)?;
    let ctx = GraphContext::new(c, keys.rms_epsilon()?, tensors);
    Ok(PRE_NORM.decoder(
        ctx,
        |_| &latent,
        |ctx, il, h| {
            if il < dense { ctx.swiglu(il, h, widths[il]) } else { moe.mix(ctx, il, h, expert) }
        },
    ))
}

fn experts(c: &Config, keys: &mut Keys<'_>) -> Result<Moe, Error> {
    let mut moe = Moe::required(keys)?;
    // The first files of GLM 4.7 Flash lack the key.
    let is_flash = [47, 48].contains(&c.block_count) && c.vocab_size == 154_880;
    moe.read_gating(keys, if is_flash { Gating::Sigmoid } else { Gating::Softmax })?;
    moe.read_norm(keys)?;
    moe.read_scale(keys)?;
    Ok(moe)
}
