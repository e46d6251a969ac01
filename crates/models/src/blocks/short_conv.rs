//! Gated short convolution (Liquid AI 2025).

use graph::{Activation, ValueId};

use super::{GraphContext, Linear, Mixer};

static OUTPUT: Linear = Linear {
    tensor: "shortconv.out_proj",
    name: "shortconv_out",
    biased: ["shortconv_out_mm", "shortconv_out"],
};

#[derive(Clone, Debug)]
pub(crate) struct ShortConv {
    pub(crate) hidden: usize,
    /// Rows that a convolution spans.
    pub(crate) taps: usize,
}

impl Mixer for ShortConv {
    fn output(&self, _: usize) -> (&'static Linear, usize) {
        (&OUTPUT, self.hidden)
    }

    fn mix(&self, ctx: &mut GraphContext<'_>, il: usize, x: ValueId) -> ValueId {
        let ShortConv { hidden, taps } = *self;
        let [b, c, x] = [("shortconv_b", 0), ("shortconv_c", 1), ("shortconv_x", 2)].map(|(name, part)| {
            let tensor = format!("blk.{il}.shortconv.in_proj.weight");
            let rows = part * hidden..(part + 1) * hidden;
            let weight = ctx.g.weight_rows(tensor, 3 * hidden, rows, hidden);
            ctx.linear((name, il), x, weight)
        });
        let bx = ctx.g.gate(("shortconv_bx", il), b, x, Activation::Identity);
        let kernel = ctx.g.weight(format!("blk.{il}.shortconv.conv.weight"), hidden, taps);
        let conv = ctx.g.conv(("shortconv_conv", il), bx, kernel, None);
        ctx.g.gate(("shortconv_y", il), c, conv, Activation::Identity)
    }
}
