//! The keys that all architectures have.

use crate::Error;
use crate::config::Config;
use crate::keys::Keys;
use crate::rope::Rope;

/// Writes sizes, RoPE, epsilons and experts, as far as the configuration has them.
pub(crate) fn common(config: &Config, keys: &mut Keys<'_>) -> Result<(), Error> {
    sizes(config, keys)?;
    if config.value("is_causal") == Some(&serde_json::Value::Bool(false)) {
        keys.set("attention.causal", false);
    }
    Rope::of(config)?.write(keys)?;
    let counts = [
        ("expert_count", "num_local_experts num_experts n_routed_experts"),
        ("expert_used_count", "num_experts_per_tok num_experts_per_token top_k_experts"),
        ("expert_group_count", "n_group"),
        ("expert_group_used_count", "topk_group"),
    ];
    write_counts(config, keys, &counts)?;
    let gating = "score_function scoring_func score_func moe_router_activation moe_router_activation_func \
        expert_selection_fn";
    let gating: Vec<&str> = gating.split(' ').collect();
    if let Some(gating) = config.str(&gating)? {
        keys.set("expert_gating_func", self::gating(config, gating)?);
    }
    Ok(())
}

/// Writes the sizes of layers and heads, and the epsilons of norms.
pub(crate) fn sizes(config: &Config, keys: &mut Keys<'_>) -> Result<(), Error> {
    keys.count("block_count", config.layers()?);
    let counts = [
        (
            "context_length",
            "max_position_embeddings n_ctx n_positions max_length max_sequence_length model_max_length",
        ),
        ("embedding_length", "hidden_size n_embd dim"),
        (
            "feed_forward_length",
            "prefix_dense_intermediate_size dense_intermediate_size intermediate_size n_inner hidden_dim",
        ),
        ("attention.head_count", "num_attention_heads n_head n_heads"),
        ("attention.head_count_kv", "num_key_value_heads n_kv_heads"),
    ];
    write_counts(config, keys, &counts)?;
    keys.optional("attention.layer_norm_rms_epsilon", config.f32(&["rms_norm_eps", "norm_eps"])?);
    let epsilon = config.f32(&["layer_norm_eps", "layer_norm_epsilon", "norm_epsilon"])?;
    keys.optional("attention.layer_norm_epsilon", epsilon);
    if let Some(len) = config.u32(&["head_dim"])? {
        keys.set("attention.key_length", len);
        keys.set("attention.value_length", len);
    }
    Ok(())
}

/// Writes counts: their names, and the keys of the configuration that have them, the first one first.
fn write_counts(config: &Config, keys: &mut Keys<'_>, counts: &[(&str, &str)]) -> Result<(), Error> {
    for (name, from) in counts {
        keys.optional(name, config.u32(&from.split(' ').collect::<Vec<_>>())?);
    }
    Ok(())
}

/// llama.cpp's number of a function that turns the router's logits into weights.
pub(crate) fn gating(config: &Config, name: &str) -> Result<u32, Error> {
    match name {
        "softmax" => Ok(1),
        "sigmoid" => Ok(2),
        "sqrtsoftplus" => Ok(4),
        _ => Err(config.error(format!(
            "the experts are chosen by {name:?}; softmax, sigmoid and sqrtsoftplus are known"
        ))),
    }
}
