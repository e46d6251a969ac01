//! GLM 4, GLM 4.5 and GLM 4.7 Flash.

use super::*;

pub(super) const GLM4: Family = Family {
    architecture: "glm4",
    classes: &["Glm4ForCausalLM"],
    tokenizer: Kind::Glm4,
    parameters: glm4,
    rules: &[rename("layers.{}.post_{self_attn,mlp}_layernorm", &["blk.{}.post_{attention,ffw}_norm"])],
    ..BASE
};

pub(super) const GLM4MOE: Family = Family {
    architecture: "glm4moe",
    classes: &["Glm4MoeForCausalLM"],
    tokenizer: Kind::Glm4Moe,
    parameters: glm4moe,
    rules: &[rename("layers.{}.post_attention_layernorm", &["blk.{}.post_attention_norm"])],
    shared: PREDICTION,
    ..BASE
};

/// GLM 4.7 Flash: the attention of DeepSeek V2.
pub(super) const GLM4MOE_LITE: Family = Family {
    classes: &["Glm4MoeLiteForCausalLM"],
    tokenizer: Kind::Glm4Moe,
    parameters: glm4moe_lite,
    shared: PREDICTION,
    drops_prediction: false,
    ..deepseek::FAMILY
};

/// The layers that predict further tokens.
const PREDICTION: &[Rule] = &[
    rename("layers.{}.{eh_proj,embed_tokens,enorm}", &["blk.{}.nextn.{eh_proj,embed_tokens,enorm}"]),
    rename("layers.{}.hnorm", &["blk.{}.nextn.hnorm"]),
    rename("layers.{}.shared_head.{head,norm}", &["blk.{}.nextn.shared_head_{head,norm}"]),
];

fn glm4(config: &Config, keys: &mut Keys<'_>) -> Result<(), Error> {
    common(config, keys)?;
    let part = Rope::of(config)?.partial()?.unwrap_or(0.5);
    keys.count("rope.dimension_count", (config.head_dim()? as f32 * part) as usize);
    Ok(())
}

fn glm4moe(config: &Config, keys: &mut Keys<'_>) -> Result<(), Error> {
    glm4(config, keys)?;
    let further = config.u32(&["num_nextn_predict_layers"])?;
    keys.count("block_count", config.layers()? + further.unwrap_or(0) as usize);
    keys.optional("nextn_predict_layers", further);
    keys.optional("expert_count", config.u32(&["n_routed_experts"])?);
    keys.optional("expert_feed_forward_length", config.u32(&["moe_intermediate_size"])?);
    keys.optional("expert_shared_count", config.u32(&["n_shared_experts"])?);
    keys.optional("leading_dense_block_count", config.u32(&["first_k_dense_replace"])?);
    keys.set("expert_gating_func", gating(config, "sigmoid")?);
    keys.optional("expert_weights_scale", config.f32(&["routed_scaling_factor"])?);
    keys.set("expert_weights_norm", config.bool("norm_topk_prob")?);
    Ok(())
}

fn glm4moe_lite(config: &Config, keys: &mut Keys<'_>) -> Result<(), Error> {
    // The model has no other function, and its configuration need not name it.
    keys.set("expert_gating_func", gating(config, "sigmoid")?);
    deepseek::parameters(config, keys)?;
    keys.count("leading_dense_block_count", leading_dense(config)?);
    if let Some(further) = config.u32(&["num_nextn_predict_layers"])?.filter(|further| *further > 0) {
        keys.count("block_count", config.layers()? + further as usize);
        keys.set("nextn_predict_layers", further);
    }
    Ok(())
}

/// Layers before the first one with experts: one, unless the configuration says otherwise.
fn leading_dense(config: &Config) -> Result<usize, Error> {
    let Some(types) = config.strs("mlp_layer_types")? else {
        return Ok(config.u32(&["first_k_dense_replace"])?.unwrap_or(1) as usize);
    };
    let leading = types.iter().take_while(|kind| **kind == "dense").count();
    if types.iter().skip(leading).all(|kind| *kind == "sparse") && types.len() == config.layers()? {
        Ok(leading)
    } else {
        Err(config.error(format!(
            "\"mlp_layer_types\" is {types:?}; files need a type for each layer, \"dense\" before \"sparse\""
        )))
    }
}
