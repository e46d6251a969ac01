//! Architecture `stablelm`: StableLM 1, 2 and Zephyr 3B (Bellagente et al. 2024). Layer norms have biases; RoPE rotates a part
//! of each head. Without `ffn_norm`, attention and feed-forward network have the same input.

use super::prelude::*;

// The tensors say the same as the key.
pub(super) const FAMILY: Family = Family { name: "stablelm", harmless: &["use_parallel_residual"], graph };

fn graph(c: &Config, keys: &mut Keys<'_>, tensors: Tensors<'_>) -> Result<Graph, Error> {
    let widths = keys.ffn_widths()?;
    let attention = Attention::read(c, keys, Pairing::Halves, LINEAR_OR_YARN)?;
    let mut ctx = GraphContext::with_layer_norms(c, keys.layer_norm_epsilon()?, tensors);
    let layer = Layer { is_parallel: !ctx.in_layers("ffn_norm.weight"), ..PRE_NORM };

    Ok(layer.decoder(ctx, |_| &attention, |ctx, il, h| ctx.swiglu(il, h, widths[il])))
}
