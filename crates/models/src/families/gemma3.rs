//! Architecture `gemma3`: Gemma 3, text only (Gemma Team 2025). Most layers have a sliding window and their own RoPE
//! base; every sixth layer has global attention. The outputs of attention and feed-forward network are normed before
//! they are added.

use graph::{Activation, Graph, Pairing, Rope};

use super::Family;
use crate::blocks::{ATTN_OUTPUT, Attention, GraphContext, Scaling, feed_forward};
use crate::{Config, Error, Keys, Tensors};

pub(super) const FAMILY: Family = Family {
    name: "gemma3",
    // Keys of the vision encoder, whose tensors are not supported.
    harmless: &[
        "mm.tokens_per_image",
        "vision.attention.head_count",
        "vision.attention.layer_norm_epsilon",
        "vision.block_count",
        "vision.embedding_length",
        "vision.feed_forward_length",
        "vision.image_size",
        "vision.num_channels",
        "vision.patch_size",
    ],
    graph,
};

/// Number of layers of the 27B model, which has a different score scale.
const LAYERS_OF_27B: usize = 62;

fn graph(c: &Config, keys: &mut Keys<'_>, tensors: Tensors<'_>) -> Result<Graph, Error> {
    let hidden = c.embedding_length;
    let widths = keys.sizes("feed_forward_length", "the FFN hidden size", c.block_count)?;
    let mut global =
        Attention { has_qk_norm: true, ..Attention::read(c, keys, Pairing::Halves, &[Scaling::Linear])? };
    if c.block_count == LAYERS_OF_27B {
        global.scale = 1.0 / ((hidden / global.heads[0]) as f32).sqrt();
    }
    let window = keys.count("attention.sliding_window")?;
    let is_local = keys.pattern("attention.sliding_window_pattern", 6, c.block_count)?;
    // ollama's names of the two bases, which predate llama.cpp's.
    let theta = keys.positive_or("rope.local.freq_base", 10_000.0)?;
    let theta = keys.positive_or("rope.freq_base_swa", theta)?;
    let theta_global = keys.positive_or("rope.global.freq_base", global.rope.theta)?;
    if !keys.has("rope.freq_base") {
        global.rope.theta = theta_global;
    }
    let local =
        Attention { window: Some(window), rope: Rope { theta, scale: 1.0, ..global.rope }, ..global.clone() };
    let mut ctx = GraphContext::new(c, keys.rms_epsilon()?, tensors);

    let x = ctx.embed("embd"); // [rows, hidden]
    let mut x = ctx.g.scale("inp_scaled", x, (hidden as f32).sqrt());
    for (il, ffn) in widths.into_iter().enumerate() {
        let attention = if window > 0 && is_local[il] { &local } else { &global };
        let h = ctx.norm(("attn_norm", il), x, "attn_norm"); // [rows, hidden]
        let a = attention.attend(&mut ctx, il, h); // [rows, heads * value_length]
        let (a, residual) = ctx.keep_outputs(il, a, x);
        let a = ctx.project(&ATTN_OUTPUT, il, a, attention.output(&ctx, il)); // [rows, hidden]
        let a = ctx.norm(("attn_post_norm", il), a, "post_attention_norm");
        let a = ctx.g.add(("sa_out", il), a, residual);
        let h = ctx.norm(("ffn_norm", il), a, "ffn_norm"); // [rows, hidden]
        let h = feed_forward(&mut ctx, il, h, ffn, Activation::GeluTanh); // [rows, hidden]
        let h = ctx.norm(("ffn_post_norm", il), h, "post_ffw_norm");
        x = ctx.g.add(("l_out", il), h, a);
        ctx.g.end_layer(x);
    }
    Ok(ctx.logits(x))
}
