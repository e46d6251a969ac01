//! Adapters, and a device with its pipelines.

use std::collections::HashMap;
use std::ops::Deref;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, LazyLock, Mutex, mpsc};
use std::time::Duration;

use backend::{Description, Error, MemoryKind, Remedy};

use crate::kernels::{Access, Kernel};
use crate::lock::lock;
use crate::policy::{Abilities, Subgroups};

/// The interfaces that are asked for devices.
const BACKENDS: wgpu::Backends = wgpu::Backends::VULKAN.union(wgpu::Backends::METAL);

/// One for the process: drivers have room for few.
static INSTANCE: LazyLock<wgpu::Instance> = LazyLock::new(|| {
    let mut descriptor = wgpu::InstanceDescriptor::new_without_display_handle();
    descriptor.backends = BACKENDS;
    wgpu::Instance::new(descriptor)
});

/// How long results may be on their way when all is computed: a guard against waiting for ever.
const ARRIVAL: Duration = Duration::from_secs(60);

/// What a buffer is for that kernels write, and that is copied.
pub(crate) const WRITTEN: wgpu::BufferUsages =
    wgpu::BufferUsages::STORAGE.union(wgpu::BufferUsages::COPY_SRC).union(wgpu::BufferUsages::COPY_DST);

/// What products by matrix units need.
const MATRICES: wgpu::Features =
    wgpu::Features::EXPERIMENTAL_COOPERATIVE_MATRIX.union(wgpu::Features::SHADER_F16);

/// What timing dispatches needs.
const TIMES: wgpu::Features =
    wgpu::Features::TIMESTAMP_QUERY.union(wgpu::Features::TIMESTAMP_QUERY_INSIDE_PASSES);

/// Rows and columns of the matrices of f16 that `adapter` multiplies to sums of f32, when it has all that is needed.
fn matrix_size(adapter: &Adapter) -> Option<usize> {
    let sizes = adapter.adapter.cooperative_matrix_properties();
    let has = |size: u32| {
        sizes.iter().any(|found| {
            let types = (found.ab_type, found.cr_type);
            (found.m_size, found.n_size, found.k_size) == (size, size, size)
                && types == (wgpu::CooperativeScalarType::F16, wgpu::CooperativeScalarType::F32)
        })
    };
    let has_features = adapter.adapter.features().contains(MATRICES);
    [16, 8].into_iter().find(|&size| has_features && has(size)).map(|size| size as usize)
}

/// A graphics processor, or a program that stands in for one.
#[derive(Clone, Debug)]
pub struct Adapter {
    pub(crate) adapter: wgpu::Adapter,
    pub(crate) info: wgpu::AdapterInfo,
}

/// All adapters of this machine, real processors first.
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

impl Adapter {
    /// The device's name.
    pub fn name(&self) -> &str {
        &self.info.name
    }

    /// `vulkan` or `metal`.
    pub fn interface(&self) -> &'static str {
        self.info.backend.to_str()
    }

    /// Whether it computes on the processor.
    pub fn is_software(&self) -> bool {
        self.info.device_type == wgpu::DeviceType::Cpu
    }
}

/// What a device is opened with.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    /// No larger limits than these are asked for.
    pub(crate) most: Option<wgpu::Limits>,
    /// Whether kernels add across subgroups where the device can.
    pub(crate) subgroups: bool,
    /// Whether they multiply by matrix units where it has them.
    pub(crate) matrices: bool,
    /// Whether kernels are compiled with checks of every index.
    pub(crate) checks: bool,
    /// Bytes that buffers may have together.
    pub(crate) budget: Option<u64>,
    /// Whether dispatches are timed where the device has a clock.
    pub(crate) timed: bool,
    /// What is watched in every step.
    #[cfg(test)]
    pub(crate) watch: Option<crate::guard::Watch>,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            most: None,
            subgroups: true,
            matrices: true,
            checks: cfg!(debug_assertions),
            budget: None,
            timed: false,
            #[cfg(test)]
            watch: None,
        }
    }
}

/// What a buffer is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Purpose {
    Weights,
    Store,
    Activations,
    AttentionParts,
    Inputs,
    Results,
    Constants,
    Times,
}

