//! How much of a model fits on the graphics processors of this machine.

use engine::{Model, Options};
use serde::Serialize;

use crate::args::BackendName;
use crate::backends;
use crate::output::{printable, size};
use crate::placement::{Budget, Read, Sizes};
use crate::values::Size;

/// What a device has room for.
#[derive(Serialize)]
pub(super) struct Fit {
    backend: &'static str,
    device: String,
    is_software: bool,
    /// Bytes that backend `auto` would use, if they are known.
    room: Option<u64>,
    /// Bytes of all layers and the output.
    needed: u64,
    /// Layers of the model.
    layers: usize,
    /// Those there is room for, the last ones with the output, if the room is known.
    fitting: Option<usize>,
}

/// The devices of backend `name`, each with what it has room for.
pub(super) fn all(model: &Model, options: &Options, name: BackendName, limit: Option<Size>) -> Vec<Fit> {
    let adapters = match name {
        BackendName::Cpu | BackendName::Reference => Vec::new(),
        BackendName::Auto => backends::adapters(),
        BackendName::HybridF32 | BackendName::Metal | BackendName::Vulkan => backend_wgpu::adapters(),
    };
    let interface = match name {
        BackendName::Metal => Some("metal"),
        BackendName::Vulkan => Some("vulkan"),
        _ => None,
    };
    let is_meant =
        |adapter: &&backend_wgpu::Adapter| interface.is_none_or(|interface| adapter.interface() == interface);
    Sizes::with(model, options, Read::LAST, |sizes| {
        let fit = |adapter: &backend_wgpu::Adapter| {
            let room = Budget::of(adapter, limit).for_auto();
            Fit {
                backend: adapter.interface(),
                device: adapter.name().to_owned(),
                is_software: adapter.is_software(),
                room,
                needed: sizes.of(sizes.layers()).map_or(0, |needs| needs.total()),
                layers: sizes.layers(),
                fitting: room.map(|room| sizes.fitting(room)),
            }
        };
        adapters.iter().filter(is_meant).map(fit).collect()
    })
}

impl Fit {
    pub(super) fn label(&self) -> String {
        let software = if self.is_software { ", software" } else { "" };
        format!("{} ({}{software})", self.backend, printable(&self.device, ""))
    }

    pub(super) fn in_words(&self) -> String {
        let needed = size(self.needed);
        match (self.fitting, self.room) {
            (Some(fitting), Some(room)) if fitting == self.layers => {
                format!("all {fitting} layers fit: {needed} of {}", size(room))
            }
            (Some(fitting), Some(room)) => {
                format!("{fitting} of {} layers fit in {}; all take {needed}", self.layers, size(room))
            }
            _ => {
                format!("all {} layers take {needed}; how much is free, the driver does not say", self.layers)
            }
        }
    }
}
