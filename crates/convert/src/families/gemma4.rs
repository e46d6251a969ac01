//! Gemma 4: the language model.

use super::*;

pub(super) const FAMILY: Family = Family {
    architecture: "gemma4",
    classes: &["Gemma4ForConditionalGeneration", "Gemma4ForCausalLM"],
    tokenizer: Kind::Gemma4,
    parameters,
    rules: RULES,
    extra: rope_factors,
    ..BASE
};

const RULES: &[Rule] = &[
    rename("layers.{}.{post_attention,pre_feedforward}_layernorm", &["blk.{}.{post_attention,ffn}_norm"]),
    rename("layers.{}.post_feedforward_{layernorm,layernorm_1}", &["blk.{}.post_ffw_{norm,norm_1}"]),
    rename("layers.{}.{post,pre}_feedforward_layernorm_2", &["blk.{}.{post,pre}_ffw_norm_2"]),
    rename("layers.{}.layer_scalar", &["blk.{}.layer_output_scale.weight"]),
    rename("layers.{}.per_layer_{input_gate,projection}", &["blk.{}.{inp_gate,proj}"]),
    rename("layers.{}.post_per_layer_input_norm", &["blk.{}.post_norm"]),
    rename("{embed_tokens_per_layer,per_layer_model_projection}", &["per_layer_{token_embd,model_proj}"]),
    rename("per_layer_projection_norm", &["per_layer_proj_norm"]),
    rename("layers.{}.router.proj", &["blk.{}.ffn_gate_inp"]),
    rename("layers.{}.router.{scale,per_expert_scale}", &["blk.{}.ffn_{gate_inp,down_exps}.scale"]),
    rename("layers.{}.experts.{gate_up,down}_proj", &["blk.{}.ffn_{gate_up,down}_exps.weight"]),
    skip("lm_head"),
];

fn parameters(config: &Config, keys: &mut Keys<'_>) -> Result<(), Error> {
    gemma::gemma3(config, keys)?;
    let layers = config.layers()?;
    let shared = config.u32(&["num_kv_shared_layers"])?.unwrap_or(0) as usize;
    keys.count("attention.shared_kv_layers", shared);
    keys.set("embedding_length_per_layer_input", config.u32(&["hidden_size_per_layer_input"])?.unwrap_or(0));
    let is_local = config.layers_are("sliding_attention")?;
    let is_local = is_local.ok_or_else(|| config.error("\"layer_types\" is missing"))?;
    keys.set("attention.sliding_window_pattern", is_local.clone());
    let (global, local) = (global_head(config)?, config.head_dim()?);
    keys.count("attention.key_length", global);
    keys.count("attention.value_length", global);
    keys.count("attention.key_length_swa", local);
    keys.count("attention.value_length_swa", local);
    let width = config.u32(&["expert_intermediate_size", "moe_intermediate_size"])?;
    keys.optional("expert_feed_forward_length", width);
    if config.bool("use_double_wide_mlp")? {
        let width = config.need_count(&["intermediate_size"])?;
        let own = layers.saturating_sub(shared);
        let widths = (0..layers).map(|layer| if layer < own { width } else { 2 * width });
        keys.counts("feed_forward_length", widths);
    }
    let heads = config.u32(&["num_global_key_value_heads"])?.map(|heads| heads as usize);
    if let Some(heads) = heads.or_else(|| of_global_layers(config, "num_key_value_heads")) {
        let local = config.kv_heads()?;
        let heads = is_local.iter().map(|is_local| if *is_local { local } else { heads });
        keys.counts("attention.head_count_kv", heads);
    }
    keys.count("rope.dimension_count", global);
    keys.count("rope.dimension_count_swa", local);
    Ok(())
}

fn global_head(config: &Config) -> Result<usize, Error> {
    let len = match of_global_layers(config, "head_dim") {
        Some(len) if config.value("global_head_dim").is_none() => len,
        _ => config.need_count(&["global_head_dim"])?,
    };
    if len <= MAX_HEAD as usize {
        Ok(len)
    } else {
        Err(config.error(format!("a global head has {len} values, expected at most {MAX_HEAD}")))
    }
}

/// What `per_layer_config` says of the first global layer.
fn of_global_layers(config: &Config, key: &str) -> Option<usize> {
    let kinds = config.value("layer_types")?.as_array()?;
    let global = kinds.iter().position(|kind| kind == "full_attention")?;
    // Numbers of layers may have leading zeros.
    let mut layers = config.value("per_layer_config")?.as_object()?.iter();
    let (_, layer) = layers.find(|(layer, _)| layer.parse() == Ok(global))?;
    let value = layer.get(key)?;
    usize::try_from(value.as_u64()?).ok().filter(|len| *len > 0)
}

/// Global layers rotate a part of a head, spread over it: frequencies of the others are divided by so much that they vanish.
fn rope_factors(config: &Config) -> Result<Extra, Error> {
    const NEVER: f32 = 1e30;
    let rope = Rope::of(config)?;
    if rope.kind() != "proportional" {
        return Ok(Vec::new());
    }
    let half = global_head(config)? / 2;
    let part = rope.partial()?.ok_or_else(|| config.error("the RoPE lacks \"partial_rotary_factor\""))?;
    let rotated = ((half as f32 * part) as usize).min(half);
    let mut factors = vec![1.0; rotated];
    factors.resize(half, NEVER);
    Ok(vec![("rope_freqs.weight", factors)])
}
