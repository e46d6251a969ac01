//! Architecture `olmo2`: OLMo 2 and 3 (Team OLMo 2024, 2025). Norms follow the blocks; queries and keys are normed over all
//! heads. OLMo 3 has a sliding window and unscaled RoPE in three of four layers.

use super::prelude::*;

pub(super) const FAMILY: Family = Family { name: "olmo2", harmless: &[], graph };

const LAYER: Layer = Layer { norms_inputs: false, norms_outputs: true, ..PRE_NORM };

fn graph(c: &Config, keys: &mut Keys<'_>, tensors: Tensors<'_>) -> Result<Graph, Error> {
    let widths = keys.ffn_widths()?;
    let global =
        Attention { qk_norm: QkNorm::Row, ..Attention::read(c, keys, Pairing::Halves, LINEAR_OR_YARN)? };
    let window = keys.count("attention.sliding_window")?;
    let is_local = keys.pattern("attention.sliding_window_pattern", 4)?;
    let theta = keys.positive_or("rope.freq_base_swa", global.rope.map_or(10_000.0, |rope| rope.theta))?;
    let rope = global.rope.map(|rope| Rope { theta, scale: 1.0, yarn: None, magnitude: 1.0, ..rope });
    let local = Attention { mask: Mask::Window(window), rope, ..global.clone() };
    let ctx = GraphContext::new(c, keys.rms_epsilon()?, tensors);

    let attention = |il: usize| -> &dyn Mixer { if window > 0 && is_local[il] { &local } else { &global } };
    Ok(LAYER.decoder(ctx, attention, |ctx, il, h| ctx.swiglu(il, h, widths[il])))
}
