//! Sizes of the blocks of GEMV kernels, which compute with any number of warps.
//!
//! A GEMV kernel has one block per multiprocessor. The next kernel's block already fills its ring there while the kernel before
//! runs. But a multiprocessor with room for two blocks could get both of the same kernel: it would need twice as long, while
//! another has none. So blocks of consecutive kernels come in two forms: one takes more than half of the shared memory, the
//! other more than half of the registers. Two of the same form do not fit, one of each does.

/// What a multiprocessor has, and what a block may have of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Limits {
    pub(crate) registers: usize,
    /// Shared memory in bytes, and how much of it a block takes besides its own.
    pub(crate) shared: usize,
    pub(crate) reserved: usize,
    /// Shared memory of a block in bytes, its static part included.
    pub(crate) block_shared: usize,
    /// Whether kernels run side by side (programmatic dependent launch).
    pub(crate) is_side_by_side: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Needs {
    /// Registers of a thread, threads of a block at most, static shared memory in bytes.
    pub(crate) registers: usize,
    pub(crate) threads: usize,
    pub(crate) fixed: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Block {
    pub(crate) threads: u32,
    /// Dynamic shared memory in bytes.
    pub(crate) shared: u32,
}

/// Warps where kernels do not run side by side, and two blocks of a kernel share a multiprocessor.
const WARPS_OF_TWO: usize = 8;

/// Warps of a block that has a multiprocessor for itself.
const WARPS_OF_ONE: usize = 16;

impl Limits {
    /// Blocks of a kernel per multiprocessor.
    pub(crate) fn blocks(&self) -> usize {
        if self.is_side_by_side { 1 } else { 2 }
    }

    /// Both forms of a kernel's blocks, with `shared` bytes and `per_warp` more per warp.
    pub(crate) fn forms(&self, needs: Needs, shared: usize, per_warp: usize) -> [Block; 2] {
        let Limits { registers, block_shared, is_side_by_side, .. } = *self;
        let taken = needs.fixed + self.reserved;
        let more_than_half = (self.shared / 2 + 1).saturating_sub(taken).next_multiple_of(16);
        let bytes = |warps: usize, at_least: usize| (shared + warps * per_warp).max(at_least);
        let block =
            |warps, at_least| Block { threads: 32 * warps as u32, shared: bytes(warps, at_least) as u32 };
        let most = (block_shared.saturating_sub(needs.fixed + shared) / per_warp.max(1)).max(1);
        if !is_side_by_side {
            return [block(WARPS_OF_TWO.min(most), 0); 2];
        }
        // Registers are given out to warps, 8 to a thread at a time, by each quarter of a multiprocessor.
        let room = registers / 4 / (32 * needs.registers.next_multiple_of(8)) * 4;
        let many = room / 2 + 1;
        let few = room.saturating_sub(many).max(1);
        let fits = bytes(few, more_than_half) + bytes(many, 0) + 2 * taken <= self.shared
            && few + many <= room
            && few.max(many) <= most
            && 32 * many <= needs.threads;
        if fits {
            [block(few, more_than_half), block(many, 0)]
        } else {
            [block(WARPS_OF_ONE.min(needs.threads / 32).min(room.max(1)).min(most), more_than_half); 2]
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An H100.
    const HOPPER: Limits = Limits {
        registers: 65536,
        shared: 228 << 10,
        reserved: 1 << 10,
        block_shared: 227 << 10,
        is_side_by_side: true,
    };

    const NEEDS: Needs = Needs { registers: 64, threads: 1024, fixed: 5136 };

    /// Whether two blocks fit in a multiprocessor.
    fn fit(a: Block, b: Block, needs: Needs) -> bool {
        let warps = (a.threads + b.threads) as usize / 32;
        let shared = (a.shared + b.shared) as usize + 2 * (needs.fixed + HOPPER.reserved);
        let per_quarter = HOPPER.registers / 4 / (32 * needs.registers.next_multiple_of(8));
        warps <= 4 * per_quarter && shared <= HOPPER.shared
    }

    #[test]
    fn blocks_of_one_form_do_not_share_a_multiprocessor() {
        for registers in [57, 64, 83, 100, 120, 128] {
            for (shared, per_warp) in [(5 << 10, 4608), (18 << 10, 5040), (23_680, 5040), (20 << 10, 4352)] {
                let needs = Needs { registers, ..NEEDS };
                let [a, b] = HOPPER.forms(needs, shared, per_warp);
                assert!(fit(a, b, needs) && a != b, "{registers} registers: {a:?} {b:?}");
                assert!(!fit(a, a, needs) && !fit(b, b, needs), "{registers} registers: {a:?} {b:?}");
            }
        }
    }

    /// A block's shared memory holds the rings of bulk copies (`ring_bytes`; here those of Q4_K, Q6_K and Q8_0), activations of 4,096 or
    /// 14,336 columns, and sums. Blocks of both forms must fit together.
    #[test]
    fn bulk_copies_have_both_forms() {
        for registers in [48, 56] {
            for (shared, per_warp) in
                [6 << 10, 18_112].into_iter().flat_map(|shared| [3504, 3424, 4384].map(|ring| (shared, ring)))
            {
                let needs = Needs { registers, fixed: 400, ..NEEDS };
                let [a, b] = HOPPER.forms(needs, shared, per_warp);
                assert!(fit(a, b, needs) && !fit(a, a, needs) && !fit(b, b, needs), "{a:?} {b:?}");
            }
        }
    }

    #[test]
    fn large_blocks_have_a_multiprocessor_for_themselves() {
        for (shared, per_warp) in [(150 << 10, 4608), (0, 12 << 10), (0, 16 << 10)] {
            let [a, b] = HOPPER.forms(NEEDS, shared, per_warp);
            assert!(a == b && !fit(a, b, NEEDS), "{a:?}");
            assert!(a.shared as usize + NEEDS.fixed <= HOPPER.block_shared, "{a:?}");
            assert_eq!((a.shared as usize - shared) / per_warp, a.threads as usize / 32);
        }
    }

    /// An RTX 3090.
    #[test]
    fn small_multiprocessors_have_fewer_warps() {
        let limits = Limits { shared: 100 << 10, block_shared: 99 << 10, is_side_by_side: false, ..HOPPER };
        let threads =
            |shared, per_warp| limits.forms(NEEDS, shared, per_warp).map(|block| block.threads / 32);
        assert_eq!(threads(5 << 10, 4608), [8, 8]);
        assert_eq!(threads(0, 16 << 10), [5, 5]);
        assert_eq!(limits.blocks(), 2);
    }
}
