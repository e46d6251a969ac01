//! Adapters, and an opened device with its pipeline cache.

use std::collections::HashMap;
use std::ops::Deref;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, LazyLock, Mutex, mpsc};
use std::time::Duration;

use backend::{Description, Error, Remedy, lock};
use gpu::{Purpose, out_of_memory};

use crate::kernels::{Access, Kernel, bindings};
use crate::policy::{Caps, Subgroups};

const BACKENDS: wgpu::Backends = wgpu::Backends::VULKAN.union(wgpu::Backends::METAL);

/// One per process: drivers support few instances.
static INSTANCE: LazyLock<wgpu::Instance> = LazyLock::new(|| {
    let mut descriptor = wgpu::InstanceDescriptor::new_without_display_handle();
    descriptor.backends = BACKENDS;
    wgpu::Instance::new(descriptor)
});

/// Timeout for mapping a buffer after the queue is idle.
const READ_TIMEOUT: Duration = Duration::from_secs(60);

fn usage(purpose: Purpose) -> wgpu::BufferUsages {
    use wgpu::BufferUsages as Usages;
    match purpose {
        Purpose::Weights | Purpose::Inputs | Purpose::Constants => Usages::STORAGE | Usages::COPY_DST,
        Purpose::Store | Purpose::Activations | Purpose::AttentionParts => {
            Usages::STORAGE | Usages::COPY_SRC | Usages::COPY_DST
        }
        Purpose::Results => Usages::MAP_READ | Usages::COPY_DST,
        Purpose::Times => Usages::QUERY_RESOLVE | Usages::COPY_SRC,
    }
}

const COOP_MATRIX: wgpu::Features =
    wgpu::Features::EXPERIMENTAL_COOPERATIVE_MATRIX.union(wgpu::Features::SHADER_F16);

const TIMESTAMPS: wgpu::Features =
    wgpu::Features::TIMESTAMP_QUERY.union(wgpu::Features::TIMESTAMP_QUERY_INSIDE_PASSES);

/// Tile size (16 or 8) of f16 cooperative matrices with f32 accumulators, if `adapter` has them and all required
/// features.
fn coop_matrix_size(adapter: &Adapter) -> Option<usize> {
    let sizes = adapter.adapter.cooperative_matrix_properties();
    let has = |size: u32| {
        sizes.iter().any(|found| {
            let types = (found.ab_type, found.cr_type);
            (found.m_size, found.n_size, found.k_size) == (size, size, size)
                && types == (wgpu::CooperativeScalarType::F16, wgpu::CooperativeScalarType::F32)
        })
    };
    let has_features = adapter.adapter.features().contains(COOP_MATRIX);
    [16, 8].into_iter().find(|&size| has_features && has(size)).map(|size| size as usize)
}

/// A GPU, or a software implementation of one.
#[derive(Clone, Debug)]
pub struct Adapter {
    pub(crate) adapter: wgpu::Adapter,
    pub(crate) info: wgpu::AdapterInfo,
}

/// All adapters of this machine, hardware before software.
pub fn adapters() -> Vec<Adapter> {
    let found = pollster::block_on(INSTANCE.enumerate_adapters(BACKENDS));
    let mut adapters: Vec<Adapter> =
        found.into_iter().map(|adapter| Adapter { info: adapter.get_info(), adapter }).collect();
    adapters.sort_by_key(|adapter| match adapter.info.device_type {
        wgpu::DeviceType::DiscreteGpu => 0,
        wgpu::DeviceType::IntegratedGpu => 1,
        wgpu::DeviceType::VirtualGpu => 2,
        wgpu::DeviceType::Other => 3,
        wgpu::DeviceType::Cpu => 4,
    });
    adapters
}

#[expect(missing_docs, reason = "the names say it")]
impl Adapter {
    pub fn name(&self) -> &str {
        &self.info.name
    }

    /// `vulkan` or `metal`.
    pub fn interface(&self) -> &'static str {
        self.info.backend.to_str()
    }

    pub fn is_software(&self) -> bool {
        self.info.device_type == wgpu::DeviceType::Cpu
    }
}

#[derive(Clone, Debug)]
pub(crate) struct Settings {
    /// Upper bounds for the requested limits.
    pub(crate) max_limits: Option<wgpu::Limits>,
    /// Whether kernels may use these features.
    pub(crate) subgroups: bool,
    pub(crate) coop_matrix: bool,
    /// Whether kernels are compiled with bounds checks.
    pub(crate) checks: bool,
    /// Memory budget for all buffers, in bytes.
    pub(crate) budget: Option<u64>,
    /// Whether dispatches are timed, where the device supports timestamps.
    pub(crate) timed: bool,
    #[cfg(test)]
    pub(crate) sanitize: Option<crate::tests::guard::Sanitize>,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            max_limits: None,
            subgroups: true,
            coop_matrix: true,
            checks: cfg!(debug_assertions),
            budget: None,
            timed: false,
            #[cfg(test)]
            sanitize: None,
        }
    }
}

