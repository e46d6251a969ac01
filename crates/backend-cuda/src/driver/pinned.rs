//! Host memory for copies without a detour.

use std::ffi::c_void;
use std::sync::Arc;

use backend::Error;
use cudarc::driver::{result, sys};

use super::{Buffer, Device, Event};

/// Host memory that the device copies from and to.
#[derive(Debug)]
pub(crate) struct Pinned {
    pub(super) address: *mut u32,
    pub(super) words: usize,
    pub(super) device: Arc<Device>,
}

// SAFETY: it owns its memory, which the device reads and writes only between what is queued and the wait for it.
unsafe impl Send for Pinned {}

impl Pinned {
    /// The words. Nothing queued may write them.
    pub(crate) fn words(&self) -> &[u32] {
        // SAFETY: the memory is allocated and initialised.
        unsafe { std::slice::from_raw_parts(self.address, self.words) }
    }

    /// The words, to be written. Nothing queued may use them.
    pub(crate) fn words_mut(&mut self) -> &mut [u32] {
        // SAFETY: the memory is allocated, initialised, and borrowed mutably.
        unsafe { std::slice::from_raw_parts_mut(self.address, self.words) }
    }
}

impl Device {
    /// Allocates zeroed host memory that the device copies from and to without a detour.
    pub(crate) fn pinned(self: &Arc<Device>, words: usize) -> Result<Pinned, Error> {
        self.make_current()?;
        let bytes = words.max(1) * size_of::<u32>();
        // SAFETY: the context is current; the memory is freed on drop, and zeroed before use.
        unsafe {
            let address = result::malloc_host(bytes, 0).map_err(|error| self.failed(error))?;
            address.cast::<u8>().write_bytes(0, bytes);
            Ok(Pinned { address: address.cast(), words, device: self.clone() })
        }
    }

    /// Queues a copy of the first `words` words of `from`.
    pub(crate) fn upload(&self, to: &Buffer, from: &Pinned, words: usize) -> Result<(), Error> {
        assert!(words <= from.words && (words * 4) as u64 <= to.bytes, "copies stay inside");
        self.make_current()?;
        // SAFETY: both ranges are valid. The caller does not change `from` before the copy has been waited for.
        unsafe {
            let words = std::slice::from_raw_parts(from.address, words);
            result::memcpy_htod_async(to.address, words, self.stream)
        }
        .map_err(|error| self.failed(error))
    }

    /// Copies the first `words` words of `from` beside what is queued, which uses neither side. What is queued from now on waits for
    /// the copy, whose end is `copied`.
    pub(crate) fn upload_beside(
        &self,
        to: &Buffer,
        from: &Pinned,
        words: usize,
        copied: &Event,
    ) -> Result<(), Error> {
        assert!(words <= from.words && (words * 4) as u64 <= to.bytes, "copies stay inside");
        self.make_current()?;
        // SAFETY: both ranges are valid. The caller does not change `from` before the copy has been waited for.
        unsafe {
            let words = std::slice::from_raw_parts(from.address, words);
            result::memcpy_htod_async(to.address, words, self.uploads)
                .and_then(|()| result::event::record(copied.event, self.uploads))
                .and_then(|()| {
                    let flags = sys::CUevent_wait_flags::CU_EVENT_WAIT_DEFAULT;
                    result::stream::wait_event(self.stream, copied.event, flags)
                })
        }
        .map_err(|error| self.failed(error))
    }

    /// Queues a copy of `words` words from the start of `from` to word `at` of `to`.
    pub(crate) fn download(&self, to: &Pinned, at: usize, from: &Buffer, words: usize) -> Result<(), Error> {
        assert!(at + words <= to.words && (words * 4) as u64 <= from.bytes, "copies stay inside");
        self.make_current()?;
        // SAFETY: both ranges are valid; `to` is read only after the copy has been waited for.
        unsafe {
            let to = to.address.add(at).cast::<c_void>();
            sys::cuMemcpyDtoHAsync_v2(to, from.address, words * 4, self.stream).result()
        }
        .map_err(|error| self.failed(error))
    }

    /// Copies the first `words` words of `from` once what is queued has ended, beside what is queued from now on, which must not
    /// write them. The end of what is queued is `computed`, and that of the copy `copied`.
    pub(crate) fn download_beside(
        &self,
        to: &Pinned,
        from: &Buffer,
        words: usize,
        computed: &Event,
        copied: &Event,
    ) -> Result<(), Error> {
        assert!(words <= to.words && (words * 4) as u64 <= from.bytes, "copies stay inside");
        self.make_current()?;
        let flags = sys::CUevent_wait_flags::CU_EVENT_WAIT_DEFAULT;
        // SAFETY: both ranges are valid; `to` is read only after the copy has been waited for.
        unsafe {
            result::event::record(computed.event, self.stream)
                .and_then(|()| result::stream::wait_event(self.downloads, computed.event, flags))
                .and_then(|()| match words {
                    0 => Ok(()),
                    _ => {
                        let to = to.address.cast::<c_void>();
                        sys::cuMemcpyDtoHAsync_v2(to, from.address, words * 4, self.downloads).result()
                    }
                })
                .and_then(|()| result::event::record(copied.event, self.downloads))
        }
        .map_err(|error| self.failed(error))
    }
}

impl Drop for Pinned {
    fn drop(&mut self) {
        let _ = self.device.context.make_current();
        // SAFETY: it was allocated once, and copies have ended or end with the context.
        unsafe {
            let Device { uploads, stream, downloads, .. } = *self.device;
            let _ = [uploads, stream, downloads].map(|stream| result::stream::synchronize(stream));
            let _ = result::free_host(self.address.cast());
        }
    }
}
