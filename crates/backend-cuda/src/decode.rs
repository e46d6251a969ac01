//! Sizes of the blocks of decode attention (`decode.cu`, `decode_bulk.cu`), and how many share a row's positions.

use backend::{BoundProgram, KvType, StoreLayout};
use graph::Op;
use passes::Splits;

use crate::driver::{Card, Device};
use crate::launch::F32;

/// Columns of the heads of these kernels.
pub(crate) const DIMS: [usize; 3] = [64, 128, 256];

/// Warps of a block.
pub(crate) const WARPS: usize = 4;

/// Positions of a warp's stage, and its stages. `decode_bulk.cu` has one stage of a page.
const GROUP: usize = 16;
const STAGES: usize = 2;

/// Query heads of a block at most, of these kernels and of `attention.cu` (`MAX_HEADS` in `kernels/attention.cuh`).
pub(crate) const HEADS: usize = 8;

/// Blocks of a multiprocessor at most: those of heads of 64 columns have registers for four.
const MAX_BLOCKS: usize = 4;

/// Whether `decode_bulk.cu` has the kernel for a cache of this type.
pub(crate) fn is_bulk(card: &Card, kind: KvType) -> bool {
    kind == KvType::F16 && card.has_wgmma()
}

/// Shared memory of a block for heads of `dim` columns: by warp, its stages of keys and values, and a group of them in f16 if they
/// are stored in 8 bits; static memory, at most.
pub(crate) fn bytes(card: &Card, kind: KvType, dim: usize) -> [usize; 2] {
    let of_position = 2 * dim * size_of::<half::f16>();
    let stored = 2 * kind.row_bytes(dim);
    let converted = if stored < of_position { of_position } else { 0 };
    let queries = HEADS * (dim + 8) * F32;
    // Panels start at multiples of 1 KiB.
    let aligned = if is_bulk(card, kind) { 1024 } else { 0 };
    [WARPS * GROUP * (STAGES * stored + converted) + aligned, queries + of_position + 512]
}

/// How attention is split: all blocks run at the same time.
pub(crate) fn splits(device: &Device, bound: &BoundProgram) -> Splits {
    let stores = bound.model().stores();
    let most = |op: &Op| {
        let Op::Attention { store, heads, .. } = *op else { return None };
        let StoreLayout { store, format, .. } = stores[store.index()];
        let needed: usize = bytes(&device.card, format.k, store.k_dim).iter().sum();
        let of_multiprocessor = device.limits.shared / (needed + device.limits.reserved);
        let of_split = store.heads * heads.div_ceil(store.heads.max(1)).div_ceil(HEADS);
        Some(device.multiprocessors * of_multiprocessor.clamp(1, MAX_BLOCKS) / of_split.max(1))
    };
    let most = bound.graph().values().filter_map(|(_, value)| most(&value.op)).min();
    Splits { of_step: most.unwrap_or(1), block: WARPS * GROUP }
}
