//! The devices that a command uses.

use std::sync::Arc;

use backend::{Device, DeviceKind, OpenOptions};
use backend_cpu::Isa;
use rustorch::devices::{self, NoGpu};

pub(crate) use rustorch::devices::{chosen, graphics_backends, host};

use crate::args::CpuArgs;
use crate::output;
use crate::registry::BackendName;
use crate::values::Size;

/// The GPUs of backend `name`, the one to fill first at the front. An error if `name` requires a GPU and there is none.
pub(crate) fn gpus(name: BackendName) -> anyhow::Result<Vec<Arc<dyn Device>>> {
    let found = devices::gpus(name).map_err(advised)?;
    note_software(found.first());
    Ok(found)
}

/// Notes that `first` is no GPU.
pub(crate) fn note_software(first: Option<&Arc<dyn Device>>) {
    let info = first.map(|device| device.info());
    if let Some(info) = info.filter(|info| info.kind == DeviceKind::SoftwareGpu) {
        output::note(format_args!(
            "rustorch: {} runs on the CPU; --backend cpu is faster",
            output::printable(&info.name, "")
        ));
    }
}

/// The error with the flags that help.
pub(crate) fn advised(error: NoGpu) -> anyhow::Error {
    match error {
        NoGpu::InBuild => anyhow::anyhow!("{error}; use --backend cpu"),
        NoGpu::Found(_) => {
            anyhow::anyhow!("{error}; `rustorch devices` lists all devices; use --backend cpu")
        }
    }
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