impl Purpose {
    /// What errors call it.
    fn name(self) -> &'static str {
        match self {
            Purpose::Weights => "weights",
            Purpose::Store => "the K/V cache",
            Purpose::Activations => "activations",
            Purpose::AttentionParts => "parts of attention",
            Purpose::Inputs => "inputs of a step",
            Purpose::Results => "results",
            Purpose::Constants => "constants",
            Purpose::Times => "times",
        }
    }

    /// The same where it is longer than what a kernel can bind.
    fn name_as_a_whole(self) -> &'static str {
        match self {
            Purpose::Store => "the K/V cache of a layer, which the device must bind as a whole",
            Purpose::Activations => "activations, which the device must bind as a whole",
            Purpose::Weights
            | Purpose::AttentionParts
            | Purpose::Inputs
            | Purpose::Results
            | Purpose::Constants
            | Purpose::Times => self.name(),
        }
    }

    /// What to do where there is no room for it.
    fn remedy(self) -> Remedy {
        match self {
            Purpose::Weights | Purpose::Constants => Remedy::FewerLayers,
            Purpose::Store => Remedy::SmallerContext,
            Purpose::Activations
            | Purpose::AttentionParts
            | Purpose::Inputs
            | Purpose::Results
            | Purpose::Times => Remedy::SmallerBatch,
        }
    }
}

/// Bytes that a buffer of `bytes` takes.
pub(crate) fn taken(bytes: u64) -> u64 {
    bytes.next_multiple_of(16).max(16)
}

/// A buffer that is counted as long as it is there.
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

/// Bytes of a device's memory that are in use.
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

/// A device and what is built on it once.
pub(crate) struct Device {
    pub(crate) device: wgpu::Device,
    pub(crate) queue: wgpu::Queue,
    pub(crate) limits: wgpu::Limits,
    pub(crate) info: wgpu::AdapterInfo,
    pub(crate) abilities: Abilities,
    /// Whether every dispatch is timed.
    pub(crate) is_timed: bool,
    /// Whether kernels check their indices.
    checks: bool,
    /// Bytes that buffers may have together, and those they have.
    budget: Option<u64>,
    used: Arc<AtomicU64>,
    #[cfg(test)]
    pub(crate) guard: Option<crate::guard::Guard>,
    built: Mutex<Built>,
    /// Why the device is gone, once it is.
    lost: Arc<Mutex<Option<String>>>,
}

#[derive(Default)]
struct Built {
    pipelines: HashMap<String, wgpu::ComputePipeline>,
    layouts: HashMap<Vec<Access>, (wgpu::BindGroupLayout, wgpu::PipelineLayout)>,
}

impl std::fmt::Debug for Device {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Device").field("name", &self.info.name).finish_non_exhaustive()
    }
}

