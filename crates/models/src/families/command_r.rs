//! Architectures `command-r`: Command R (Cohere 2024), and `cohere2`: Command R7B and A (Cohere 2025). Attention runs beside the
//! feed-forward network; layer norms have no bias. Cohere 2 has RoPE and a sliding window in three of four layers.

use super::prelude::*;

pub(super) const COMMAND_R: Family = Family { name: "command-r", harmless: &[], graph: command_r };
pub(super) const COHERE2: Family = Family { name: "cohere2", harmless: &[], graph: cohere2 };

const LAYER: Layer = Layer { is_parallel: true, ..PRE_NORM };

fn command_r(c: &Config, keys: &mut Keys<'_>, tensors: Tensors<'_>) -> Result<Graph, Error> {
    let attention = Attention::read(c, keys, Pairing::Interleaved, LINEAR_OR_YARN)?;
    graph(c, keys, tensors, |_| &attention)
}

fn cohere2(c: &Config, keys: &mut Keys<'_>, tensors: Tensors<'_>) -> Result<Graph, Error> {
    let local = Attention::read(c, keys, Pairing::Interleaved, LINEAR_OR_YARN)?;
    let mask = Mask::Window(keys.size("attention.sliding_window", "the sliding window")?);
    let is_local = keys.pattern("attention.sliding_window_pattern", 4)?;
    let global = Attention { rope: None, ..local.clone() };
    let local = Attention { mask, ..local };
    graph(c, keys, tensors, |il| if is_local[il] { &local } else { &global })
}

fn graph<'a>(
    c: &Config,
    keys: &mut Keys<'_>,
    tensors: Tensors<'_>,
    attention: impl Fn(usize) -> &'a dyn Mixer,
) -> Result<Graph, Error> {
    let widths = keys.ffn_widths()?;
    let logit_scale = keys.positive_or("logit_scale", 1.0)?;
    let mut ctx = GraphContext::with_layer_norms(c, keys.layer_norm_epsilon()?, tensors);

    let x = ctx.embed("embd"); // [rows, hidden]
    let x = LAYER.stack(&mut ctx, x, attention, |ctx, il, h| ctx.swiglu(il, h, widths[il]));
    Ok(ctx.scaled_logits(x, logit_scale))
}
