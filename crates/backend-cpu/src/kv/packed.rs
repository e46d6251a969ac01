//! K and V of types of their own, which attention converts to f32 block by block.
//!
//! A block of K is `[dim][KV_BLOCK]` as in the other stores, one of V `[KV_BLOCK][dim]`. FP8 has no scales. Q8_0 and Q4_0 have an F16
//! scale for each 32 columns of a head, as ggml's blocks; the last block of a head may have fewer columns. Scales precede the
//! quants, K's `[block][KV_BLOCK]` and V's `[KV_BLOCK][block]`. A byte of Q4_0 holds the quants of positions `i` and `i + 16` (K) or
//! columns `i` and `i + 16` of a block (V).

use backend::{Error, KV_BLOCK, KvType, StoreLayout};
use half::{bf16, f16};
use quant::{Bf16Le, E4M3, F16Le};
use zerocopy::FromBytes;

use super::Buffer;
use crate::lanes::{LANES, Lanes};

/// Columns per block.
const BLOCK: usize = 32;

/// All keys or all values: `[block][head]`, each entry one block of one head.
#[derive(Debug)]
pub(crate) struct Side {
    kind: KvType,
    dim: usize,
    is_keys: bool,
    data: Buffer<u8>,
}

impl Side {
    pub(super) fn new(layout: &StoreLayout, is_keys: bool) -> Result<Side, Error> {
        let (format, store) = (layout.format, layout.store);
        let (kind, dim) = if is_keys { (format.k, store.k_dim) } else { (format.v, store.v_dim) };
        let data: Vec<u8> = layout.zeroed(kind.row_bytes(dim))?;
        #[cfg(all(test, unix))]
        let data = Buffer::beside(&data);
        Ok(Side { kind, dim, is_keys, data })
    }

    fn blocks(&self) -> usize {
        self.dim.div_ceil(BLOCK)
    }

    fn entry(&self, entry: usize) -> std::ops::Range<usize> {
        let bytes = KV_BLOCK * self.kind.row_bytes(self.dim);
        entry * bytes..(entry + 1) * bytes
    }

    /// The bytes of some entries.
    pub(super) fn entries(&mut self, entries: std::ops::Range<usize>) -> &mut [u8] {
        let range = self.entry(entries.start).start..self.entry(entries.end).start;
        &mut self.data[range]
    }

    /// The first bytes of an entry.
    pub(super) fn bytes(&self, entry: usize) -> *const u8 {
        self.data[self.entry(entry)].as_ptr()
    }

    /// Stores the row `x` of a head at position `offset` of an entry.
    #[inline(always)]
    pub(super) fn write(&mut self, entry: usize, offset: usize, x: &[f32]) {
        let (range, blocks, dim, is_keys) = (self.entry(entry), self.blocks(), self.dim, self.is_keys);
        let data = &mut self.data[range];
        let at = |d: usize| if is_keys { d * KV_BLOCK + offset } else { offset * dim + d };
        match self.kind {
            KvType::F32 => {
                for (d, x) in x.iter().enumerate() {
                    data[4 * at(d)..][..4].copy_from_slice(&x.to_le_bytes());
                }
            }
            KvType::F16 => {
                for (d, &x) in x.iter().enumerate() {
                    data[2 * at(d)..][..2].copy_from_slice(&f16::from_f32(x).to_le_bytes());
                }
            }
            KvType::BF16 => {
                for (d, &x) in x.iter().enumerate() {
                    data[2 * at(d)..][..2].copy_from_slice(&bf16::from_f32(x).to_le_bytes());
                }
            }
            KvType::FP8 => {
                for (d, &x) in x.iter().enumerate() {
                    data[at(d)] = E4M3::nearest(x).0;
                }
            }
            KvType::Q8_0 | KvType::Q4_0 => {
                let (scales, quants) = data.split_at_mut(2 * blocks * KV_BLOCK);
                for (b, x) in x.chunks(BLOCK).enumerate() {
                    let scale = if is_keys { b * KV_BLOCK + offset } else { offset * blocks + b };
                    let is_q8 = self.kind == KvType::Q8_0;
                    let (d, q) = if is_q8 { quantize_q8(x) } else { quantize_q4(x) };
                    scales[2 * scale..][..2].copy_from_slice(&f16::from_f32(d).to_le_bytes());
                    for (i, &q) in q[..x.len()].iter().enumerate() {
                        let column = b * BLOCK + i;
                        if is_q8 {
                            let at = if is_keys {
                                column * KV_BLOCK + offset
                            } else {
                                offset * blocks * BLOCK + column
                            };
                            quants[at] = q as u8;
                            continue;
                        }
                        // The bytes of a column of K, or of a block of V, and the place among its 32 quants.
                        let (row, place) = if is_keys { (column, offset) } else { (offset * blocks + b, i) };
                        let (byte, shift) = (&mut quants[row * 16 + place % 16], place / 16 * 4);
                        *byte = *byte & !(15 << shift) | (q as u8) << shift;
                    }
                }
            }
        }
    }

