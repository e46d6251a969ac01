//! The queue of a step: launches, copies of values, sums over cards; at once, or recorded as a graph.
//!
//! A launch keeps the buffers that its arguments name, and a recorded graph all that its launches and copies name. Kernels stay
//! inside of these buffers: that is up to the kernels, which are this crate's own.

use std::ffi::c_void;
use std::ptr::null_mut;
use std::sync::{Arc, MutexGuard};

use backend::{Error, lock};
use cudarc::driver::{result, sys};

use super::pinned::{HostMemory, Staging};
use super::{Buffer, Device, IN_FLIGHT, Kernel};
use crate::arguments::{Arguments, Pointer};
use crate::occupancy::Block;

#[derive(Debug)]
pub(crate) struct Launch {
    kernel: Kernel,
    /// The bytes of the struct that the kernel takes, by step in flight.
    args: [Vec<u64>; IN_FLIGHT],
    /// The buffers that they name.
    buffers: Vec<Buffer>,
    /// Sizes of its blocks, of which launches side by side alternate ([`crate::occupancy`]); equal if it has one.
    pub(crate) forms: [Block; 2],
    /// Blocks of a cluster, where that does not depend on the step ([`crate::launch::cluster`]).
    pub(crate) cluster: u32,
}

impl Launch {
    /// A launch of `kernel`. For each pointer of a step in flight, `find` returns its buffer and the offset in it, or nothing for
    /// null.
    ///
    /// # Panics
    /// When the kernel takes another struct than `args`.
    pub(crate) fn new<'a>(
        kernel: Kernel,
        args: &dyn Arguments,
        forms: [Block; 2],
        cluster: u32,
        find: impl Fn(Pointer, usize) -> Option<(&'a Buffer, u64)>,
    ) -> Launch {
        let mut buffers = Vec::new();
        let args = std::array::from_fn(|number| {
            args.on_card(&mut |pointer| {
                find(pointer, number).map_or(0, |(buffer, at)| {
                    assert!(at < buffer.bytes(), "arguments are inside of their buffers");
                    buffers.push(buffer.clone());
                    buffer.address() + at
                })
            })
        });
        let taken = kernel.args.next_multiple_of(size_of::<u64>());
        assert!(
            args.iter().all(|args: &Vec<u64>| size_of_val(&**args) == taken),
            "a kernel takes {taken} bytes of arguments"
        );
        Launch { kernel, args, buffers, forms, cluster }
    }
}

/// How a launch of a step is queued.
#[derive(Clone, Copy, Debug)]
pub(crate) struct How {
    /// The step in flight.
    pub(crate) number: usize,
    pub(crate) grid: [u32; 3],
    /// Blocks of a cluster, along the third dimension of the grid, which has so many times `grid[2]` blocks there.
    pub(crate) cluster: u32,
    pub(crate) form: usize,
    /// Whether it may start before the launch before it has ended, and waits for it itself.
    pub(crate) is_dependent: bool,
}

/// The queue of a card, of one thread at a time.
pub(crate) struct Queue<'a> {
    pub(super) device: &'a Arc<Device>,
    /// What a graph names that is being recorded.
    recorded: Option<Named>,
    _locked: MutexGuard<'a, ()>,
}

/// Memory that a recorded graph names.
#[derive(Debug, Default)]
struct Named {
    buffers: Vec<Buffer>,
    staging: Option<Arc<HostMemory>>,
}

impl Device {
    /// The queue, for work that runs at once.
    pub(crate) fn queue(self: &Arc<Device>) -> Result<Queue<'_>, Error> {
        self.make_current()?;
        Ok(Queue { device: self, recorded: None, _locked: lock(&self.queued) })
    }

    /// Records what `record` queues as a graph, without running it.
    pub(crate) fn record(
        self: &Arc<Device>,
        record: impl FnOnce(&mut Queue<'_>) -> Result<(), Error>,
    ) -> Result<Recording, Error> {
        let mut queue = self.queue()?;
        queue.recorded = Some(Named::default());
        let mode = sys::CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_THREAD_LOCAL;
        // SAFETY: the stream is valid and not capturing.
        self.call(|| unsafe { result::stream::begin_capture(self.stream, mode) })?;
        let recorded = record(&mut queue);
        // SAFETY: the stream is capturing.
        let graph = self.call(|| unsafe { result::stream::end_capture(self.stream) });
        recorded?;
        let graph = graph?;
        // SAFETY: the graph is valid, and destroyed once instantiated.
        let executable = self.call(|| unsafe {
            let executable = result::graph::instantiate(graph, sys::CUgraphInstantiate_flags(0));
            let _ = result::graph::destroy(graph);
            executable
        })?;
        let named = queue.recorded.take().unwrap_or_default();
        Ok(Recording { executable, named, device: self.clone() })
    }
}

