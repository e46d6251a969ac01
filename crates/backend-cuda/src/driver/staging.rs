//! Pinned memory that the host fills again once the device has copied it.

use std::sync::Arc;

use backend::Error;
use cudarc::driver::result;
use cudarc::driver::sys::CUevent_flags;

use super::{Buffer, Device, Event, Pinned};

/// Pinned memory, and the end of the copies from it.
#[derive(Debug)]
pub(crate) struct Staging {
    memory: Pinned,
    copied: Event,
}

impl Staging {
    pub(crate) fn new(device: &Arc<Device>, bytes: usize) -> Result<Staging, Error> {
        let memory = device.pinned(bytes.div_ceil(size_of::<u32>()))?;
        // A thread that waits leaves its core to those that pack.
        Ok(Staging { memory, copied: device.event_with(CUevent_flags::CU_EVENT_BLOCKING_SYNC)? })
    }

    /// Waits for the copies.
    pub(crate) fn wait(&self) -> Result<(), Error> {
        self.copied.wait()
    }

    /// The memory, to be written. Waits for the copies.
    pub(crate) fn bytes(&mut self) -> Result<&mut [u8], Error> {
        self.wait()?;
        Ok(bytemuck::cast_slice_mut(self.memory.words_mut()))
    }

    /// Queues a copy of the first `bytes` bytes of the memory to offset `at` of a buffer.
    pub(crate) fn copy(&mut self, to: &Buffer, at: usize, bytes: usize) -> Result<(), Error> {
        let device = &self.copied.device;
        let bytes = &bytemuck::cast_slice::<_, u8>(self.memory.words())[..bytes];
        assert!((at + bytes.len()) as u64 <= to.bytes, "copies stay inside");
        device.make_current()?;
        // SAFETY: both ranges are valid. The memory changes only after the event, and freeing waits for the copy.
        let copied = unsafe { result::memcpy_htod_async(to.address + at as u64, bytes, device.stream) };
        self.copied.record().and(copied.map_err(|error| device.failed(error)))
    }
}
