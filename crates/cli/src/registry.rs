//! The backends of this build and their names. Only this file names the crates of all backends.

use std::sync::LazyLock;

use backend::{Driver, Registry};
use clap::ValueEnum;
use clap::builder::PossibleValue;

/// The devices of all backends. A new backend is a line here.
pub(crate) fn registry() -> &'static Registry {
    static REGISTRY: LazyLock<Registry> = LazyLock::new(|| {
        let drivers: Vec<Box<dyn Driver>> = vec![
            Box::new(backend_cpu::CpuDriver),
            #[cfg(feature = "gpu")]
            Box::new(backend_wgpu::GpuDriver),
            Box::new(backend_reference::ReferenceDriver),
        ];
        Registry::new(drivers)
    });
    &REGISTRY
}

/// Backends missing from this build: those of the Cargo feature `gpu`.
const LEFT_OUT: &[&str] = if cfg!(feature = "gpu") { &[] } else { &["vulkan", "metal"] };

/// A value of `--backend`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BackendName {
    /// GPUs if there are any, and the CPU.
    Auto,
    /// Both, without quantised activations.
    HybridF32,
    /// A driver's backend.
    Named(&'static str),
}

impl BackendName {
    pub(crate) const CPU: BackendName = BackendName::Named("cpu");
    pub(crate) const REFERENCE: BackendName = BackendName::Named("reference");

    /// The backend of the layers that no GPU computes.
    pub(crate) fn host(self) -> &'static str {
        match self {
            BackendName::Named(name) if registry().is_host(name) => name,
            BackendName::Auto | BackendName::HybridF32 | BackendName::Named(_) => "cpu",
        }
    }

    pub(crate) fn is_graphics(self) -> bool {
        matches!(self, BackendName::Named(name) if !registry().is_host(name))
    }

    pub(crate) fn all() -> impl Iterator<Item = &'static str> {
        BackendName::value_variants().iter().map(|name| name.name())
    }

    pub(crate) fn name(self) -> &'static str {
        match self {
            BackendName::Auto => "auto",
            BackendName::HybridF32 => "hybrid-f32",
            BackendName::Named(name) => name,
        }
    }
}

impl ValueEnum for BackendName {
    fn value_variants<'a>() -> &'a [BackendName] {
        static NAMES: LazyLock<Vec<BackendName>> = LazyLock::new(|| {
            let named = registry().backends().chain(LEFT_OUT.iter().copied()).map(BackendName::Named);
            [BackendName::Auto].into_iter().chain(named).chain([BackendName::HybridF32]).collect()
        });
        &NAMES
    }

    fn to_possible_value(&self) -> Option<PossibleValue> {
        Some(PossibleValue::new(self.name()))
    }
}
