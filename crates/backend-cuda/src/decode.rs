//! Sizes of the blocks of decode attention (`decode.cu`, `decode_bulk.cu`), and how many share a row's positions.

use backend::{BoundProgram, Error, KV_BLOCK, KvType, StoreLayout};
use gpu::{Clusters, F32, Splits};
use graph::{Op, Store};

use crate::driver::{Card, Device};
use crate::occupancy::Block;

/// Whether these kernels have heads and caches of this layout.
pub(crate) fn has_kernel(layout: &StoreLayout) -> bool {
    let Store { k_dim, v_dim, .. } = layout.store;
    layout.format.k != KvType::F32 && k_dim == v_dim && [64, 128, 256].contains(&k_dim)
}

pub(crate) const WARPS: usize = 4;

/// Positions of a warp's stage, and its stages. `decode_bulk.cu` has one stage of a block.
const GROUP: usize = 16;
const STAGES: usize = 2;

/// Maximum query heads per block, here and in `attention.cu` (`MAX_HEADS` in `kernels/attention.cuh`).
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
    let position = 2 * dim * size_of::<half::f16>();
    let stored = 2 * kind.row_bytes(dim);
    let converted = if stored < position { position } else { 0 };
    let queries = HEADS * (dim + 8) * F32;
    // Panels start at multiples of 1 KiB.
    let aligned = if is_bulk(card, kind) { 1024 } else { 0 };
    [WARPS * GROUP * (STAGES * stored + converted) + aligned, queries + position + 512]
}

pub(crate) fn bulk_kernel(dim: usize, in_cluster: bool) -> String {
    format!("decode_bulk/decode_f16_{dim}{}", if in_cluster { "_cluster" } else { "" })
}

/// How attention is split, by group of stores: all blocks run at the same time.
pub(crate) fn splits(device: &Device, bound: &BoundProgram) -> Result<Vec<Splits>, Error> {
    let stores = bound.model().stores();
    // Heads, layouts and groups that differ.
    let mut kinds = Vec::new();
    for (_, value) in bound.graph().values() {
        let Op::Attention { store, heads, .. } = value.op else { continue };
        let kind = (bound.graph().store_group(store), heads, stores[store.index()]);
        if !kinds.contains(&kind) {
            kinds.push(kind);
        }
    }
    let group_splits = |group| {
        let own = || kinds.iter().filter(move |kind| kind.0 == group);
        let most = own().map(|(_, heads, layout)| {
            let needed: usize = bytes(&device.card, layout.format.k, layout.store.k_dim).iter().sum();
            let blocks = device.limits.shared / (needed + device.limits.reserved);
            let blocks = device.multiprocessors * blocks.clamp(1, MAX_BLOCKS);
            blocks / split_blocks(&layout.store, *heads).max(1)
        });
        let per_step = most.min().unwrap_or(1);
        // Heads of two kinds under one mask have no clusters, and splits that suit all kernels.
        match own().collect::<Vec<_>>()[..] {
            [(_, heads, layout)] if has_kernel(layout) && is_bulk(&device.card, layout.format.k) => {
                let clusters = Some(clusters(device, layout, *heads)?);
                Ok(Splits { per_step, block: KV_BLOCK, clusters })
            }
            _ => Ok(Splits { per_step, block: WARPS * GROUP, clusters: None }),
        }
    };
    (0..bound.graph().groups().len()).map(group_splits).collect()
}

/// Blocks of a split, each of up to [`HEADS`] query heads of a K/V head.
fn split_blocks(store: &Store, heads: usize) -> usize {
    store.heads * heads.div_ceil(store.heads.max(1)).div_ceil(HEADS)
}

/// The clusters of `decode_bulk.cu` that the card has room for.
fn clusters(device: &Device, layout: &StoreLayout, heads: usize) -> Result<Clusters, Error> {
    let dim = layout.store.k_dim;
    let kernel = device.kernel(&bulk_kernel(dim, true))?;
    let block =
        Block { threads: 32 * WARPS as u32, shared: bytes(&device.card, layout.format.k, dim)[0] as u32 };
    let active = |size| if size > 1 { device.active_clusters(kernel, block, size) } else { 0 };
    Ok(Clusters {
        active: std::array::from_fn(active),
        per_row: split_blocks(&layout.store, heads),
        busy: device.multiprocessors,
        position_bytes: 2 * layout.format.k.row_bytes(dim),
    })
}

#[cfg(test)]
mod tests {
    /// The kernel merges as many blocks as a cluster may have.
    #[test]
    fn clusters_are_not_larger_than_the_kernel_merges() {
        let source = include_str!("../kernels/decode_bulk.cu");
        assert!(source.contains(&format!("constexpr u32 MAX_CLUSTER = {};", gpu::MAX_CLUSTER)));
    }
}