/// Size in bytes of the buffer that is allocated for `bytes`.
pub(crate) fn allocated_size(bytes: u64) -> u64 {
    bytes.next_multiple_of(16).max(16)
}

/// A buffer that counts as used memory until it is dropped.
#[derive(Clone, Debug)]
pub(crate) struct Buffer {
    buffer: wgpu::Buffer,
    _counted: Arc<Counted>,
}

impl Deref for Buffer {
    type Target = wgpu::Buffer;

    fn deref(&self) -> &wgpu::Buffer {
        &self.buffer
    }
}

#[derive(Debug)]
struct Counted {
    bytes: u64,
    used: Arc<AtomicU64>,
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.used.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

pub(crate) struct Device {
    pub(crate) device: wgpu::Device,
    pub(crate) queue: wgpu::Queue,
    pub(crate) limits: wgpu::Limits,
    pub(crate) info: wgpu::AdapterInfo,
    pub(crate) caps: Caps,
    pub(crate) is_timed: bool,
    /// Whether kernels are compiled with bounds checks.
    checks: bool,
    /// Memory budget and current use of all buffers, in bytes.
    budget: Option<u64>,
    used: Arc<AtomicU64>,
    #[cfg(test)]
    pub(crate) guard: Option<crate::tests::guard::Guard>,
    built: Mutex<Built>,
    /// Why the device was lost, once it is.
    lost: Arc<Mutex<Option<String>>>,
}

#[derive(Default)]
struct Built {
    pipelines: HashMap<String, (wgpu::ComputePipeline, wgpu::BindGroupLayout)>,
    layouts: HashMap<Vec<Access>, (wgpu::BindGroupLayout, wgpu::PipelineLayout)>,
}

impl std::fmt::Debug for Device {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Device").field("name", &self.info.name).finish_non_exhaustive()
    }
}

impl Device {
    /// Opens `adapter`. Unsupported optional features are left disabled.
    pub(crate) fn open(adapter: &Adapter, settings: &Settings) -> Result<Device, Error> {
        let mut limits = adapter.adapter.limits();
        if let Some(max) = &settings.max_limits {
            limits = limits.or_worse_values_from(max);
        }
        let mut requested = wgpu::Features::empty();
        if settings.subgroups {
            requested |= wgpu::Features::SUBGROUP;
        }
        let size = coop_matrix_size(adapter).filter(|_| settings.subgroups && settings.coop_matrix);
        if size.is_some() {
            requested |= COOP_MATRIX;
        }
        if settings.timed {
            requested |= TIMESTAMPS;
        }
        let features = adapter.adapter.features() & requested;
        #[expect(unsafe_code, reason = "wgpu marks cooperative matrices as experimental")]
        // SAFETY: cooperative matrices are the only experimental feature used, with sizes that the adapter lists;
        // every pointer has a whole matrix of workgroup memory behind it.
        let experimental_features = unsafe { wgpu::ExperimentalFeatures::enabled() };
        let descriptor = wgpu::DeviceDescriptor {
            label: Some("rustorch"),
            required_features: features,
            required_limits: limits.clone(),
            memory_hints: wgpu::MemoryHints::MemoryUsage,
            experimental_features,
            ..Default::default()
        };
        let opened = pollster::block_on(adapter.adapter.request_device(&descriptor));
        let failed = |why: String| Error::Device { device: adapter.info.name.clone(), why };
        let (device, queue) = opened.map_err(|error| failed(error.to_string()))?;
        let lost = Arc::new(Mutex::new(None));
        let noted = lost.clone();
        device.set_device_lost_callback(move |reason, why| {
            lock(&noted).get_or_insert_with(|| format!("device lost ({reason:?}): {why}"));
        });
        let noted = lost.clone();
        device.on_uncaptured_error(Arc::new(move |error| {
            lock(&noted).get_or_insert_with(|| error.to_string());
        }));
        let subgroups = features.contains(wgpu::Features::SUBGROUP).then_some(Subgroups {
            min: adapter.info.subgroup_min_size,
            max: adapter.info.subgroup_max_size,
        });
        let caps = Caps {
            subgroups,
            coop_matrix: size.filter(|_| features.contains(COOP_MATRIX)),
            workgroup_memory: limits.max_compute_workgroup_storage_size,
            threads: limits.max_compute_invocations_per_workgroup,
        };
        Ok(Device {
            #[cfg(test)]
            guard: settings.sanitize.map(|sanitize| crate::tests::guard::Guard::new(&device, sanitize)),
            device,
            queue,
            limits,
            info: adapter.info.clone(),
            caps,
            is_timed: features.contains(TIMESTAMPS),
            checks: settings.checks,
            budget: settings.budget,
            used: Arc::default(),
            built: Mutex::default(),
            lost,
        })
    }

