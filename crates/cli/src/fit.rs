//! Whether a model fits this machine, and which of its quantisations fits best.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::fs::File;
use std::sync::Arc;

use anyhow::Context;
use backend::{
    Backend, Device, DeviceKind, Memory, OpenOptions, Taps, Weight, Weights, host_memory,
    readable_size as size,
};
use bytes::Bytes;
use engine::{Model, Options};
use gguf::output::temporary_folder;
use gguf::{Gguf, Layout, Metadata};
use quant::{Format, Mix};
use runner::placement::{Layers, Request, Split};
use runner::{Deployment, DeviceConfig, Survey, Workload};
use rustorch::devices::{self, BackendName, registry};
use serde::Serialize;
use tempfile::TempDir;

use crate::args::{CpuArgs, WeightsArgs};
use crate::output;
use crate::placement::{self, Read};
use crate::values::Size;

/// Where a model runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub(crate) enum Place {
    /// All layers are on GPUs.
    #[serde(rename = "gpu")]
    Gpu,
    #[serde(rename = "gpu+cpu")]
    GpuAndCpu,
    #[serde(rename = "cpu")]
    Cpu,
    #[serde(rename = "no")]
    Nowhere,
}

/// The memory that a quantisation takes, and where it fits.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Fit {
    /// Bytes that it takes on the CPU alone, weights in the file included.
    pub(crate) memory: u64,
    /// Bytes that it takes on one GPU alone; null without a GPU that can compute it.
    pub(crate) gpu_memory: Option<u64>,
    /// Null if the available memory is unknown.
    pub(crate) place: Option<Place>,
    pub(crate) gpu_layers: usize,
    pub(crate) layers: usize,
}

impl Fit {
    /// Whether it runs at all.
    pub(crate) fn fits(&self) -> Option<bool> {
        self.place.map(|place| place != Place::Nowhere)
    }

    /// As a word; without a GPU the answer is yes or no.
    pub(crate) fn in_words(&self, has_gpu: bool) -> String {
        match self.place {
            None => "?".to_owned(),
            Some(Place::Gpu) => "GPU".to_owned(),
            Some(Place::GpuAndCpu) => format!("GPU+CPU ({} of {} layers)", self.gpu_layers, self.layers),
            Some(Place::Cpu) => if has_gpu { "CPU" } else { "yes" }.to_owned(),
            Some(Place::Nowhere) => "no".to_owned(),
        }
    }
}

/// A table of quantisations. A row has the cells of `head`, its fit and a last cell; column `right` and those of memory are
/// right-aligned.
pub(crate) fn table<'a, const N: usize>(
    head: [&str; N],
    last: &str,
    rows: impl Iterator<Item = ([String; N], Option<&'a Fit>, &'a str)>,
    has_gpu: bool,
) -> String {
    let line = |first: [String; N], [memory, gpu_memory, fits]: [String; 3], last: &str| {
        let gpu_memory = has_gpu.then_some(gpu_memory);
        let cells = first.into_iter().chain([memory]).chain(gpu_memory);
        cells.chain([fits, last.to_owned()]).collect::<Vec<String>>()
    };
    let head = line(head.map(str::to_owned), ["MEMORY", "GPU MEMORY", "FITS"].map(str::to_owned), last);
    let rows = rows.map(|(first, fit, last)| {
        let cells = fit.map(|fit| {
            [Some(fit.memory), fit.gpu_memory].map(|bytes| bytes.map_or_else(|| "?".to_owned(), size))
        });
        let [memory, gpu_memory] = cells.unwrap_or_else(|| ["?".to_owned(), "?".to_owned()]);
        let fits = fit.map_or_else(|| "?".to_owned(), |fit| fit.in_words(has_gpu));
        line(first, [memory, gpu_memory, fits], last)
    });
    let right = [N - 1, N, N + 1];
    output::columns(&[head].into_iter().chain(rows).collect::<Vec<_>>(), &right[..2 + usize::from(has_gpu)])
}

/// The quantisation to take, in words.
pub(crate) fn best_in_words(best: Option<&str>, has_gpu: bool) -> String {
    match best {
        Some(name) if has_gpu => format!(
            "best that fits: {name} (the largest with all layers on the GPU, or else the largest; unquantised ones last)\n"
        ),
        Some(name) => format!("best that fits: {name} (the largest; unquantised ones last)\n"),
        None => "none fits; a smaller context (-c N) takes less memory\n".to_owned(),
    }
}

/// The index of the quantisation to take, of those with these fits, bytes and names. The largest has the highest quality; on
/// GPUs alone it is fastest; without quantisation it is slower for no visible gain.
pub(crate) fn best<'a>(
    candidates: impl Iterator<Item = (Option<&'a Fit>, Option<u64>, Option<&'a str>)>,
) -> Option<usize> {
    let is_float = |quant: &str| ["F32", "F16", "BF16"].iter().any(|float| quant.ends_with(float));
    let ranked = candidates.enumerate().filter_map(|(at, (fit, bytes, quant))| {
        let place = fit?.place.filter(|&place| place != Place::Nowhere)?;
        Some((!quant.is_some_and(is_float), place == Place::Gpu, bytes?, Reverse(at)))
    });
    ranked.max().map(|(.., Reverse(at))| at)
}

