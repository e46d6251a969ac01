//! StableLM.

use super::*;

pub(super) const FAMILY: Family = Family {
    architecture: "stablelm",
    classes: &["StableLmForCausalLM", "StableLMEpochForCausalLM"],
    parameters,
    rules: &[rename("layers.{}.self_attn.{q,k}_layernorm.norms.{}", &["blk.{}.attn_{q,k}_norm"])],
    ..BASE
};

fn parameters(config: &Config, keys: &mut Keys<'_>) -> Result<(), Error> {
    sizes(config, keys)?;
    keys.count("attention.head_count_kv", config.kv_heads()?);
    let rope = Rope::of(config)?;
    // Files have the base only where it is not the usual one.
    keys.optional("rope.freq_base", rope.theta()?.filter(|theta| *theta != 10000.0));
    let part = rope.partial()?.unwrap_or(0.25);
    let head = config.hidden()? / config.heads()?;
    keys.count("rope.dimension_count", (part * head as f32) as usize);
    let is_parallel =
        config.value("use_parallel_residual").is_none() || config.bool("use_parallel_residual")?;
    keys.set("use_parallel_residual", is_parallel);
    Ok(())
}
