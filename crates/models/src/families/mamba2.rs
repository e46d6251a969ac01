//! Architecture `mamba2`: Mamba 2 (Dao and Gu 2024). Layers have neither attention nor feed-forward networks.

use super::prelude::*;

pub(super) const FAMILY: Family = Family {
    name: "mamba2",
    // Sizes of attention and feed-forward networks, which no layer has.
    harmless: &[
        "attention.head_count",
        "attention.head_count_kv",
        "feed_forward_length",
        "rope.dimension_count",
    ],
    graph,
};

fn graph(c: &Config, keys: &mut Keys<'_>, tensors: Tensors<'_>) -> Result<Graph, Error> {
    let eps = keys.rms_epsilon()?;
    let mamba = Mamba::read(keys, eps)?;
    let mut ctx = GraphContext::new(c, eps, tensors);

    let mut x = ctx.embed("embd"); // [rows, hidden]
    for il in 0..c.block_count {
        x = mixer_layer(&mut ctx, il, x, &mamba); // [rows, hidden]
    }
    Ok(ctx.logits(x))
}
