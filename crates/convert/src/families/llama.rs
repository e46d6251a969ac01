//! Llama, Mistral, Mixtral, Ministral and SmolLM 3.

use super::*;

pub(super) const LLAMA: Family = Family {
    architecture: "llama",
    classes: &[
        "LlamaForCausalLM",
        "LLaMAForCausalLM",
        "MistralForCausalLM",
        "MixtralForCausalLM",
        "LlamaModel",
    ],
    tokenizer: Kind::Llama,
    parameters,
    rules: RULES,
    extra: rope_factors,
    ..BASE
};

pub(super) const MISTRAL3: Family = Family {
    architecture: "mistral3",
    classes: &["Mistral3ForConditionalGeneration", "Ministral3ForCausalLM"],
    parameters: mistral3,
    ..LLAMA
};

pub(super) const SMOLLM3: Family =
    Family { architecture: "smollm3", classes: &["SmolLM3ForCausalLM"], ..LLAMA };

fn mistral3(config: &Config, keys: &mut Keys<'_>) -> Result<(), Error> {
    parameters(config, keys)?;
    if config.str(&["model_type"])? == Some("ministral3") {
        let rope = Rope::of(config)?;
        keys.optional("rope.scaling.yarn_log_multiplier", rope.f32("mscale_all_dim")?);
        keys.optional("attention.temperature_scale", rope.f32("llama_4_scaling_beta")?);
    }
    Ok(())
}

/// llama.cpp rotates neighbours in these models.
pub(super) const Q: Rule = change("layers.{}.self_attn.q_proj", &["blk.{}.attn_q"], |view, config| {
    interleave(view, config.heads()?)
});
pub(super) const K: Rule = change("layers.{}.self_attn.k_proj", &["blk.{}.attn_k"], |view, config| {
    interleave(view, config.kv_heads()?)
});

const RULES: &[Rule] = &[
    Q,
    K,
    rename("layers.{}.block_sparse_moe.gate", &["blk.{}.ffn_gate_inp"]),
    rename("layers.{}.block_sparse_moe.experts.{}.{w1,w2,w3}", &["blk.{}.ffn_{gate,down,up}_exps"]),
];

pub(super) fn parameters(config: &Config, keys: &mut Keys<'_>) -> Result<(), Error> {
    common(config, keys)?;
    keys.set("vocab_size", config.need_u32(&["vocab_size"])?);
    keys.count("rope.dimension_count", config.head_dim()?);
    Ok(())
}

/// Llama 3.1's scaling of RoPE is a factor for each frequency.
pub(super) fn rope_factors(config: &Config) -> Result<Extra, Error> {
    let factors = Rope::of(config)?.llama3(config.head_dim()?)?;
    Ok(factors.map(|factors| ("rope_freqs.weight", factors)).into_iter().collect())
}