impl Device {
    /// Opens `adapter`; times dispatches if it is to and can.
    pub(crate) fn open(adapter: &Adapter, settings: &Settings) -> Result<Device, Error> {
        let mut limits = adapter.adapter.limits();
        if let Some(most) = &settings.most {
            limits = limits.or_worse_values_from(most);
        }
        let mut wanted = wgpu::Features::empty();
        if settings.subgroups {
            wanted |= wgpu::Features::SUBGROUP;
        }
        let size = matrix_size(adapter).filter(|_| settings.subgroups && settings.matrices);
        if size.is_some() {
            wanted |= MATRICES;
        }
        if settings.timed {
            wanted |= TIMES;
        }
        let features = adapter.adapter.features() & wanted;
        #[expect(unsafe_code, reason = "matrix units are not to be had otherwise")]
        // SAFETY: of what wgpu calls experimental, kernels use cooperative matrices alone, of sizes that the adapter
        // lists, with pointers to workgroup memory that whole matrices lie behind.
        let experimental_features = unsafe { wgpu::ExperimentalFeatures::enabled() };
        let descriptor = wgpu::DeviceDescriptor {
            label: Some("rustorch"),
            required_features: features,
            required_limits: limits.clone(),
            memory_hints: wgpu::MemoryHints::MemoryUsage,
            experimental_features,
            ..Default::default()
        };
        let failed = |why: String| Error::Device { device: adapter.info.name.clone(), why };
        let opened = pollster::block_on(adapter.adapter.request_device(&descriptor));
        let (device, queue) = opened.map_err(|error| failed(error.to_string()))?;
        let lost = Arc::new(Mutex::new(None));
        let noted = lost.clone();
        device.set_device_lost_callback(move |reason, why| {
            lock(&noted).get_or_insert_with(|| format!("it was lost ({reason:?}): {why}"));
        });
        let noted = lost.clone();
        device.on_uncaptured_error(Arc::new(move |error| {
            lock(&noted).get_or_insert_with(|| error.to_string());
        }));
        let subgroups = features.contains(wgpu::Features::SUBGROUP).then_some(Subgroups {
            least: adapter.info.subgroup_min_size,
            most: adapter.info.subgroup_max_size,
        });
        let abilities = Abilities {
            subgroups,
            matrices: size.filter(|_| features.contains(MATRICES)),
            workgroup_memory: limits.max_compute_workgroup_storage_size,
            threads: limits.max_compute_invocations_per_workgroup,
        };
        Ok(Device {
            #[cfg(test)]
            guard: settings.watch.map(|watch| crate::guard::Guard::new(&device, watch)),
            device,
            queue,
            limits,
            info: adapter.info.clone(),
            abilities,
            is_timed: features.contains(TIMES),
            checks: settings.checks,
            budget: settings.budget,
            used: Arc::default(),
            built: Mutex::default(),
            lost,
        })
    }

    /// What it is, for people.
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

    /// # Errors
    /// Once the device is gone, or has refused anything it was told.
    pub(crate) fn check(&self) -> Result<(), Error> {
        match &*lock(&self.lost) {
            None => Ok(()),
            Some(why) => Err(Error::Device { device: self.info.name.clone(), why: why.clone() }),
        }
    }

    /// Whether the device can have and bind a buffer so long.
    ///
    /// # Errors
    /// When it cannot, whatever else it holds.
    pub(crate) fn check_size(
        &self,
        purpose: Purpose,
        bytes: u64,
        usage: wgpu::BufferUsages,
    ) -> Result<(), Error> {
        let is_bound = usage.contains(wgpu::BufferUsages::STORAGE);
        let most = self.limits.max_storage_buffer_binding_size;
        if bytes > self.limits.max_buffer_size || is_bound && bytes > most {
            return Err(Error::OutOfMemory {
                what: purpose.name_as_a_whole(),
                bytes,
                memory: MemoryKind::Device,
                remedy: purpose.remedy(),
            });
        }
        Ok(())
    }

    /// A buffer, all zeros.
    ///
    /// # Errors
    /// When the device has no room.
    pub(crate) fn buffer(
        &self,
        purpose: Purpose,
        bytes: u64,
        usage: wgpu::BufferUsages,
    ) -> Result<Buffer, Error> {
        self.check()?;
        self.check_size(purpose, bytes, usage)?;
        let no_room =
            |remedy| Error::OutOfMemory { what: purpose.name(), bytes, memory: MemoryKind::Device, remedy };
        let size = taken(bytes);
        let (counted, used) = self.count(size);
        if self.budget.is_some_and(|budget| used > budget) {
            return Err(no_room(Remedy::RaiseLimit));
        }
        let scope = self.device.push_error_scope(wgpu::ErrorFilter::OutOfMemory);
        let buffer = self.device.create_buffer(&wgpu::BufferDescriptor {
            label: Some(purpose.name()),
            size,
            usage,
            mapped_at_creation: false,
        });
        match pollster::block_on(scope.pop()) {
            None => Ok(Buffer { buffer, _counted: counted }),
            Some(_) => Err(no_room(purpose.remedy())),
        }
    }

    /// A buffer that holds `words` from the beginning.
    ///
    /// # Errors
    /// When the device has no room.
    pub(crate) fn constants(&self, words: &[u32], usage: wgpu::BufferUsages) -> Result<Buffer, Error> {
        let usage = usage | wgpu::BufferUsages::COPY_DST;
        let buffer = self.buffer(Purpose::Constants, size_of_val(words) as u64, usage)?;
        self.queue.write_buffer(&buffer, 0, bytemuck::cast_slice(words));
        Ok(buffer)
    }

