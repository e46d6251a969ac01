//! Architecture `modern-bert`: ModernBERT (Warner et al. 2024). Norms have no biases and precede the blocks; the first of
//! every three layers attends to the whole sequence, the others to a symmetric window, with a RoPE base of their own.

use super::prelude::*;

pub(super) const FAMILY: Family =
    Family { name: "modern-bert", harmless: &["attention.layer_norm_rms_epsilon"], graph };

fn graph(c: &Config, keys: &mut Keys<'_>, tensors: Tensors<'_>) -> Result<Graph, Error> {
    let widths = keys.ffn_widths()?;
    let mask = full_mask(keys)?;
    let global = Attention { mask, ..Attention::read(c, keys, Pairing::Halves, LINEAR_OR_YARN)? };
    let window = keys.count("attention.sliding_window")?;
    let name = "attention.sliding_window_pattern";
    let is_local = keys.pattern_by(name, 3, |layer, period| layer % period != 0)?;
    let theta = keys.positive_or("rope.freq_base_swa", 10_000.0)?;
    let rope = global.rope.map(|rope| Rope { theta, scale: 1.0, ..rope });
    let local = Attention { mask: Mask::Around(window), rope, ..global.clone() };
    let act = activation(keys)?;
    let rank_pool = if keys.count_or("classifier.pooling_type", 1)? == 1 { Pool::Mean } else { Pool::First };
    let labels = labels(keys)?;
    let mut ctx = GraphContext::with_layer_norms(c, keys.layer_norm_epsilon()?, tensors);
    (ctx.labels, ctx.rank_pool) = (labels, rank_pool);
    let layer = Layer { norms_first_input: ctx.has("blk.0.attn_norm.weight"), ..PRE_NORM };

    let x = ctx.embed("embd"); // [rows, hidden]
    let x = ctx.global_norm("inp_norm", x, "token_embd_norm");
    let attention = |il: usize| -> &dyn Mixer { if window > 0 && is_local[il] { &local } else { &global } };
    let x = layer.stack(&mut ctx, x, attention, |ctx, il, h| ctx.fused_ffn(il, h, widths[il], act));
    let x = ctx.global_norm("result_norm", x, "output_norm");
    Ok(ctx.embeddings(x, Activation::GeluTanh))
}

/// The activation of the gate; llama.cpp takes names that it does not know as GELU, which are refused here. Of two names,
/// the first is the activation's, the second the unit's.
fn activation(keys: &mut Keys<'_>) -> Result<Activation, Error> {
    let name = keys.string("hidden_activation")?.unwrap_or("gelu");
    let act = match name {
        "gelu" | "geglu" => Activation::GeluTanh,
        "silu" | "swish" | "swiglu" => Activation::Silu,
        "relu" | "reglu" => Activation::Relu,
        _ => {
            let expected = "gelu, geglu, silu, swish, swiglu, relu or reglu";
            return Err(keys.bad("hidden_activation", name, expected));
        }
    };
    keys.mark("hidden_activation", name);
    Ok(act)
}
