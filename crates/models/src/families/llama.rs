//! Architecture `llama`: Llama 1 to 3 (Touvron et al. 2023), TinyLlama, Mistral 7B and models with the same tensors;
//! with experts, Mixtral (Jiang et al. 2024). Architecture `mistral3`.

use super::prelude::*;

pub(super) const LLAMA: Family = Family { name: "llama", harmless: &[], graph };
/// Ministral 3 and Mistral models of 2025: queries grow beyond the original context.
pub(super) const MISTRAL3: Family = Family { name: "mistral3", harmless: &[], graph };

fn graph(c: &Config, keys: &mut Keys<'_>, tensors: Tensors<'_>) -> Result<Graph, Error> {
    let widths = keys.ffn_widths()?;
    let moe = Moe::read(keys)?;
    let mut attention = Attention::read(c, keys, Pairing::Interleaved, SCALINGS)?;
    if c.architecture == MISTRAL3.name {
        let beta = keys.float_or("attention.temperature_scale", 0.0)?;
        let interval = keys.size_or("rope.scaling.original_context_length", c.context_length)? as f32;
        attention.growth = (beta != 0.0).then_some(Growth { beta, offset: 0.0, interval });
        attention.scale = keys.positive_or_zero("attention.scale")?.unwrap_or(attention.scale);
    }
    let mut ctx = GraphContext::new(c, keys.rms_epsilon()?, tensors);

    let x = ctx.embed("embd"); // [rows, hidden]
    attention.add_rope_factors(&mut ctx); // Llama 3.1 and later
    let x = PRE_NORM.stack(
        &mut ctx,
        x,
        |_| &attention,
        |ctx, il, h| ctx.swiglu_or_moe(il, h, widths[il], moe.as_ref()),
    );
    Ok(ctx.logits(x))
}