impl Queue<'_> {
    pub(crate) fn launch(&mut self, launch: &Launch, how: How) -> Result<(), Error> {
        let How { number, grid, cluster, form, is_dependent } = how;
        if grid.contains(&0) {
            return Ok(());
        }
        let dependent = sys::CUlaunchAttribute {
            id: sys::CUlaunchAttributeID::CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION,
            pad: [0; 4],
            value: sys::CUlaunchAttributeValue { programmaticStreamSerializationAllowed: 1 },
        };
        let is_dependent = is_dependent && self.device.limits.is_side_by_side;
        let mut attributes = [cluster_attribute(cluster), dependent];
        let used = usize::from(cluster <= 1)..1 + usize::from(is_dependent);
        let [x, y, z] = grid;
        let config = self.device.config([x, y, z * cluster], launch.forms[form], &mut attributes[used]);
        let mut args = launch.args[number].as_ptr().cast_mut().cast::<c_void>();
        // SAFETY: `args` has as many bytes as the kernel takes. Its pointers are into buffers that the launch keeps alive, and so
        // does a recorded graph. Freeing a buffer waits until nothing queued is left.
        let launched =
            unsafe { sys::cuLaunchKernelEx(&config, launch.kernel.function, &mut args, null_mut()) };
        launched.result().map_err(|error| self.device.failed(error))?;
        if let Some(named) = &mut self.recorded {
            named.buffers.extend_from_slice(&launch.buffers);
        }
        Ok(())
    }

    /// Queues a copy of `words` words from the start of `from` to word `at` of `to`.
    pub(crate) fn download(
        &mut self,
        to: &mut Staging,
        at: usize,
        from: &Buffer,
        words: usize,
    ) -> Result<(), Error> {
        assert!(at + words <= to.0.words && (words * 4) as u64 <= from.bytes(), "copies stay inside");
        if let Some(Named { buffers, staging }) = &mut self.recorded {
            let staging = staging.get_or_insert_with(|| to.0.clone());
            assert!(Arc::ptr_eq(staging, &to.0), "a graph copies to one memory");
            buffers.push(from.clone());
        }
        // SAFETY: both ranges are valid. `to` is read only when nothing queued is left; a graph is replayed with `to` borrowed.
        self.device.call(|| unsafe {
            let to = to.0.address.add(at).cast::<c_void>();
            sys::cuMemcpyDtoHAsync_v2(to, from.address(), words * 4, self.device.stream).result()
        })
    }

    /// Queues the sum of the first `words` words over the cards of the group, in place.
    pub(crate) fn all_reduce(&mut self, buffer: &Buffer, words: usize) -> Result<(), Error> {
        assert!((words * 4) as u64 <= buffer.bytes(), "sums stay inside");
        if let Some(named) = &mut self.recorded {
            named.buffers.push(buffer.clone());
        }
        if words == 0 { Ok(()) } else { self.sum_over_cards(buffer, words) }
    }

    /// Queues a recorded graph, which copies values to `staging` if it copies any.
    pub(crate) fn replay(&mut self, recording: &Recording, staging: &mut Staging) -> Result<(), Error> {
        let copies_to = &recording.named.staging;
        assert!(
            copies_to.as_ref().is_none_or(|memory| Arc::ptr_eq(memory, &staging.0)),
            "a graph copies to the memory that it was recorded with"
        );
        // SAFETY: graph and stream are valid, and the recording keeps what the graph names until it has run.
        self.device.call(|| unsafe { result::graph::launch(recording.executable, self.device.stream) })
    }
}

impl Device {
    fn config(
        &self,
        grid: [u32; 3],
        block: Block,
        attributes: &mut [sys::CUlaunchAttribute],
    ) -> sys::CUlaunchConfig {
        sys::CUlaunchConfig {
            gridDimX: grid[0],
            gridDimY: grid[1],
            gridDimZ: grid[2],
            blockDimX: block.threads,
            blockDimY: 1,
            blockDimZ: 1,
            sharedMemBytes: block.shared,
            hStream: self.stream,
            attrs: attributes.as_mut_ptr(),
            numAttrs: attributes.len() as u32,
        }
    }

    /// Clusters of this many blocks that run at the same time; 0 if the driver does not tell.
    pub(crate) fn active_clusters(&self, kernel: Kernel, block: Block, size: usize) -> usize {
        if self.make_current().is_err() {
            return 0;
        }
        let mut attributes = [cluster_attribute(size as u32)];
        let config = self.config([1, 1, size as u32], block, &mut attributes);
        let mut clusters = 0;
        // SAFETY: all pointers are of live values.
        let found = unsafe { sys::cuOccupancyMaxActiveClusters(&mut clusters, kernel.function, &config) };
        if found.result().is_ok() { clusters.max(0) as usize } else { 0 }
    }
}

/// Launches blocks in clusters of `size` along the third dimension of the grid.
fn cluster_attribute(size: u32) -> sys::CUlaunchAttribute {
    let cluster = sys::CUlaunchAttributeValue_union__bindgen_ty_1 { x: 1, y: 1, z: size };
    sys::CUlaunchAttribute {
        id: sys::CUlaunchAttributeID::CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION,
        pad: [0; 4],
        value: sys::CUlaunchAttributeValue { clusterDim: cluster },
    }
}

#[derive(Debug)]
pub(crate) struct Recording {
    executable: sys::CUgraphExec,
    named: Named,
    device: Arc<Device>,
}

// SAFETY: handles of the driver may be used from any thread.
unsafe impl Send for Recording {}

impl Drop for Recording {
    fn drop(&mut self) {
        let _ = self.device.context.make_current();
        // SAFETY: it was instantiated once; the driver keeps it until it has run.
        let _ = unsafe { result::graph::exec_destroy(self.executable) };
    }
}