/// Zeros for weights of any size, mapped from a sparse file, so they take no memory.
pub(crate) struct Zeros {
    zeros: Bytes,
    _file: Gguf,
    _folder: TempDir,
}

impl Zeros {
    /// Enough for every tensor of `file` in any format.
    pub(crate) fn for_tensors_of(file: &Gguf) -> anyhow::Result<Zeros> {
        let values = file.tensors().map(|tensor| tensor.row_len() * tensor.rows()).max().unwrap_or(1);
        let folder = temporary_folder().context("cannot create a temporary folder")?;
        let path = folder.path().join("zeros.gguf");
        let mut layout = Layout::new(&Metadata::default())?;
        // No format has more than the four bytes of F32 for a value.
        layout.tensor("zeros", &[values], Format::F32)?;
        let bytes = layout.file_len();
        let file = File::create(&path)?;
        layout.begin(&file)?;
        file.set_len(bytes)?;
        let file = Gguf::open(&path)?;
        let zeros = file.tensor("zeros").context("the file has its tensor")?.data.clone();
        Ok(Zeros { zeros, _file: file, _folder: folder })
    }
}

/// The tensors of a file as they are in another quantisation.
pub(crate) struct OtherFormats<'a> {
    file: &'a Gguf,
    formats: HashMap<&'a str, Format>,
    zeros: &'a Zeros,
}

impl<'a> OtherFormats<'a> {
    /// The formats of quantisation `quant`; `None` if they are not known.
    pub(crate) fn named(file: &'a Gguf, quant: &str, zeros: &'a Zeros) -> Option<OtherFormats<'a>> {
        let formats = convert::quantize::formats(file, mix(quant)?).ok()?;
        let formats = file.tensors().map(|tensor| tensor.name.as_str()).zip(formats).collect();
        Some(OtherFormats { file, formats, zeros })
    }

    /// Bytes of all tensors.
    pub(crate) fn bytes(&self) -> u64 {
        let values =
            |name: &str| self.file.tensor(name).map(|tensor| tensor.row_len() as u64 * tensor.rows() as u64);
        let bytes = |(name, format): (&&str, &Format)| format.bytes_for(values(name)?);
        self.formats.iter().filter_map(bytes).sum()
    }
}

/// The mix of a quantisation: `UD-Q4_K_XL` has about the formats of Q4_K_M.
fn mix(quant: &str) -> Option<Mix> {
    let plain = ["UD-", "i1-", "SOTA-"].iter().find_map(|prefix| {
        let (head, rest) = quant.split_at_checked(prefix.len())?;
        head.eq_ignore_ascii_case(prefix).then_some(rest)
    });
    let plain = plain.unwrap_or(quant);
    let stem = plain.rsplit_once('_').map_or(plain, |(stem, _)| stem);
    [plain, &format!("{stem}_M"), stem].iter().find_map(|name| name.parse().ok())
}

impl Weights for OtherFormats<'_> {
    fn weight(&self, weight: &graph::Weight) -> Option<Weight> {
        let tensor = self.file.tensor(&weight.tensor)?;
        let format = *self.formats.get(tensor.name.as_str())?;
        let (cols, count) = (tensor.row_len(), weight.count.max(1));
        let is_whole = weight.range.len() == weight.tensor_rows;
        let (all_rows, rows) = if is_whole {
            (tensor.rows(), tensor.rows() / count)
        } else {
            (weight.range.len(), weight.range.len())
        };
        let len = usize::try_from(format.bytes_for(all_rows as u64 * cols as u64)?).ok()?;
        let zeros = &self.zeros.zeros;
        (len <= zeros.len()).then(|| Weight { format, count, rows, cols, bytes: zeros.slice(..len) })
    }
}

/// The devices that a model is compared with.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct DeviceArgs {
    /// Compare the model with the devices of this backend; auto queries the GPUs
    #[arg(long, value_enum, default_value_t = BackendName::Auto, env)]
    backend: BackendName,
    /// Proportions in which GPUs share the layers, such as 3,1; 0 is none [default: GPUs are filled in order] [short: -ts]
    #[arg(long, alias = "ts", value_name = "N,...", env, allow_hyphen_values = true)]
    tensor_split: Option<Split>,
    /// Memory limit per GPU, such as 2GiB [default: the free memory]
    #[arg(long, value_name = "SIZE", env)]
    gpu_memory: Option<Size>,
}

