//! Zeroed, cache-line-aligned memory for weights and values.

use std::cell::Cell;

use bytemuck::Zeroable;
// In tests, a guard page follows the memory.
#[cfg(not(all(test, unix)))]
use memmap2::MmapMut as Map;

use crate::lanes::BYTES;
#[cfg(all(test, unix))]
use crate::tests::guard::Map;

/// A cache line.
#[derive(Clone, Copy, Debug, bytemuck::Zeroable, bytemuck::Pod)]
#[repr(C, align(64))]
pub(crate) struct Line(pub(crate) [u8; BYTES]);

/// Memory in whole cache lines.
#[derive(Debug)]
pub(crate) struct Lines(Map);

impl Lines {
    /// `len` zeroed lines, committed by the system on first touch.
    pub(crate) fn new(len: usize) -> std::io::Result<Lines> {
        let map = Map::map_anon(len.max(1).saturating_mul(BYTES))?;
        Ok(Lines(map))
    }

    /// `len` zeroed lines on 2 MB pages, if the system allows them.
    ///
    /// A thread that streams weights crosses a 4 KB page every 0.25 µs, and the hardware prefetcher stops at each.
    pub(crate) fn large(len: usize) -> std::io::Result<Lines> {
        let lines = Lines::new(len)?;
        #[cfg(all(target_os = "linux", not(test)))]
        let _ = lines.0.advise(memmap2::Advice::HugePage);
        Ok(lines)
    }

    #[inline(always)]
    pub(crate) fn all(&self) -> &[Line] {
        bytemuck::cast_slice(&self.0)
    }

    pub(crate) fn all_mut(&mut self) -> &mut [Line] {
        bytemuck::cast_slice_mut(&mut self.0)
    }
}

thread_local! {
    /// Reused by all tasks of a thread: fresh memory of this size would page-fault.
    static SCRATCH: Cell<Vec<Line>> = const { Cell::new(Vec::new()) };
}

/// A thread's buffer, borrowed until drop.
pub(crate) struct Scratch(Vec<Line>);

impl Scratch {
    pub(crate) fn take() -> Scratch {
        Scratch(SCRATCH.take())
    }

    /// `len` lines with unspecified contents.
    #[inline(always)]
    pub(crate) fn lines(&mut self, len: usize) -> &mut [Line] {
        if self.0.len() < len {
            self.0.resize(len, Line::zeroed());
        }
        &mut self.0[..len]
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        SCRATCH.set(std::mem::take(&mut self.0));
    }
}

/// A buffer of f32 values or 32-bit words.
#[derive(Debug, Default)]
pub(crate) struct Buffer {
    lines: Option<Lines>,
    len: usize,
}

impl Buffer {
    pub(crate) fn values(&self) -> &[f32] {
        let lines = self.lines.as_ref().map_or(&[][..], Lines::all);
        &bytemuck::cast_slice(lines)[..self.len]
    }

    pub(crate) fn values_mut(&mut self) -> &mut [f32] {
        let lines = self.lines.as_mut().map_or(&mut [][..], Lines::all_mut);
        &mut bytemuck::cast_slice_mut(lines)[..self.len]
    }

    /// Resizes to `len` values, whose contents are unspecified.
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
