//! The K/V cache's shape.

use bytemuck::Zeroable;
use graph::{Graph, Op};

use crate::Error;

/// Positions a page.
pub const PAGE: usize = 32;

/// How keys and values are stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum KvFormat {
    /// 16-bit floats.
    #[default]
    F16,
    /// 32-bit floats.
    F32,
}

impl KvFormat {
    /// Bytes a value.
    pub fn bytes(self) -> usize {
        match self {
            KvFormat::F16 => 2,
            KvFormat::F32 => 4,
        }
    }
}

/// The shape of a K/V store: for each layer, `pages` pages of [`PAGE`] positions; for each position
/// `kv_heads` keys of `k_dim` values and as many values of `v_dim`. How a page lies in memory is the
/// backend's own business.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KvLayout {
    /// Attention layers.
    pub layers: usize,
    /// Key and value heads a layer.
    pub kv_heads: usize,
    /// Values of a key.
    pub k_dim: usize,
    /// Values of a value.
    pub v_dim: usize,
    /// Pages, shared by all sequences; the same page numbers serve every layer.
    pub pages: usize,
    /// How they are stored.
    pub format: KvFormat,
}

impl KvLayout {
    /// The store that `graph` needs; none when it does not attend.
    pub fn of(graph: &Graph, pages: usize, format: KvFormat) -> Option<KvLayout> {
        graph.values().find_map(|(_, value)| match value.op {
            Op::Attention { k, v, kv_heads, .. } => {
                let dim = |x| graph.value(x).cols / kv_heads;
                let layers = graph.layers();
                Some(KvLayout { layers, kv_heads, k_dim: dim(k), v_dim: dim(v), pages, format })
            }
            _ => None,
        })
    }

    /// Bytes of the whole store; the largest number when there is none so large.
    pub fn bytes(&self) -> u64 {
        let factors = [self.layers, self.kv_heads, self.k_dim.saturating_add(self.v_dim), self.pages, PAGE];
        factors.iter().fold(self.format.bytes() as u64, |bytes, &factor| bytes.saturating_mul(factor as u64))
    }

    /// The keys (`dim` = `k_dim`) or values (`v_dim`) of one layer, all zero. The memory is the system's
    /// until it is written to.
    ///
    /// # Errors
    /// When there is no room for it.
    pub fn zeroed<T: Zeroable>(&self, dim: usize) -> Result<Vec<T>, Error> {
        let factors = [self.pages, PAGE, self.kv_heads, dim];
        let values = factors.iter().try_fold(1usize, |values, &factor| values.checked_mul(factor));
        let store = values.and_then(|values| bytemuck::allocation::try_zeroed_vec(values).ok());
        store.ok_or(Error::OutOfMemory {
            what: "the K/V cache",
            bytes: self.bytes(),
            hint: "ask for a smaller context",
        })
    }

    /// Whether the store serves an attention of this shape; the error says what differs.
    pub fn fits(&self, layer: usize, kv_heads: usize, k_dim: usize, v_dim: usize) -> Result<(), String> {
        if layer >= self.layers {
            return Err(format!("it has {} layers, layer {layer} is needed", self.layers));
        }
        let (found, needed) = ((self.kv_heads, self.k_dim, self.v_dim), (kv_heads, k_dim, v_dim));
        if found != needed {
            return Err(format!("(kv heads, key width, value width) are {found:?}, {needed:?} are needed"));
        }
        Ok(())
    }
}
