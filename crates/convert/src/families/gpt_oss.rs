//! gpt-oss. Experts are in MXFP4, which only changes its order, or in BF16 with inputs as rows.

use super::*;

pub(super) const FAMILY: Family = Family {
    architecture: "gpt-oss",
    classes: &["GptOssForCausalLM"],
    parameters,
    rules: &[
        rename("layers.{}.post_attention_layernorm", &["blk.{}.post_attention_norm"]),
        rename("layers.{}.mlp.router", &["blk.{}.ffn_gate_inp"]),
        split("layers.{}.mlp.experts.gate_up_proj", GATE_UP_EXPS, |view, config| {
            alternating(outputs_first(view, config)?, config)
        }),
        change("layers.{}.mlp.experts.down_proj", &["blk.{}.ffn_down_exps.weight"], outputs_first),
        split(
            "layers.{}.mlp.experts.gate_up_proj_bias",
            &["blk.{}.ffn_gate_exps.bias", "blk.{}.ffn_up_exps.bias"],
            alternating,
        ),
        rename("layers.{}.mlp.experts.down_proj_bias", &["blk.{}.ffn_down_exps.bias"]),
    ],
    ..BASE
};

fn outputs_first(view: View, _: &Config) -> Result<View, Error> {
    let view = view.with_axes(3)?;
    Ok(if view.has_blocks() { view } else { view.swap(1, 2) })
}

/// The even and the odd outputs of each expert.
fn alternating(view: View, _: &Config) -> Result<Vec<View>, Error> {
    let view = view.split(1, &[0, 2])?;
    Ok(vec![view.clone().index(2, 0)?, view.index(2, 1)?])
}

fn parameters(config: &Config, keys: &mut Keys<'_>) -> Result<(), Error> {
    common(config, keys)?;
    keys.set("attention.sliding_window", config.need_u32(&["sliding_window"])?);
    keys.set("expert_feed_forward_length", config.need_u32(&["intermediate_size"])?);
    Ok(())
}
