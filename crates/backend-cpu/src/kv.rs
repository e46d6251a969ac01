//! The paged KV cache of one store: blocks of 32 positions, per head.
//!
//! K is transposed, `[dim][position in block]`, so that one vector holds the scores of neighbouring positions. V is
//! `[position in block][dim]`.

mod packed;

use backend::{Error, KV_BLOCK, KvFormat, Step, StoreLayout};
use half::f16;
use quant::F16Le;
use zerocopy::FromBytes;

use crate::lanes::{LANES, Lanes, WithSimd};
use packed::Side;

#[cfg(not(all(test, unix)))]
type Buffer<T> = Vec<T>;
/// In tests, a guard page follows the cache.
#[cfg(all(test, unix))]
type Buffer<T> = crate::tests::guard::Guarded<T>;

/// K and V of one store of the graph.
#[derive(Debug)]
pub(crate) enum Kv {
    F16(Store<f16>),
    F32(Store<f32>),
    Packed(Packed),
}

/// K and V of types that attention converts first.
#[derive(Debug)]
pub(crate) struct Packed {
    keys: Side,
    values: Side,
    heads: usize,
}

/// K and V in type `T`: `[block][head]`, each entry one block of one head.
#[derive(Debug)]
pub(crate) struct Store<T> {
    keys: Buffer<T>,
    values: Buffer<T>,
    heads: usize,
    k_dim: usize,
    v_dim: usize,
}

/// A storage type of the cache.
pub(crate) trait Stored: bytemuck::Pod + Send + Sync {
    /// Converts 16 values to f32.
    fn widen<L: Lanes>(lanes: L, values: &[Self; LANES]) -> L::Floats;
    fn round<L: Lanes>(lanes: L, floats: L::Floats) -> [Self; LANES];
}

impl Stored for f16 {
    #[inline(always)]
    fn widen<L: Lanes>(lanes: L, values: &[f16; LANES]) -> L::Floats {
        let bytes: &[u8] = bytemuck::cast_slice(values);
        lanes.load_f16(<[F16Le; LANES]>::ref_from_bytes(bytes).unwrap_or_else(|_| unreachable!("32 bytes")))
    }

    #[inline(always)]
    fn round<L: Lanes>(lanes: L, floats: L::Floats) -> [f16; LANES] {
        bytemuck::cast(lanes.to_f16(floats))
    }
}

impl Stored for f32 {
    #[inline(always)]
    fn widen<L: Lanes>(lanes: L, values: &[f32; LANES]) -> L::Floats {
        lanes.load_f32(values)
    }

    #[inline(always)]
    fn round<L: Lanes>(lanes: L, floats: L::Floats) -> [f32; LANES] {
        let mut values = [0.0; LANES];
        lanes.store_f32(floats, &mut values);
        values
    }
}

impl Kv {
    /// An empty store. The system commits its memory on first write.
    pub(crate) fn new(layout: &StoreLayout) -> Result<Kv, Error> {
        Ok(match layout.format {
            KvFormat::F16 => Kv::F16(Store::new(layout)?),
            KvFormat::F32 => Kv::F32(Store::new(layout)?),
            _ => Kv::Packed(Packed {
                keys: Side::new(layout, true)?,
                values: Side::new(layout, false)?,
                heads: layout.store.heads,
            }),
        })
    }

    /// The keys and values of a block.
    pub(crate) fn block(&mut self, block: usize) -> [&mut [u8]; 2] {
        match self {
            Kv::F16(store) => store.bytes(block),
            Kv::F32(store) => store.bytes(block),
            Kv::Packed(Packed { keys, values, heads }) => {
                [keys, values].map(|side| side.entries(block * *heads..(block + 1) * *heads))
            }
        }
    }
}

/// Writes the step's K and V rows, `[rows, heads * dim]`, to their slots in a store of group `group`.
pub(crate) struct Write<'a> {
    pub(crate) store: &'a mut Kv,
    pub(crate) group: usize,
    pub(crate) k: &'a [f32],
    pub(crate) v: &'a [f32],
    pub(crate) step: &'a Step,
}

impl WithSimd for Write<'_> {
    #[inline(always)]
    fn with_simd<L: Lanes>(self, lanes: L) {
        let Write { store, group, k, v, step } = self;
        match store {
            Kv::F16(store) => store.write(lanes, group, k, v, step),
            Kv::F32(store) => store.write(lanes, group, k, v, step),
            Kv::Packed(store) => store.write(group, k, v, step),
        }
    }
}

/// Where attention finds blocks of K and V. An entry is one block of one head, block by block.
pub(crate) trait Blocks: Sync {
    type Item: Stored;

    /// Whether blocks have to be converted before they are read.
    const IS_PACKED: bool;

    /// The first byte of an entry of K or of V.
    fn start<const IS_V: bool>(&self, entry: usize) -> *const u8;

    /// An entry: K is `[dim][KV_BLOCK]`, V `[KV_BLOCK][dim]`.
    fn block<const IS_V: bool>(&self, entry: usize) -> &[Self::Item];

    /// Converts an entry to f32; prefetches as much from `ahead` on.
    fn convert<'a, L: Lanes, const IS_V: bool>(
        &self,
        lanes: L,
        entry: usize,
        ahead: *const u8,
        to: &'a mut [f32],
    ) -> &'a [f32];
}

impl<T: Stored> Blocks for Store<T> {
    type Item = T;
    const IS_PACKED: bool = false;

    #[inline(always)]
    fn start<const IS_V: bool>(&self, entry: usize) -> *const u8 {
        self.block::<IS_V>(entry).as_ptr().cast()
    }

