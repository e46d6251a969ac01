//! Llama 4: the language model.

use super::*;

pub(super) const FAMILY: Family = Family {
    architecture: "llama4",
    classes: &["Llama4ForConditionalGeneration", "Llama4ForCausalLM"],
    tokenizer: Kind::Bpe,
    parameters,
    rules: RULES,
    ..llama::LLAMA
};

/// Matrices of experts have their inputs as rows.
const RULES: &[Rule] = &[
    rename("layers.{}.feed_forward.{gate,up,down}_proj", &["blk.{}.ffn_{gate,up,down}"]),
    rename("layers.{}.feed_forward.router", &["blk.{}.ffn_gate_inp"]),
    rename("layers.{}.feed_forward.shared_expert.{gate,up,down}_proj", &["blk.{}.ffn_{gate,up,down}_shexp"]),
    split("layers.{}.feed_forward.experts.gate_up_proj", GATE_UP_EXPS, |view, _| {
        halves(view.with_axes(3)?.swap(1, 2), 1)
    }),
    change("layers.{}.feed_forward.experts.down_proj", &["blk.{}.ffn_down_exps.weight"], |view, _| {
        Ok(view.with_axes(3)?.swap(1, 2))
    }),
];

fn parameters(config: &Config, keys: &mut Keys<'_>) -> Result<(), Error> {
    llama::parameters(config, keys)?;
    keys.set("feed_forward_length", config.need_u32(&["intermediate_size_mlp"])?);
    keys.set("interleave_moe_layer_step", config.need_u32(&["interleave_moe_layer_step"])?);
    keys.set("expert_feed_forward_length", config.need_u32(&["intermediate_size"])?);
    if config.layers_are("full_attention")?.is_some_and(|are_full| are_full.iter().all(|is_full| *is_full)) {
        keys.set("attention.sliding_window", 0u32);
    }
    Ok(())
}
