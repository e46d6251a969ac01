//! Architecture `starcoder2`: StarCoder 2 (Lozhkov et al. 2024). Norms and linear layers have biases; there is no gate.

use super::prelude::*;

pub(super) const FAMILY: Family = Family { name: "starcoder2", harmless: &[], graph };

fn graph(c: &Config, keys: &mut Keys<'_>, tensors: Tensors<'_>) -> Result<Graph, Error> {
    let widths = keys.ffn_widths()?;
    let attention = Attention::read(c, keys, Pairing::Halves, LINEAR_OR_YARN)?;
    let ctx = GraphContext::with_layer_norms(c, keys.layer_norm_epsilon()?, tensors);
    Ok(PRE_NORM.decoder(
        ctx,
        |_| &attention,
        |ctx, il, h| ctx.ungated_ffn(il, h, widths[il], Activation::GeluTanh),
    ))
}
