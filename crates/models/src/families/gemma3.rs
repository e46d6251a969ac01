//! Architecture `gemma3`: Gemma 3, text only (Gemma Team 2025). Most layers have a sliding window and their own RoPE base;
//! every sixth layer has global attention. The outputs of attention and feed-forward network are normed.

use super::prelude::*;

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

const LAYER: Layer = Layer { norms_outputs: true, sum: "sa_out", ..PRE_NORM };

/// Number of layers of the 27B model, which has a different score scale.
const LAYERS_27B: usize = 62;

/// Architecture `gemma-embedding`: EmbeddingGemma (Google 2025). Rows see later ones too; matrices follow the pooling.
pub(super) const EMBEDDING: Family =
    Family { name: "gemma-embedding", harmless: &["attention.causal"], graph: embedding };

fn graph(c: &Config, keys: &mut Keys<'_>, tensors: Tensors<'_>) -> Result<Graph, Error> {
    let cap = keys.positive_or_zero("final_logit_softcapping")?;
    let (ctx, x) = layers(c, keys, tensors, [Mask::Causal, Mask::Window(0)])?;
    Ok(ctx.capped_logits(x, cap))
}

fn embedding(c: &Config, keys: &mut Keys<'_>, tensors: Tensors<'_>) -> Result<Graph, Error> {
    let mut dense = Vec::new();
    let names = [
        ("dense_2", "dense_2_feat_in", "dense_2_feat_out"),
        ("dense_3", "dense_3_feat_in", "dense_3_feat_out"),
    ];
    let mut inputs = c.embedding_length;
    for (name, from, to) in names.into_iter().filter(|(name, ..)| tensors(&format!("{name}.weight"))) {
        let found = keys.size_or(from, inputs)?;
        if found != inputs {
            return Err(keys.bad(from, found, inputs.to_string()));
        }
        inputs = keys.size_or(to, c.embedding_length)?;
        dense.push((name, inputs));
    }
    let (mut ctx, x) = layers(c, keys, tensors, [Mask::Full, Mask::Around(0)])?;
    ctx.dense = dense;
    let x = ctx.global_norm("result_norm", x, "output_norm"); // [rows, hidden]
    Ok(ctx.embeddings(x, Activation::Identity))
}

/// The rows after the last layer, `[rows, hidden]`, with the masks of global and of local layers.
fn layers<'a>(
    c: &'a Config,
    keys: &mut Keys<'_>,
    tensors: Tensors<'a>,
    [global_mask, local_mask]: [Mask; 2],
) -> Result<(GraphContext<'a>, ValueId), Error> {
    let hidden = c.embedding_length;
    let widths = keys.ffn_widths()?;
    let mut global =
        Attention { qk_norm: QkNorm::Head, ..Attention::read(c, keys, Pairing::Halves, &[Scaling::Linear])? };
    global.mask = global_mask;
    if c.block_count == LAYERS_27B {
        global.scale = 1.0 / ((hidden / global.heads[0]) as f32).sqrt();
    }
    let window = keys.count("attention.sliding_window")?;
    let is_local = keys.pattern("attention.sliding_window_pattern", 6)?;
    // ollama's names of the two bases, which predate llama.cpp's.
    let theta = keys.positive_or("rope.local.freq_base", 10_000.0)?;
    let theta = keys.positive_or("rope.freq_base_swa", theta)?;
    if let Some(rope) = &mut global.rope {
        let theta = keys.positive_or("rope.global.freq_base", rope.theta)?;
        rope.theta = if keys.has("rope.freq_base") { rope.theta } else { theta };
    }
    let rope = global.rope.map(|rope| Rope { theta, scale: 1.0, ..rope });
    let mask = local_mask.with_size(window).unwrap_or(local_mask);
    let local = Attention { mask, rope, ..global.clone() };
    let mut ctx = GraphContext::new(c, keys.rms_epsilon_or(1e-6)?, tensors);

    let attention = |il: usize| -> &dyn Mixer { if window > 0 && is_local[il] { &local } else { &global } };
    let x = ctx.embed("embd"); // [rows, hidden]
    let x = ctx.g.scale("inp_scaled", x, (hidden as f32).sqrt());
    let x = LAYER.stack(&mut ctx, x, attention, |ctx, il, h| ctx.geglu(il, h, widths[il]));
    Ok((ctx, x))
}