    pub(crate) fn describe(&self) -> Description {
        let info = &self.info;
        Description {
            name: info.backend.to_str(),
            device: info.name.clone(),
            facts: vec![
                ("driver", format!("{} {}", info.driver, info.driver_info)),
                ("subgroups", format!("{} to {}", info.subgroup_min_size, info.subgroup_max_size)),
            ],
        }
    }

    pub(crate) fn check(&self) -> Result<(), Error> {
        match &*lock(&self.lost) {
            None => Ok(()),
            Some(why) => Err(self.failed(why)),
        }
    }

    fn failed(&self, why: impl ToString) -> Error {
        Error::Device { device: self.info.name.clone(), why: why.to_string() }
    }

    /// Checks a buffer size against the limits on buffers and bindings.
    pub(crate) fn check_size(&self, purpose: Purpose, bytes: u64) -> Result<(), Error> {
        let is_bound = usage(purpose).contains(wgpu::BufferUsages::STORAGE);
        let max = self.limits.max_storage_buffer_binding_size;
        if bytes > self.limits.max_buffer_size || is_bound && bytes > max {
            let (name, remedy) = purpose.name_and_remedy();
            let what = match purpose {
                Purpose::Store => "the KV cache of a layer, which must fit in one binding",
                Purpose::Activations => "activations, which must fit in one binding",
                _ => name,
            };
            return Err(out_of_memory(what, bytes, remedy));
        }
        Ok(())
    }

    pub(crate) fn buffer(&self, purpose: Purpose, bytes: u64) -> Result<Buffer, Error> {
        self.buffer_with(purpose, bytes, usage(purpose))
    }

    /// Allocates a zeroed buffer that is used otherwise than others for this purpose.
    pub(crate) fn buffer_with(
        &self,
        purpose: Purpose,
        bytes: u64,
        usage: wgpu::BufferUsages,
    ) -> Result<Buffer, Error> {
        self.check()?;
        self.check_size(purpose, bytes)?;
        let (name, remedy) = purpose.name_and_remedy();
        let size = allocated_size(bytes);
        let (counted, used) = self.count(size);
        if self.budget.is_some_and(|budget| used > budget) {
            return Err(out_of_memory(name, bytes, Remedy::RaiseLimit));
        }
        let scope = self.device.push_error_scope(wgpu::ErrorFilter::OutOfMemory);
        let buffer = self.device.create_buffer(&wgpu::BufferDescriptor {
            label: Some(name),
            size,
            usage,
            mapped_at_creation: false,
        });
        match pollster::block_on(scope.pop()) {
            None => Ok(Buffer { buffer, _counted: counted }),
            Some(_) => Err(out_of_memory(name, bytes, remedy)),
        }
    }

    pub(crate) fn params(&self, words: &[u32]) -> Result<Buffer, Error> {
        let usage = wgpu::BufferUsages::UNIFORM | wgpu::BufferUsages::COPY_DST;
        let buffer = self.buffer_with(Purpose::Constants, size_of_val(words) as u64, usage)?;
        self.queue.write_buffer(&buffer, 0, bytemuck::cast_slice(words));
        Ok(buffer)
    }

    #[cfg(test)]
    pub(crate) fn used(&self) -> u64 {
        self.used.load(Ordering::Relaxed)
    }

    /// Counts `bytes` as used; returns the guard and the new total.
    fn count(&self, bytes: u64) -> (Arc<Counted>, u64) {
        let before = self.used.fetch_add(bytes, Ordering::Relaxed);
        (Arc::new(Counted { bytes, used: self.used.clone() }), before.saturating_add(bytes))
    }

