//! The K/V store: pages of 32 positions, each position of a head next to the one before it.

use backend::{Error, KvFormat, KvLayout, PAGE, Span, Step};
use half::f16;
use half::slice::HalfFloatSliceExt;

/// Keys and values of every layer.
#[derive(Debug)]
pub(crate) struct Kv {
    pub(crate) layout: KvLayout,
    pub(crate) layers: Vec<Layer>,
}

/// Keys and values of one layer.
#[derive(Debug)]
pub(crate) enum Layer {
    F16 { keys: Rows<f16>, values: Rows<f16> },
    F32 { keys: Rows<f32>, values: Rows<f32> },
}

/// Rows of `dim` values: `[page][head][place in the page][dim]`.
#[derive(Debug)]
pub(crate) struct Rows<T> {
    data: Vec<T>,
    heads: usize,
    dim: usize,
}

impl Kv {
    /// An empty store. Its memory is the system's until it is written to.
    pub(crate) fn new(layout: KvLayout) -> Result<Kv, Error> {
        let layer = |_| {
            Ok(match layout.format {
                KvFormat::F16 => Layer::F16 {
                    keys: Rows::new(&layout, layout.k_dim)?,
                    values: Rows::new(&layout, layout.v_dim)?,
                },
                KvFormat::F32 => Layer::F32 {
                    keys: Rows::new(&layout, layout.k_dim)?,
                    values: Rows::new(&layout, layout.v_dim)?,
                },
            })
        };
        Ok(Kv { layout, layers: (0..layout.layers).map(layer).collect::<Result<_, Error>>()? })
    }
}

impl Layer {
    /// Writes the step's rows of keys and values, `[rows, heads * dim]`, to their positions.
    pub(crate) fn write(&mut self, k: &[f32], v: &[f32], step: &Step) {
        match self {
            Layer::F16 { keys, values } => {
                keys.write(k, step, |x, row| row.convert_from_f32_slice(x));
                values.write(v, step, |x, row| row.convert_from_f32_slice(x));
            }
            Layer::F32 { keys, values } => {
                keys.write(k, step, |x, row| row.copy_from_slice(x));
                values.write(v, step, |x, row| row.copy_from_slice(x));
            }
        }
    }
}

impl<T: bytemuck::Zeroable> Rows<T> {
    fn new(layout: &KvLayout, dim: usize) -> Result<Rows<T>, Error> {
        Ok(Rows { data: layout.zeroed(dim)?, heads: layout.kv_heads, dim })
    }
}

impl<T> Rows<T> {
    fn write(&mut self, x: &[f32], step: &Step, narrow: impl Fn(&[f32], &mut [T])) {
        for (x, (span, position)) in x.chunks_exact(self.heads * self.dim).zip(step.rows()) {
            let (page, place) = span.slot(position);
            for (head, x) in x.chunks_exact(self.dim).enumerate() {
                let at = ((page * self.heads + head) * PAGE + place) * self.dim;
                narrow(x, &mut self.data[at..][..self.dim]);
            }
        }
    }

    /// The rows of `head` at the positions from `first`, a multiple of [`PAGE`], up to `end`, page by page.
    pub(crate) fn pages<'a>(
        &'a self,
        span: &'a Span,
        head: usize,
        first: usize,
        end: usize,
    ) -> impl Iterator<Item = &'a [T]> {
        (first..end).step_by(PAGE).map(move |position| {
            let (page, _) = span.slot(position);
            let at = (page * self.heads + head) * PAGE * self.dim;
            &self.data[at..][..PAGE.min(end - position) * self.dim]
        })
    }
}
