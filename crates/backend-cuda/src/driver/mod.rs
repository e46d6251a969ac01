//! The CUDA driver: cards, an opened card, kernels, memory, launches and graphs.
//!
//! The driver's library is opened at run time; without it there are no cards. Every function here makes the context
//! current first, so that objects may move between threads. Nothing here is unsafe to call: launches and graphs keep their buffers
//! (`queue.rs`), and host memory waits for its copies (`pinned.rs`).
#![expect(unsafe_code, reason = "the driver is a C library")]

mod cards;
mod nccl;
mod pinned;
mod queue;
mod tensor_map;

use std::collections::HashMap;
use std::ffi::CString;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock};

use backend::{Description, Error, Remedy, lock};
use cudarc::driver::result::{self, DriverError};
use cudarc::driver::sys;
use gpu::{Purpose, out_of_memory};

use crate::occupancy::{Limits, Needs};
use cards::PrimaryContext;
pub use cards::{Card, cards};
use nccl::Communicator;
pub(crate) use pinned::{Pinned, Staging};
pub(crate) use queue::{How, Launch, Queue, Recording};
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

/// Size in bytes of the memory that is allocated for `bytes`.
pub(crate) fn allocated_size(bytes: u64) -> u64 {
    bytes.checked_next_multiple_of(256).unwrap_or(u64::MAX).max(256)
}

/// Steps of a program that are in flight at most, each with inputs and outputs of its own.
pub(crate) const IN_FLIGHT: usize = 2;

#[derive(Clone, Copy, Debug)]
pub(crate) struct Kernel {
    function: sys::CUfunction,
    /// Bytes of its arguments.
    args: usize,
    pub(crate) needs: Needs,
}

// SAFETY: handles of the driver may be used from any thread.
unsafe impl Send for Kernel {}
// SAFETY: as above.
unsafe impl Sync for Kernel {}

pub(crate) struct Device {
    pub(crate) card: Card,
    pub(crate) is_timed: bool,
    pub(crate) f32_activations: bool,
    pub(crate) multiprocessors: usize,
    pub(crate) limits: Limits,
    stream: sys::CUstream,
    /// Held while work is queued in `stream`, or a graph of it recorded.
    queued: Mutex<()>,
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
                CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN as BLOCK_SHARED,
                CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR as SHARED,
                CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT as COUNT,
                CU_DEVICE_ATTRIBUTE_RESERVED_SHARED_MEMORY_PER_BLOCK as RESERVED,
            };
            // SAFETY: the device is valid.
            unsafe {
                let get = |what| result::device::get_attribute(context.device, what).map(|n| n as usize);
                let multiprocessors = get(COUNT)?;
                let limits = Limits {
                    registers: get(REGISTERS)?,
                    shared: get(SHARED)?,
                    reserved: get(RESERVED)?,
                    block_shared: get(BLOCK_SHARED)?,
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
            queued: Mutex::default(),
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
        self.call(|| Ok(()))
    }

    /// Calls the driver with the context current.
    fn call<T>(&self, work: impl FnOnce() -> Result<T, DriverError>) -> Result<T, Error> {
        self.context.make_current().and_then(|()| work()).map_err(|error| self.failed(error))
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
                let get = |what| result::function::get_function_attribute(function, what).map(|n| n as usize);
                let needs = Needs { registers: get(REGISTERS)?, threads: get(THREADS)?, fixed: get(STATIC)? };
                let (mut at, mut args) = (0, 0);
                sys::cuFuncGetParamInfo(function, 0, &mut at, &mut args).result()?;
                let dynamic = (self.limits.block_shared - needs.fixed) as i32;
                result::function::set_function_attribute(function, DYNAMIC, dynamic)?;
                // Kernels that prefer different carve-outs would not run side by side.
                result::function::set_function_attribute(function, CARVEOUT, 100)?;
                if self.card.has_wgmma() {
                    result::function::set_function_attribute(function, LARGE_CLUSTERS, 1)?;
                }
                Ok(Kernel { function, args, needs })
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
        let buffer = Buffer(Arc::new(Memory { address, bytes, device: self.clone() }));
        let _queued = lock(&self.queued);
        // SAFETY: the memory has this size.
        self.call(|| unsafe { result::memset_d8_async(address, 0, bytes as usize, self.stream) })?;
        Ok(buffer)
    }

    /// Copies `bytes` to `offset` of a buffer, before it returns.
    pub(crate) fn write(&self, buffer: &Buffer, offset: u64, bytes: &[u8]) -> Result<(), Error> {
        assert!(offset + bytes.len() as u64 <= buffer.bytes(), "writes stay inside");
        let _queued = lock(&self.queued);
        // SAFETY: both ranges are valid; the stream is waited for.
        self.call(|| unsafe {
            result::memcpy_htod_async(buffer.address() + offset, bytes, self.stream)?;
            result::stream::synchronize(self.stream)
        })
    }

    /// Waits for everything queued.
    pub(crate) fn wait(&self) -> Result<(), Error> {
        // SAFETY: the stream is valid.
        self.call(|| unsafe { result::stream::synchronize(self.stream) })
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
        let event = self.call(|| result::event::create(flags))?;
        Ok(Event { event, device: self.clone() })
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

/// Device memory. It counts as used until its last clone is dropped.
#[derive(Clone, Debug)]
pub(crate) struct Buffer(Arc<Memory>);

#[derive(Debug)]
struct Memory {
    address: sys::CUdeviceptr,
    bytes: u64,
    device: Arc<Device>,
}

impl Buffer {
    fn address(&self) -> u64 {
        self.0.address
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.0.bytes
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        let _ = self.device.context.make_current();
        // SAFETY: it was allocated once. Freeing waits for what is queued.
        let _ = unsafe { result::free_sync(self.address) };
        self.device.used.fetch_sub(self.bytes, Ordering::Relaxed);
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
    pub(crate) fn record(&self) -> Result<(), Error> {
        // SAFETY: event and stream are valid.
        self.device.call(|| unsafe { result::event::record(self.event, self.device.stream) })
    }

    /// Waits for the event; one that was never queued counts as passed.
    pub(crate) fn wait(&self) -> Result<(), Error> {
        // SAFETY: the event is valid.
        self.device.call(|| unsafe { result::event::synchronize(self.event) })
    }

    /// Seconds from this event to `end`; both have passed.
    pub(crate) fn seconds_to(&self, end: &Event) -> Result<f64, Error> {
        // SAFETY: both events are valid.
        let milliseconds = self.device.call(|| unsafe { result::event::elapsed(self.event, end.event) })?;
        Ok(f64::from(milliseconds) * 1e-3)
    }
}

impl Drop for Event {
    fn drop(&mut self) {
        let _ = self.device.context.make_current();
        // SAFETY: it was created once.
        let _ = unsafe { result::event::destroy(self.event) };
    }
}
