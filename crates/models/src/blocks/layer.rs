//! Decoder layers.

use graph::ValueId;

use super::{ATTN_OUTPUT, Attention, GraphContext};
use crate::Error;

/// A pre-norm layer (Xiong et al. 2020): attention and feed-forward network, each after a norm and added to the residual
/// stream: `[rows, hidden]`. `feed_forward` maps the normed rows to `[rows, hidden]`.
pub(crate) fn pre_norm_layer(
    ctx: &mut GraphContext<'_>,
    il: usize,
    x: ValueId,
    attention: &Attention,
    feed_forward: impl FnOnce(&mut GraphContext<'_>, ValueId) -> Result<ValueId, Error>,
) -> Result<ValueId, Error> {
    let h = ctx.norm(("attn_norm", il), x, "attn_norm"); // [rows, hidden]
    let a = attention.attend(ctx, il, h); // [rows, heads * value_length]
    let (a, residual) = ctx.keep_outputs(il, a, x);
    let a = ctx.project(&ATTN_OUTPUT, il, a, attention.output(ctx, il)); // [rows, hidden]
    let a = ctx.g.add(("ffn_inp", il), a, residual);
    let h = ctx.norm(("ffn_norm", il), a, "ffn_norm"); // [rows, hidden]
    let h = feed_forward(ctx, h)?; // [rows, hidden]
    let x = ctx.g.add(("l_out", il), h, a);
    ctx.g.end_layer(x);
    Ok(x)
}
