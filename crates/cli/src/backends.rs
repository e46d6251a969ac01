//! The devices that a command uses.

use std::sync::Arc;

use anyhow::bail;
use backend::{Device, DeviceInfo, DeviceKind, OpenOptions};
use backend_cpu::Isa;
use runner::DeviceConfig;
use runner::placement::accelerators;

use crate::args::CpuArgs;
use crate::output;
use crate::registry::{BackendName, registry};
use crate::values::Size;

pub(crate) fn graphics_backends() -> impl Iterator<Item = &'static str> {
    registry().backends().filter(|name| BackendName::Named(name).is_graphics())
}

/// The device of the layers that no GPU computes: backend `name`, or the host that it uses.
pub(crate) fn host(name: BackendName, options: OpenOptions) -> DeviceConfig {
    let device = registry().of(name.host()).into_iter().next();
    DeviceConfig { device: device.expect("every build has the CPU and the reference"), options }
}

/// The accelerators among `devices` that are used; `is_named` if the user has named their backend, else for backend `auto`.
pub(crate) fn chosen(devices: Vec<Arc<dyn Device>>, is_named: bool) -> Vec<Arc<dyn Device>> {
    let infos: Vec<DeviceInfo> = devices.iter().map(|device| device.info()).collect();
    accelerators(&infos, is_named).into_iter().map(|index| devices[index].clone()).collect()
}

/// The GPUs of backend `name`, the one to fill first at the front. An error if `name` requires a GPU and there is none.
pub(crate) fn graphics_of(name: BackendName) -> anyhow::Result<Vec<Arc<dyn Device>>> {
    let interface = match name {
        BackendName::Auto => return Ok(chosen(registry().likely(), false)),
        BackendName::HybridF32 => None,
        BackendName::Named(interface) if name.is_graphics() => Some(interface),
        BackendName::Named(_) => return Ok(Vec::new()),
    };
    let mut built = graphics_backends();
    if !built.any(|backend| interface.is_none_or(|interface| backend == interface)) {
        bail!(
            "this build of rustorch has no GPU backend: it was built without the Cargo feature `gpu`; use --backend \
             cpu"
        );
    }
    let found = chosen(interface.map_or_else(|| registry().devices(), |name| registry().of(name)), true);
    let Some(first) = found.first().map(|device| device.info()) else {
        bail!(
            "there is no {} device: no driver reports one; `rustorch devices` lists all devices; use --backend cpu",
            interface.map_or_else(|| graphics_backends().collect::<Vec<_>>().join(" or "), str::to_owned)
        )
    };
    if first.kind == DeviceKind::SoftwareGpu {
        output::note(format_args!(
            "rustorch: {} runs on the CPU; --backend cpu is faster",
            output::printable(&first.name, "")
        ));
    }
    Ok(found)
}

impl From<CpuArgs> for OpenOptions {
    fn from(CpuArgs { threads, isa, weights }: CpuArgs) -> OpenOptions {
        OpenOptions {
            threads,
            instruction_set: isa.map(Isa::name),
            leave_weights_in_file: weights.no_repack,
            memory: weights.memory.map(|Size(bytes)| bytes),
            ..OpenOptions::default()
        }
    }
}