    /// Converts an entry to f32: K `[dim][KV_BLOCK]`, V `[KV_BLOCK][dim]`. Prefetches as much from `ahead` on.
    #[inline(always)]
    pub(super) fn unpack<'a, L: Lanes>(
        &self,
        lanes: L,
        entry: usize,
        ahead: *const u8,
        to: &'a mut [f32],
    ) -> &'a [f32] {
        let range = self.entry(entry);
        for line in (0..range.len()).step_by(64) {
            lanes.prefetch(ahead.wrapping_add(line));
        }
        let (data, to) = (&self.data[range], &mut to[..KV_BLOCK * self.dim]);
        match self.kind {
            KvType::F32 => {
                for (to, from) in to.as_chunks_mut::<LANES>().0.iter_mut().zip(data.as_chunks::<64>().0) {
                    *to = bytemuck::pod_read_unaligned(from);
                }
            }
            KvType::F16 => {
                for (to, from) in to.as_chunks_mut::<LANES>().0.iter_mut().zip(data.as_chunks::<32>().0) {
                    lanes.store_f32(lanes.load_f16(halves(from)), to);
                }
            }
            KvType::BF16 => {
                for (to, from) in to.as_chunks_mut::<LANES>().0.iter_mut().zip(data.as_chunks::<32>().0) {
                    let from = <[Bf16Le; LANES]>::ref_from_bytes(from);
                    lanes.store_f32(lanes.load_bf16(from.unwrap_or_else(|_| unreachable!("32 bytes"))), to);
                }
            }
            KvType::FP8 => {
                let scale = lanes.splat(256.0);
                for (to, from) in to.as_chunks_mut::<LANES>().0.iter_mut().zip(data.as_chunks::<LANES>().0) {
                    let mut scaled = [F16Le([0; 2]); LANES];
                    for i in 0..LANES {
                        scaled[i] = F16Le(E4M3(from[i]).to_f16_bits_scaled().to_le_bytes());
                    }
                    lanes.store_f32(lanes.mul(lanes.load_f16(&scaled), scale), to);
                }
            }
            KvType::Q8_0 => self.unpack_blocks::<L, false>(lanes, data, to),
            KvType::Q4_0 => self.unpack_blocks::<L, true>(lanes, data, to),
        }
        to
    }

    #[inline(always)]
    fn unpack_blocks<L: Lanes, const NIBBLES: bool>(&self, lanes: L, data: &[u8], to: &mut [f32]) {
        let blocks = self.blocks();
        let (scales, quants) = data.split_at(2 * blocks * KV_BLOCK);
        if self.is_keys {
            for (d, to) in to.chunks_exact_mut(KV_BLOCK).enumerate() {
                let scales = scales[2 * KV_BLOCK * (d / BLOCK)..].as_chunks::<32>().0;
                let q = row::<NIBBLES>(quants, d);
                for half in 0..2 {
                    let scale = lanes.load_f16(halves(&scales[half]));
                    let values = lanes.mul(lanes.i8_to_f32(&q[half]), scale);
                    lanes.store_f32(values, (&mut to[half * LANES..][..LANES]).try_into().expect("sixteen"));
                }
            }
            return;
        }
        for (position, to) in to.chunks_exact_mut(self.dim).enumerate() {
            for (b, to) in to.chunks_mut(BLOCK).enumerate() {
                let at = position * blocks + b;
                let scale = lanes.splat(f16::from_le_bytes([scales[2 * at], scales[2 * at + 1]]).to_f32());
                let q = row::<NIBBLES>(quants, at);
                for (half, to) in to.chunks_mut(LANES).enumerate() {
                    let mut values = [0.0; LANES];
                    lanes.store_f32(lanes.mul(lanes.i8_to_f32(&q[half]), scale), &mut values);
                    to.copy_from_slice(&values[..to.len()]);
                }
            }
        }
    }
}

/// The 32 quants of row `at`, a byte or a nibble each.
#[inline(always)]
fn row<const NIBBLES: bool>(quants: &[u8], at: usize) -> [[i8; LANES]; 2] {
    let mut q = [[0; LANES]; 2];
    for half in 0..2 {
        for i in 0..LANES {
            q[half][i] = if NIBBLES {
                (quants[at * 16 + i] >> (4 * half) & 15) as i8 - 8
            } else {
                quants[at * 32 + half * LANES + i] as i8
            };
        }
    }
    q
}

