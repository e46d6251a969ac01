//! The backends of this build and their names on the command line: the one place that names the crates of all backends.

use std::sync::LazyLock;

use backend::{Driver, Registry};
use clap::ValueEnum;
use clap::builder::PossibleValue;

/// The devices of the backends that this build has. A backend is added by a line here.
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

/// Backends that a build without a Cargo feature lacks, with the feature: it can be said why they are not there.
pub(crate) const LEFT_OUT: &[(&str, &str)] =
    if cfg!(feature = "gpu") { &[] } else { &[("vulkan", "gpu"), ("metal", "gpu")] };

/// What `--backend` names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BackendName {
    /// Graphics processors where there are any, and the CPU.
    Auto,
    /// Both, without rounding activations to 8 bits.
    HybridF32,
    /// One backend, as its driver names it.
    Named(&'static str),
}

impl BackendName {
    /// The processor.
    pub(crate) const CPU: BackendName = BackendName::Named("cpu");
    /// What others are compared with.
    pub(crate) const REFERENCE: BackendName = BackendName::Named("reference");

    /// The backend that has all layers of a model, or those that no graphics processor has.
    pub(crate) fn host(self) -> &'static str {
        match self {
            BackendName::Named(name) if registry().is_host(name) => name,
            BackendName::Auto | BackendName::HybridF32 | BackendName::Named(_) => "cpu",
        }
    }

    /// Whether it is one of graphics processors.
    pub(crate) fn is_graphics(self) -> bool {
        matches!(self, BackendName::Named(name) if !registry().is_host(name))
    }

    /// What can be named.
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
            let named =
                registry().backends().chain(LEFT_OUT.iter().map(|(name, _)| *name)).map(BackendName::Named);
            [BackendName::Auto].into_iter().chain(named).chain([BackendName::HybridF32]).collect()
        });
        &NAMES
    }

    fn to_possible_value(&self) -> Option<PossibleValue> {
        Some(PossibleValue::new(self.name()))
    }
}
