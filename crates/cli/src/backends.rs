//! Making backends: the one place that names them all.

use std::num::NonZero;

use anyhow::bail;
use backend::Backend;
use backend_cpu::{Cpu, Isa};
use backend_reference::Reference;
use backend_wgpu::{Adapter, Gpu};
use clap::builder::FalseyValueParser;

use crate::args::{BackendName, CpuArgs};
use crate::output;

/// What a CPU has, with all layers of a model or with the first ones: backend `name`, or what it does there.
pub(crate) fn on_cpu(name: BackendName, args: CpuArgs) -> Box<dyn Backend> {
    match name {
        BackendName::Reference => Box::new(Reference::new()),
        BackendName::HybridF32 => Box::new(cpu(args).with_f32_activations()),
        BackendName::Auto | BackendName::Cpu | BackendName::Metal | BackendName::Vulkan => {
            Box::new(cpu(args))
        }
    }
}

/// The device that `name` means. None when it means one only where there is a graphics processor.
pub(crate) fn adapter(name: BackendName) -> anyhow::Result<Option<Adapter>> {
    let interface = match name {
        BackendName::Cpu | BackendName::Reference => return Ok(None),
        BackendName::Auto => return Ok(taken_by_auto(&adapters())),
        BackendName::HybridF32 => None,
        BackendName::Metal => Some("metal"),
        BackendName::Vulkan => Some("vulkan"),
    };
    let is_meant = |adapter: &Adapter| interface.is_none_or(|interface| adapter.interface() == interface);
    let Some(adapter) = backend_wgpu::adapters().into_iter().find(is_meant) else {
        bail!(
            "there is no {} device: no driver says it has one; `rustorch devices` lists what there is, and \
             --backend cpu needs none",
            interface.unwrap_or("Vulkan or Metal")
        )
    };
    if adapter.is_software() {
        output::note(format_args!(
            "rustorch: {} computes on the processor; --backend cpu is faster",
            output::printable(adapter.name(), "")
        ));
    }
    Ok(Some(adapter))
}

/// The adapters of a machine that may have a graphics processor; drivers of others are not asked.
pub(crate) fn adapters() -> Vec<Adapter> {
    if backend_wgpu::may_have_gpu() { backend_wgpu::adapters() } else { Vec::new() }
}

/// The one of these that backend `auto` takes.
pub(crate) fn taken_by_auto(adapters: &[Adapter]) -> Option<Adapter> {
    adapters.iter().find(|adapter| !adapter.is_software()).cloned()
}

/// What a backend has said, if that is what went wrong.
pub(crate) fn fault(error: &anyhow::Error) -> Option<&backend::Error> {
    match (error.downcast_ref(), error.downcast_ref()) {
        (Some(engine::Error::Backend(fault)), _) | (_, Some(trace::Error::Backend(fault))) => Some(fault),
        _ => error.downcast_ref(),
    }
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

pub(crate) fn cpu(CpuArgs { threads, isa, weights }: CpuArgs) -> Cpu {
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
    pub(crate) make: Box<Make>,
}

/// Makes an instance of a backend, without a model.
pub(crate) type Make = dyn Fn() -> anyhow::Result<Box<dyn Backend>>;

/// All that can compute here, on so many threads: kernel sets of the CPU, plain Rust first and the best
/// last, then the reference.
pub(crate) fn candidates(threads: Option<NonZero<usize>>, weights: WeightsArgs) -> Vec<Candidate> {
    let sets = Isa::ALL.into_iter().filter(|isa| isa.is_available()).map(|isa| Candidate {
        name: format!("cpu ({})", isa.name()),
        backend: BackendName::Cpu,
        make: Box::new(move || Ok(Box::new(cpu(CpuArgs { threads, isa: Some(isa), weights })))),
    });
    let reference = Candidate {
        name: "reference".to_owned(),
        backend: BackendName::Reference,
        make: Box::new(|| Ok(Box::new(Reference::new()))),
    };
    sets.chain([reference]).collect()
}

/// The graphics processor `adapter`, which is backend `name`.
pub(crate) fn graphics(name: BackendName, adapter: Adapter) -> Candidate {
    Candidate {
        name: adapter.interface().to_owned(),
        backend: name,
        make: Box::new(move || Ok(Box::new(Gpu::new(&adapter)?))),
    }
}