    /// Bytes that buffers have now.
    #[cfg(test)]
    pub(crate) fn used(&self) -> u64 {
        self.used.load(Ordering::Relaxed)
    }

    /// Counts `bytes` more as used; also says how many that makes.
    fn count(&self, bytes: u64) -> (Arc<Counted>, u64) {
        let before = self.used.fetch_add(bytes, Ordering::Relaxed);
        (Arc::new(Counted { bytes, used: self.used.clone() }), before.saturating_add(bytes))
    }

    /// The pipeline of `kernel`, built when it is asked for first.
    pub(crate) fn pipeline(&self, kernel: &Kernel) -> wgpu::ComputePipeline {
        let source = kernel.source();
        if let Some(pipeline) = lock(&self.built).pipelines.get(&source) {
            return pipeline.clone();
        }
        let (_, layout) = self.layouts(&kernel.bindings());
        #[cfg(not(test))]
        let module = self.module(kernel.file(), &source);
        #[cfg(test)]
        let module = match &self.guard {
            Some(guard) => self.module(kernel.file(), &guard.instrument(kernel, &source)),
            None => self.module(kernel.file(), &source),
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
        lock(&self.built).pipelines.insert(source, pipeline.clone());
        pipeline
    }

    fn module(&self, label: &str, source: &str) -> wgpu::ShaderModule {
        let descriptor = wgpu::ShaderModuleDescriptor {
            label: Some(label),
            source: wgpu::ShaderSource::Wgsl(source.into()),
        };
        if self.checks {
            return self.device.create_shader_module(descriptor);
        }
        #[expect(unsafe_code, reason = "checks of every index, which Metal has not by itself, cost time")]
        // SAFETY: kernels are this crate's; what they index with comes from sizes that are checked when a graph is
        // compiled and when a step is run. Tests watch every index (`guard.rs`).
        unsafe {
            self.device.create_shader_module_trusted(descriptor, wgpu::ShaderRuntimeChecks::unchecked())
        }
    }

    /// Columns that are left free on both sides of a value: none, but where a step is watched.
    pub(crate) fn margin(&self) -> usize {
        #[cfg(test)]
        if self.guard.is_some() {
            return crate::guard::MARGIN;
        }
        0
    }

    /// The layouts of a kernel with such bindings.
    pub(crate) fn layouts(&self, bindings: &[Access]) -> (wgpu::BindGroupLayout, wgpu::PipelineLayout) {
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

    /// Waits until all that was submitted is done, and shows `take` the beginning of `buffer`, which can be mapped.
    ///
    /// # Errors
    /// When the device is gone.
    pub(crate) fn read<T>(
        &self,
        buffer: &wgpu::Buffer,
        bytes: u64,
        take: impl FnOnce(&[u8]) -> T,
    ) -> Result<T, Error> {
        let slice = buffer.slice(..bytes);
        let (sender, mapped) = mpsc::channel();
        // Nobody listens any more once waiting has failed.
        slice.map_async(wgpu::MapMode::Read, move |result| drop(sender.send(result)));
        self.wait()?;
        let failed = |why: String| Error::Device { device: self.info.name.clone(), why };
        // Another thread that waits for this device may be the one that is just about to tell.
        match mapped.recv_timeout(ARRIVAL) {
            Ok(Ok(())) => {}
            Ok(Err(error)) => return Err(failed(error.to_string())),
            Err(_) => return Err(failed("results did not arrive".into())),
        }
        let view = slice.get_mapped_range().map_err(|error| failed(error.to_string()))?;
        let taken = take(&view);
        drop(view);
        buffer.unmap();
        self.check()?;
        Ok(taken)
    }

    /// Waits until all that was submitted is done.
    ///
    /// # Errors
    /// When the device is gone.
    pub(crate) fn wait(&self) -> Result<(), Error> {
        let waited = self.device.poll(wgpu::PollType::Wait { submission_index: None, timeout: None });
        self.check()?;
        waited
            .map(drop)
            .map_err(|error| Error::Device { device: self.info.name.clone(), why: error.to_string() })
    }
}
