//! How much of a model fits on the GPUs of this machine.

use backend::DeviceKind;
use engine::{Model, Options};
use serde::Serialize;

use crate::fit::machine::{self, DeviceArgs};
use crate::output::{printable, size};
use crate::placement::{self, Read};

#[derive(Serialize)]
pub(super) struct Fit {
    backend: &'static str,
    device: String,
    is_software: bool,
    /// Memory that backend `auto` would use, if known.
    room: Option<u64>,
    /// Bytes of all layers and the output; null if the device cannot compute them.
    needed: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
    layers: usize,
    /// Layers that fit, the last ones with the output, if known.
    fitting: Option<usize>,
}

pub(super) fn all(model: &Model, options: &Options, devices: &DeviceArgs) -> anyhow::Result<Vec<Fit>> {
    let deployment = machine::all(devices);
    if deployment.devices.is_empty() {
        return Ok(Vec::new());
    }
    placement::of_engine(model, options, Read::LAST, |workload| {
        let layers = workload.graph.layers();
        let fit = |runner::Fit { info, available: room, needed, fitting }| Fit {
            backend: info.backend,
            device: info.name,
            is_software: info.kind == DeviceKind::SoftwareGpu,
            room,
            error: needed.as_ref().err().map(ToString::to_string),
            needed: needed.ok(),
            layers,
            fitting,
        };
        Ok(deployment.fits(workload).into_iter().map(fit).collect())
    })
}

impl Fit {
    pub(super) fn label(&self) -> String {
        let software = if self.is_software { ", software" } else { "" };
        format!("{} ({}{software})", self.backend, printable(&self.device, ""))
    }

    pub(super) fn in_words(&self) -> String {
        let needed = self.needed.map_or_else(|| "an unknown amount".to_owned(), size);
        match (self.fitting, self.room, &self.error) {
            (None | Some(0), _, Some(error)) => format!("no layer fits: {}", printable(error, "")),
            (Some(fitting), Some(room), _) if fitting == self.layers => {
                format!("all {fitting} layers fit: {needed} of {}", size(room))
            }
            (Some(fitting), Some(room), _) => {
                format!("{fitting} of {} layers fit in {}; all take {needed}", self.layers, size(room))
            }
            _ => {
                format!("all {} layers take {needed}; the driver does not report free memory", self.layers)
            }
        }
    }
}
