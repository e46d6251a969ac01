//! Size and layout of the KV cache, and its blocks.

use std::ops::Range;

use bytemuck::Zeroable;
use graph::{Graph, Group, Store};

use crate::{Error, MemoryKind, Remedy};

/// Positions per block.
pub const KV_BLOCK: usize = 32;

/// Storage type of keys or of values. FP8 is [`quant::E4M3`], without scales. Q8_0 and Q4_0 have a scale for each 32 columns of
/// a head, or for fewer in the last block of a head.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names say it")]
pub enum KvType {
    F32,
    #[default]
    F16,
    BF16,
    FP8,
    Q8_0,
    Q4_0,
}

#[expect(missing_docs, reason = "the names say it")]
impl KvType {
    pub const ALL: [KvType; 6] =
        [KvType::F32, KvType::F16, KvType::BF16, KvType::FP8, KvType::Q8_0, KvType::Q4_0];

    pub fn name(self) -> &'static str {
        match self {
            KvType::F32 => "f32",
            KvType::F16 => "f16",
            KvType::BF16 => "bf16",
            KvType::FP8 => "fp8",
            KvType::Q8_0 => "q8_0",
            KvType::Q4_0 => "q4_0",
        }
    }

    /// Bytes of `dim` columns of one position and head, saturating.
    pub fn row_bytes(self, dim: usize) -> usize {
        match self {
            KvType::F32 => dim.saturating_mul(4),
            KvType::F16 | KvType::BF16 => dim.saturating_mul(2),
            KvType::FP8 => dim,
            KvType::Q8_0 => dim.div_ceil(32).saturating_mul(34),
            KvType::Q4_0 => dim.div_ceil(32).saturating_mul(18),
        }
    }
}

/// Storage types of keys and values.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names say it")]
pub struct KvFormat {
    pub k: KvType,
    pub v: KvType,
}

impl KvFormat {
    /// Both in F16.
    pub const F16: KvFormat = KvFormat { k: KvType::F16, v: KvType::F16 };
    /// Both in F32.
    pub const F32: KvFormat = KvFormat { k: KvType::F32, v: KvType::F32 };

    /// Bytes of one position and head of `store`, saturating.
    pub fn row_bytes(self, store: &Store) -> usize {
        self.k.row_bytes(store.k_dim).saturating_add(self.v.row_bytes(store.v_dim))
    }
}

impl std::fmt::Display for KvFormat {
    /// Such as `f16`, or `q8_0/f16` for K and V of two types.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let KvFormat { k, v } = *self;
        if k == v { f.write_str(k.name()) } else { write!(f, "{}/{}", k.name(), v.name()) }
    }
}

/// Text that names no K/V types.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("expected one of f32, f16, bf16, fp8, q8_0 and q4_0, or two of them as in q8_0/f16")]
pub struct UnknownKvFormat;

impl std::str::FromStr for KvFormat {
    type Err = UnknownKvFormat;

    /// The inverse of [`Display`](std::fmt::Display).
    fn from_str(text: &str) -> Result<KvFormat, UnknownKvFormat> {
        let (k, v) = text.split_once('/').unwrap_or((text, text));
        let named = |name| KvType::ALL.into_iter().find(|kind| kind.name() == name).ok_or(UnknownKvFormat);
        Ok(KvFormat { k: named(k)?, v: named(v)? })
    }
}

/// Size and format of the KV cache. All sequences share blocks and slots.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names say it")]
pub struct KvLayout {
    /// Maximum positions per sequence.
    pub n_ctx: usize,
    /// By group of [`Graph::groups`].
    pub blocks: Vec<usize>,
    /// For the state of recurrent operations; 0 if the graph has none.
    pub slots: usize,
    pub format: KvFormat,
}

/// Blocks that are freed late, so that a sequence can roll back and recompute its last positions while the window before
/// them is still cached.
const SLACK: usize = 1;

/// Slots per sequence: the state before a step, the state after it, and checkpoints that a later request continues from.
pub const SLOTS: usize = 4;

impl KvLayout {
    /// A cache for `sequences` sequences of up to `n_ctx` positions and steps of up to `n_batch` rows. Groups without a
    /// window get blocks for all positions; groups with one get blocks for the windows and the rows of a step.
    pub fn new(graph: &Graph, n_ctx: usize, sequences: usize, n_batch: usize, format: KvFormat) -> KvLayout {
        let blocks = graph.groups().iter().map(|group| blocks_for(*group, n_ctx, sequences, n_batch));
        let slots = if graph.state_values() > 0 { sequences.saturating_mul(SLOTS) } else { 0 };
        KvLayout { n_ctx, blocks: blocks.collect(), slots, format }
    }

    /// The same number of blocks for every group, and at least as many slots; one sequence may use all of them.
    pub fn uniform(graph: &Graph, blocks: usize, format: KvFormat) -> KvLayout {
        let n_ctx = blocks.saturating_mul(KV_BLOCK);
        let slots = if graph.state_values() > 0 { blocks.max(1) } else { 0 };
        KvLayout { n_ctx, blocks: vec![blocks; graph.groups().len()], slots, format }
    }

    /// The layout of each store of `graph`.
    pub fn stores(&self, graph: &Graph) -> Vec<StoreLayout> {
        let layout = |(id, store): (_, &Store)| {
            let blocks = self.blocks.get(graph.store_group(id)).copied().unwrap_or(0);
            StoreLayout { store: *store, blocks, format: self.format }
        };
        graph.stores().map(layout).collect()
    }

    /// Total size in bytes of the stores and slots of `graph`, saturating.
    pub fn bytes(&self, graph: &Graph) -> u64 {
        let slots = self.slots.saturating_mul(graph.state_values()) as u64;
        let slots = slots.saturating_mul(size_of::<f32>() as u64);
        self.stores(graph).iter().fold(slots, |bytes, store| bytes.saturating_add(store.bytes()))
    }
}