    /// The pipeline of `kernel`, compiled on first use, and the layout of its buffers, of which there are `buffers`.
    ///
    /// # Panics
    /// When the kernel has another number of buffers.
    pub(crate) fn pipeline(
        &self,
        kernel: &Kernel,
        buffers: usize,
    ) -> (wgpu::ComputePipeline, wgpu::BindGroupLayout) {
        let source = kernel.source();
        let bindings = bindings(&source);
        assert_eq!(buffers, bindings.len(), "buffers of {kernel:?}");
        if let Some(pipeline) = lock(&self.built).pipelines.get(&source) {
            return pipeline.clone();
        }
        let (group, layout) = self.layouts(&bindings);
        #[cfg(test)]
        let guarded = self.guard.as_ref().map(|guard| guard.instrument(kernel, &source));
        #[cfg(not(test))]
        let guarded: Option<String> = None;
        let descriptor = wgpu::ShaderModuleDescriptor {
            label: Some(kernel.file()),
            source: wgpu::ShaderSource::Wgsl(guarded.as_deref().unwrap_or(&source).into()),
        };
        let module = if self.checks {
            self.device.create_shader_module(descriptor)
        } else {
            #[expect(unsafe_code, reason = "bounds checks cost time, and Metal has none of its own")]
            // SAFETY: the kernels are this crate's own. Sizes that indices derive from are checked when a graph is
            // compiled and when a step is submitted; tests bounds-check every index (`tests/guard.rs`).
            unsafe {
                self.device.create_shader_module_trusted(descriptor, wgpu::ShaderRuntimeChecks::unchecked())
            }
        };
        let pipeline = self.device.create_compute_pipeline(&wgpu::ComputePipelineDescriptor {
            label: Some(kernel.file()),
            layout: Some(&layout),
            module: &module,
            entry_point: Some("main"),
            compilation_options: wgpu::PipelineCompilationOptions {
                zero_initialize_workgroup_memory: false,
                ..Default::default()
            },
            cache: None,
        });
        lock(&self.built).pipelines.insert(source, (pipeline.clone(), group.clone()));
        (pipeline, group)
    }

    /// Guard columns on both sides of a value; 0 unless steps are sanitized.
    pub(crate) fn margin(&self) -> usize {
        #[cfg(test)]
        if self.guard.is_some() {
            return crate::tests::guard::MARGIN;
        }
        0
    }

    fn layouts(&self, bindings: &[Access]) -> (wgpu::BindGroupLayout, wgpu::PipelineLayout) {
        if let Some(layouts) = lock(&self.built).layouts.get(bindings) {
            return layouts.clone();
        }
        let entry = |(binding, access): (usize, &Access)| wgpu::BindGroupLayoutEntry {
            binding: binding as u32,
            visibility: wgpu::ShaderStages::COMPUTE,
            ty: wgpu::BindingType::Buffer {
                ty: match access {
                    Access::Constant => wgpu::BufferBindingType::Uniform,
                    Access::Read => wgpu::BufferBindingType::Storage { read_only: true },
                    Access::Write => wgpu::BufferBindingType::Storage { read_only: false },
                },
                has_dynamic_offset: false,
                min_binding_size: None,
            },
            count: None,
        };
        let entries: Vec<_> = bindings.iter().enumerate().map(entry).collect();
        let group = self
            .device
            .create_bind_group_layout(&wgpu::BindGroupLayoutDescriptor { label: None, entries: &entries });
        #[cfg(not(test))]
        let groups = [Some(&group)];
        #[cfg(test)]
        let groups: Vec<_> =
            std::iter::once(Some(&group)).chain(self.guard.iter().map(|guard| Some(&guard.layout))).collect();
        let layout = self.device.create_pipeline_layout(&wgpu::PipelineLayoutDescriptor {
            label: None,
            bind_group_layouts: &groups,
            immediate_size: 0,
        });
        lock(&self.built).layouts.insert(bindings.to_vec(), (group.clone(), layout.clone()));
        (group, layout)
    }

    /// Waits for the queue, maps the first `bytes` of `buffer` and passes them to `take`.
    pub(crate) fn read<T>(
        &self,
        buffer: &wgpu::Buffer,
        bytes: u64,
        take: impl FnOnce(&[u8]) -> T,
    ) -> Result<T, Error> {
        let slice = buffer.slice(..bytes);
        let (sender, mapped) = mpsc::channel();
        // The receiver is gone if waiting failed.
        slice.map_async(wgpu::MapMode::Read, move |result| drop(sender.send(result)));
        self.wait()?;
        // The callback may run on another thread that polls the same device.
        match mapped.recv_timeout(READ_TIMEOUT) {
            Ok(Ok(())) => {}
            Ok(Err(error)) => return Err(self.failed(error)),
            Err(_) => return Err(self.failed("timed out while reading results")),
        }
        let view = slice.get_mapped_range().map_err(|error| self.failed(error))?;
        let taken = take(&view);
        drop(view);
        buffer.unmap();
        self.check()?;
        Ok(taken)
    }

    /// Waits until all submitted work is done.
    pub(crate) fn wait(&self) -> Result<(), Error> {
        let waited = self.device.poll(wgpu::PollType::Wait { submission_index: None, timeout: None });
        self.check()?;
        waited.map(drop).map_err(|error| self.failed(error))
    }
}