fn halves(bytes: &[u8; 32]) -> &[F16Le; LANES] {
    <[F16Le; LANES]>::ref_from_bytes(bytes).unwrap_or_else(|_| unreachable!("32 bytes"))
}

/// The value of largest magnitude; NaN if one is not finite.
#[inline(always)]
fn extreme(x: &[f32]) -> f32 {
    let mut extreme = 0.0f32;
    for &x in x {
        if !x.is_finite() {
            return f32::NAN;
        }
        extreme = if x.abs() > extreme.abs() { x } else { extreme };
    }
    extreme
}

/// Scale and quants, as ggml's `quantize_row_q8_0_ref`.
#[inline(always)]
fn quantize_q8(x: &[f32]) -> (f32, [i8; BLOCK]) {
    let d = extreme(x).abs() / 127.0;
    (d, quantize(x, d, |v| v.round() as i8))
}

/// Scale and quants, 0 to 15, as ggml's `quantize_row_q4_0_ref`.
#[inline(always)]
fn quantize_q4(x: &[f32]) -> (f32, [i8; BLOCK]) {
    let d = extreme(x) / -8.0;
    (d, quantize(x, d, |v| (v + 8.5).clamp(0.0, 15.0) as i8))
}

#[inline(always)]
fn quantize(x: &[f32], d: f32, round: impl Fn(f32) -> i8) -> [i8; BLOCK] {
    let inverse = if d == 0.0 { 0.0 } else { 1.0 / d };
    let mut q = [0; BLOCK];
    for (q, &x) in q.iter_mut().zip(x) {
        *q = round(x * inverse);
    }
    q
}

#[cfg(test)]
mod tests {
    use backend::KvFormat;
    use graph::{Mask, Store};

    use super::*;
    use crate::lanes::scalar::Scalar;

    /// Values of both signs, one large, and their round trip at the last position of an entry, as K and as V.
    fn round_trip(kind: KvType, dim: usize, is_keys: bool) -> (Vec<f32>, Vec<f32>) {
        let store = Store { heads: 1, k_dim: dim, v_dim: dim, mask: Mask::Causal };
        let layout = StoreLayout { store, blocks: 2, format: KvFormat { k: kind, v: kind } };
        let mut side = Side::new(&layout, is_keys).expect("enough memory");
        let row = |seed: usize| -> Vec<f32> {
            (0..dim).map(|i| ((i * 37 + seed * 11) % 101) as f32 * 0.37 - 17.0).collect()
        };
        for position in 0..KV_BLOCK {
            side.write(1, position, &row(position));
            side.write(1, position, &row(position + 1));
        }
        let mut block = vec![0.0; KV_BLOCK * dim];
        side.unpack(Scalar, 1, side.bytes(1), &mut block);
        let at =
            |position: usize, d: usize| if is_keys { d * KV_BLOCK + position } else { position * dim + d };
        let found = (0..KV_BLOCK).flat_map(|position| (0..dim).map(move |d| (position, d)));
        let found = found.map(|(position, d)| block[at(position, d)]).collect();
        ((0..KV_BLOCK).flat_map(|position| row(position + 1)).collect(), found)
    }

    /// Of FP8 half of 1/8. Of Q8_0 half a step of 1/127 of a block's largest magnitude; of Q4_0 half of 1/8, and a whole step at the other end.
    #[test]
    fn rows_come_back_within_half_a_step() {
        for kind in KvType::ALL {
            for (dim, is_keys) in [(1, true), (20, false), (32, true), (64, false), (71, true), (71, false)] {
                let (x, y) = round_trip(kind, dim, is_keys);
                for (x, y) in x.chunks(dim).zip(y.chunks(dim)) {
                    for (x, y) in x.chunks(BLOCK).zip(y.chunks(BLOCK)) {
                        let largest = x.iter().fold(0.0f32, |most, x| most.max(x.abs()));
                        for (&x, &y) in x.iter().zip(y) {
                            let most = match kind {
                                KvType::F32 => 0.0,
                                KvType::F16 => x.abs() / 2047.0,
                                KvType::BF16 => x.abs() / 255.0,
                                KvType::FP8 => x.abs() / 16.0,
                                KvType::Q8_0 => largest / 127.0 * 0.56,
                                KvType::Q4_0 => largest / 8.0 * 1.01,
                            };
                            assert!((x - y).abs() <= most, "{kind:?} {dim}: {x} became {y}");
                        }
                    }
                }
            }
        }
    }

    #[test]
    fn what_is_not_finite_stays_visible() {
        for x in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
            for (d, _) in [quantize_q8(&[1.0, x]), quantize_q4(&[1.0, x])] {
                assert!(d.is_nan());
            }
            assert!(E4M3::nearest(x).to_f32().is_nan());
        }
    }
}