/// Number of blocks that a group needs for `sequences` sequences.
fn blocks_for(group: Group, n_ctx: usize, sequences: usize, n_batch: usize) -> usize {
    let all = n_ctx.div_ceil(KV_BLOCK);
    let all_sequences = all.saturating_mul(sequences);
    let Some(span) = group.mask.span() else { return all_sequences };
    // A span and a step's rows may start and end inside a block, so that each needs one block more than it fills.
    let window = span.div_ceil(KV_BLOCK).saturating_add(2 + SLACK).min(all);
    window.saturating_mul(sequences).saturating_add(n_batch.div_ceil(KV_BLOCK)).min(all_sequences)
}

/// Index of the first block, counted from position 0, that a sequence with `cached` positions still needs.
pub fn first_needed_block(group: Group, cached: usize) -> usize {
    (group.mask.first_visible(cached) / KV_BLOCK).saturating_sub(SLACK)
}

/// The layout of one KV store: `blocks` blocks of [`KV_BLOCK`] positions, each with `heads` keys of `k_dim` columns and
/// `heads` values of `v_dim` columns. The order within a block is up to the backend.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "see above")]
pub struct StoreLayout {
    pub store: Store,
    pub blocks: usize,
    pub format: KvFormat,
}

impl StoreLayout {
    /// Saturating.
    pub fn bytes(&self) -> u64 {
        let factors = [self.store.heads, self.format.row_bytes(&self.store), self.blocks, KV_BLOCK];
        factors.iter().fold(1, |bytes: u64, &factor| bytes.saturating_mul(factor as u64))
    }

    /// Allocates zeroed keys or values, `dim` elements for each position and head; the system commits memory on first write.
    pub fn zeroed<T: Zeroable>(&self, dim: usize) -> Result<Vec<T>, Error> {
        let factors = [self.blocks, KV_BLOCK, self.store.heads, dim];
        let values = factors.iter().try_fold(1usize, |values, &factor| values.checked_mul(factor));
        let store = values.and_then(|values| bytemuck::allocation::try_zeroed_vec(values).ok());
        let (what, bytes, remedy) = ("the KV cache", self.bytes(), Remedy::SmallerContext);
        store.ok_or(Error::OutOfMemory { what, bytes, memory: MemoryKind::Host, remedy })
    }
}

/// The blocks of a sequence in a group of stores: position `p` is in `blocks[p / KV_BLOCK - first]`. Blocks before `first` were
/// freed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BlockTable {
    /// Index of the first allocated block, counted from position 0.
    pub first: usize,
    /// Indices into the store's blocks, from block `first` on.
    pub blocks: Vec<u32>,
}

impl BlockTable {
    /// A table that starts at position 0.
    pub fn new(blocks: impl IntoIterator<Item = u32>) -> BlockTable {
        BlockTable { first: 0, blocks: blocks.into_iter().collect() }
    }

    /// The positions that the table covers.
    pub fn positions(&self) -> Range<usize> {
        self.first * KV_BLOCK..(self.first + self.blocks.len()) * KV_BLOCK
    }

    /// The slot of `position`: block number, and offset within the block.
    pub fn slot(&self, position: usize) -> (usize, usize) {
        (self.blocks[position / KV_BLOCK - self.first] as usize, position % KV_BLOCK)
    }
}

#[cfg(test)]
mod tests {
    use graph::Mask;

    use super::*;

    #[test]
    fn formats_are_read_as_they_are_written() {
        for k in KvType::ALL {
            for v in KvType::ALL {
                let format = KvFormat { k, v };
                assert_eq!(format.to_string().parse(), Ok(format));
            }
            assert!(UnknownKvFormat.to_string().contains(k.name()), "{k:?} can be expected");
        }
        assert_eq!("fp8/".parse::<KvFormat>(), Err(UnknownKvFormat));
    }

    #[test]
    fn windows_bound_the_number_of_blocks() {
        let window = |window: Option<usize>| Group { mask: window.map_or(Mask::Causal, Mask::Window) };
        // All positions of two sequences.
        assert_eq!(blocks_for(window(None), 1000, 2, 512), 2 * 32);
        // 1024 positions span up to 33 blocks, the rows of a step one block more than they fill, and one block is slack.
        assert_eq!(blocks_for(window(Some(1024)), 32768, 1, 512), 32 + 3 + 16);
        assert_eq!(blocks_for(window(Some(1024)), 32768, 4, 512), 4 * 35 + 16);
        // Never more than all.
        assert_eq!(blocks_for(window(Some(1024)), 640, 1, 512), 20);
        assert_eq!(blocks_for(window(Some(usize::MAX)), usize::MAX, usize::MAX, 1), usize::MAX);
    }

    /// These blocks suffice for a sequence whatever the sizes of its steps.
    #[test]
    fn blocks_suffice_for_any_step_sizes() {
        for (window, n_batch) in [(1, 1), (31, 5), (32, 32), (33, 64), (100, 37), (100, 512)] {
            let group = Group { mask: Mask::Window(window) };
            let room = blocks_for(group, 5000, 1, n_batch);
            for first in 1..=n_batch.min(40) {
                let (mut cached, mut rows) = (0, first);
                while cached < 3000 {
                    let blocks = (cached + rows).div_ceil(KV_BLOCK) - first_needed_block(group, cached);
                    assert!(
                        blocks <= room,
                        "window {window}, {cached} cached, {rows} rows: {blocks} of {room}"
                    );
                    (cached, rows) = (cached + rows, n_batch);
                }
            }
        }
    }
}
