//! Phi 3 and 4.

use super::*;

pub(super) const FAMILY: Family = Family {
    architecture: "phi3",
    classes: &["Phi3ForCausalLM"],
    tokenizer: Kind::Phi3,
    parameters,
    rules: &[],
    extra: rope_factors,
    ..BASE
};

fn parameters(config: &Config, keys: &mut Keys<'_>) -> Result<(), Error> {
    sizes(config, keys)?;
    let rope = Rope::of(config)?;
    keys.count("attention.head_count_kv", config.kv_heads()?);
    keys.count("rope.dimension_count", rotated(config, &rope)?);
    keys.optional("rope.freq_base", rope.theta()?);
    keys.set("rope.scaling.original_context_length", original(config, &rope)?);
    // 0 tells Phi 4, which has no window, from the others.
    keys.set("attention.sliding_window", config.u32(&["sliding_window"])?.unwrap_or(0));
    keys.optional("rope.scaling.attn_factor", attention_factor(config, &rope)?);
    Ok(())
}

fn rotated(config: &Config, rope: &Rope<'_>) -> Result<usize, Error> {
    let part = rope.partial()?.unwrap_or(1.0);
    Ok((part * config.hidden()? as f32) as usize / config.heads()?)
}

fn original(config: &Config, rope: &Rope<'_>) -> Result<u32, Error> {
    let original = rope.u32("original_max_position_embeddings")?;
    original.ok_or_else(|| config.error("\"original_max_position_embeddings\" is missing"))
}

/// By how much attention scores grow with the context that the model was extended to.
fn attention_factor(config: &Config, rope: &Rope<'_>) -> Result<Option<f32>, Error> {
    if rope.f32s("long_factor").is_none() {
        return Ok(None);
    }
    let original = f64::from(original(config, rope)?);
    let scale = f64::from(config.need_u32(&["max_position_embeddings"])?) / original;
    let factor = match rope.kind() {
        _ if scale <= 1.0 => 1.0,
        "su" | "longrope" => (1.0 + scale.ln() / original.ln()).sqrt(),
        "yarn" => 0.1 * scale.ln() + 1.0,
        kind => return Err(config.error(format!("RoPE of the kind {kind:?} has no known attention factor"))),
    };
    Ok(Some(factor as f32))
}

/// A factor for each frequency, for contexts within and beyond the original length.
fn rope_factors(config: &Config) -> Result<Extra, Error> {
    let rope = Rope::of(config)?;
    let Some(long) = rope.f32s("long_factor") else { return Ok(Vec::new()) };
    let short = rope.f32s("short_factor").unwrap_or_default();
    let expected = rotated(config, &rope)? / 2;
    if long.len() != expected || short.len() != expected {
        let (long, short) = (long.len(), short.len());
        return Err(config.error(format!(
            "\"long_factor\" and \"short_factor\" have {long} and {short} values, but {expected} frequencies"
        )));
    }
    Ok(vec![("rope_factors_long.weight", long), ("rope_factors_short.weight", short)])
}
