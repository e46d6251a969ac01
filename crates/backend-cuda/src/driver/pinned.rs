//! Host memory that the card copies from and to without a detour.
//!
//! Copies run beside the host. Each access to the memory waits for its earlier copies; queueing more takes `&mut`.

use std::ffi::c_void;
use std::sync::Arc;

use backend::{Error, lock};
use cudarc::driver::result::{self, DriverError};
use cudarc::driver::sys::{self, CUevent_flags, CUevent_wait_flags};

use super::{Buffer, Device, Event};

/// Page-locked memory.
#[derive(Debug)]
pub(super) struct HostMemory {
    pub(super) address: *mut u32,
    pub(super) words: usize,
    device: Arc<Device>,
}

// SAFETY: it owns its memory, which any thread may use and free.
unsafe impl Send for HostMemory {}
// SAFETY: as above; what is shared is only freed.
unsafe impl Sync for HostMemory {}

impl HostMemory {
    /// Zeroed.
    pub(super) fn new(device: &Arc<Device>, words: usize) -> Result<HostMemory, Error> {
        device.make_current()?;
        let bytes = words.max(1) * size_of::<u32>();
        // SAFETY: the context is current; the memory is freed on drop, and zeroed before use.
        unsafe {
            let address = result::malloc_host(bytes, 0).map_err(|error| device.failed(error))?;
            address.cast::<u8>().write_bytes(0, bytes);
            Ok(HostMemory { address: address.cast(), words, device: device.clone() })
        }
    }
}

impl Drop for HostMemory {
    fn drop(&mut self) {
        let Device { uploads, stream, downloads, ref context, .. } = *self.device;
        let _ = context.make_current();
        // SAFETY: it was allocated once, and copies have ended or end with the context.
        unsafe {
            let _ = [uploads, stream, downloads].map(|stream| result::stream::synchronize(stream));
            let _ = result::free_host(self.address.cast());
        }
    }
}

/// Host memory, and the end of the copies from and to it.
#[derive(Debug)]
pub(crate) struct Pinned {
    memory: HostMemory,
    copied: Event,
}

impl Pinned {
    pub(crate) fn new(device: &Arc<Device>, words: usize) -> Result<Pinned, Error> {
        Ok(Pinned { memory: HostMemory::new(device, words)?, copied: device.mark()? })
    }

    /// Memory whose copies a thread waits for without keeping its core busy.
    pub(crate) fn blocking(device: &Arc<Device>, words: usize) -> Result<Pinned, Error> {
        let copied = device.event_with(CUevent_flags::CU_EVENT_BLOCKING_SYNC)?;
        Ok(Pinned { memory: HostMemory::new(device, words)?, copied })
    }

    pub(crate) fn wait(&self) -> Result<(), Error> {
        self.copied.wait()
    }

    /// The words. Waits for the copies.
    pub(crate) fn words(&self) -> Result<&[u32], Error> {
        self.wait()?;
        // SAFETY: the memory is initialised. Copies have ended, and later ones need a mutable borrow.
        Ok(unsafe { std::slice::from_raw_parts(self.memory.address, self.memory.words) })
    }

    /// The words, to be written. Waits for the copies.
    pub(crate) fn words_mut(&mut self) -> Result<&mut [u32], Error> {
        self.wait()?;
        // SAFETY: the memory is initialised and borrowed mutably. Copies have ended.
        Ok(unsafe { std::slice::from_raw_parts_mut(self.memory.address, self.memory.words) })
    }

    /// Queues a copy of the first `bytes` bytes to offset `at` of a buffer.
    pub(crate) fn upload(&mut self, to: &Buffer, at: usize, bytes: usize) -> Result<(), Error> {
        self.copy_to(to, at, bytes, self.copied.device.stream)
    }

    /// Copies the first `words` words beside what is queued, which does not use the buffer. What is queued from now on waits for the
    /// copy.
    pub(crate) fn upload_beside(&mut self, to: &Buffer, words: usize) -> Result<(), Error> {
        let device = &self.copied.device;
        self.copy_to(to, 0, words * size_of::<u32>(), device.uploads)?;
        let flags = CUevent_wait_flags::CU_EVENT_WAIT_DEFAULT;
        // SAFETY: stream and event are valid.
        device.call(|| unsafe { result::stream::wait_event(device.stream, self.copied.event, flags) })
    }

    fn copy_to(&self, to: &Buffer, at: usize, bytes: usize, stream: sys::CUstream) -> Result<(), Error> {
        let device = &self.copied.device;
        assert!(bytes <= self.memory.words * size_of::<u32>(), "copies stay inside");
        assert!((at + bytes) as u64 <= to.bytes(), "copies stay inside");
        device.make_current()?;
        let _queued = lock(&device.queued);
        // SAFETY: both ranges are valid. The memory changes only after `copied`, and freeing waits for the copy.
        let copied = unsafe {
            let bytes = std::slice::from_raw_parts(self.memory.address.cast::<u8>(), bytes);
            result::memcpy_htod_async(to.address() + at as u64, bytes, stream)
        };
        self.end_copy(copied, stream)
    }

    /// Copies the first `words` words of a buffer once what is queued has ended, whose end is `computed`, beside what is queued from
    /// now on, which is not to write them.
    pub(crate) fn download_beside(
        &mut self,
        from: &Buffer,
        words: usize,
        computed: &Event,
    ) -> Result<(), Error> {
        let device = &self.copied.device;
        assert!(words <= self.memory.words && (words * 4) as u64 <= from.bytes(), "copies stay inside");
        computed.record()?;
        let flags = CUevent_wait_flags::CU_EVENT_WAIT_DEFAULT;
        // SAFETY: both ranges are valid. The memory is read only after `copied`, and freeing waits for the copy.
        let copied = unsafe {
            result::stream::wait_event(device.downloads, computed.event, flags).and_then(|()| {
                let to = self.memory.address.cast::<c_void>();
                if words == 0 {
                    return Ok(());
                }
                sys::cuMemcpyDtoHAsync_v2(to, from.address(), words * 4, device.downloads).result()
            })
        };
        self.end_copy(copied, device.downloads)
    }

    /// Marks the end of a copy. A copy whose end cannot be marked is waited for.
    fn end_copy(&self, copied: Result<(), DriverError>, stream: sys::CUstream) -> Result<(), Error> {
        // SAFETY: event and stream are valid.
        let marked = unsafe { result::event::record(self.copied.event, stream) };
        if marked.is_err() {
            // SAFETY: as above.
            let _ = unsafe { result::stream::synchronize(stream) };
        }
        copied.and(marked).map_err(|error| self.copied.device.failed(error))
    }
}

/// Host memory that what is queued writes, replays of recorded graphs included.
#[derive(Debug)]
pub(crate) struct Staging(pub(super) Arc<HostMemory>);

impl Staging {
    pub(crate) fn new(device: &Arc<Device>, words: usize) -> Result<Staging, Error> {
        Ok(Staging(Arc::new(HostMemory::new(device, words)?)))
    }

    /// The words. Waits for everything queued.
    pub(crate) fn words(&mut self) -> Result<&[u32], Error> {
        self.0.device.wait()?;
        // SAFETY: the memory is initialised. Nothing queued is left, and what is queued later to write it needs a mutable borrow.
        Ok(unsafe { std::slice::from_raw_parts(self.0.address, self.0.words) })
    }
}
