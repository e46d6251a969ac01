//! Memory for weights: zeroed, and on large pages where the system has them.

// Weights of tests end at a page that cannot be read.
#[cfg(not(all(test, unix)))]
use memmap2::MmapMut as Map;

#[cfg(all(test, unix))]
use crate::guard::Map;
use crate::lanes::BYTES;

/// A cache line.
#[derive(Clone, Copy, Debug, bytemuck::Zeroable, bytemuck::Pod)]
#[repr(C, align(64))]
pub(super) struct Line(pub(super) [u8; BYTES]);

/// Lines of memory of their own.
#[derive(Debug)]
pub(super) struct Lines(Map);

impl Lines {
    /// `len` lines, of zeros.
    ///
    /// A thread that streams weights crosses a page of 4 KB every quarter of a microsecond, and the
    /// processor's prefetcher stops at each; pages of 2 MB are asked for, which a system may refuse.
    ///
    /// # Errors
    /// When the system has no room.
    pub(super) fn new(len: usize) -> std::io::Result<Lines> {
        let map = Map::map_anon(len.max(1) * BYTES)?;
        #[cfg(all(target_os = "linux", not(test)))]
        let _ = map.advise(memmap2::Advice::HugePage);
        Ok(Lines(map))
    }

    /// All of them.
    #[inline(always)]
    pub(super) fn all(&self) -> &[Line] {
        bytemuck::cast_slice(&self.0)
    }

    /// All of them.
    pub(super) fn all_mut(&mut self) -> &mut [Line] {
        bytemuck::cast_slice_mut(&mut self.0)
    }
}
