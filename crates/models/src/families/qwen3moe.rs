//! Architecture `qwen3moe`: Qwen 3 with experts in every layer (Yang et al. 2025).

use graph::{Graph, Pairing};

use super::Family;
use crate::blocks::{ATTN_OUTPUT, Attention, Draft, Moe};
use crate::{Config, Error, Keys, Tensors};

pub(super) const FAMILY: Family = Family {
    name: "qwen3moe",
    // The width of a feed-forward network that no layer has, where experts have a width of their own.
    harmless: &["feed_forward_length"],
    graph,
};

fn graph(c: &Config, keys: &mut Keys<'_>, tensors: Tensors<'_>) -> Result<Graph, Error> {
    let none = keys.missing("expert_count", "the number of experts");
    let moe = Moe::read(keys)?.ok_or(none)?;
    let widths = moe.widths(keys, c.block_count)?;
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
        let h = moe.mix(&mut d, il, h, ffn)?; // [rows, hidden]
        x = d.g.add(("l_out", il), h, a);
        d.g.end_layer(x);
    }
    Ok(d.logits(x))
}
