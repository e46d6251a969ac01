//! Architecture `ernie4_5`: ERNIE 4.5, dense (Baidu 2025).

use graph::{Activation, Graph, Pairing};

use super::Family;
use crate::blocks::{Attention, GraphContext, LINEAR_OR_YARN, PRE_NORM, feed_forward};
use crate::{Config, Error, Keys, Tensors};

pub(super) const FAMILY: Family = Family { name: "ernie4_5", harmless: &[], graph };

fn graph(c: &Config, keys: &mut Keys<'_>, tensors: Tensors<'_>) -> Result<Graph, Error> {
    let widths = keys.sizes("feed_forward_length", "the FFN hidden size", c.block_count)?;
    let attention = Attention::read(c, keys, Pairing::Interleaved, LINEAR_OR_YARN)?;
    let mut ctx = GraphContext::new(c, keys.rms_epsilon()?, tensors);

    let mut x = ctx.embed("embd"); // [rows, hidden]
    for (il, ffn) in widths.into_iter().enumerate() {
        x = PRE_NORM.build(&mut ctx, il, x, &attention, |ctx, h| {
            Ok(feed_forward(ctx, il, h, ffn, Activation::Silu))
        })?; // [rows, hidden]
    }
    Ok(ctx.logits(x))
}
