//! The backends of this build, and the devices that a model is put on. Only this file names the crates of all backends.

use std::str::FromStr;
use std::sync::{Arc, LazyLock};

use backend::{Device, DeviceInfo, Driver, OpenOptions, Registry};
use runner::placement::{Layers, Request, accelerators};
use runner::{Deployment, DeviceConfig};

/// The devices of all backends. A new backend is a line here.
pub fn registry() -> &'static Registry {
    static REGISTRY: LazyLock<Registry> = LazyLock::new(|| {
        let drivers: Vec<Box<dyn Driver>> = vec![
            Box::new(backend_cpu::CpuDriver),
            #[cfg(feature = "gpu")]
            Box::new(backend_cuda::CudaDriver),
            #[cfg(feature = "gpu")]
            Box::new(backend_wgpu::GpuDriver),
            Box::new(backend_reference::ReferenceDriver),
        ];
        Registry::new(drivers)
    });
    &REGISTRY
}

/// Backends missing from this build: those of the Cargo feature `gpu`.
const LEFT_OUT: &[&str] = if cfg!(feature = "gpu") { &[] } else { &["cuda", "vulkan", "metal"] };

/// What computes a model. [`FromStr`] reads names such as `vulkan`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum BackendName {
    /// GPUs if there are any, and the CPU.
    #[default]
    Auto,
    /// Both, without quantised activations.
    HybridF32,
    /// A driver's backend.
    Named(&'static str),
}

impl BackendName {
    /// The CPU alone.
    pub const CPU: BackendName = BackendName::Named("cpu");
    /// Exact and slow, for tests.
    pub const REFERENCE: BackendName = BackendName::Named("reference");

    /// All backends, also those that this build lacks.
    pub fn all() -> &'static [BackendName] {
        static ALL: LazyLock<Vec<BackendName>> = LazyLock::new(|| {
            let named = registry().backends().chain(LEFT_OUT.iter().copied()).map(BackendName::Named);
            [BackendName::Auto].into_iter().chain(named).chain([BackendName::HybridF32]).collect()
        });
        &ALL
    }

    /// Such as `vulkan`.
    pub fn name(self) -> &'static str {
        match self {
            BackendName::Auto => "auto",
            BackendName::HybridF32 => "hybrid-f32",
            BackendName::Named(name) => name,
        }
    }

    /// The backend of the layers that no GPU computes.
    pub fn host(self) -> &'static str {
        match self {
            BackendName::Named(name) if registry().is_host(name) => name,
            BackendName::Auto | BackendName::HybridF32 | BackendName::Named(_) => "cpu",
        }
    }

    /// Whether it uses no GPU.
    pub fn is_host(self) -> bool {
        matches!(self, BackendName::Named(name) if registry().is_host(name))
    }

    /// Whether it is an API of GPUs.
    pub fn is_graphics(self) -> bool {
        matches!(self, BackendName::Named(_)) && !self.is_host()
    }
}

/// There is no backend of this name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no backend `{name}`; there are {}", BackendName::all().iter().map(|name| name.name()).collect::<Vec<_>>().join(", "))]
pub struct UnknownBackend {
    name: String,
}

impl FromStr for BackendName {
    type Err = UnknownBackend;

    fn from_str(name: &str) -> Result<BackendName, UnknownBackend> {
        let found = BackendName::all().iter().find(|known| known.name().eq_ignore_ascii_case(name));
        found.copied().ok_or_else(|| UnknownBackend { name: name.to_owned() })
    }
}

#[cfg(feature = "clap")]
impl clap::ValueEnum for BackendName {
    fn value_variants<'a>() -> &'a [BackendName] {
        BackendName::all()
    }

    fn to_possible_value(&self) -> Option<clap::builder::PossibleValue> {
        Some(clap::builder::PossibleValue::new(self.name()))
    }
}

/// A requested GPU is not there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoGpu {
    /// This build has no GPU backend.
    #[error("this build of rustorch has no GPU backend: it was built without the Cargo feature `gpu`")]
    InBuild,
    /// No driver reports a device of this backend, or of any.
    #[error("there is no {} device: no driver reports one{}", .0.map_or_else(any_graphics, str::to_owned), needs(.0))]
    Found(Option<&'static str>),
}

/// Such as `; it needs a newer driver`.
fn needs(backend: &Option<&'static str>) -> String {
    let needs = backend.and_then(|name| registry().needs(name));
    needs.map_or_else(String::new, |needs| format!("; it needs {needs}"))
}

fn any_graphics() -> String {
    graphics_backends().collect::<Vec<_>>().join(" or ")
}

/// The names of the GPU backends of this build.
pub fn graphics_backends() -> impl Iterator<Item = &'static str> {
    registry().backends().filter(|name| BackendName::Named(name).is_graphics())
}

/// The device of the layers that no GPU computes: backend `name`, or the host that it uses.
pub fn host(name: BackendName, options: OpenOptions) -> DeviceConfig {
    let device = registry().of(name.host()).into_iter().next();
    DeviceConfig { device: device.expect("every build has the CPU and the reference"), options }
}

/// The accelerators among `devices` that are used; `is_named` if the user has named their backend, else for backend `auto`.
pub fn chosen(devices: Vec<Arc<dyn Device>>, is_named: bool) -> Vec<Arc<dyn Device>> {
    let infos: Vec<DeviceInfo> = devices.iter().map(|device| device.info()).collect();
    accelerators(&infos, is_named).into_iter().map(|index| devices[index].clone()).collect()
}

/// The GPUs of backend `name`, the one to fill first at the front.
///
/// # Errors
/// If `name` requires a GPU and there is none.
pub fn gpus(name: BackendName) -> Result<Vec<Arc<dyn Device>>, NoGpu> {
    let interface = match name {
        BackendName::Auto => return Ok(chosen(registry().likely(), false)),
        BackendName::HybridF32 => None,
        BackendName::Named(interface) if name.is_graphics() => Some(interface),
        BackendName::Named(_) => return Ok(Vec::new()),
    };
    let mut built = graphics_backends();
    if !built.any(|backend| interface.is_none_or(|interface| backend == interface)) {
        return Err(NoGpu::InBuild);
    }
    let found = chosen(interface.map_or_else(|| registry().devices(), |name| registry().of(name)), true);
    if found.is_empty() { Err(NoGpu::Found(interface)) } else { Ok(found) }
}

/// The devices of backend `name`. `options` are the host's; GPUs have the same but for their own limit on memory, `gpu_memory`
/// bytes. If all layers are for the host, no GPU driver is queried.
///
/// # Errors
/// If `name` requires a GPU and there is none.
pub fn deployment(
    name: BackendName,
    requested: Request,
    options: OpenOptions,
    gpu_memory: Option<u64>,
) -> Result<Deployment, NoGpu> {
    let options = OpenOptions { f32_activations: name == BackendName::HybridF32, ..options };
    let gpu_options = OpenOptions { memory: gpu_memory, ..options };
    let devices = match requested.layers {
        Layers::Last(0) => Vec::new(),
        Layers::Auto | Layers::All | Layers::Last(_) => gpus(name)?,
    };
    let devices = devices.into_iter().map(|device| DeviceConfig { device, options: gpu_options }).collect();
    Ok(Deployment { host: host(name, options), devices, requested, fallback: name == BackendName::Auto })
}
