//! Nemotron-H and Nemotron 3: each layer is Mamba 2, attention, or a feed-forward network, dense or with experts.

use super::*;

pub(super) const NEMOTRON_H: Family = Family {
    architecture: "nemotron_h",
    classes: &["NemotronHForCausalLM"],
    fits: |config| !kinds(config).contains(&Layer::Experts),
    tokenizer: Kind::PaddedBpe(8),
    parameters: dense,
    rules: RULES,
    shared: mamba::MIXER,
    ..BASE
};

pub(super) const NEMOTRON_H_MOE: Family =
    Family { architecture: "nemotron_h_moe", fits: |_| true, parameters: experts, alias, ..NEMOTRON_H };

const RULES: &[Rule] = &[
    // llama.cpp orders the rows of a head as for RoPE, which these models do not have.
    change("layers.{}.mixer.q_proj", &["blk.{}.attn_q"], |view, config| interleave(view, config.heads()?)),
    change("layers.{}.mixer.k_proj", &["blk.{}.attn_k"], |view, config| interleave(view, config.kv_heads()?)),
    rename("layers.{}.mixer.{v,o,up,down}_proj", &["blk.{}.{attn_v,attn_output,ffn_up,ffn_down}"]),
    rename("layers.{}.mixer.gate", &["blk.{}.ffn_gate_inp"]),
    rename("layers.{}.mixer.gate.e_score_correction_bias", &["blk.{}.exp_probs_b.bias"]),
    rename("layers.{}.mixer.experts.{}.{up,down}_proj", &["blk.{}.ffn_{up,down}_exps"]),
    rename("layers.{}.mixer.shared_experts.{up,down}_proj", &["blk.{}.ffn_{up,down}_shexp"]),
    rename("layers.{}.mixer.{fc1,fc2}_latent_proj", &["blk.{}.ffn_latent_{down,up}"]),
    rename("layers.{}.{eh_proj,enorm,hnorm}", &["blk.{}.nextn.{eh_proj,enorm,hnorm}"]),
    rename("layers.{}.post_attention_layernorm", &["blk.{}.post_attention_norm"]),
    rename("layers.{}.final_layernorm", &["blk.{}.nextn.shared_head_norm"]),
];

/// The block of multi-token prediction, whose attention and experts are two layers of the checkpoint, follows the others.
fn alias(name: &str, config: &Config) -> Result<Option<String>, Error> {
    let layers = config.layers()?;
    let attention = name.strip_prefix("mtp.layers.0.");
    let experts = name.strip_prefix("mtp.layers.1.").map(|rest| match rest {
        "norm.weight" => "post_attention_layernorm.weight",
        _ => rest,
    });
    Ok(attention.or(experts).map(|rest| format!("layers.{layers}.{rest}")))
}

#[derive(Clone, Copy, PartialEq)]
enum Layer {
    Mamba,
    Attention,
    Dense,
    Experts,
    Unknown,
}

/// What each layer is: names, or in older files one letter each.
fn kinds(config: &Config) -> Vec<Layer> {
    let letters = config.str(&["hybrid_override_pattern"]).ok().flatten();
    let of_letters =
        letters.map(|letters| letters.split("").filter(|letter| !letter.is_empty()).map(kind).collect());
    let names = config.strs("layers_block_type").ok().flatten();
    of_letters.or_else(|| Some(names?.iter().map(|name| kind(name)).collect())).unwrap_or_default()
}

fn kind(name: &str) -> Layer {
    match name {
        "M" | "mamba" | "linear_attention" => Layer::Mamba,
        "*" | "attention" | "full_attention" => Layer::Attention,
        "-" | "mlp" => Layer::Dense,
        "E" | "moe" => Layer::Experts,
        _ => Layer::Unknown,
    }
}

/// The keys of both; the last block predicts further tokens if `nextn` is 1.
fn parameters(config: &Config, keys: &mut Keys<'_>, nextn: usize) -> Result<Vec<Layer>, Error> {
    let mut kinds = kinds(config);
    let layers = config.layers()?;
    if kinds.len() != layers || kinds.contains(&Layer::Unknown) {
        let why = "\"layers_block_type\" or \"hybrid_override_pattern\" must say what each layer is: \
                   mamba (M), attention (*), mlp (-) or moe (E)";
        return Err(config.error(why));
    }
    kinds.resize(layers + nextn, Layer::Unknown);
    common(config, keys)?;
    keys.set("vocab_size", config.need_u32(&["vocab_size"])?);
    keys.count("block_count", layers + nextn);
    keys.count("context_length", mamba::ENDLESS);
    // It is of no use: positions are not encoded.
    keys.count("rope.dimension_count", config.hidden()? / config.heads()?);
    keys.set("rope.scaling.finetuned", false);
    let heads = config.need_count(&["mamba_num_heads"])?;
    mamba::hybrid_parameters(config, heads * config.need_count(&["mamba_head_dim"])?, keys)?;
    let kv_heads = config.kv_heads()?;
    let attends = |kind: &Layer| matches!(kind, Layer::Attention | Layer::Unknown);
    let heads = kinds.iter().map(|kind| if attends(kind) { kv_heads } else { 0 });
    keys.counts("attention.head_count_kv", heads);
    keys.count("attention.key_length", config.head_dim()?);
    keys.count("attention.value_length", config.head_dim()?);
    Ok(kinds)
}

fn dense(config: &Config, keys: &mut Keys<'_>) -> Result<(), Error> {
    let kinds = parameters(config, keys, 0)?;
    let width = config.need_count(&["intermediate_size"])?;
    let widths = kinds.iter().map(|kind| if *kind == Layer::Dense { width } else { 0 });
    keys.counts("feed_forward_length", widths);
    for name in ["expert_count", "expert_used_count", "expert_group_count", "expert_group_used_count"] {
        keys.remove(name);
    }
    Ok(())
}

fn experts(config: &Config, keys: &mut Keys<'_>) -> Result<(), Error> {
    let nextn = usize::from(config.tensors.iter().any(|name| name.starts_with("mtp.")));
    let kinds = parameters(config, keys, nextn)?;
    if kinds.contains(&Layer::Dense) {
        return Err(config
            .error("some layers have experts and some a dense network; llama.cpp's format has one kind"));
    }
    let width = config.need_count(&["moe_intermediate_size"])?;
    let widths =
        kinds.iter().map(|kind| if [Layer::Experts, Layer::Unknown].contains(kind) { width } else { 0 });
    keys.counts("feed_forward_length", widths);
    keys.count("expert_feed_forward_length", width);
    let shared = config.need_u32(&["moe_shared_expert_intermediate_size"])?;
    keys.set("expert_shared_feed_forward_length", shared);
    keys.set("expert_shared_count", config.need_u32(&["n_shared_experts"])?);
    keys.set("expert_weights_norm", config.bool("norm_topk_prob")?);
    keys.set("expert_weights_scale", config.need_f32(&["routed_scaling_factor"])?);
    keys.optional("moe_latent_size", config.u32(&["moe_latent_size"])?);
    if nextn > 0 {
        keys.count("nextn_predict_layers", nextn);
    }
    Ok(())
}
