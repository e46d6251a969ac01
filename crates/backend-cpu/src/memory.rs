//! Memory for weights and values: zeroed, on lines of their own.

// Weights of tests end at a page that cannot be read.
#[cfg(not(all(test, unix)))]
use memmap2::MmapMut as Map;

#[cfg(all(test, unix))]
use crate::guard::Map;
use crate::lanes::BYTES;

/// A cache line.
#[derive(Clone, Copy, Debug, bytemuck::Zeroable, bytemuck::Pod)]
#[repr(C, align(64))]
pub(crate) struct Line(pub(crate) [u8; BYTES]);

/// Lines of memory of their own.
#[derive(Debug)]
pub(crate) struct Lines(Map);

impl Lines {
    /// `len` lines, of zeros, which the system gives when they are touched.
    ///
    /// # Errors
    /// When the system has no room.
    pub(crate) fn new(len: usize) -> std::io::Result<Lines> {
        let map = Map::map_anon(len.max(1) * BYTES)?;
        Ok(Lines(map))
    }

    /// The same for weights.
    ///
    /// A thread that streams weights crosses a page of 4 KB every quarter of a microsecond, and the
    /// processor's prefetcher stops at each; pages of 2 MB are asked for, which a system may refuse.
    ///
    /// # Errors
    /// When the system has no room.
    pub(crate) fn large(len: usize) -> std::io::Result<Lines> {
        let lines = Lines::new(len)?;
        #[cfg(all(target_os = "linux", not(test)))]
        let _ = lines.0.advise(memmap2::Advice::HugePage);
        Ok(lines)
    }

    /// All of them.
    #[inline(always)]
    pub(crate) fn all(&self) -> &[Line] {
        bytemuck::cast_slice(&self.0)
    }

    /// All of them.
    pub(crate) fn all_mut(&mut self) -> &mut [Line] {
        bytemuck::cast_slice_mut(&mut self.0)
    }
}

/// Rows of numbers on lines of their own.
#[derive(Debug, Default)]
pub(crate) struct Buffer {
    lines: Option<Lines>,
    len: usize,
}

impl Buffer {
    /// The numbers.
    pub(crate) fn numbers(&self) -> &[f32] {
        let lines = self.lines.as_ref().map_or(&[][..], Lines::all);
        &bytemuck::cast_slice(lines)[..self.len]
    }

    /// The numbers.
    pub(crate) fn numbers_mut(&mut self) -> &mut [f32] {
        let lines = self.lines.as_mut().map_or(&mut [][..], Lines::all_mut);
        &mut bytemuck::cast_slice_mut(lines)[..self.len]
    }

    /// Has `len` numbers from now on: those that were there before, or any.
    ///
    /// # Errors
    /// When the system has no room; there are no numbers then.
    pub(crate) fn resize(&mut self, len: usize) -> std::io::Result<()> {
        let needed = len.div_ceil(BYTES / size_of::<f32>());
        self.len = 0;
        if self.lines.as_ref().is_none_or(|lines| lines.all().len() < needed) {
            self.lines = None;
            self.lines = Some(Lines::new(needed)?);
        }
        self.len = len;
        Ok(())
    }
}
