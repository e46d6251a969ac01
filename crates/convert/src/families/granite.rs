//! Granite 3 and 4, dense and with experts.

use super::*;

pub(super) const GRANITE: Family = Family {
    architecture: "granite",
    classes: &["GraniteForCausalLM"],
    parameters,
    rules: RULES,
    ..llama::LLAMA
};

pub(super) const GRANITEMOE: Family = Family {
    architecture: "granitemoe",
    classes: &["GraniteMoeForCausalLM", "GraniteMoeSharedForCausalLM"],
    parameters: experts,
    ..GRANITE
};

pub(super) const RULES: &[Rule] = &[
    llama::Q,
    llama::K,
    rename("layers.{}.block_sparse_moe.router.layer", &["blk.{}.ffn_gate_inp"]),
    split(
        "layers.{}.block_sparse_moe.input_linear",
        &["blk.{}.ffn_gate_exps", "blk.{}.ffn_up_exps"],
        |view, _| halves(view.with_axes(3)?, 1),
    ),
    rename("layers.{}.block_sparse_moe.output_linear", &["blk.{}.ffn_down_exps"]),
    split(
        "layers.{}.shared_mlp.input_linear",
        &["blk.{}.ffn_gate_shexp", "blk.{}.ffn_up_shexp"],
        |view, _| halves(view.with_axes(2)?, 0),
    ),
    rename("layers.{}.shared_mlp.output_linear", &["blk.{}.ffn_down_shexp"]),
];

pub(super) fn parameters(config: &Config, keys: &mut Keys<'_>) -> Result<(), Error> {
    llama::parameters(config, keys)?;
    let scales = [
        ("attention.scale", "attention_multiplier"),
        ("embedding_scale", "embedding_multiplier"),
        ("residual_scale", "residual_multiplier"),
        ("logit_scale", "logits_scaling"),
    ];
    for (name, from) in scales {
        keys.optional(name, config.f32(&[from])?.filter(|scale| *scale != 0.0));
    }
    Ok(())
}

pub(super) fn experts(config: &Config, keys: &mut Keys<'_>) -> Result<(), Error> {
    parameters(config, keys)?;
    let shared = config.u32(&["shared_intermediate_size"])?.filter(|len| *len != 0);
    keys.optional("expert_shared_feed_forward_length", shared);
    Ok(())
}
