//! Architecture `gemma2`: Gemma 2 (Gemma Team 2024). Every second layer has a sliding window; scores and logits are capped. The
//! outputs of attention and feed-forward network are normed before they are added.

use super::prelude::*;

pub(super) const FAMILY: Family = Family { name: "gemma2", harmless: &[], graph };

const LAYER: Layer = Layer { norms_outputs: true, sum: "sa_out", ..PRE_NORM };

/// Number of layers of the 27B model, which has a different score scale.
const LAYERS_27B: usize = 46;

fn graph(c: &Config, keys: &mut Keys<'_>, tensors: Tensors<'_>) -> Result<Graph, Error> {
    let hidden = c.embedding_length;
    let widths = keys.ffn_widths()?;
    let mut global = Attention::read(c, keys, Pairing::Halves, &[Scaling::Linear])?;
    if c.block_count == LAYERS_27B {
        global.scale = 1.0 / ((hidden / global.heads[0]) as f32).sqrt();
    }
    global.cap = Some(keys.positive_or("attn_logit_softcapping", 50.0)?);
    let cap = keys.positive_or("final_logit_softcapping", 30.0)?;
    let window = keys.size_or("attention.sliding_window", 4096)?;
    let is_local = keys.pattern("attention.sliding_window_pattern", 2)?;
    let local = Attention { mask: Mask::Window(window), ..global.clone() };
    let mut ctx = GraphContext::new(c, keys.rms_epsilon()?, tensors);

    let attention = |il: usize| -> &dyn Mixer { if is_local[il] { &local } else { &global } };
    let x = ctx.embed("embd"); // [rows, hidden]
    let x = ctx.g.scale("inp_scaled", x, (hidden as f32).sqrt());
    let x = LAYER.stack(&mut ctx, x, attention, |ctx, il, h| ctx.geglu(il, h, widths[il]));
    Ok(ctx.capped_logits(x, Some(cap)))
}
