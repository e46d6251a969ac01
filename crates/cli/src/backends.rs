//! The devices of this machine that a command computes with.

use std::sync::Arc;

use anyhow::bail;
use backend::{Device, DeviceInfo, DeviceKind, OpenOptions};
use backend_cpu::Isa;
use runner::DeviceConfig;
use runner::placement::accelerators;

use crate::args::{CpuArgs, WeightsArgs};
use crate::output;
use crate::registry::{BackendName, LEFT_OUT, registry};
use crate::values::Size;

/// The backends of graphics processors that this build has.
pub(crate) fn graphics_backends() -> impl Iterator<Item = &'static str> {
    registry().backends().filter(|name| BackendName::Named(name).is_graphics())
}

/// What has all layers of a model, or those that no graphics processor has: backend `name`, or what it uses there.
pub(crate) fn host(name: BackendName, options: OpenOptions) -> DeviceConfig {
    let device = registry().of(name.host()).into_iter().next();
    DeviceConfig { device: device.expect("every build has both"), options }
}

/// Those of `devices` that compute a model's layers besides the host; `is_named` when the user has asked for them.
fn chosen(devices: Vec<Arc<dyn Device>>, is_named: bool) -> Vec<Arc<dyn Device>> {
    let infos: Vec<DeviceInfo> = devices.iter().map(|device| device.info()).collect();
    accelerators(&infos, is_named).into_iter().map(|index| devices[index].clone()).collect()
}

/// The graphics processors that `name` means, the one to fill first at the front. None when it means some only where
/// there are any.
pub(crate) fn graphics_of(name: BackendName) -> anyhow::Result<Vec<Arc<dyn Device>>> {
    let interface = match name {
        BackendName::Auto => return Ok(taken_by_auto(registry().likely())),
        BackendName::HybridF32 => None,
        BackendName::Named(interface) if name.is_graphics() => Some(interface),
        BackendName::Named(_) => return Ok(Vec::new()),
    };
    let mut built = graphics_backends();
    if !built.any(|backend| interface.is_none_or(|interface| backend == interface)) {
        let of = |(name, _): &&(&str, &str)| interface.is_none_or(|interface| *name == interface);
        let feature = LEFT_OUT.iter().find(of).map_or("gpu", |(_, feature)| feature);
        bail!(
            "this build of rustorch has no graphics backend: it was built without the Cargo feature `{feature}`; \
             --backend cpu needs none"
        );
    }
    let found = chosen(interface.map_or_else(|| registry().devices(), |name| registry().of(name)), true);
    let Some(first) = found.first().map(|device| device.info()) else {
        bail!(
            "there is no {} device: no driver says it has one; `rustorch devices` lists what there is, and \
             --backend cpu needs none",
            interface.map_or_else(|| graphics_backends().collect::<Vec<_>>().join(" or "), str::to_owned)
        )
    };
    if first.kind == DeviceKind::SoftwareGpu {
        output::note(format_args!(
            "rustorch: {} computes on the processor; --backend cpu is faster",
            output::printable(&first.name, "")
        ));
    }
    Ok(found)
}

/// Those of `devices` that backend `auto` takes.
pub(crate) fn taken_by_auto(devices: Vec<Arc<dyn Device>>) -> Vec<Arc<dyn Device>> {
    chosen(devices, false)
}

/// How devices are opened.
impl From<CpuArgs> for OpenOptions {
    fn from(CpuArgs { threads, isa, weights }: CpuArgs) -> OpenOptions {
        OpenOptions { threads, instruction_set: isa.map(Isa::name), ..OpenOptions::from(weights) }
    }
}

impl From<WeightsArgs> for OpenOptions {
    fn from(weights: WeightsArgs) -> OpenOptions {
        OpenOptions {
            leave_weights_in_file: weights.no_repack,
            memory: weights.memory.map(|Size(bytes)| bytes),
            ..OpenOptions::default()
        }
    }
}
