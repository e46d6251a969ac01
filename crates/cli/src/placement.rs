//! The placement of layers on devices: from flags, and in words.

use backend::{Backend, Bucket, OpenOptions, Taps, Weights};
use engine::{LogitRows, Model, Options};
use runner::placement::{Layers, PlacementError, Request, SkipReason, SplitMode, TooManyProportions};
use runner::{Deployed, Deployment, DeviceConfig, FileWeights, Workload};
use rustorch::devices;

use crate::args::{BackendArgs, CpuArgs, GpuArgs};
use crate::output::{Usage, counted, note};
use crate::registry::BackendName;
use crate::values::Size;
use crate::{advice, backends, output};

/// The user's choice of devices.
#[derive(Clone, Debug)]
pub(crate) struct BackendChoice {
    pub(crate) name: BackendName,
    pub(crate) gpu: GpuArgs,
    pub(crate) cpu: CpuArgs,
    pub(crate) is_timed: bool,
}

impl From<&BackendArgs> for BackendChoice {
    fn from(args: &BackendArgs) -> BackendChoice {
        BackendChoice { name: args.backend, gpu: args.gpu.clone(), cpu: args.cpu, is_timed: false }
    }
}

impl BackendChoice {
    fn options(&self) -> OpenOptions {
        OpenOptions {
            f32_activations: self.name == BackendName::HybridF32,
            timed: self.is_timed,
            ..OpenOptions::from(self.cpu)
        }
    }

    /// The device of the layers that no GPU computes.
    pub(crate) fn host(&self) -> DeviceConfig {
        backends::host(self.name, self.options())
    }

    /// The devices. If all layers are for the CPU, no GPU driver is queried.
    pub(crate) fn deployment(&self) -> anyhow::Result<Deployment> {
        let memory = self.gpu.gpu_memory.map(|Size(bytes)| bytes);
        let GpuArgs { gpu_layers: layers, split, split_mode: mode, .. } = &self.gpu;
        let requested = Request { layers: *layers, split: split.tensor_split.clone(), mode: *mode };
        let deployment = devices::deployment(self.name, requested, self.options(), memory);
        let deployment = deployment.map_err(backends::advised)?;
        backends::note_software(deployment.devices.first().map(|config| &config.device));
        Ok(deployment)
    }
}

/// What a command reads after the steps of an engine.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Read {
    /// More than the last logits need a separate program.
    pub(crate) logits: LogitRows,
    /// Whether all values are read.
    pub(crate) values: bool,
}

impl Read {
    /// For sampling tokens.
    pub(crate) const LAST: Read = Read { logits: LogitRows::Last, values: false };
}

/// Calls `with` with the workload of an engine with these options.
pub(crate) fn of_engine<T>(
    model: &Model,
    options: &Options,
    read: Read,
    with: impl FnOnce(&Workload<'_>) -> anyhow::Result<T>,
) -> anyhow::Result<T> {
    of_weights(model, &FileWeights(model.file()), options, read, with)
}

/// The same with other weights than the file's.
pub(crate) fn of_weights<T>(
    model: &Model,
    weights: &dyn Weights,
    options: &Options,
    read: Read,
    with: impl FnOnce(&Workload<'_>) -> anyhow::Result<T>,
) -> anyhow::Result<T> {
    let engine::Layout { kv_layout, buckets, logits, .. } = options.layout(model)?;
    let asked = buckets.into_iter().chain((read.logits != LogitRows::Last).then_some(logits));
    let mut buckets: Vec<Bucket> = Vec::new();
    for bucket in asked {
        if !buckets.contains(&bucket) {
            buckets.push(bucket);
        }
    }
    with(&Workload {
        weights,
        graph: model.graph(),
        kv_layout,
        buckets,
        taps: if read.values { Taps::All } else { Taps::None },
    })
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
    pub(crate) fn new(choice: &BackendChoice, workload: &Workload<'_>) -> anyhow::Result<Placement> {
        let deployment = choice.deployment()?;
        let Request { layers, split, mode } = &deployment.requested;
        let is_without = deployment.devices.is_empty() && choice.name == BackendName::Auto;
        if is_without
            && split.is_none()
            && *mode == SplitMode::Layer
            && !matches!(layers, Layers::Auto | Layers::Last(0))
        {
            note(format_args!("rustorch: no GPU was found: the CPU computes all layers"));
        }
        let deployed = deployment.place(workload).map_err(|error| match error {
            PlacementError::TooManyProportions(error) => too_many(&error, choice.name),
            error => error.into(),
        })?;
        if deployed.placement().on_devices() == 0 {
            for (device, why) in &deployed.placement().skipped {
                let device = &deployed.budgets()[*device];
                let name = output::printable(&device.name, "");
                match why {
                    SkipReason::OutOfMemory => note(format_args!(
                        "rustorch: {name} has no memory for a layer of this model ({}): the CPU computes it",
                        device.budget
                    )),
                    SkipReason::Error(error) => note(format_args!(
                        "rustorch: {}; the CPU computes all layers",
                        output::printable(&error.to_string(), "")
                    )),
                }
            }
        }
        Ok(Placement { name: choice.name, deployed })
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
        if !self.deployed.ranks().is_empty() {
            let devices = self.deployed.ranks().iter().filter_map(|&device| self.deployed.device(device));
            let names =
                devices.map(|info| format!("{} ({})", info.backend, output::printable(&info.name, "")));
            let names: Vec<String> = names.collect();
            return format!(
                "{}, a part of all {} each",
                names.join(" and "),
                counted(layers as u64, "layer")
            );
        }
        let stages = self.deployed.placement().stages.iter().rev();
        let on_devices: Vec<String> = stages
            .filter_map(|stage| {
                let info = self.deployed.device(stage.device?)?;
                let share = match stage.layers.len() {
                    all if all == layers => format!("all {}", counted(layers as u64, "layer")),
                    some => format!("{some} of {layers} layers"),
                };
                Some(format!("{} ({}), {share}", info.backend, output::printable(&info.name, "")))
            })
            .collect();
        let on_cpu = match self.name {
            _ if !on_devices.is_empty() => match layers - self.on_gpu() {
                0 => return on_devices.join("; "),
                first => return format!("{}; {first} on the CPU", on_devices.join("; ")),
            },
            BackendName::HybridF32 => "cpu, with f32 activations",
            BackendName::Auto | BackendName::Named(_) => self.name.host(),
        };
        on_cpu.to_owned()
    }
}

#[cfg(test)]
mod tests;
