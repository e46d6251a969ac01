//! The placement of layers on devices: from flags, and in words.

#[cfg(test)]
mod tests;

use std::sync::Arc;

use backend::{Backend, Bucket, Device, DeviceKind, OpenOptions, Taps, Weights};
use backend_cpu::Isa;
use engine::{LogitRows, Model, Options};
use runner::placement::{Layers, PlacementError, Request, SkipReason, SplitMode, TooManyProportions};
use runner::{Deployed, Deployment, DeviceConfig, Workload};
use rustorch::devices::{self, BackendName, NoGpu};

use crate::advice;
use crate::args::{BackendArgs, CpuArgs, GpuArgs};
use crate::output::{self, Usage, counted, note, printable};
use crate::values::Size;

impl BackendArgs {
    fn options(&self) -> OpenOptions {
        OpenOptions {
            f32_activations: self.backend == BackendName::HybridF32,
            timed: self.is_timed,
            ..OpenOptions::from(self.cpu)
        }
    }

    /// The device of the layers that no GPU computes.
    pub(crate) fn host(&self) -> DeviceConfig {
        devices::host(self.backend, self.options())
    }

    /// The devices. If all layers are for the CPU, no GPU driver is queried.
    pub(crate) fn deployment(&self) -> anyhow::Result<Deployment> {
        let memory = self.gpu.gpu_memory.map(|Size(bytes)| bytes);
        let GpuArgs { gpu_layers: layers, tensor_split: split, split_mode: mode, .. } = &self.gpu;
        let requested = Request { layers: *layers, split: split.clone(), mode: *mode };
        let deployment = devices::deployment(self.backend, requested, self.options(), memory);
        let deployment = deployment.map_err(advised)?;
        note_software(deployment.devices.first().map(|config| &config.device));
        Ok(deployment)
    }
}

/// The values that a command reads after the steps of an engine.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Read {
    /// More than the last logits need a separate program.
    pub(crate) logits: LogitRows,
    pub(crate) values: bool,
}

impl Read {
    /// For sampling tokens.
    pub(crate) const LAST: Read = Read { logits: LogitRows::Last, values: false };
}

pub(crate) fn workload<'a>(
    model: &'a Model,
    weights: &'a dyn Weights,
    options: &Options,
    read: Read,
) -> anyhow::Result<Workload<'a>> {
    let engine::Layout { kv_layout, buckets, logits, .. } = options.layout(model)?;
    let requested = buckets.into_iter().chain((read.logits != LogitRows::Last).then_some(logits));
    let mut buckets: Vec<Bucket> = Vec::new();
    for bucket in requested {
        if !buckets.contains(&bucket) {
            buckets.push(bucket);
        }
    }
    let taps = if read.values { Taps::All } else { Taps::None };
    Ok(Workload { weights, graph: model.graph(), kv_layout, buckets, taps })
}

/// The error of the command line that `-ts` has more proportions than backend `name` has GPUs.
pub(crate) fn too_many(error: &TooManyProportions, name: BackendName) -> anyhow::Error {
    let message = match error.devices {
        0 => format!(
            "-ts divides layers over GPUs, but backend {} has none here: omit it, or name a backend that has; `rustorch \
             devices` lists them",
            name.name()
        ),
        _ => format!("-ts has {error}: omit some; `rustorch devices` lists the GPUs in this order"),
    };
    Usage(message).into()
}

pub(crate) struct Placement {
    name: BackendName,
    deployed: Deployed,
}