    #[inline(always)]
    fn block<const IS_V: bool>(&self, entry: usize) -> &[T] {
        let (side, dim) = if IS_V { (&self.values, self.v_dim) } else { (&self.keys, self.k_dim) };
        &side[entry * KV_BLOCK * dim..][..KV_BLOCK * dim]
    }

    #[inline(always)]
    fn convert<'a, L: Lanes, const IS_V: bool>(
        &self,
        lanes: L,
        entry: usize,
        ahead: *const u8,
        to: &'a mut [f32],
    ) -> &'a [f32] {
        convert(lanes, self.block::<IS_V>(entry), ahead, to)
    }
}

impl Packed {
    #[inline(always)]
    fn side<const IS_V: bool>(&self) -> &Side {
        if IS_V { &self.values } else { &self.keys }
    }

    #[inline(always)]
    fn write(&mut self, group: usize, k: &[f32], v: &[f32], step: &Step) {
        let rows = step.rows().len().max(1);
        let [k_dim, v_dim] = [k, v].map(|x| x.len() / rows / self.heads);
        for (row, (sequence, position)) in step.positions().enumerate() {
            let (block, offset) = sequence.tables[group].slot(position);
            for head in 0..self.heads {
                let (entry, at) = (block * self.heads + head, row * self.heads + head);
                self.keys.write(entry, offset, &k[at * k_dim..][..k_dim]);
                self.values.write(entry, offset, &v[at * v_dim..][..v_dim]);
            }
        }
    }
}

impl Blocks for Packed {
    type Item = f32;
    const IS_PACKED: bool = true;

    #[inline(always)]
    fn start<const IS_V: bool>(&self, entry: usize) -> *const u8 {
        self.side::<IS_V>().bytes(entry)
    }

    fn block<const IS_V: bool>(&self, _: usize) -> &[f32] {
        unreachable!("packed blocks are converted")
    }

    #[inline(always)]
    fn convert<'a, L: Lanes, const IS_V: bool>(
        &self,
        lanes: L,
        entry: usize,
        ahead: *const u8,
        to: &'a mut [f32],
    ) -> &'a [f32] {
        self.side::<IS_V>().unpack(lanes, entry, ahead, to)
    }
}

/// Converts a block to f32, and prefetches the same number of values from `ahead` on.
#[inline(always)]
fn convert<'a, L: Lanes, T: Stored>(lanes: L, block: &[T], ahead: *const u8, to: &'a mut [f32]) -> &'a [f32] {
    let converted = &mut to[..block.len()];
    let (from, to) = (block.as_chunks::<{ 2 * LANES }>().0, converted.as_chunks_mut::<{ 2 * LANES }>().0);
    for (i, (from, to)) in from.iter().zip(to).enumerate() {
        lanes.prefetch(ahead.wrapping_add(i * size_of::<[T; 2 * LANES]>()));
        let (from, to) = (from.as_chunks::<LANES>().0, to.as_chunks_mut::<LANES>().0);
        lanes.store_f32(T::widen(lanes, &from[0]), &mut to[0]);
        lanes.store_f32(T::widen(lanes, &from[1]), &mut to[1]);
    }
    converted
}

impl<T: Stored> Store<T> {
    fn new(layout: &StoreLayout) -> Result<Store<T>, Error> {
        let graph::Store { heads, k_dim, v_dim, mask: _ } = layout.store;
        let (keys, values) = (layout.zeroed(k_dim)?, layout.zeroed(v_dim)?);
        #[cfg(all(test, unix))]
        let (keys, values) = (Buffer::beside(&keys), Buffer::beside(&values));
        Ok(Store { keys, values, heads, k_dim, v_dim })
    }

    fn bytes(&mut self, block: usize) -> [&mut [u8]; 2] {
        [(&mut self.keys, self.k_dim), (&mut self.values, self.v_dim)].map(|(side, dim)| {
            let len = self.heads * KV_BLOCK * dim;
            bytemuck::cast_slice_mut(&mut side[block * len..][..len])
        })
    }

    #[inline(always)]
    fn write<L: Lanes>(&mut self, lanes: L, group: usize, k: &[f32], v: &[f32], step: &Step) {
        let (k_cols, v_cols) = (self.heads * self.k_dim, self.heads * self.v_dim);
        for (row, (sequence, position)) in step.positions().enumerate() {
            let (block, offset) = sequence.tables[group].slot(position);
            for head in 0..self.heads {
                let k = &k[row * k_cols + head * self.k_dim..][..self.k_dim];
                let v = &v[row * v_cols + head * self.v_dim..][..self.v_dim];
                let first = (block * self.heads + head) * KV_BLOCK;
                let keys = &mut self.keys[first * self.k_dim..][..KV_BLOCK * self.k_dim];
                for (keys, k) in keys.chunks_mut(LANES * KV_BLOCK).zip(k.chunks(LANES)) {
                    let rounded = T::round(lanes, sixteen(lanes, k));
                    for d in 0..k.len() {
                        keys[d * KV_BLOCK + offset] = rounded[d];
                    }
                }
                let values = &mut self.values[(first + offset) * self.v_dim..][..self.v_dim];
                for (values, v) in values.chunks_mut(LANES).zip(v.chunks(LANES)) {
                    values.copy_from_slice(&T::round(lanes, sixteen(lanes, v))[..v.len()]);
                }
            }
        }
    }
}

/// Loads up to 16 values, padded with zeros.
#[inline(always)]
fn sixteen<L: Lanes>(lanes: L, values: &[f32]) -> L::Floats {
    if let Some(values) = values.as_array() {
        return lanes.load_f32(values);
    }
    let mut all = [0.0; LANES];
    all[..values.len()].copy_from_slice(values);
    lanes.load_f32(&all)
}
