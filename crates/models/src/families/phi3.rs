//! Architecture `phi3`: Phi 3, 3.5 and 4 (Abdin et al. 2024). Fused matrices; RoPE's divisors depend on the context.

use super::prelude::*;

pub(super) const FAMILY: Family = Family {
    name: "phi3",
    // Files have a window that the models were not trained with throughout; llama.cpp does not use it.
    harmless: &["attention.sliding_window"],
    graph,
};

fn graph(c: &Config, keys: &mut Keys<'_>, tensors: Tensors<'_>) -> Result<Graph, Error> {
    let widths = keys.ffn_widths()?;
    let mut attention = Attention::read(c, keys, Pairing::Halves, SCALINGS)?;
    if tensors("rope_factors_long.weight") {
        // Files have the divisors without naming the kind of scaling.
        attention.long_rope = Some(original_context(c, keys)?);
    }
    let mut ctx = GraphContext::new(c, keys.rms_epsilon()?, tensors);

    let x = ctx.embed("embd"); // [rows, hidden]
    attention.add_rope_factors(&mut ctx);
    let x = PRE_NORM.stack(
        &mut ctx,
        x,
        |_| &attention,
        |ctx, il, h| ctx.fused_ffn(il, h, widths[il], Activation::Silu),
    );
    Ok(ctx.logits(x))
}
