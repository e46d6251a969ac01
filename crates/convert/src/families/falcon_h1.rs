//! Falcon-H1: attention and Mamba 2 side by side. Its constant factors go into the weights.

use super::*;

pub(super) const FAMILY: Family = Family {
    architecture: "falcon-h1",
    classes: &["FalconH1ForCausalLM"],
    parameters,
    rules: RULES,
    shared: mamba::MIXER,
    alias: mamba::mixer,
    ..BASE
};

const RULES: &[Rule] = &[
    change("embed_tokens", &["token_embd"], |view, config| {
        if config.bool("tie_word_embeddings")? && config.need_f32(&["lm_head_multiplier"])? != 1.0 {
            return Err(config.error("the output's matrix is that of the embeddings, but has another factor"));
        }
        scaled(view, config, &["embedding_multiplier"])
    }),
    change("lm_head", &["output"], |view, config| scaled(view, config, &["lm_head_multiplier"])),
    rename("final_layernorm", &["output_norm"]),
    change("layers.{}.self_attn.{q,v}_proj", &["blk.{}.attn_{q,v}"], |view, config| {
        scaled(view, config, &["attention_in_multiplier"])
    }),
    change("layers.{}.self_attn.k_proj", &["blk.{}.attn_k"], |view, config| {
        scaled(view, config, &["key_multiplier", "attention_in_multiplier"])
    }),
    change("layers.{}.self_attn.o_proj", &["blk.{}.attn_output"], |view, config| {
        scaled(view, config, &["attention_out_multiplier"])
    }),
    split("layers.{}.mixer.in_proj", &["blk.{}.ssm_in"; 5], in_proj),
    change("layers.{}.mixer.out_proj", &["blk.{}.ssm_out"], |view, config| {
        scaled(view, config, &["ssm_out_multiplier"])
    }),
    // llama.cpp's name has no ending.
    rename("layers.{}.pre_ff_layernorm.weight", &["blk.{}.ffn_norm"]),
    change("layers.{}.feed_forward.gate_proj", &["blk.{}.ffn_gate"], |view, config| {
        Ok(view.scale(factors::<2>(config, "mlp_multipliers")?[0]))
    }),
    rename("layers.{}.feed_forward.up_proj", &["blk.{}.ffn_up"]),
    change("layers.{}.feed_forward.down_proj", &["blk.{}.ffn_down"], |view, config| {
        Ok(view.scale(factors::<2>(config, "mlp_multipliers")?[1]))
    }),
];

fn scaled(mut view: View, config: &Config, factors: &[&str]) -> Result<View, Error> {
    for factor in factors {
        view = view.scale(config.need_f32(&[factor])?);
    }
    Ok(view)
}

fn factors<const N: usize>(config: &Config, key: &str) -> Result<[f32; N], Error> {
    let factors = config.f32s(key)?.and_then(|factors| factors.try_into().ok());
    factors.ok_or_else(|| config.error(format!("{key:?} is no list of {N} numbers")))
}

/// Rows of the gate, of x, B, C and the time steps, each with its factor.
fn in_proj(view: View, config: &Config) -> Result<Vec<View>, Error> {
    let count = |key| config.need_count(&[key]);
    let (inner, heads) = (count("mamba_d_ssm")?, count("mamba_n_heads")?);
    let state = count("mamba_n_groups")? * count("mamba_d_state")?;
    let view = view.scale(config.need_f32(&["ssm_in_multiplier"])?);
    let mut start = 0;
    let parts = [inner, inner, state, state, heads].into_iter().zip(factors::<5>(config, "ssm_multipliers")?);
    let parts = parts.map(|(rows, factor)| {
        start += rows;
        Ok(view.clone().narrow(0, start - rows..start)?.scale(factor))
    });
    parts.collect()
}

fn parameters(config: &Config, keys: &mut Keys<'_>) -> Result<(), Error> {
    if config.bool("mamba_rms_norm")? && config.bool("mamba_norm_before_gate")? {
        let why = "\"mamba_norm_before_gate\" is set, but engines norm the mixer's output after the gate";
        return Err(config.error(why));
    }
    mamba::parameters(config, keys)?;
    keys.set("vocab_size", config.need_u32(&["vocab_size"])?);
    keys.set("context_length", config.need_u32(&["max_position_embeddings"])?);
    keys.set("feed_forward_length", config.need_u32(&["intermediate_size"])?);
    keys.count("attention.head_count", config.heads()?);
    keys.count("attention.head_count_kv", config.kv_heads()?);
    keys.count("attention.key_length", config.head_dim()?);
    keys.count("attention.value_length", config.head_dim()?);
    Rope::of(config)?.write(keys)
}
