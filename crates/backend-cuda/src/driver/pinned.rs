//! Host memory for copies without a detour.

use std::sync::Arc;

use cudarc::driver::result;

use super::Device;

/// Host memory that the device copies from and to, and that kernels write.
#[derive(Debug)]
pub(crate) struct Pinned {
    pub(super) address: *mut u32,
    pub(super) words: usize,
    pub(super) device: Arc<Device>,
}

// SAFETY: it owns its memory, which the device reads and writes only between what is queued and the wait for it.
unsafe impl Send for Pinned {}

impl Pinned {
    /// Where kernels find the memory: addresses are the same for host and device.
    pub(crate) fn address(&self) -> u64 {
        self.address.expose_provenance() as u64
    }

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

impl Drop for Pinned {
    fn drop(&mut self) {
        let _ = self.device.context.make_current();
        // SAFETY: it was allocated once, and copies have ended or end with the context.
        unsafe {
            let _ = result::stream::synchronize(self.device.beside);
            let _ = result::stream::synchronize(self.device.stream);
            let _ = result::free_host(self.address.cast());
        }
    }
}
