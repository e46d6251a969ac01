//! A K/V store: pages of 32 positions, by head.
//!
//! Keys lie across, `[dim][position in the page]`, so that one vector holds the scores of neighbouring
//! positions; values lie along, `[position in the page][dim]`.

use backend::{BlockTable, Error, KvFormat, PAGE, Step, StoreLayout};
use half::f16;
use quant::F16Le;
use zerocopy::FromBytes;

use crate::lanes::{LANES, Lanes, Work};

#[cfg(not(all(test, unix)))]
type Numbers<T> = Vec<T>;
/// The stores of tests end at a page that cannot be read.
#[cfg(all(test, unix))]
type Numbers<T> = crate::guard::Guarded<T>;

/// Keys and values of one store of the graph.
#[derive(Debug)]
pub(crate) enum Kv {
    F16(Store<f16>),
    F32(Store<f32>),
}

/// Keys and values as numbers of type `T`: `[page][head]` of a page of a head.
#[derive(Debug)]
pub(crate) struct Store<T> {
    keys: Numbers<T>,
    values: Numbers<T>,
    heads: usize,
    k_dim: usize,
    v_dim: usize,
}

/// A number of the store.
pub(crate) trait Stored: bytemuck::Pod + Send + Sync {
    /// Sixteen numbers.
    fn widen<L: Lanes>(lanes: L, numbers: &[Self; LANES]) -> L::Floats;
    /// Sixteen numbers, rounded.
    fn narrow<L: Lanes>(lanes: L, floats: L::Floats) -> [Self; LANES];
}

impl Stored for f16 {
    #[inline(always)]
    fn widen<L: Lanes>(lanes: L, numbers: &[f16; LANES]) -> L::Floats {
        let bytes: &[u8] = bytemuck::cast_slice(numbers);
        lanes.halves(<[F16Le; LANES]>::ref_from_bytes(bytes).unwrap_or_else(|_| unreachable!("32 bytes")))
    }

    #[inline(always)]
    fn narrow<L: Lanes>(lanes: L, floats: L::Floats) -> [f16; LANES] {
        bytemuck::cast(lanes.to_halves(floats))
    }
}

impl Stored for f32 {
    #[inline(always)]
    fn widen<L: Lanes>(lanes: L, numbers: &[f32; LANES]) -> L::Floats {
        lanes.floats(numbers)
    }

    #[inline(always)]
    fn narrow<L: Lanes>(lanes: L, floats: L::Floats) -> [f32; LANES] {
        let mut numbers = [0.0; LANES];
        lanes.put(floats, &mut numbers);
        numbers
    }
}

impl Kv {
    /// An empty store. Its memory is the system's until it is written to.
    pub(crate) fn new(layout: &StoreLayout) -> Result<Kv, Error> {
        Ok(match layout.format {
            KvFormat::F16 => Kv::F16(Store::new(layout)?),
            KvFormat::F32 => Kv::F32(Store::new(layout)?),
        })
    }
}

/// Writes the step's rows of keys and values, `[rows, heads * dim]`, to their positions in a store of group `group`.
pub(crate) struct Write<'a> {
    pub(crate) store: &'a mut Kv,
    pub(crate) group: usize,
    pub(crate) k: &'a [f32],
    pub(crate) v: &'a [f32],
    pub(crate) step: &'a Step,
}

impl Work for Write<'_> {
    #[inline(always)]
    fn work<L: Lanes>(self, lanes: L) {
        let Write { store, group, k, v, step } = self;
        match store {
            Kv::F16(store) => store.write(lanes, group, k, v, step),
            Kv::F32(store) => store.write(lanes, group, k, v, step),
        }
    }
}

impl<T: Stored> Store<T> {
    fn new(layout: &StoreLayout) -> Result<Store<T>, Error> {
        let graph::Store { heads, k_dim, v_dim, window: _ } = layout.store;
        let (keys, values) = (layout.zeroed(k_dim)?, layout.zeroed(v_dim)?);
        #[cfg(all(test, unix))]
        let (keys, values) = (Numbers::beside(&keys), Numbers::beside(&values));
        Ok(Store { keys, values, heads, k_dim, v_dim })
    }

    #[inline(always)]
    fn write<L: Lanes>(&mut self, lanes: L, group: usize, k: &[f32], v: &[f32], step: &Step) {
        let (of_k, of_v) = (self.heads * self.k_dim, self.heads * self.v_dim);
        for (row, (sequence, position)) in step.rows().enumerate() {
            let (page, offset) = sequence.tables[group].slot(position);
            for head in 0..self.heads {
                let k = &k[row * of_k + head * self.k_dim..][..self.k_dim];
                let v = &v[row * of_v + head * self.v_dim..][..self.v_dim];
                let first = (page * self.heads + head) * PAGE;
                let keys = &mut self.keys[first * self.k_dim..][..PAGE * self.k_dim];
                for (keys, k) in keys.chunks_mut(LANES * PAGE).zip(k.chunks(LANES)) {
                    let narrow = T::narrow(lanes, sixteen(lanes, k));
                    for d in 0..k.len() {
                        keys[d * PAGE + offset] = narrow[d];
                    }
                }
                let values = &mut self.values[(first + offset) * self.v_dim..][..self.v_dim];
                for (values, v) in values.chunks_mut(LANES).zip(v.chunks(LANES)) {
                    values.copy_from_slice(&T::narrow(lanes, sixteen(lanes, v))[..v.len()]);
                }
            }
        }
    }

    /// The page of `head` that holds `position`: keys `[dim][PAGE]` and values `[PAGE][dim]`.
    #[inline(always)]
    pub(crate) fn page(&self, table: &BlockTable, head: usize, position: usize) -> (&[[T; PAGE]], &[T]) {
        let (page, _) = table.slot(position);
        let first = (page * self.heads + head) * PAGE;
        let keys = &self.keys[first * self.k_dim..][..PAGE * self.k_dim];
        (keys.as_chunks().0, &self.values[first * self.v_dim..][..PAGE * self.v_dim])
    }
}

/// Up to sixteen numbers, and zeros.
#[inline(always)]
fn sixteen<L: Lanes>(lanes: L, numbers: &[f32]) -> L::Floats {
    if let Some(numbers) = numbers.as_array() {
        return lanes.floats(numbers);
    }
    let mut all = [0.0; LANES];
    all[..numbers.len()].copy_from_slice(numbers);
    lanes.floats(&all)
}
