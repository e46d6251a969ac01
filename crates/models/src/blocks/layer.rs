//! Decoder layers.

use graph::{Graph, ValueId};

use super::{GraphContext, Linear};

/// Where a layer has norms, and how the outputs of its two blocks enter the residual stream.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Layer {
    /// Norms of the inputs of attention and feed-forward network (Xiong et al. 2020).
    pub(crate) norms_inputs: bool,
    /// The first layer has a norm of its input, too.
    pub(crate) norms_first_input: bool,
    pub(crate) norms_outputs: bool,
    /// The feed-forward network has the input of attention (Wang and Komatsuzaki 2021).
    pub(crate) is_parallel: bool,
    /// Factor of their outputs; 1 has no operation.
    pub(crate) residual_scale: f32,
    pub(crate) sum: &'static str,
    pub(crate) ffn_norm: &'static str,
}

pub(crate) const PRE_NORM: Layer = Layer {
    norms_inputs: true,
    norms_first_input: true,
    norms_outputs: false,
    is_parallel: false,
    residual_scale: 1.0,
    sum: "ffn_inp",
    ffn_norm: "ffn_norm",
};

/// A layer of one block: `x` plus the projected result of `mixer`: `[rows, hidden]`.
pub(crate) fn mixer_layer(ctx: &mut GraphContext<'_>, il: usize, x: ValueId, mixer: &dyn Mixer) -> ValueId {
    let h = ctx.norm(("attn_norm", il), x, "attn_norm"); // [rows, hidden]
    let a = mixer.mix(ctx, il, h); // [rows, cols]
    let (a, residual) = ctx.keep_outputs(il, a, x);
    let (output, cols) = mixer.output(il);
    let a = ctx.project(output, il, a, [cols, ctx.hidden()]); // [rows, hidden]
    let x = ctx.g.add(("l_out", il), a, residual);
    ctx.g.end_layer(x);
    x
}

pub(crate) trait Mixer {
    /// The result in layer `il`, before the output projection: `[rows, cols]`.
    fn mix(&self, ctx: &mut GraphContext<'_>, il: usize, x: ValueId) -> ValueId;

    fn output(&self, il: usize) -> (&'static Linear, usize);
}

impl Layer {
    /// Attention and feed-forward network (`[rows, hidden]` to `[rows, hidden]`), both added to the residual stream.
    pub(crate) fn build(
        &self,
        ctx: &mut GraphContext<'_>,
        il: usize,
        x: ValueId,
        mixer: &dyn Mixer,
        feed_forward: impl FnOnce(&mut GraphContext<'_>, ValueId) -> ValueId,
    ) -> ValueId {
        let is_normed = self.norms_inputs && (il > 0 || self.norms_first_input);
        let h = if is_normed { ctx.norm(("attn_norm", il), x, "attn_norm") } else { x }; // [rows, hidden]
        let a = mixer.mix(ctx, il, h); // [rows, cols]
        let (a, residual) = ctx.keep_outputs(il, a, x);
        let h = if self.is_parallel { ctx.keep_output("attn_norm_outputs", il, h) } else { h };
        let (output, cols) = mixer.output(il);
        let a = ctx.project(output, il, a, [cols, ctx.hidden()]); // [rows, hidden]
        let a = self.output(ctx, il, a, ["attn_post_norm", "attn_scaled"], "post_attention_norm");
        let a = ctx.g.add((self.sum, il), a, residual);
        let h = match (self.is_parallel, self.norms_inputs) {
            (true, _) => h,
            (false, true) => ctx.norm(("ffn_norm", il), a, self.ffn_norm), // [rows, hidden]
            (false, false) => a,
        };
        let h = feed_forward(ctx, h); // [rows, hidden]
        let h = self.output(ctx, il, h, ["ffn_post_norm", "ffn_scaled"], "post_ffw_norm");
        let x = ctx.g.add(("l_out", il), h, a);
        ctx.g.end_layer(x);
        x
    }

    /// All layers, with the mixer and the feed-forward network of each: `[rows, hidden]`.
    pub(crate) fn stack<'m>(
        &self,
        ctx: &mut GraphContext<'_>,
        mut x: ValueId,
        mixer: impl Fn(usize) -> &'m dyn Mixer,
        feed_forward: impl Fn(&mut GraphContext<'_>, usize, ValueId) -> ValueId,
    ) -> ValueId {
        for il in 0..ctx.c.block_count {
            x = self.build(ctx, il, x, mixer(il), |ctx, h| feed_forward(ctx, il, h));
        }
        x
    }

    /// The logits of a model that is an embedding and such layers: `[outputs, vocab]`.
    #[track_caller]
    pub(crate) fn decoder<'m>(
        &self,
        mut ctx: GraphContext<'_>,
        mixer: impl Fn(usize) -> &'m dyn Mixer,
        feed_forward: impl Fn(&mut GraphContext<'_>, usize, ValueId) -> ValueId,
    ) -> Graph {
        let x = ctx.embed("embd"); // [rows, hidden]
        let x = self.stack(&mut ctx, x, mixer, feed_forward);
        ctx.logits(x)
    }

    /// The output of a block as it is added to the residual stream.
    fn output(
        &self,
        ctx: &mut GraphContext<'_>,
        il: usize,
        mut x: ValueId,
        [normed, scaled]: [&'static str; 2],
        tensor: &str,
    ) -> ValueId {
        if self.norms_outputs {
            x = ctx.norm((normed, il), x, tensor);
        }
        if self.residual_scale == 1.0 { x } else { ctx.g.scale((scaled, il), x, self.residual_scale) }
    }
}
