//! OLMo 2 and 3.

use super::*;

pub(super) const FAMILY: Family = Family {
    architecture: "olmo2",
    classes: &["Olmo2ForCausalLM", "Olmo3ForCausalLM"],
    parameters,
    rules: &[rename(
        "layers.{}.post_{attention,feedforward}_layernorm",
        &["blk.{}.post_{attention,ffw}_norm"],
    )],
    ..BASE
};

fn parameters(config: &Config, keys: &mut Keys<'_>) -> Result<(), Error> {
    common(config, keys)?;
    let Some(window) = config.u32(&["sliding_window"])? else { return Ok(()) };
    keys.set("attention.sliding_window", window);
    let is_local = match config.layers_are("sliding_attention")? {
        Some(is_local) => is_local,
        // Every fourth layer sees all positions.
        None => (0..config.layers()?).map(|layer| (layer + 1) % 4 != 0).collect(),
    };
    keys.set("attention.sliding_window_pattern", is_local);
    Ok(())
}
