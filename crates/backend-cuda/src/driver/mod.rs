//! The CUDA driver: cards, an opened card, kernels, memory, launches and graphs.
//!
//! The driver's library is opened at run time; without it there are no cards. Every function here makes the context
//! current first, so that objects may move between threads.
#![expect(unsafe_code, reason = "the driver is a C library")]

mod cards;
mod nccl;
mod pinned;
mod staging;
mod tensor_map;

use std::collections::HashMap;
use std::ffi::{CString, c_void};
use std::ptr::null_mut;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use backend::{Description, Error, Remedy};
use cudarc::driver::result::{self, DriverError};
use cudarc::driver::sys;
use passes::{Purpose, out_of_memory};

use crate::occupancy::{Block, Limits, Needs};
use cards::PrimaryContext;
pub use cards::{Card, cards};
use nccl::Communicator;
pub(crate) use pinned::Pinned;
pub(crate) use staging::Staging;
pub(crate) use tensor_map::TENSOR_MAP_BYTES;

/// The compiled kernels, for several architectures and as PTX (`kernels/build`): one module per source file or format of weights.
macro_rules! modules {
    ($($name:literal)*) => {
        static MODULES: &[(&str, &[u8])] =
            &[$(($name, include_bytes!(concat!("../../kernels/compiled/", $name, ".fatbin")))),*];
    };
}
modules! {
    "attention" "candidates" "decode" "decode_bulk" "draw" "f16_rows" "flash" "flash_wgmma" "recurrent" "rope" "route" "rows"
    "f32" "f16" "bf16" "q4_0" "q4_1" "q5_0" "q5_1" "q8_0" "q2_k" "q3_k" "q4_k" "q5_k" "q6_k"
    "iq4_nl" "iq4_xs" "mxfp4" "nvfp4" "iq3_xxs" "iq3_s" "iq2" "iq1" "ternary"
}

/// Locks `mutex`. No critical section leaves its data inconsistent on panic.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Size in bytes of the memory that is allocated for `bytes`.
pub(crate) fn allocated_size(bytes: u64) -> u64 {
    bytes.checked_next_multiple_of(256).unwrap_or(u64::MAX).max(256)
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

/// Steps of a program that are in progress at most: each has its place, with inputs and outputs of its own.
pub(crate) const PLACES: usize = 2;

/// A kernel.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Kernel {
    function: sys::CUfunction,
    pub(crate) needs: Needs,
}

/// An opened card: its context with kernels, and streams.
pub(crate) struct Device {
    pub(crate) card: Card,
    pub(crate) is_timed: bool,
    /// Whether activations stay f32.
    pub(crate) f32_activations: bool,
    /// Streaming multiprocessors.
    pub(crate) multiprocessors: usize,
    pub(crate) limits: Limits,
    stream: sys::CUstream,
    /// For copies beside what runs in `stream`: of the inputs of later steps, and of what earlier ones have chosen.
    uploads: sys::CUstream,
    downloads: sys::CUstream,
    /// Memory budget and current use of all buffers, in bytes.
    budget: Option<u64>,
    used: AtomicU64,
    /// Set once the card is a member of a group.
    communicator: OnceLock<Arc<Communicator>>,
    context: Arc<PrimaryContext>,
}

/// The modules and kernels of a context that were used so far.
#[derive(Default)]
struct Loaded {
    modules: HashMap<String, sys::CUmodule>,
    kernels: HashMap<String, Kernel>,
}

// SAFETY: handles of the driver may be used from any thread with the context current; every function makes it so.
unsafe impl Send for Device {}
// SAFETY: the driver's functions are thread-safe; what is mutable here has locks.
unsafe impl Sync for Device {}

impl std::fmt::Debug for Device {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Device").field("name", &self.card.name).finish_non_exhaustive()
    }
}

fn why(error: DriverError) -> String {
    let text = |text: Result<&std::ffi::CStr, DriverError>| {
        text.map_or_else(|_| String::new(), |text| text.to_string_lossy().into_owned())
    };
    format!("{} ({})", text(error.error_string()), text(error.error_name()))
}

