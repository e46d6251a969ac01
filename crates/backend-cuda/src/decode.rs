//! Sizes of the blocks of `decode.cu`, attention of single rows, and how many share a row's positions.

use backend::StoreLayout;
use passes::Splits;

use crate::driver::Device;
use crate::launch::F32;

/// Columns of the heads of `decode.cu`.
pub(crate) const DIMS: [usize; 3] = [64, 128, 256];

/// Warps of a block of `decode.cu`, and blocks of a multiprocessor at most.
pub(crate) const WARPS: usize = 4;
const MAX_BLOCKS: usize = 4;

/// Shared memory of a block of `decode.cu` for heads of `dim` columns: by warp, two stages of 16 keys and values in f16; static
/// memory, at most.
pub(crate) fn bytes(dim: usize) -> [usize; 2] {
    let queries = 8 * (dim + 8) * F32 + 2 * dim * size_of::<half::f16>();
    let merged = 2 * 8 * 64 * F32 + 512;
    [WARPS * 2 * 2 * 16 * dim * size_of::<half::f16>(), queries + merged]
}

/// How attention is split: blocks of all multiprocessors run at the same time.
pub(crate) fn splits(device: &Device, stores: &[StoreLayout]) -> Splits {
    let blocks = |layout: &StoreLayout| {
        let needed: usize = bytes(layout.store.k_dim).iter().sum();
        let of_multiprocessor =
            (device.limits.shared / (needed + device.limits.reserved)).clamp(1, MAX_BLOCKS);
        device.multiprocessors * of_multiprocessor / layout.store.heads.max(1)
    };
    Splits { of_step: stores.iter().map(blocks).min().unwrap_or(1), block: WARPS * 16 }
}
