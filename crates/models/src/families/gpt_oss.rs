//! Architecture `gpt-oss`: gpt-oss (OpenAI 2025). Every second layer has a window; heads have sinks, all matrices biases.

use super::prelude::*;

pub(super) const FAMILY: Family = Family {
    name: "gpt-oss",
    // The size of a dense feed-forward network, which no layer has.
    harmless: &["feed_forward_length"],
    graph,
};

const LAYER: Layer = Layer { ffn_norm: "post_attention_norm", ..PRE_NORM };

const GLU: Glu = Glu { act: Activation::GeluSigmoid, limit: Some(7.0) };

fn graph(c: &Config, keys: &mut Keys<'_>, tensors: Tensors<'_>) -> Result<Graph, Error> {
    let mut moe = Moe { glu: GLU, ..Moe::required(keys)? };
    moe.read_scale(keys)?;
    let widths = keys.sizes("expert_feed_forward_length", "the hidden size of an expert")?;
    let global = Attention::read(c, keys, Pairing::Halves, LINEAR_OR_YARN)?;
    let window = keys.size("attention.sliding_window", "the window of every second layer")?;
    let is_local = keys.pattern("attention.sliding_window_pattern", 2)?;
    let local = Attention { mask: Mask::Window(window), ..global.clone() };
    let ctx = GraphContext::new(c, keys.rms_epsilon()?, tensors);

    let attention = |il: usize| -> &dyn Mixer { if is_local[il] { &local } else { &global } };
    Ok(LAYER.decoder(ctx, attention, |ctx, il, h| moe.mix(ctx, il, h, widths[il])))
}