impl Device {
    /// Opens `card`.
    pub(crate) fn open(
        card: &Card,
        is_timed: bool,
        f32_activations: bool,
        budget: Option<u64>,
    ) -> Result<Device, Error> {
        let failed = |error| Error::Device { device: card.name.clone(), why: why(error) };
        let opened = || {
            let context = PrimaryContext::of(card.ordinal)?;
            context.make_current()?;
            use sys::CUdevice_attribute::{
                CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_MULTIPROCESSOR as REGISTERS,
                CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN as SHARED_OF_BLOCK,
                CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR as SHARED,
                CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT as COUNT,
                CU_DEVICE_ATTRIBUTE_RESERVED_SHARED_MEMORY_PER_BLOCK as RESERVED,
            };
            // SAFETY: the device is valid.
            unsafe {
                let of = |what| result::device::get_attribute(context.device, what).map(|n| n as usize);
                let multiprocessors = of(COUNT)?;
                let limits = Limits {
                    registers: of(REGISTERS)?,
                    shared: of(SHARED)?,
                    reserved: of(RESERVED)?,
                    shared_of_block: of(SHARED_OF_BLOCK)?,
                    is_side_by_side: card.has_dependent_launch(),
                };
                let stream = || result::stream::create(result::stream::StreamKind::NonBlocking);
                Ok((context, multiprocessors, limits, [stream()?, stream()?, stream()?]))
            }
        };
        let (context, multiprocessors, limits, [stream, uploads, downloads]) = opened().map_err(failed)?;
        Ok(Device {
            card: card.clone(),
            is_timed,
            f32_activations,
            multiprocessors,
            limits,
            stream,
            uploads,
            downloads,
            budget,
            used: AtomicU64::new(0),
            communicator: OnceLock::new(),
            context,
        })
    }

    pub(crate) fn describe(&self) -> Description {
        let Card { capability: (major, minor), api, .. } = self.card;
        Description {
            name: "cuda",
            device: self.card.name.clone(),
            facts: vec![
                ("driver", format!("CUDA {}.{}", api / 1000, api % 1000 / 10)),
                ("compute capability", format!("{major}.{minor}")),
            ],
        }
    }

    fn failed(&self, error: DriverError) -> Error {
        Error::Device { device: self.card.name.clone(), why: why(error) }
    }

    fn make_current(&self) -> Result<(), Error> {
        self.context.make_current().map_err(|error| self.failed(error))
    }

    /// The kernel `name`, such as `rows/arg_max`, allowed all of the shared memory.
    pub(crate) fn kernel(&self, name: &str) -> Result<Kernel, Error> {
        let mut loaded = lock(&self.context.loaded);
        if let Some(&kernel) = loaded.kernels.get(name) {
            return Ok(kernel);
        }
        self.make_current()?;
        let (module, function) = name.split_once('/').expect("a module and a function");
        let mut find = || {
            use sys::CUfunction_attribute::{
                CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES as DYNAMIC,
                CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK as THREADS,
                CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED as LARGE_CLUSTERS,
                CU_FUNC_ATTRIBUTE_NUM_REGS as REGISTERS,
                CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT as CARVEOUT,
                CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES as STATIC,
            };
            // SAFETY: images are whole fat binaries, and attributes are within the limits of the device.
            unsafe {
                let module = match loaded.modules.get(module) {
                    Some(&known) => known,
                    None => {
                        let image = MODULES.iter().find(|(known, _)| *known == module);
                        let (_, image) = image.expect("every module is compiled");
                        let handle = result::module::load_data(image.as_ptr().cast())?;
                        loaded.modules.insert(module.to_owned(), handle);
                        handle
                    }
                };
                let function = CString::new(function).expect("names have no zeros");
                let function = result::module::get_function(module, function)?;
                let of = |what| result::function::get_function_attribute(function, what).map(|n| n as usize);
                let needs = Needs { registers: of(REGISTERS)?, threads: of(THREADS)?, fixed: of(STATIC)? };
                let dynamic = (self.limits.shared_of_block - needs.fixed) as i32;
                result::function::set_function_attribute(function, DYNAMIC, dynamic)?;
                // Kernels that prefer different carve-outs would not run side by side.
                result::function::set_function_attribute(function, CARVEOUT, 100)?;
                if self.card.has_wgmma() {
                    result::function::set_function_attribute(function, LARGE_CLUSTERS, 1)?;
                }
                Ok(Kernel { function, needs })
            }
        };
        let kernel = find().map_err(|error| self.cannot_load(name, error))?;
        loaded.kernels.insert(name.to_owned(), kernel);
        Ok(kernel)
    }

