//! Sizes of the blocks of decode attention (`decode.cu`, `decode_bulk.cu`), and how many share a row's positions.

use backend::{BoundProgram, Error, KvType, PAGE, StoreLayout};
use graph::Op;
use passes::{MAX_SPLIT_ROWS, MAX_SPLITS, Splits};

use crate::driver::{Card, Device};
use crate::launch::F32;
use crate::occupancy::Block;

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

/// How attention is split: all blocks run at the same time. Splits of a row that are a cluster are as many as one may have.
pub(crate) fn splits(device: &Device, bound: &BoundProgram) -> Result<Splits, Error> {
    let stores = bound.model().stores();
    let mut splits = Splits { of_step: usize::MAX, of_row: MAX_SPLITS, block: PAGE };
    for (_, value) in bound.graph().values() {
        let Op::Attention { store, heads, .. } = value.op else { continue };
        let StoreLayout { store, format, .. } = stores[store.index()];
        let needed = bytes(&device.card, format.k, store.k_dim);
        let of_multiprocessor =
            device.limits.shared / (needed.iter().sum::<usize>() + device.limits.reserved);
        let of_split = store.heads * heads.div_ceil(store.heads.max(1)).div_ceil(HEADS);
        let most = device.multiprocessors * of_multiprocessor.clamp(1, MAX_BLOCKS) / of_split.max(1);
        splits.of_step = splits.of_step.min(most);
        if is_bulk(&device.card, format.k) && store.k_dim == store.v_dim && DIMS.contains(&store.k_dim) {
            let kernel = device.kernel(&format!("decode_bulk/decode_f16_{}", store.k_dim))?;
            let block = Block { threads: 32 * WARPS as u32, shared: needed[0] as u32 };
            splits.of_row =
                splits.of_row.min(largest_cluster(|size| device.active_clusters(kernel, block, size)));
        } else {
            splits.block = WARPS * GROUP;
        }
    }
    splits.of_step = splits.of_step.min(MAX_SPLITS * MAX_SPLIT_ROWS);
    Ok(splits)
}

/// Blocks of a cluster at most, of these kernels (`MAX_CLUSTER` in `kernels/decode_bulk.cu`), and on every card of 9.0.
const MAX_CLUSTER: usize = 16;
const PORTABLE_CLUSTER: usize = 8;

/// The largest cluster that the card has room for, if `active` clusters of a size run at the same time.
fn largest_cluster(active: impl Fn(usize) -> usize) -> usize {
    (PORTABLE_CLUSTER + 1..=MAX_CLUSTER).rev().find(|&size| active(size) > 0).unwrap_or(PORTABLE_CLUSTER)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Parts of a card with 14 multiprocessors, and one that tells nothing.
    #[test]
    fn clusters_have_room() {
        assert_eq!(largest_cluster(|size| 7 * (2 * 14 / size)), 16);
        assert_eq!(largest_cluster(|size| 8 * (14 / size)), 14);
        assert_eq!(largest_cluster(|_| 0), 8);
    }
}
