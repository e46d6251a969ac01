//! DeepSeek V2, V3 and R1: latent attention and experts.

use super::*;

pub(super) const FAMILY: Family = Family {
    architecture: "deepseek2",
    classes: &["DeepseekV2ForCausalLM", "DeepseekV3ForCausalLM"],
    parameters,
    drops_prediction: true,
    rules: &[
        rename("layers.{}.self_attn.q_{a_proj,b_proj,a_layernorm}", &["blk.{}.attn_q_{a,b,a_norm}"]),
        rename("layers.{}.self_attn.kv_a_{proj_with_mqa,layernorm}", &["blk.{}.attn_kv_a_{mqa,norm}"]),
        split("layers.{}.self_attn.kv_b_proj", &["blk.{}.attn_k_b", "blk.{}.attn_v_b"], keys_and_values),
    ],
    ..BASE
};

/// The matrices that expand the latent vector: those of keys are transposed, since queries are multiplied by them.
fn keys_and_values(view: View, config: &Config) -> Result<Vec<View>, Error> {
    let (key, value) = (config.need_count(&["qk_nope_head_dim"])?, config.need_count(&["v_head_dim"])?);
    let heads = config.need_count(&["num_key_value_heads", "num_attention_heads"])?;
    let view = view.with_axes(2)?.split(0, &[heads, key + value])?;
    let keys = view.clone().narrow(1, 0..key)?.swap(1, 2);
    Ok(vec![keys, view.narrow(1, key..key + value)?])
}

pub(super) fn parameters(config: &Config, keys: &mut Keys<'_>) -> Result<(), Error> {
    common(config, keys)?;
    let rank = config.need_u32(&["kv_lora_rank"])?;
    let (nope, rotated) = (config.need_u32(&["qk_nope_head_dim"])?, config.need_u32(&["qk_rope_head_dim"])?);
    // One head of keys, the latent vector, is shared by all queries.
    keys.set("attention.head_count_kv", 1u32);
    let experts = config.u32(&["n_routed_experts"])?;
    let dense = match (config.u32(&["first_k_dense_replace"])?, experts) {
        (Some(dense), _) => dense as usize,
        (None, Some(_)) => 0,
        (None, None) => config.layers()?,
    };
    keys.count("leading_dense_block_count", dense);
    keys.set("vocab_size", config.need_u32(&["vocab_size"])?);
    keys.optional("attention.q_lora_rank", config.u32(&["q_lora_rank"])?);
    keys.set("attention.kv_lora_rank", rank);
    keys.set("attention.key_length", rank + rotated);
    keys.set("attention.value_length", rank);
    keys.set("attention.key_length_mla", nope + rotated);
    keys.set("attention.value_length_mla", config.need_u32(&["v_head_dim"])?);
    keys.set("expert_feed_forward_length", config.need_u32(&["moe_intermediate_size", "intermediate_size"])?);
    keys.set("expert_shared_count", config.u32(&["n_shared_experts"])?.unwrap_or(0));
    keys.optional("expert_weights_scale", config.f32(&["routed_scaling_factor"])?);
    if config.bool("norm_topk_prob")? {
        keys.set("expert_weights_norm", true);
    }
    keys.set("rope.dimension_count", rotated);
    // llama.cpp expects a tenth of it in these files only.
    let all = Rope::of(config)?.f32("mscale_all_dim")?;
    keys.optional("rope.scaling.yarn_log_multiplier", all.map(|all| (0.1 * f64::from(all)) as f32));
    Ok(())
}
