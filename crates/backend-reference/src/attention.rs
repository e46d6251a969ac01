//! KV store and attention.

use backend::{Error, KV_BLOCK, Sequence, Step, StoreLayout};
use graph::Score;

use crate::sums::{dot, f64s, softcap};

/// The f32 keys and values of one store: `[block * KV_BLOCK + offset][head][dim]`.
#[derive(Debug)]
pub(crate) struct Store {
    declared: graph::Store,
    keys: Vec<f32>,
    values: Vec<f32>,
}

impl Store {
    pub(crate) fn new(layout: &StoreLayout) -> Result<Store, Error> {
        let declared = layout.store;
        Ok(Store { declared, keys: layout.zeroed(declared.k_dim)?, values: layout.zeroed(declared.v_dim)? })
    }

    /// Writes each row of `k` and `v` to its slot.
    pub(crate) fn write(&mut self, k: &[f32], v: &[f32], step: &Step, group: usize) {
        let graph::Store { heads, k_dim, v_dim, .. } = self.declared;
        for (store, x, cols) in [(&mut self.keys, k, heads * k_dim), (&mut self.values, v, heads * v_dim)] {
            for (x, (sequence, position)) in x.chunks_exact(cols).zip(step.positions()) {
                store[slot(sequence, group, position) * cols..][..cols].copy_from_slice(x);
            }
        }
    }

    pub(crate) fn block(&mut self, block: usize) -> [&mut [u8]; 2] {
        let graph::Store { heads, k_dim, v_dim, .. } = self.declared;
        [(&mut self.keys, heads * k_dim), (&mut self.values, heads * v_dim)].map(|(store, cols)| {
            bytemuck::cast_slice_mut(&mut store[block * KV_BLOCK * cols..][..KV_BLOCK * cols])
        })
    }
}

/// The slot of a position in every store of a group.
fn slot(sequence: &Sequence, group: usize, position: usize) -> usize {
    let (block, offset) = sequence.tables[group].slot(position);
    block * KV_BLOCK + offset
}

/// Attention for each row and head: the average of the visible values, weighted by the softmax of their scores.
pub(crate) fn attend(
    out: &mut [f32],
    q: &[f32],
    store: &Store,
    heads: usize,
    (score, sinks): (Score, Option<&[f32]>),
    step: &Step,
    group: usize,
) {
    let graph::Store { heads: kv_heads, k_dim, v_dim, .. } = store.declared;
    let scaled = |product: f64| {
        let scaled = f64::from(score.scale) * product;
        score.cap.map_or(scaled, |cap| softcap(scaled, cap))
    };
    let mut mean = vec![0.0f64; v_dim];
    // One allocation each for all rows and keys: tests spend much of their time here.
    let (mut slots, mut key, mut scores) = (Vec::new(), vec![0.0f64; k_dim], Vec::new());
    for (row, (sequence, position)) in step.positions().enumerate() {
        let visible = sequence.visible(store.declared.mask, position);
        slots.clear();
        slots.extend(visible.clone().map(|p| slot(sequence, group, p)));
        for head in 0..heads {
            let kv_head = head / (heads / kv_heads);
            let q = f64s(&q[(row * heads + head) * k_dim..][..k_dim]);
            let slope = f64::from(score.slope(head, heads));
            scores.clear();
            for (p, slot) in visible.clone().zip(&slots) {
                let stored = &store.keys[(slot * kv_heads + kv_head) * k_dim..][..k_dim];
                key.iter_mut().zip(stored).for_each(|(key, &k)| *key = f64::from(k));
                scores.push(scaled(dot(&q, &key)) - slope * p.abs_diff(position) as f64);
            }
            let sink = sinks.map_or(f64::NEG_INFINITY, |sinks| f64::from(sinks[head]));
            let max = scores.iter().copied().fold(sink, f64::max);
            // From here on the numerators of the softmax.
            scores.iter_mut().for_each(|score| *score = (*score - max).exp());
            let total = (sink - max).exp() + scores.iter().sum::<f64>();
            mean.fill(0.0);
            for (score, slot) in scores.iter().zip(&slots) {
                let weight = score / total;
                let values = &store.values[(slot * kv_heads + kv_head) * v_dim..][..v_dim];
                mean.iter_mut().zip(values).for_each(|(mean, &v)| *mean += weight * f64::from(v));
            }
            let out = out[(row * heads + head) * v_dim..][..v_dim].iter_mut();
            out.zip(&mean).for_each(|(y, &mean)| *y = mean as f32);
        }
    }
}
