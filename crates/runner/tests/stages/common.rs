//! A small model to cut into stages.

use std::collections::HashMap;

use backend::Weight;
use graph::{Builder, Graph, Mask, Store, StoreId};
use quant::Format;

pub(crate) const COLS: usize = 8;
pub(crate) const VOCAB: usize = 11;
pub(crate) const LAYERS: usize = 5;
pub(crate) const WINDOW: usize = 20;

/// The KV store of a layer.
#[derive(Clone, Copy)]
pub(crate) enum Kv {
    /// Its own store, with this mask.
    Own(Mask),
    /// The store of another layer, read only.
    Of(usize),
}

/// A model with these layers, each with attention over heads of 4 and linear operations.
pub(crate) fn model(layers: &[Kv]) -> (Graph, HashMap<String, Weight>) {
    let mut g = Builder::new();
    let table = g.weight("table", VOCAB, COLS);
    let mut x = g.embed("embd", table);
    let mut stores: Vec<StoreId> = Vec::new();
    for (layer, kv) in layers.iter().enumerate() {
        let mut linear = |name: &'static str, x| {
            let weight = g.weight(format!("{name}.{layer}"), COLS, COLS);
            g.linear((name, layer), x, weight)
        };
        let q = linear("q", x);
        let (k, v) = match kv {
            Kv::Own(_) => (Some(linear("k", x)), Some(linear("v", x))),
            Kv::Of(_) => (None, None),
        };
        let store = match *kv {
            Kv::Own(mask) => g.store(Store { heads: 2, k_dim: 4, v_dim: 4, mask }),
            Kv::Of(other) => stores[other],
        };
        stores.push(store);
        let kv = k.zip(v).map(|(k, v)| [k, v]);
        let attended = g.attention(("attended", layer), q, kv, store, 2, 0.5);
        let weight = g.weight(format!("out.{layer}"), COLS, COLS);
        let y = g.linear(("y", layer), attended, weight);
        x = g.add(("l_out", layer), x, y);
        g.end_layer(x);
    }
    let x = g.output_rows("outputs", x);
    let logits = g.linear("logits", x, table);
    let graph = g.finish(logits);
    let weights = graph.weights().map(|(id, weight)| {
        let values = (0..weight.rows * weight.cols).map(|i| ((i * 7 + id.index() * 13) as f32).sin() * 0.5);
        let bytes: Vec<u8> = values.flat_map(f32::to_le_bytes).collect();
        (weight.name.clone(), Weight::matrix(Format::F32, weight.rows, weight.cols, bytes.into()))
    });
    let weights = weights.collect();
    (graph, weights)
}

pub(crate) fn dense() -> (Graph, HashMap<String, Weight>) {
    model(&[Kv::Own(Mask::Causal); LAYERS])
}