    fn cannot_load(&self, name: &str, error: DriverError) -> Error {
        use sys::CUresult::{
            CUDA_ERROR_INVALID_IMAGE, CUDA_ERROR_NO_BINARY_FOR_GPU, CUDA_ERROR_UNSUPPORTED_PTX_VERSION,
        };
        let advice = match error.0 {
            CUDA_ERROR_INVALID_IMAGE | CUDA_ERROR_NO_BINARY_FOR_GPU | CUDA_ERROR_UNSUPPORTED_PTX_VERSION => {
                "; update the driver"
            }
            _ => "",
        };
        let why = format!("kernel {name} cannot be loaded: {}{advice}", why(error));
        Error::Device { device: self.card.name.clone(), why }
    }

    /// Allocates zeroed memory.
    pub(crate) fn buffer(self: &Arc<Device>, purpose: Purpose, bytes: u64) -> Result<Buffer, Error> {
        let (what, remedy) = purpose.name_and_remedy();
        let bytes = allocated_size(bytes);
        let used = self.used.load(Ordering::Relaxed);
        if self.budget.is_some_and(|budget| used.saturating_add(bytes) > budget) {
            return Err(out_of_memory(what, bytes, Remedy::RaiseLimit));
        }
        self.make_current()?;
        // SAFETY: the context is current; the memory is freed when the buffer is dropped.
        let allocated = unsafe { result::malloc_sync(bytes as usize) };
        let address = allocated.map_err(|error| match error.0 {
            sys::CUresult::CUDA_ERROR_OUT_OF_MEMORY => out_of_memory(what, bytes, remedy),
            _ => self.failed(error),
        })?;
        self.used.fetch_add(bytes, Ordering::Relaxed);
        let buffer = Buffer { address, bytes, device: self.clone() };
        // SAFETY: the memory has this size.
        unsafe { result::memset_d8_async(address, 0, bytes as usize, self.stream) }
            .map_err(|error| self.failed(error))?;
        Ok(buffer)
    }

    /// Copies `bytes` to `offset` of a buffer, before it returns.
    pub(crate) fn write(&self, buffer: &Buffer, offset: u64, bytes: &[u8]) -> Result<(), Error> {
        assert!(offset + bytes.len() as u64 <= buffer.bytes, "writes stay inside");
        self.make_current()?;
        // SAFETY: both ranges are valid; the stream is waited for.
        unsafe {
            result::memcpy_htod_async(buffer.address + offset, bytes, self.stream)
                .and_then(|()| result::stream::synchronize(self.stream))
        }
        .map_err(|error| self.failed(error))
    }

    /// Waits for everything queued.
    pub(crate) fn wait(&self) -> Result<(), Error> {
        self.make_current()?;
        // SAFETY: the stream is valid.
        unsafe { result::stream::synchronize(self.stream) }.map_err(|error| self.failed(error))
    }

