//! LFM2: short convolutions and attention, dense and with experts.

use super::*;

pub(super) const LFM2: Family = Family {
    architecture: "lfm2",
    classes: &["Lfm2ForCausalLM", "LFM2ForCausalLM", "Lfm2VlForConditionalGeneration"],
    parameters: dense,
    rules: RULES,
    ..BASE
};

pub(super) const LFM2MOE: Family =
    Family { architecture: "lfm2moe", classes: &["Lfm2MoeForCausalLM"], parameters: experts, ..LFM2 };

const RULES: &[Rule] = &[
    rename("embedding_norm", &["token_embd_norm"]),
    rename("layers.{}.operator_norm", &["blk.{}.attn_norm"]),
    rename("layers.{}.self_attn.{q_layernorm,k_layernorm,out_proj}", &["blk.{}.attn_{q_norm,k_norm,output}"]),
    change("layers.{}.conv.conv", &["blk.{}.shortconv.conv"], |view, _| Ok(view.squeeze())),
    rename("layers.{}.conv.{in,out}_proj", &["blk.{}.shortconv.{in,out}_proj"]),
    rename("layers.{}.ffn_norm", &["blk.{}.ffn_norm"]),
    rename("layers.{}.feed_forward.{w1,w2,w3,gate}", &["blk.{}.ffn_{gate,down,up,gate_inp}"]),
    rename("layers.{}.feed_forward.expert_bias", &["blk.{}.exp_probs_b.bias"]),
    rename("layers.{}.feed_forward.experts.{}.{w1,w2,w3}", &["blk.{}.ffn_{gate,down,up}_exps"]),
];

fn parameters(config: &Config, keys: &mut Keys<'_>) -> Result<(), Error> {
    common(config, keys)?;
    let heads = config.kv_heads()?;
    let counts = attends(config)?.into_iter().map(|attends| if attends { heads } else { 0 });
    keys.counts("attention.head_count_kv", counts);
    keys.set("vocab_size", config.need_u32(&["vocab_size"])?);
    keys.set("shortconv.l_cache", config.need_u32(&["conv_L_cache"])?);
    Ok(())
}

fn attends(config: &Config) -> Result<Vec<bool>, Error> {
    if let Some(attends) = config.layers_are("full_attention")? {
        return Ok(attends);
    }
    let attend = config.u32s("full_attn_idxs")?;
    Ok((0..config.layers()?)
        .map(|layer| attend.as_ref().is_none_or(|list| list.contains(&(layer as u32))))
        .collect())
}

fn dense(config: &Config, keys: &mut Keys<'_>) -> Result<(), Error> {
    parameters(config, keys)?;
    let mut width = config.need_count(&["block_ff_dim", "intermediate_size"])?;
    if config.bool("block_auto_adjust_ff_dim")? {
        width = 2 * width / 3;
        if let Some(factor) = config.f64("block_ffn_dim_multiplier")? {
            width = (factor * width as f64) as usize;
        }
        let multiple = config.need_count(&["block_multiple_of"])?;
        width = width.checked_next_multiple_of(multiple).unwrap_or(width);
    }
    keys.count("feed_forward_length", width);
    Ok(())
}

fn experts(config: &Config, keys: &mut Keys<'_>) -> Result<(), Error> {
    parameters(config, keys)?;
    keys.set("expert_feed_forward_length", config.need_u32(&["moe_intermediate_size"])?);
    keys.set("leading_dense_block_count", config.need_u32(&["num_dense_layers"])?);
    keys.set("expert_gating_func", gating(config, "sigmoid")?);
    Ok(())
}
