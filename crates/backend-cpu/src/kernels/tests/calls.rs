//! Calls of each kernel on pseudo-random values in buffers next to a guard page.

use backend::{BlockTable, KV_BLOCK, KvFormat, KvType, Row, Sequence, Step, StoreLayout};
use bytes::Bytes;
use graph::{Glu, Group, Map, Mask, NormKind, Pairing, Score};
use quant::Format;

use super::super::Kernels;
use crate::attention::{Attend, Heads};
use crate::kv::Kv;
use crate::packed::Packed;
use crate::packed::activations::{Activations, Form};
use crate::pool::Pool;
use crate::tests::guard::{self, Guarded, Side};

/// K and V of types that are converted first.
pub(super) const MIXED: KvFormat = KvFormat { k: KvType::Q8_0, v: KvType::BF16 };
pub(super) const FP8: KvFormat = KvFormat { k: KvType::FP8, v: KvType::FP8 };
pub(super) const QUANTISED: KvFormat = KvFormat { k: KvType::Q4_0, v: KvType::Q8_0 };

/// Calls kernels with all buffers on one side of a guard page.
#[derive(Clone, Copy)]
pub(super) struct Calls {
    pub(super) kernels: Kernels,
    pub(super) side: Side,
}

/// An attention test case.
#[derive(Clone, Copy, Debug)]
pub(super) struct Attention {
    pub(super) format: KvFormat,
    /// Query rows: the last ones of a sequence of `positions`.
    pub(super) rows: usize,
    pub(super) positions: usize,
    pub(super) heads: usize,
    pub(super) kv_heads: usize,
    pub(super) k_dim: usize,
    pub(super) v_dim: usize,
    /// The visible positions.
    pub(super) mask: Mask,
    /// Soft cap of scores.
    pub(super) cap: Option<f32>,
}

/// `len` values from -1 to 1.
fn values(len: usize, seed: usize) -> Vec<f32> {
    (0..len).map(|i| ((i * 7919 + seed * 104_729 + 13) % 1009) as f32 / 504.0 - 1.0).collect()
}

impl Calls {
    fn label(&self, what: std::fmt::Arguments<'_>) {
        guard::label(&format!("{} {what}, buffers at {:?}", self.kernels.isa.name(), self.side));
    }

    fn values(&self, len: usize, seed: usize) -> Guarded<f32> {
        Guarded::copy(&values(len, seed), self.side)
    }

    fn zeroed<T: bytemuck::Pod>(&self, len: usize) -> Guarded<T> {
        Guarded::zeroed(len, self.side).expect("enough memory")
    }

    /// Packed activations `[rows, cols]`.
    pub(super) fn pack(&self, form: Form, rows: usize, cols: usize) -> Guarded<u32> {
        let (x, mut words) = (self.values(rows * cols, 1), self.zeroed(rows * form.words(cols)));
        self.label(format_args!("packing of [{rows}, {cols}] to {form:?}"));
        (self.kernels.pack)(&x, rows, self.kernels.tile, form, &mut words);
        words
    }

    /// `[rows, cols]` times the transpose of `[n, cols]`, with packed and with mapped weights.
    pub(super) fn product(&self, format: Format, rows: usize, n: usize, cols: usize) -> Vec<f32> {
        let linear = self.kernels.linear(format);
        let words = self.pack(linear.form, rows, cols);
        let bytes = Guarded::copy(&testkit::random_matrix(format, n * cols, 0.1, 5), self.side);
        let mut pool = Pool::new(1);
        self.label(format_args!("packing of {format} [{n}, {cols}]"));
        let side = if let Side::End(_) = self.side { Side::End(0) } else { Side::Start(0) };
        let packed = guard::at(side, || linear.packed(&mut pool, &bytes, [1, n, cols]));
        let packed = packed.expect("enough memory").pop().expect("one matrix");
        let mut product = |weight: Packed, how: &str| {
            let mut y = self.zeroed(rows * n);
            self.label(format_args!("product of [{rows}, {cols}] and {format} [{n}, {cols}], {how}"));
            let x = Activations { words: &words, rows, cols, tile: self.kernels.tile };
            pool.tiles(&mut y, n, (rows, 64), |mut tile| (linear.multiply)(&weight, x, &mut tile));
            y.to_vec()
        };
        let mapped = product(Packed::mapped(Bytes::from_owner(bytes), n, cols), "mapped");
        let packed = product(packed, "packed");
        let same = packed.iter().zip(&mapped).all(|(a, b)| a.to_bits() == b.to_bits());
        assert!(same, "{} {format} [{n}, {cols}], {rows} rows: other bits mapped", self.kernels.isa.name());
        packed
    }

    pub(super) fn norm(&self, kind: NormKind, len: usize) -> Vec<f32> {
        let (mut y, x, weight) = (self.zeroed(len), self.values(len, 1), self.values(len, 2));
        self.label(format_args!("{} of {len} values", kind.name()));
        (self.kernels.norm)(kind, &mut y, &x, Some(&weight), 1e-5);
        y.to_vec()
    }

    /// Values range from -100 to 100.
    pub(super) fn map(&self, map: Map, len: usize) -> Vec<f32> {
        let (mut y, mut x) = (self.zeroed(len), self.values(len, 1));
        x.iter_mut().for_each(|x| *x *= x.abs() * 100.0);
        self.label(format_args!("{map:?} of {len} values"));
        (self.kernels.map)(map, &mut y, &x);
        y.to_vec()
    }

