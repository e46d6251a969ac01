//! The K/V store: pages of 32 positions, by head.
//!
//! Keys lie across, `[dim][position in the page]`, so that one vector holds the scores of neighbouring
//! positions; values lie along, `[position in the page][dim]`.

use backend::{Error, KvFormat, KvLayout, PAGE, Span, Step};
use half::f16;

#[cfg(not(all(test, unix)))]
type Numbers<T> = Vec<T>;
/// The stores of tests end at a page that cannot be read.
#[cfg(all(test, unix))]
type Numbers<T> = crate::guard::Guarded<T>;

/// Keys and values of every layer.
#[derive(Debug)]
pub(crate) struct Kv {
    pub(crate) layout: KvLayout,
    pub(crate) layers: Vec<Layer>,
}

/// Keys and values of one layer.
#[derive(Debug)]
pub(crate) enum Layer {
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
    /// Rounded.
    fn narrow(x: f32) -> Self;
}

impl Stored for f16 {
    #[inline(always)]
    fn narrow(x: f32) -> f16 {
        f16::from_f32(x)
    }
}

impl Stored for f32 {
    #[inline(always)]
    fn narrow(x: f32) -> f32 {
        x
    }
}

impl Kv {
    /// An empty store. Its memory is the system's until it is written to.
    pub(crate) fn new(layout: KvLayout) -> Result<Kv, Error> {
        let layer = |_| {
            Ok(match layout.format {
                KvFormat::F16 => Layer::F16(Store::new(&layout)?),
                KvFormat::F32 => Layer::F32(Store::new(&layout)?),
            })
        };
        Ok(Kv { layout, layers: (0..layout.layers).map(layer).collect::<Result<_, Error>>()? })
    }
}

impl Layer {
    /// Writes the step's rows of keys and values, `[rows, heads * dim]`, to their positions.
    pub(crate) fn write(&mut self, k: &[f32], v: &[f32], step: &Step) {
        match self {
            Layer::F16(store) => store.write(k, v, step),
            Layer::F32(store) => store.write(k, v, step),
        }
    }
}

impl<T: Stored> Store<T> {
    fn new(layout: &KvLayout) -> Result<Store<T>, Error> {
        let KvLayout { kv_heads: heads, k_dim, v_dim, .. } = *layout;
        let (keys, values) = (layout.zeroed(k_dim)?, layout.zeroed(v_dim)?);
        #[cfg(all(test, unix))]
        let (keys, values) = (Numbers::beside(&keys), Numbers::beside(&values));
        Ok(Store { keys, values, heads, k_dim, v_dim })
    }

    fn write(&mut self, k: &[f32], v: &[f32], step: &Step) {
        let (of_k, of_v) = (self.heads * self.k_dim, self.heads * self.v_dim);
        for (row, (span, position)) in step.rows().enumerate() {
            let (page, place) = span.slot(position);
            for head in 0..self.heads {
                let k = &k[row * of_k + head * self.k_dim..][..self.k_dim];
                let v = &v[row * of_v + head * self.v_dim..][..self.v_dim];
                let first = (page * self.heads + head) * PAGE;
                let keys = &mut self.keys[first * self.k_dim..][..PAGE * self.k_dim];
                for (key, &k) in keys[place..].iter_mut().step_by(PAGE).zip(k) {
                    *key = T::narrow(k);
                }
                let values = &mut self.values[(first + place) * self.v_dim..][..self.v_dim];
                for (value, &v) in values.iter_mut().zip(v) {
                    *value = T::narrow(v);
                }
            }
        }
    }

    /// The page of `head` that holds `position`: keys `[dim][PAGE]` and values `[PAGE][dim]`.
    #[inline(always)]
    pub(crate) fn page(&self, span: &Span, head: usize, position: usize) -> (&[[T; PAGE]], &[T]) {
        let (page, _) = span.slot(position);
        let first = (page * self.heads + head) * PAGE;
        let keys = &self.keys[first * self.k_dim..][..PAGE * self.k_dim];
        (keys.as_chunks().0, &self.values[first * self.v_dim..][..PAGE * self.v_dim])
    }
}
