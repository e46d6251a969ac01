//! Architecture `falcon-h1`: Falcon-H1 (TII 2025). Each layer has attention and Mamba 2 side by side.

use super::prelude::*;

pub(super) const FAMILY: Family = Family { name: "falcon-h1", harmless: &[], graph };

fn graph(c: &Config, keys: &mut Keys<'_>, tensors: Tensors<'_>) -> Result<Graph, Error> {
    let widths = keys.ffn_widths()?;
    let attention = Attention::read(c, keys, Pairing::Halves, LINEAR_OR_YARN)?;
    let eps = keys.rms_epsilon()?;
    let mamba = Mamba::read(keys, eps)?;
    let mut ctx = GraphContext::new(c, eps, tensors);

    let mut x = ctx.embed("embd"); // [rows, hidden]
    for (il, ffn) in widths.into_iter().enumerate() {
        x = layer(&mut ctx, il, x, [&attention, &mamba], ffn); // [rows, hidden]
    }
    Ok(ctx.logits(x))
}

fn layer(ctx: &mut GraphContext<'_>, il: usize, x: ValueId, mixers: [&dyn Mixer; 2], ffn: usize) -> ValueId {
    let hidden = ctx.hidden();
    let h = ctx.norm(("attn_norm", il), x, "attn_norm"); // [rows, hidden]
    let names = ["kqv_out_outputs", "mamba2_outputs"];
    let mut mix = |index: usize| {
        let y = mixers[index].mix(ctx, il, h); // [rows, cols]
        let y = ctx.keep_output(names[index], il, y);
        let (output, cols) = mixers[index].output(il);
        ctx.project(output, il, y, [cols, hidden]) // [rows, hidden]
    };
    let (a, m) = (mix(0), mix(1));
    let both = ctx.g.add(("layer_out", il), a, m);
    let residual = ctx.keep_output("l_inp_outputs", il, x);
    let a = ctx.g.add(("ffn_inp", il), both, residual);
    // The tensor has no suffix.
    let h = ctx.norm_by(("ffn_norm", il), a, &format!("blk.{il}.ffn_norm"), hidden);
    let h = ctx.swiglu(il, h, ffn); // [rows, hidden]
    let x = ctx.g.add(("l_out", il), h, a);
    ctx.g.end_layer(x);
    x
}