    /// Queues a launch of a step in this place, with blocks of this form. Clusters have `cluster` blocks along the third dimension
    /// of the grid, which has so many times `grid[2]` blocks there. With `is_dependent`, it may start before the launch
    /// before it has ended, and waits for it itself.
    pub(crate) fn launch(
        &self,
        launch: &Launch,
        place: usize,
        grid: [u32; 3],
        cluster: u32,
        form: usize,
        is_dependent: bool,
    ) -> Result<(), Error> {
        if grid.contains(&0) {
            return Ok(());
        }
        self.make_current()?;
        let clusters = cluster_attribute(cluster);
        let dependent = sys::CUlaunchAttribute {
            id: sys::CUlaunchAttributeID::CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION,
            pad: [0; 4],
            value: sys::CUlaunchAttributeValue { programmaticStreamSerializationAllowed: 1 },
        };
        let is_dependent = is_dependent && self.limits.is_side_by_side;
        let (mut attributes, count) = match (cluster > 1, is_dependent) {
            (true, _) => ([clusters, dependent], 1 + u32::from(is_dependent)),
            (false, _) => ([dependent, clusters], u32::from(is_dependent)),
        };
        let Block { threads, shared } = launch.forms[form];
        let config = sys::CUlaunchConfig {
            gridDimX: grid[0],
            gridDimY: grid[1],
            gridDimZ: grid[2] * cluster,
            blockDimX: threads,
            blockDimY: 1,
            blockDimZ: 1,
            sharedMemBytes: shared,
            hStream: self.stream,
            attrs: attributes.as_mut_ptr(),
            numAttrs: count,
        };
        let mut args = launch.args[place].as_ptr().cast_mut().cast::<c_void>();
        // SAFETY: `args` is the struct that the kernel takes, whose pointers are of live buffers.
        unsafe { sys::cuLaunchKernelEx(&config, launch.kernel.function, &mut args, null_mut()) }
            .result()
            .map_err(|error| self.failed(error))
    }

    /// Clusters of this many blocks that run at the same time; 0 if the driver does not tell.
    pub(crate) fn active_clusters(&self, kernel: Kernel, block: Block, size: usize) -> usize {
        if self.make_current().is_err() {
            return 0;
        }
        let mut attribute = cluster_attribute(size as u32);
        let config = sys::CUlaunchConfig {
            gridDimX: 1,
            gridDimY: 1,
            gridDimZ: size as u32,
            blockDimX: block.threads,
            blockDimY: 1,
            blockDimZ: 1,
            sharedMemBytes: block.shared,
            hStream: self.stream,
            attrs: &mut attribute,
            numAttrs: 1,
        };
        let mut clusters = 0;
        // SAFETY: all pointers are of live values.
        let found = unsafe { sys::cuOccupancyMaxActiveClusters(&mut clusters, kernel.function, &config) };
        if found.result().is_ok() { clusters.max(0) as usize } else { 0 }
    }

    /// Records what `queue` queues as a graph, without running it.
    pub(crate) fn record(
        self: &Arc<Device>,
        queue: impl FnOnce() -> Result<(), Error>,
    ) -> Result<Recording, Error> {
        self.make_current()?;
        let mode = sys::CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_THREAD_LOCAL;
        // SAFETY: the stream is valid and not capturing.
        unsafe { result::stream::begin_capture(self.stream, mode) }.map_err(|error| self.failed(error))?;
        let queued = queue();
        // SAFETY: the stream is capturing; the graph is destroyed once instantiated.
        unsafe {
            let graph = result::stream::end_capture(self.stream);
            queued?;
            let graph = graph.map_err(|error| self.failed(error))?;
            let executable = result::graph::instantiate(graph, sys::CUgraphInstantiate_flags(0));
            let _ = result::graph::destroy(graph);
            let executable = executable.map_err(|error| self.failed(error))?;
            Ok(Recording { executable, device: self.clone() })
        }
    }

    /// Queues a recorded graph.
    pub(crate) fn replay(&self, recording: &Recording) -> Result<(), Error> {
        self.make_current()?;
        // SAFETY: graph and stream are valid, and the buffers that the graph names are live.
        unsafe { result::graph::launch(recording.executable, self.stream) }
            .map_err(|error| self.failed(error))
    }

