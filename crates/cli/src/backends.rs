//! Making backends: the one place that names them all.

use std::num::NonZero;

use anyhow::{Context, bail};
use backend::Backend;
use backend_cpu::{Cpu, Isa};
use backend_reference::Reference;
use backend_wgpu::{Adapter, Gpu};
use clap::builder::FalseyValueParser;
use engine::Split;

use crate::args::{BackendArgs, BackendName, CpuArgs};
use crate::output;
use crate::values::GpuLayers;

/// The backend asked for, empty, for a model of so many layers.
pub(crate) fn made(
    name: BackendName,
    gpu_layers: GpuLayers,
    args: CpuArgs,
    layers: usize,
) -> anyhow::Result<Box<dyn Backend>> {
    let on_gpu = match gpu_layers {
        GpuLayers::Auto | GpuLayers::All => layers,
        GpuLayers::Last(n) => layers.min(n),
    };
    let gpu = match name {
        BackendName::Cpu | BackendName::Reference => return called(name, args),
        _ if on_gpu == 0 => return called(BackendName::Cpu, args),
        BackendName::Auto => match real() {
            Some(adapter) => Gpu::new(&adapter)?,
            None => return called(BackendName::Cpu, args),
        },
        BackendName::Metal | BackendName::Vulkan => Gpu::new(&adapter(name)?)?,
    };
    if on_gpu == layers {
        return Ok(Box::new(gpu));
    }
    Ok(Box::new(Split::new(Box::new(cpu(args)), Box::new(gpu), layers - on_gpu)))
}

/// The backend that the options of an engine ask for.
pub(crate) fn asked_for(args: &BackendArgs, layers: usize) -> anyhow::Result<Box<dyn Backend>> {
    made(args.backend, args.gpu_layers, args.cpu, layers)
}

/// The backend of this name, empty, with all layers of a model.
pub(crate) fn called(name: BackendName, args: CpuArgs) -> anyhow::Result<Box<dyn Backend>> {
    Ok(match name {
        BackendName::Cpu => Box::new(cpu(args)),
        BackendName::Reference => Box::new(Reference::new()),
        BackendName::Auto => match real() {
            Some(adapter) => Box::new(Gpu::new(&adapter)?),
            None => Box::new(cpu(args)),
        },
        BackendName::Metal | BackendName::Vulkan => Box::new(Gpu::new(&adapter(name)?)?),
    })
}

/// The best graphics processor; no program that stands in for one.
fn real() -> Option<Adapter> {
    backend_wgpu::adapters().into_iter().find(|adapter| !adapter.is_software())
}

/// The best adapter of an interface.
fn adapter(name: BackendName) -> anyhow::Result<Adapter> {
    let interface = match name {
        BackendName::Metal => "metal",
        _ => "vulkan",
    };
    let found = backend_wgpu::adapters().into_iter().find(|adapter| adapter.interface() == interface);
    let Some(adapter) = found else {
        bail!(
            "there is no {interface} device: no driver says it has one; `rustorch devices` lists what there is, \
             and --backend cpu needs none"
        )
    };
    if adapter.is_software() {
        output::note(format_args!(
            "rustorch: {} computes on the processor; --backend cpu is faster",
            adapter.name()
        ));
    }
    Ok(adapter)
}

/// Every backend of this machine.
pub(crate) fn all(args: CpuArgs) -> anyhow::Result<Vec<Box<dyn Backend>>> {
    let mut all: Vec<Box<dyn Backend>> = vec![Box::new(cpu(args))];
    for adapter in backend_wgpu::adapters() {
        all.push(Box::new(Gpu::new(&adapter).with_context(|| adapter.name().to_owned())?));
    }
    all.push(Box::new(Reference::new()));
    Ok(all)
}

/// Where the CPU has weights.
#[derive(Clone, Copy, Debug, clap::Args)]
pub(crate) struct WeightsArgs {
    /// Use weights where they lie in the file, without a copy packed for the CPU's kernels: for models that
    /// memory has room for once; answers are the same, and come more slowly
    #[arg(long, env = "RUSTORCH_NO_REPACK", value_parser = FalseyValueParser::new())]
    pub(crate) no_repack: bool,
}

impl WeightsArgs {
    /// `cpu` with its weights there.
    pub(crate) fn on(self, cpu: Cpu) -> Cpu {
        if self.no_repack { cpu.without_repacking() } else { cpu }
    }
}

fn cpu(CpuArgs { threads, isa, weights }: CpuArgs) -> Cpu {
    let cpu = Cpu::with_isa(threads, isa.unwrap_or_else(Isa::detect));
    weights.on(cpu.expect("the options name what there is"))
}

/// A way to compute on this machine: a backend, or one of its kernel sets.
pub(crate) struct Candidate {
    /// For people, such as `cpu (avx2)`.
    pub(crate) name: String,
    /// Which backend it is.
    pub(crate) backend: BackendName,
    /// Makes an instance without a model.
    pub(crate) make: Box<dyn Fn() -> Box<dyn Backend>>,
}

/// All that can compute here, on so many threads: kernel sets of the CPU, plain Rust first and the best
/// last, then the reference.
pub(crate) fn candidates(threads: Option<NonZero<usize>>, weights: WeightsArgs) -> Vec<Candidate> {
    let sets = Isa::ALL.into_iter().filter(|isa| isa.is_available()).map(|isa| Candidate {
        name: format!("cpu ({})", isa.name()),
        backend: BackendName::Cpu,
        make: Box::new(move || Box::new(cpu(CpuArgs { threads, isa: Some(isa), weights }))),
    });
    let reference = Candidate {
        name: "reference".to_owned(),
        backend: BackendName::Reference,
        make: Box::new(|| Box::new(Reference::new())),
    };
    sets.chain([reference]).collect()
}