    /// Gates range from -100 to 100.
    pub(super) fn gate(&self, glu: Glu, len: usize) -> Vec<f32> {
        let (mut y, mut gate, up) = (self.zeroed(len), self.values(len, 1), self.values(len, 2));
        gate.iter_mut().for_each(|gate| *gate *= gate.abs() * 100.0);
        self.label(format_args!("{glu} of {len} values"));
        (self.kernels.gate)(glu, &mut y, &gate, &up);
        y.to_vec()
    }

    /// Ropes the first `dims` columns of each head.
    pub(super) fn rope(&self, pairing: Pairing, heads: usize, head_dim: usize, dims: usize) -> Vec<f32> {
        let (mut y, x) = (self.zeroed(heads * head_dim), self.values(heads * head_dim, 1));
        let cos_sin: Vec<[f32; 2]> = (0..dims / 2).map(|i| [(i as f32).cos(), (i as f32).sin()]).collect();
        let cos_sin = Guarded::copy(&cos_sin, self.side);
        self.label(format_args!("rotation of {dims} columns of {heads} heads of {head_dim}, {pairing:?}"));
        (self.kernels.rope)(&mut y, &x, head_dim, pairing, &cos_sin);
        y.to_vec()
    }

    /// `[rows, heads * v_dim]`. Blocks that no row sees are freed and overwritten first.
    pub(super) fn attend(&self, shape: Attention) -> Vec<f32> {
        let Attention { format, rows, positions, heads, kv_heads, k_dim, v_dim, mask, cap } = shape;
        let (blocks, group) = (positions.div_ceil(KV_BLOCK), Group { mask });
        let store = graph::Store { heads: kv_heads, k_dim, v_dim, mask };
        let layout = StoreLayout { store, blocks, format };
        let mut store = guard::at(self.side, || Kv::new(&layout)).expect("enough memory");
        let k = self.values(positions * kv_heads * k_dim, 1);
        let v = self.values(positions * kv_heads * v_dim, 2);
        self.label(format_args!("store for {shape:?}"));
        let mut write = |positions: usize, k: &[f32], v: &[f32]| {
            let sequence = Sequence::uniform(0, positions, 1, 0..blocks as u32);
            let step = Step::new(Row::logits(vec![0; positions], []), vec![sequence]).expect("a good step");
            (self.kernels.write_kv)(&mut store, 0, k, v, &step);
        };
        write(positions, &k, &v);
        let first = group.mask.first_visible(positions - rows) / KV_BLOCK;
        if first > 0 {
            let [k, v] = [k_dim, v_dim].map(|dim| vec![f32::NAN; first * KV_BLOCK * kv_heads * dim]);
            write(first * KV_BLOCK, &k, &v);
        }
        let table = BlockTable { first, blocks: (first as u32..blocks as u32).collect() };
        let tables = [table].into();
        let sequence = Sequence { n_past: positions - rows, len: rows, tables, ..Sequence::default() };
        let step = Step::new(Row::logits(vec![0; rows], []), vec![sequence]).expect("a good step");
        let (q, mut y) = (self.values(rows * heads * k_dim, 3), self.zeroed(rows * heads * v_dim));
        let at: Vec<_> = step.positions().collect();
        let (rows, q, group) = (&at[..], &q[..], (group, 0));
        let score = Score { scale: 3.0, cap, sinks: None, alibi: None };
        let sinks = None;
        self.label(format_args!("{shape:?}"));
        Pool::new(1).tiles(&mut y, heads * v_dim, (8, heads / kv_heads * v_dim), |tile| match &store {
            Kv::F16(store) => {
                let heads = Heads { store, group, rows, q, heads, kv_heads, score, sinks };
                (self.kernels.attend_f16)(Attend { heads, tile });
            }
            Kv::F32(store) => {
                let heads = Heads { store, group, rows, q, heads, kv_heads, score, sinks };
                (self.kernels.attend_f32)(Attend { heads, tile });
            }
            Kv::Packed(store) => {
                let heads = Heads { store, group, rows, q, heads, kv_heads, score, sinks };
                (self.kernels.attend_packed)(Attend { heads, tile });
            }
        });
        y.to_vec()
    }

    /// The same attention by its formula in f64, with K and V in f32.
    pub(super) fn attend_exactly(&self, shape: Attention) -> Vec<f64> {
        let Attention { format: _, rows, positions, heads, kv_heads, k_dim, v_dim, mask, cap } = shape;
        let k = values(positions * kv_heads * k_dim, 1);
        let v = values(positions * kv_heads * v_dim, 2);
        let q = values(rows * heads * k_dim, 3);
        let mut y = Vec::new();
        for (row, position) in (positions - rows..positions).enumerate() {
            for head in 0..heads {
                let q = &q[(row * heads + head) * k_dim..][..k_dim];
                let at = |p: usize| p * kv_heads + head * kv_heads / heads;
                let seen = mask.visible(position, positions);
                let powers: Vec<(usize, f64)> = seen
                    .map(|p| {
                        let dot =
                            q.iter().zip(&k[at(p) * k_dim..]).map(|(&q, &k)| f64::from(q) * f64::from(k));
                        let score = 3.0 * dot.sum::<f64>();
                        let cap = cap.map(f64::from);
                        (p, cap.map_or(score, |cap| cap * (score / cap).tanh()).exp())
                    })
                    .collect();
                let total: f64 = powers.iter().map(|(_, power)| power).sum();
                y.extend((0..v_dim).map(|d| {
                    powers
                        .iter()
                        .map(|&(p, power)| power / total * f64::from(v[at(p) * v_dim + d]))
                        .sum::<f64>()
                }));
            }
        }
        y
    }
}
