//! Architecture `smollm3`: SmolLM 3 (Hugging Face 2025). Every fourth layer has no RoPE (Yang et al. 2025).

use super::prelude::*;

pub(super) const FAMILY: Family = Family { name: "smollm3", harmless: &[], graph };

/// The last of so many layers has no RoPE.
const PERIOD: usize = 4;

fn graph(c: &Config, keys: &mut Keys<'_>, tensors: Tensors<'_>) -> Result<Graph, Error> {
    let widths = keys.ffn_widths()?;
    let attention = Attention::read(c, keys, Pairing::Interleaved, LINEAR_OR_YARN)?;
    let scale = keys.positive_or_zero("attention.scale")?.unwrap_or(attention.scale);
    let attention = Attention { scale, ..attention };
    let without_rope = Attention { rope: None, ..attention.clone() };
    let ctx = GraphContext::new(c, keys.rms_epsilon()?, tensors);

    let attention = |il: usize| -> &dyn Mixer {
        if (il + 1).is_multiple_of(PERIOD) { &without_rope } else { &attention }
    };
    Ok(PRE_NORM.decoder(ctx, attention, |ctx, il, h| ctx.swiglu(il, h, widths[il])))
}
