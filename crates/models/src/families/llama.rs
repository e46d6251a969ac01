//! Architecture `llama`: Llama 1 to 3 (Touvron et al. 2023), TinyLlama, Mistral 7B and what shares their tensors; with
//! experts Mixtral (Jiang et al. 2024).

use graph::{Activation, Graph, Pairing};

use super::Family;
use crate::blocks::{Attention, BIASED_ATTN_OUTPUT, BIASED_FFN, Draft, Moe, feed_forward};
use crate::{Config, Error, Keys, Tensors};

pub(super) const FAMILY: Family = Family { name: "llama", harmless: &[], graph };

fn graph(c: &Config, keys: &mut Keys<'_>, tensors: Tensors<'_>) -> Result<Graph, Error> {
    let widths = keys.sizes("feed_forward_length", "the width of the feed-forward network", c.block_count)?;
    let moe = Moe::read(keys)?;
    let mut attention = Attention::read(c, keys, Pairing::Interleaved)?;
    let mut d = Draft::new(c, keys.rms_epsilon()?, tensors);

    let mut x = d.embed("embd"); // [rows, hidden]
    attention.rope.factors = d.rope_factors(attention.rope.dims); // Llama 3.1 and later
    for (il, ffn) in widths.into_iter().enumerate() {
        let h = d.norm(("attn_norm", il), x, "attn_norm"); // [rows, hidden]
        let a = attention.attend(&mut d, il, h); // [rows, heads * value_length]
        let (a, residual) = d.keep_outputs(il, a, x);
        let a = d.project(&BIASED_ATTN_OUTPUT, il, a, attention.output(&d, il)); // [rows, hidden]
        let a = d.g.add(("ffn_inp", il), a, residual);
        let h = d.norm(("ffn_norm", il), a, "ffn_norm"); // [rows, hidden]
        let h = match &moe {
            None => feed_forward(&mut d, il, h, ffn, &BIASED_FFN, Activation::Silu),
            Some(moe) => moe.mix(&mut d, il, h, ffn)?,
        }; // [rows, hidden]
        x = d.g.add(("l_out", il), h, a);
        d.g.end_layer(x);
    }
    Ok(d.logits(x))
}
