//! Gemma 2 and 3: the language model.

use super::*;

pub(super) const GEMMA2: Family = Family {
    architecture: "gemma2",
    classes: &["Gemma2ForCausalLM"],
    tokenizer: Kind::Gemma2,
    parameters: gemma2,
    rules: RULES,
    ..BASE
};

pub(super) const GEMMA3: Family = Family {
    architecture: "gemma3",
    classes: &["Gemma3ForCausalLM", "Gemma3ForConditionalGeneration"],
    tokenizer: Kind::Gemma3,
    parameters: gemma3,
    ..GEMMA2
};

pub(super) const EMBEDDING: Family = Family {
    architecture: "gemma-embedding",
    classes: &["Gemma3TextModel"],
    tokenizer: Kind::Gemma3,
    parameters: |config, keys| {
        gemma3(config, keys)?;
        pooling(config, keys)
    },
    ..GEMMA2
};

/// The norms multiply by 1 + weight; the output's matrix is that of the embeddings.
pub(super) const RULES: &[Rule] = &[
    change("norm", &["output_norm"], plus_one),
    change("layers.{}.{input,post_attention}_layernorm", &["blk.{}.{attn,post_attention}_norm"], plus_one),
    change("layers.{}.{pre,post}_feedforward_layernorm", &["blk.{}.{ffn,post_ffw}_norm"], plus_one),
    change("layers.{}.self_attn.{q,k}_norm", &["blk.{}.attn_{q,k}_norm"], plus_one),
    skip("lm_head"),
];

fn gemma2(config: &Config, keys: &mut Keys<'_>) -> Result<(), Error> {
    sizes(config, keys)?;
    keys.count("attention.head_count_kv", config.kv_heads()?);
    keys.optional("rope.freq_base", Rope::of(config)?.theta()?.filter(|theta| *theta != 10000.0));
    keys.set("attn_logit_softcapping", config.need_f32(&["attn_logit_softcapping"])?);
    keys.set("final_logit_softcapping", config.need_f32(&["final_logit_softcapping"])?);
    keys.set("attention.sliding_window", config.need_u32(&["sliding_window"])?);
    Ok(())
}

pub(super) fn gemma3(config: &Config, keys: &mut Keys<'_>) -> Result<(), Error> {
    common(config, keys)?;
    if config.f32(&["attn_logit_softcapping"])?.is_some() {
        return Err(config.error("\"attn_logit_softcapping\" is set, but Gemma 3 has no such cap"));
    }
    let cap = config.f32(&["final_logit_softcapping"])?.filter(|cap| *cap != 0.0);
    keys.optional("final_logit_softcapping", cap);
    if config.u32(&["sliding_window_pattern"])? != Some(1) {
        keys.set("attention.sliding_window", config.need_u32(&["sliding_window"])?);
    }
    keys.set("rope.freq_base", Rope::of(config)?.theta()?.unwrap_or(1e6));
    Ok(())
}