/// The GPUs of a backend that it would use. An error if there are fewer than proportions to divide layers in.
pub(crate) fn chosen(args: &DeviceArgs) -> anyhow::Result<Deployment> {
    let split = args.tensor_split.clone();
    let devices = devices::chosen(graphics(args.backend), args.backend != BackendName::Auto);
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
    Deployment { host: devices::host(name, options), devices: devices.collect(), requested, fallback: true }
}

/// CPU and GPUs, which stay open.
pub(crate) struct Machine<'a> {
    pub(crate) host: Box<dyn Backend>,
    /// Memory on the CPU, if known.
    pub(crate) available: Option<u64>,
    gpus: Survey<'a>,
}

impl<'a> Machine<'a> {
    pub(crate) fn new(gpus: &'a Deployment, weights: WeightsArgs) -> anyhow::Result<Machine<'a>> {
        // Those of the whole machine: what is busy now says nothing about a later run.
        let threads = std::thread::available_parallelism().ok();
        let options = OpenOptions::from(CpuArgs { threads, isa: None, weights });
        let available = options.memory.or_else(|| host_memory().free);
        let host = devices::host(BackendName::CPU, options).open()?;
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
        let workload = placement::workload(model, weights, options, Read::LAST)?;
        let Workload { weights, graph, kv_layout, buckets, .. } = &workload;
        let held = self.host.requirements(graph, *weights, kv_layout, buckets, Taps::None)?;
        let (gpu_layers, layers) = (self.gpus.offloaded(&workload, scale), graph.layers());
        let share = (layers - gpu_layers) as f64 / layers.max(1) as f64;
        let on_cpu = allocated(&held, scale, share);
        let place = match gpu_layers {
            all if all > 0 && all == layers => Some(Place::Gpu),
            some => self.available.map(|available| match some {
                _ if on_cpu > available => Place::Nowhere,
                0 => Place::Cpu,
                _ => Place::GpuAndCpu,
            }),
        };
        Ok(Fit {
            memory: times(held.weights_mapped, scale).saturating_add(allocated(&held, scale, 1.0)),
            gpu_memory: self.gpus.needed(&workload, scale),
            place,
            gpu_layers,
            layers,
        })
    }
}

/// Bytes besides the file that a share of the layers takes on the CPU.
fn allocated(memory: &Memory, scale: f64, share: f64) -> u64 {
    let layer_bytes = times(memory.weights_owned, scale).saturating_add(memory.kv);
    times(layer_bytes, share).saturating_add(memory.activations)
}

/// Exact for a factor of 1.
fn times(bytes: u64, factor: f64) -> u64 {
    if factor == 1.0 { bytes } else { (bytes as f64 * factor) as u64 }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fit(place: Place) -> Option<Fit> {
        Some(Fit { memory: 0, gpu_memory: None, place: Some(place), gpu_layers: 0, layers: 0 })
    }

    #[track_caller]
    fn check(expected: Option<usize>, candidates: &[(Option<Fit>, u64, &str)]) {
        let candidates = candidates.iter();
        let candidates = candidates.map(|(fit, bytes, quant)| (fit.as_ref(), Some(*bytes), Some(*quant)));
        assert_eq!(best(candidates), expected);
    }

    #[test]
    fn the_best_is_the_largest_in_the_fastest_place() {
        let [gpu, both, cpu, none] = [Place::Gpu, Place::GpuAndCpu, Place::Cpu, Place::Nowhere].map(fit);
        let (gpu, both, cpu, none) = (|| gpu.clone(), || both.clone(), || cpu.clone(), || none.clone());
        check(Some(1), &[(gpu(), 2, "Q2_K"), (gpu(), 4, "Q4_K_M"), (both(), 8, "Q8_0"), (none(), 16, "F16")]);
        check(Some(1), &[(cpu(), 4, "Q4_K_M"), (both(), 8, "Q8_0"), (none(), 16, "F16")]);
        check(Some(0), &[(cpu(), 8, "Q8_0"), (cpu(), 16, "BF16"), (cpu(), 16, "UD-F16")]);
        check(Some(0), &[(cpu(), 16, "BF16"), (None, 1, "Q2_K"), (none(), 2, "Q2_K")]);
        check(Some(0), &[(cpu(), 8, "Q8_0"), (cpu(), 8, "Q8_0")]);
        check(None, &[(none(), 4, "Q4_K_M")]);
    }

    #[test]
    fn names_on_the_hub_are_mixes() {
        for (quant, expected) in [
            ("Q4_K_M", Some(Mix::Q4_K_M)),
            ("UD-Q4_K_XL", Some(Mix::Q4_K_M)),
            ("Q2_K_L", Some(Mix::Q2_K)),
            ("Q6_K_L", Some(Mix::Q6_K)),
            ("I1-IQ2_XXS", Some(Mix::IQ2_XXS)),
            ("BF16", Some(Mix::BF16)),
            ("MXFP4", Some(Mix::MXFP4_MOE)),
            ("NVFP4", None),
            ("", None),
        ] {
            assert_eq!(mix(quant), expected, "{quant}");
        }
    }
}
