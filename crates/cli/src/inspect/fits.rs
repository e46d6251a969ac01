//! Whether a model fits on each GPU, and after quantisation.

use backend::DeviceKind;
use engine::{Model, Options};
use quant::Format;
use runner::FileWeights;
use serde::Serialize;

use crate::fit::{self, DeviceArgs, Fit, Machine, OtherFormats, Zeros};
use crate::output::{printable, size};
use crate::placement::{self, Read};

#[derive(Serialize)]
pub(super) struct DeviceFit {
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

impl DeviceFit {
    pub(super) fn all(
        model: &Model,
        options: &Options,
        devices: &DeviceArgs,
    ) -> anyhow::Result<Vec<DeviceFit>> {
        let deployment = fit::all(devices);
        if deployment.devices.is_empty() {
            return Ok(Vec::new());
        }
        let weights = FileWeights(model.file());
        let workload = placement::workload(model, &weights, options, Read::LAST)?;
        let layers = workload.graph.layers();
        let fit = |runner::Fit { info, available: room, needed, fitting }| DeviceFit {
            backend: info.backend,
            device: info.name,
            is_software: info.kind == DeviceKind::SoftwareGpu,
            room,
            error: needed.as_ref().err().map(ToString::to_string),
            needed: needed.ok(),
            layers,
            fitting,
        };
        Ok(deployment.fits(&workload).into_iter().map(fit).collect())
    }

    pub(super) fn label(&self) -> String {
        let software = if self.is_software { ", software" } else { "" };
        format!("{} ({}{software})", self.backend, printable(&self.device, ""))
    }

    pub(super) fn in_words(&self) -> String {
        let (layers, needed) =
            (self.layers, self.needed.map_or_else(|| "an unknown amount".to_owned(), size));
        match (self.fitting, self.room.map(size), &self.error) {
            (None | Some(0), _, Some(error)) => format!("no layer fits: {}", printable(error, "")),
            (Some(fitting), Some(room), _) if fitting == layers => {
                format!("all {fitting} layers fit: {needed} of {room}")
            }
            (Some(fitting), Some(room), _) => {
                format!("{fitting} of {layers} layers fit in {room}; all take {needed}")
            }
            _ => format!("all {layers} layers take {needed}; the driver does not report free memory"),
        }
    }
}

/// Types of `rustorch quantize`, the largest first.
const TYPES: [&str; 8] = ["Q8_0", "Q6_K", "Q5_K_M", "Q4_K_M", "IQ4_XS", "Q3_K_M", "IQ3_XXS", "Q2_K"];

#[derive(Serialize)]
pub(super) struct Row {
    r#type: &'static str,
    bytes: u64,
    #[serde(flatten)]
    fit: Fit,
}

/// Where a model fits, and where it would fit in fewer bits.
#[derive(Serialize)]
pub(super) struct Fits {
    #[serde(flatten)]
    pub(super) own: Fit,
    /// Empty if the model is quantised.
    quantised: Vec<Row>,
    /// The type that fits best.
    best: Option<&'static str>,
    #[serde(skip)]
    has_gpu: bool,
}

impl Fits {
    pub(super) fn new(machine: &mut Machine<'_>, model: &Model, options: &Options) -> anyhow::Result<Fits> {
        let file = model.file();
        let own = machine.fit(model, &FileWeights(file), options, 1.0)?;
        let is_float = |format| matches!(format, Format::F32 | Format::F16 | Format::BF16);
        let mut quantised = Vec::new();
        if file.tensors().all(|tensor| is_float(tensor.format)) {
            let zeros = Zeros::for_tensors_of(file)?;
            let tensors: u64 = file.tensors().map(|tensor| tensor.data.len() as u64).sum();
            let header = file.files().map(|(_, bytes)| bytes).sum::<u64>().saturating_sub(tensors);
            for name in TYPES {
                let Some(weights) = OtherFormats::named(file, name, &zeros) else { continue };
                let fit = machine.fit(model, &weights, options, 1.0)?;
                quantised.push(Row { r#type: name, bytes: header + weights.bytes(), fit });
            }
        }
        let candidates = quantised.iter().map(|row| (Some(&row.fit), Some(row.bytes), Some(row.r#type)));
        let best = fit::best(candidates).map(|at| quantised[at].r#type);
        Ok(Fits { own, quantised, best, has_gpu: machine.gpus().next().is_some() })
    }

    /// Empty if the model is quantised.
    pub(super) fn table(&self) -> String {
        if self.quantised.is_empty() {
            return String::new();
        }
        let rows = self.quantised.iter();
        let rows = rows.map(|row| ([row.r#type.to_owned(), size(row.bytes)], Some(&row.fit), ""));
        let table = fit::table(["TYPE", "SIZE"], "", rows, self.has_gpu);
        format!("{table}  {}", fit::best_in_words(self.best, self.has_gpu))
    }
}
