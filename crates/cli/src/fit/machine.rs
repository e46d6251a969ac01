//! The memory of this machine, and what of a model fits in it.

use std::sync::Arc;

use backend::{Backend, Device, DeviceKind, Memory, OpenOptions, Taps, Weights, host_memory};
use engine::{Model, Options};
use runner::placement::{Layers, Request};
use runner::{Deployment, DeviceConfig, Survey, Workload};

use super::{Fit, Place};
use crate::args::{CpuArgs, SplitArgs, WeightsArgs};
use crate::backends;
use crate::placement::{self, Read};
use crate::registry::{BackendName, registry};
use crate::values::Size;

/// The devices that a model is compared with.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct DeviceArgs {
    /// Compare the model with the devices of this backend; auto queries the GPUs
    #[arg(long, value_enum, default_value_t = BackendName::Auto, env)]
    backend: BackendName,
    #[command(flatten)]
    split: SplitArgs,
    /// Memory limit per GPU, such as 2GiB [default: the free memory]
    #[arg(long, value_name = "SIZE", env)]
    gpu_memory: Option<Size>,
}

/// The GPUs of a backend that it would use. An error if there are fewer than proportions to divide layers in.
pub(crate) fn chosen(args: &DeviceArgs) -> anyhow::Result<Deployment> {
    let split = args.split.tensor_split.clone();
    let devices = backends::chosen(graphics(args.backend), args.backend != BackendName::Auto);
    let checked = split.as_ref().map_or(Ok(()), |split| split.check(devices.len()));
    checked.map_err(|error| placement::too_many(&error, args.backend))?;
    Ok(deployment(args, devices, Request { split, ..Request::from(Layers::Auto) }))
}

/// All GPUs of a backend.
pub(crate) fn all(args: &DeviceArgs) -> Deployment {
    deployment(args, graphics(args.backend), Layers::Auto.into())
}

fn graphics(name: BackendName) -> Vec<Arc<dyn Device>> {
    let mut devices = match name {
        BackendName::Auto => registry().likely(),
        BackendName::HybridF32 => registry().devices(),
        BackendName::Named(backend) => registry().of(backend),
    };
    devices.retain(|device| !matches!(device.info().kind, DeviceKind::Cpu | DeviceKind::Reference));
    devices
}

fn deployment(args: &DeviceArgs, devices: Vec<Arc<dyn Device>>, requested: Request) -> Deployment {
    let &DeviceArgs { backend: name, gpu_memory, .. } = args;
    let options = OpenOptions {
        f32_activations: name == BackendName::HybridF32,
        memory: gpu_memory.map(|Size(bytes)| bytes),
        ..OpenOptions::default()
    };
    let devices = devices.into_iter().map(|device| DeviceConfig { device, options });
    Deployment { host: backends::host(name, options), devices: devices.collect(), requested, fallback: true }
}

/// CPU and GPUs, which stay open.
pub(crate) struct Machine<'a> {
    host: Box<dyn Backend>,
    /// Memory on the CPU, if known.
    pub(crate) available: Option<u64>,
    gpus: Survey<'a>,
}

impl<'a> Machine<'a> {
    pub(crate) fn new(gpus: &'a Deployment, weights: WeightsArgs) -> anyhow::Result<Machine<'a>> {
        let options = OpenOptions::from(CpuArgs { threads: None, isa: None, weights });
        let available = options.memory.or_else(|| host_memory().free);
        let host = backends::host(BackendName::CPU, options).open()?;
        Ok(Machine { host, available, gpus: gpus.survey() })
    }

    /// GPUs with their memory, in words.
    pub(crate) fn gpus(&self) -> impl Iterator<Item = (&str, String)> {
        self.gpus.budgets().iter().map(|device| (&*device.name, device.budget.to_string()))
    }

    /// Where `model` with these weights fits, if they were `scale` times as large.
    pub(crate) fn fit(
        &mut self,
        model: &Model,
        weights: &dyn Weights,
        options: &Options,
        scale: f64,
    ) -> anyhow::Result<Fit> {
        placement::of_weights(model, weights, options, Read::LAST, |workload| {
            let Workload { weights, graph, kv_layout, buckets, .. } = workload;
            let held = self.host.requirements(graph, *weights, kv_layout, buckets, Taps::None)?;
            let gpu_layers = self.gpus.offloaded(workload, scale);
            let layers = graph.layers();
            let allocated = allocated(&held, scale, (layers - gpu_layers) as f64 / layers.max(1) as f64);
            let on_cpu = |room| if allocated <= room { Place::Cpu } else { Place::Nowhere };
            let place = match gpu_layers {
                0 => self.available.map(on_cpu),
                all if all == layers => Some(Place::Gpu),
                _ => self.available.map(|room| match on_cpu(room) {
                    Place::Cpu => Place::GpuAndCpu,
                    place => place,
                }),
            };
            Ok(Fit {
                memory: times(held.weights_mapped, scale).saturating_add(self::allocated(&held, scale, 1.0)),
                gpu_memory: self.gpus.needed(workload, scale),
                place,
                gpu_layers,
                layers,
            })
        })
    }
}

/// Bytes besides the file that a share of the layers takes on the CPU.
fn allocated(memory: &Memory, scale: f64, share: f64) -> u64 {
    let of_layers = times(memory.weights_owned, scale).saturating_add(memory.kv);
    times(of_layers, share).saturating_add(memory.activations)
}

/// Exact for a factor of 1.
fn times(bytes: u64, factor: f64) -> u64 {
    if factor == 1.0 { bytes } else { (bytes as f64 * factor) as u64 }
}