impl Placement {
    pub(crate) fn new(args: &BackendArgs, workload: &Workload<'_>) -> anyhow::Result<Placement> {
        let deployment = args.deployment()?;
        let Request { layers, split, mode } = &deployment.requested;
        let is_without = deployment.devices.is_empty() && args.backend == BackendName::Auto;
        if is_without
            && split.is_none()
            && *mode == SplitMode::Layer
            && !matches!(layers, Layers::Auto | Layers::Last(0))
        {
            note(format_args!("rustorch: no GPU was found: the CPU computes all layers"));
        }
        let deployed = deployment.place(workload).map_err(|error| match error {
            PlacementError::TooManyProportions(error) => too_many(&error, args.backend),
            error => error.into(),
        })?;
        if deployed.placement().on_devices() == 0 {
            for (device, why) in &deployed.placement().skipped {
                let device = &deployed.budgets()[*device];
                let name = printable(&device.name, "");
                match why {
                    SkipReason::OutOfMemory => note(format_args!(
                        "rustorch: {name} has no memory for a layer of this model ({}): the CPU computes it",
                        device.budget
                    )),
                    SkipReason::Error(error) => note(format_args!(
                        "rustorch: {}; the CPU computes all layers",
                        printable(&error.to_string(), "")
                    )),
                }
            }
        }
        Ok(Placement { name: args.backend, deployed })
    }

    /// Opens the backend and calls `put`, which loads the model. If memory runs out, GPUs get fewer layers, unless the user has
    /// chosen the number.
    pub(crate) fn with<T>(
        mut self,
        mut put: impl FnMut(Box<dyn Backend>, &Placement) -> anyhow::Result<T>,
    ) -> anyhow::Result<T> {
        loop {
            let backend = self.deployed.open().map_err(Into::into);
            let error = match backend.and_then(|backend| put(backend, &self)) {
                Ok(done) => return Ok(done),
                Err(error) => error,
            };
            if !advice::fault(&error).is_some_and(|fault| self.deployed.fall_back(fault)) {
                return Err(error);
            }
            let goes_on = match self.on_gpu() {
                0 => "the CPU computes all layers".to_owned(),
                fewer => format!("trying {}", counted(fewer as u64, "layer")),
            };
            note(format_args!("rustorch: {}; {goes_on}", output::message(&error)));
        }
    }

    pub(crate) fn on_gpu(&self) -> usize {
        self.deployed.placement().on_devices()
    }

    /// Such as `vulkan (NVIDIA H200), all 8 layers`.
    pub(crate) fn in_words(&self) -> String {
        let layers = self.deployed.layers();
        let all = counted(layers as u64, "layer");
        let named = |device| {
            let info = self.deployed.device(device)?;
            Some(format!("{} ({})", info.backend, printable(&info.name, "")))
        };
        let ranks: Vec<String> = self.deployed.ranks().iter().filter_map(|&device| named(device)).collect();
        if !ranks.is_empty() {
            return format!("{}, a part of all {all} each", ranks.join(" and "));
        }
        let stages = self.deployed.placement().stages.iter().rev();
        let on_devices = stages.filter_map(|stage| {
            let (device, some) = (named(stage.device?)?, stage.layers.len());
            Some(if some == layers {
                format!("{device}, all {all}")
            } else {
                format!("{device}, {some} of {layers} layers")
            })
        });
        let on_devices = on_devices.collect::<Vec<_>>().join("; ");
        match layers - self.on_gpu() {
            _ if on_devices.is_empty() && self.name == BackendName::HybridF32 => {
                "cpu, with f32 activations".to_owned()
            }
            _ if on_devices.is_empty() => self.name.host().to_owned(),
            0 => on_devices,
            first => format!("{on_devices}; {first} on the CPU"),
        }
    }
}

/// The GPUs of backend `name`, the one to fill first at the front. An error if `name` requires a GPU and there is none.
pub(crate) fn gpus(name: BackendName) -> anyhow::Result<Vec<Arc<dyn Device>>> {
    let found = devices::gpus(name).map_err(advised)?;
    note_software(found.first());
    Ok(found)
}

/// Notes that `first` is no GPU.
fn note_software(first: Option<&Arc<dyn Device>>) {
    let info = first.map(|device| device.info());
    if let Some(info) = info.filter(|info| info.kind == DeviceKind::SoftwareGpu) {
        let name = printable(&info.name, "");
        note(format_args!("rustorch: {name} runs on the CPU; --backend cpu is faster"));
    }
}

fn advised(error: NoGpu) -> anyhow::Error {
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
