//! Architecture `qwen3`: Qwen 3, dense (Yang et al. 2025). Each head of queries and keys is normed before RoPE.

use graph::{Activation, Graph, Pairing};

use super::Family;
use crate::blocks::{ATTN_OUTPUT, Attention, Draft, FFN, feed_forward};
use crate::{Config, Error, Keys, Tensors};

pub(super) const FAMILY: Family = Family {
    name: "qwen3",
    // How the embedding models of the family make one row of many; what is computed before is the same.
    harmless: &["pooling_type"],
    graph,
};

fn graph(c: &Config, keys: &mut Keys<'_>, tensors: Tensors<'_>) -> Result<Graph, Error> {
    let widths = keys.sizes("feed_forward_length", "the width of the feed-forward network", c.block_count)?;
    let attention = Attention { has_qk_norm: true, ..Attention::read(c, keys, Pairing::Halves)? };
    let mut d = Draft::new(c, keys.rms_epsilon()?, tensors);

    let mut x = d.embed("embd"); // [rows, hidden]
    for (il, ffn) in widths.into_iter().enumerate() {
        let h = d.norm(("attn_norm", il), x, "attn_norm"); // [rows, hidden]
        let a = attention.attend(&mut d, il, h); // [rows, heads * value_length]
        let (a, residual) = d.keep_outputs(il, a, x);
        let a = d.project(&ATTN_OUTPUT, il, a, attention.output(&d, il)); // [rows, hidden]
        let a = d.g.add(("ffn_inp", il), a, residual);
        let h = d.norm(("ffn_norm", il), a, "ffn_norm"); // [rows, hidden]
        let h = feed_forward(&mut d, il, h, ffn, &FFN, Activation::Silu); // [rows, hidden]
        x = d.g.add(("l_out", il), h, a);
        d.g.end_layer(x);
    }
    Ok(d.logits(x))
}
