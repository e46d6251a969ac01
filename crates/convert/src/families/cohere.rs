//! Command R and Command R7B.

use super::*;

pub(super) const COMMAND_R: Family = Family {
    architecture: "command-r",
    classes: &["CohereForCausalLM"],
    parameters: command_r,
    rules: &[],
    ..BASE
};

pub(super) const COHERE2: Family =
    Family { architecture: "cohere2", classes: &["Cohere2ForCausalLM"], parameters: cohere2, ..COMMAND_R };

fn command_r(config: &Config, keys: &mut Keys<'_>) -> Result<(), Error> {
    common(config, keys)?;
    // The models were trained on more positions than "max_position_embeddings" says.
    keys.set("context_length", config.need_u32(&["model_max_length", "max_position_embeddings"])?);
    keys.set("logit_scale", config.need_f32(&["logit_scale"])?);
    keys.set("rope.scaling.type", "none");
    Ok(())
}

fn cohere2(config: &Config, keys: &mut Keys<'_>) -> Result<(), Error> {
    common(config, keys)?;
    keys.set("logit_scale", config.need_f32(&["logit_scale"])?);
    keys.set("attention.sliding_window", config.need_u32(&["sliding_window"])?);
    keys.set("vocab_size", config.need_u32(&["vocab_size"])?);
    let part = config.f32(&["rotary_pct"])?.unwrap_or(1.0);
    let head = config.hidden()? / config.heads()?;
    keys.count("rope.dimension_count", (part * head as f32) as usize);
    keys.set("rope.scaling.type", "none");
    Ok(())
}