    /// Creates an event that takes the time.
    pub(crate) fn event(self: &Arc<Device>) -> Result<Event, Error> {
        self.event_with(sys::CUevent_flags::CU_EVENT_DEFAULT)
    }

    /// Creates an event to wait for.
    pub(crate) fn mark(self: &Arc<Device>) -> Result<Event, Error> {
        self.event_with(sys::CUevent_flags::CU_EVENT_DISABLE_TIMING)
    }

    fn event_with(self: &Arc<Device>, flags: sys::CUevent_flags) -> Result<Event, Error> {
        self.make_current()?;
        let event = result::event::create(flags);
        Ok(Event { event: event.map_err(|error| self.failed(error))?, device: self.clone() })
    }
}

impl Drop for Device {
    fn drop(&mut self) {
        let _ = self.context.make_current();
        // SAFETY: nothing queued is left: buffers, recordings and events hold the device.
        unsafe {
            let streams = [self.uploads, self.stream, self.downloads];
            let _ = streams.map(|stream| result::stream::synchronize(stream));
            drop(self.communicator.take());
            let _ = streams.map(|stream| result::stream::destroy(stream));
        }
    }
}

/// Device memory. It counts as used until it is dropped.
#[derive(Debug)]
pub(crate) struct Buffer {
    address: sys::CUdeviceptr,
    pub(crate) bytes: u64,
    device: Arc<Device>,
}

impl Buffer {
    pub(crate) fn address(&self) -> u64 {
        self.address
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        let _ = self.device.context.make_current();
        // SAFETY: it was allocated once. Freeing waits for what is queued.
        let _ = unsafe { result::free_sync(self.address) };
        self.device.used.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

/// A kernel with its arguments.
#[derive(Debug)]
pub(crate) struct Launch {
    pub(crate) kernel: Kernel,
    /// The bytes of the struct that the kernel takes, by place of the step.
    pub(crate) args: [Vec<u64>; PLACES],
    /// Sizes of its blocks, of which launches side by side alternate ([`crate::occupancy`]); equal if it has one.
    pub(crate) forms: [Block; 2],
    /// Blocks of a cluster, where that does not depend on the step ([`Grid::cluster`](crate::launch::Grid::cluster)).
    pub(crate) cluster: u32,
}

// SAFETY: handles of the driver may be used from any thread.
unsafe impl Send for Kernel {}
// SAFETY: as above.
unsafe impl Sync for Kernel {}

/// A recorded step.
#[derive(Debug)]
pub(crate) struct Recording {
    executable: sys::CUgraphExec,
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

/// A point in time of the stream.
#[derive(Debug)]
pub(crate) struct Event {
    event: sys::CUevent,
    device: Arc<Device>,
}

// SAFETY: handles of the driver may be used from any thread.
unsafe impl Send for Event {}

impl Event {
    /// Queues the event.
    pub(crate) fn record(&self) -> Result<(), Error> {
        self.device.make_current()?;
        // SAFETY: event and stream are valid.
        unsafe { result::event::record(self.event, self.device.stream) }
            .map_err(|error| self.device.failed(error))
    }

    /// Waits for the event; one that was never queued counts as passed.
    pub(crate) fn wait(&self) -> Result<(), Error> {
        self.device.make_current()?;
        // SAFETY: the event is valid.
        unsafe { result::event::synchronize(self.event) }.map_err(|error| self.device.failed(error))
    }

    /// Seconds from this event to `end`; both have passed.
    pub(crate) fn seconds_to(&self, end: &Event) -> Result<f64, Error> {
        self.device.make_current()?;
        // SAFETY: both events are valid.
        let milliseconds = unsafe { result::event::elapsed(self.event, end.event) };
        milliseconds.map(|ms| f64::from(ms) * 1e-3).map_err(|error| self.device.failed(error))
    }
}

impl Drop for Event {
    fn drop(&mut self) {
        let _ = self.device.context.make_current();
        // SAFETY: it was created once.
        let _ = unsafe { result::event::destroy(self.event) };
    }
}
