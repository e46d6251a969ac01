//! Layer placement: a pure function of the memory of devices, the requirements of layers and the user's request.

use std::fmt;
use std::ops::Range;

use backend::{DeviceInfo, DeviceKind, DeviceMemory, Error, readable_size};

mod split;
mod tensor;

pub use split::{ShareTooLarge, Split, SplitError, TooManyProportions};
pub use tensor::{SplitMode, TensorSplitError, ranks};

/// How many layers to offload from the host: as many as fit, all, or the last `n`, with the output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "see above")]
pub enum Layers {
    Auto,
    All,
    Last(usize),
}

/// What the user asks for: how many layers to offload, and how to divide them over devices. Without a split, devices are
/// filled in order, or have equal parts.
#[derive(Clone, Debug, PartialEq)]
#[expect(missing_docs, reason = "see above")]
pub struct Request {
    pub layers: Layers,
    pub split: Option<Split>,
    pub mode: SplitMode,
}

impl From<Layers> for Request {
    fn from(layers: Layers) -> Request {
        Request { layers, split: None, mode: SplitMode::Layer }
    }
}

/// The usable memory of a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Budget {
    /// Free memory reported by the driver, or the user's limit.
    bytes: Option<u64>,
    /// Memory that [`Layers::Auto`] leaves free for drivers, other programs and larger batches.
    reserve: u64,
    is_limited: bool,
    /// Whether `bytes` is the total, because the driver does not report free memory.
    is_total: bool,
}

impl Budget {
    /// The budget for this memory and an optional user limit.
    pub fn new(memory: DeviceMemory, limit: Option<u64>) -> Budget {
        const MIB: u64 = 1 << 20;
        let free = memory.free.or(memory.total);
        let is_limited = limit.is_some_and(|limit| free.is_none_or(|free| limit < free));
        let bytes = if is_limited { limit } else { free };
        let reserve = memory.total.map_or(0, |total| (total / 16).clamp(256 * MIB, 1024 * MIB));
        let is_total = memory.free.is_none();
        Budget { bytes, reserve: if is_limited { 0 } else { reserve }, is_limited, is_total }
    }

    /// Memory that [`Layers::Auto`] uses; `None` if unknown.
    pub fn for_auto(self) -> Option<u64> {
        self.bytes.map(|bytes| bytes.saturating_sub(self.reserve))
    }

    /// Memory that may be used for the request.
    pub(crate) fn available(self, requested: Layers) -> Option<u64> {
        if requested == Layers::Auto { self.for_auto() } else { self.bytes }
    }
}

/// Such as `1.2 GiB free`.
impl fmt::Display for Budget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bytes = self.bytes.map_or_else(|| "an unknown amount".to_owned(), readable_size);
        match self {
            Budget { is_limited: true, .. } => write!(f, "limit {bytes}"),
            Budget { is_total: true, .. } => write!(f, "{bytes} in total"),
            _ => write!(f, "{bytes} free"),
        }
    }
}

/// The indices of the devices to offload layers to, in the order in which they are filled: all devices of the best
/// available kind. A software GPU qualifies only if `is_named`, that is, if the user chose the backend by name; without
/// a GPU, the host is faster.
///
/// Devices without a hardware address may be the same device twice, so only one of them is used.
pub fn accelerators(devices: &[DeviceInfo], is_named: bool) -> Vec<usize> {
    let rank = |info: &DeviceInfo| match info.kind {
        DeviceKind::DiscreteGpu => Some(0),
        DeviceKind::IntegratedGpu => Some(1),
        DeviceKind::SoftwareGpu => is_named.then_some(2),
        DeviceKind::Cpu | DeviceKind::Reference => None,
    };
    let Some(best) = devices.iter().filter_map(rank).min() else { return Vec::new() };
    let mut chosen: Vec<usize> = Vec::new();
    for (index, info) in devices.iter().enumerate().filter(|(_, info)| rank(info) == Some(best)) {
        let is_another = chosen.iter().all(|&other| {
            let other = &devices[other];
            info.address.is_some() && other.address.is_some() && info.address != other.address
        });
        if is_another {
            chosen.push(index);
        }
    }
    chosen
}

/// Consecutive layers on one device.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the types say it")]
pub struct PlacedLayers {
    /// The device index; `None` for the host.
    pub device: Option<usize>,
    pub layers: Range<usize>,
}

/// The assignment of layers to devices.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Placement {
    /// Stages, first layers first.
    pub stages: Vec<PlacedLayers>,
    /// Devices without layers although layers were left to assign, with the reason.
    pub skipped: Vec<(usize, SkipReason)>,
}

/// Why a device got no layer: none fits its memory, or it cannot be opened or run the model.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "see above")]
pub enum SkipReason {
    OutOfMemory,
    Error(Error),
}

impl Placement {
    /// All layers on the host.
    pub fn on_host(layers: usize) -> Placement {
        Placement { stages: vec![PlacedLayers { device: None, layers: 0..layers }], skipped: Vec::new() }
    }

    /// Number of offloaded layers.
    pub fn on_devices(&self) -> usize {
        let on_devices = self.stages.iter().filter(|stage| stage.device.is_some());
        on_devices.map(|stage| stage.layers.len()).sum()
    }

    /// Halves the layers of each device, rounded down, after a failed allocation. `None` if no layers are offloaded.
    pub fn halved(&self, model: CutPoints<'_>) -> Option<Placement> {
        if self.on_devices() == 0 {
            return None;
        }
        let mut end = model.layers;
        let mut stages = Vec::new();
        for stage in self.stages.iter().rev().filter(|stage| stage.device.is_some()) {
            let most = stage.layers.len() / 2;
            if let Some(&start) = model.starts(0, end).iter().find(|&&start| end - start <= most) {
                stages.push(PlacedLayers { device: stage.device, layers: start..end });
                end = start;
            }
        }
        Some(Placement::with_host(stages, end, Vec::new()))
    }

    /// A placement with the first `end` layers on the host. The later ones are in `stages`, from the last to the first.
    fn with_host(mut stages: Vec<PlacedLayers>, end: usize, skipped: Vec<(usize, SkipReason)>) -> Placement {
        if end > 0 || stages.is_empty() {
            stages.push(PlacedLayers { device: None, layers: 0..end });
        }
        stages.reverse();
        Placement { stages, skipped }
    }
}

/// The layer counts after which a model can be cut.
#[derive(Clone, Copy, Debug)]
#[expect(missing_docs, reason = "the names say it")]
pub struct CutPoints<'a> {
    pub layers: usize,
    /// Layer counts after which it can be cut, strictly increasing, from 1 to `layers - 1`.
    pub after: &'a [usize],
}

impl CutPoints<'_> {
    /// Possible first layers, in `floor..end`, of a stage that ends before layer `end`; increasing.
    fn starts(self, floor: usize, end: usize) -> Vec<usize> {
        let starts = (floor == 0).then_some(0).into_iter().chain(self.after.iter().copied());
        starts.filter(|start| (floor..end).contains(start)).collect()
    }
}

/// A device to place layers on.
#[derive(Clone, Debug)]
#[expect(missing_docs, reason = "the names say it")]
pub struct DeviceBudget {
    pub name: String,
    pub budget: Budget,
}

impl fmt::Display for DeviceBudget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.name, self.budget)
    }
}

/// Returns the memory in bytes that a range of layers needs on a device, given by index. [`Error::OutOfMemory`] means
/// that they do not fit.
pub type Needs<'a> = dyn FnMut(usize, Range<usize>) -> Result<u64, Error> + 'a;

/// The first layer of the longest stage in `floor..end` that ends at `end` and fits `available` bytes on `device`;
/// `None` if no stage fits, or an error of `needs` other than out-of-memory.
pub fn fitting(
    model: CutPoints<'_>,
    device: usize,
    [floor, end]: [usize; 2],
    available: Option<u64>,
    needs: &mut Needs<'_>,
) -> Result<Option<usize>, Error> {
    let starts = model.starts(floor, end);
    let Some(available) = available else { return Ok(starts.first().copied()) };
    let mut last_error = None;
    let mut fits = |start: usize| match needs(device, start..end) {
        Ok(needed) => needed <= available,
        Err(Error::OutOfMemory { .. }) => false,
        Err(error) => {
            last_error = Some(error);
            false
        }
    };
    let first = starts.partition_point(|&start| !fits(start));
    match (starts.get(first), last_error) {
        (None, Some(error)) => Err(error),
        (start, _) => Ok(start.copied()),
    }
}

/// Assigns layers to devices. The first device gets the last layers and the output, the next device the layers before,
/// and the host the rest. Without a split, each device gets as many as fit; with one, [`Layers::Auto`] offloads as many as
/// fit in these proportions.
///
/// # Errors
/// If a requested number of layers is known not to fit, if the model cannot be cut there, or if the split has more
/// proportions than there are devices.
pub fn place(
    model: CutPoints<'_>,
    budgets: &[DeviceBudget],
    request: &Request,
    needs: &mut Needs<'_>,
) -> Result<Placement, PlacementError> {
    let (layers, requested) = (model.layers, request.layers);
    let floor = match requested {
        Layers::Auto | Layers::All => 0,
        Layers::Last(number) => layers.saturating_sub(number),
    };
    if floor != 0 && floor != layers && !model.after.contains(&floor) {
        let why = "later layers read values or K/V of earlier layers";
        return Err(Error::Cut { layers, at: floor, why }.into());
    }
    match &request.split {
        None => fill(model, budgets, (requested, floor), needs),
        Some(split) => split::divide(model, budgets, (requested, floor), split, needs),
    }
}

/// Gives each device as many of the layers from `floor` on as fit.
fn fill(
    model: CutPoints<'_>,
    budgets: &[DeviceBudget],
    (requested, floor): (Layers, usize),
    needs: &mut Needs<'_>,
) -> Result<Placement, PlacementError> {
    let layers = model.layers;
    let (mut stages, mut skipped, mut end) = (Vec::new(), Vec::new(), layers);
    for (index, device) in budgets.iter().enumerate() {
        if end == floor {
            break;
        }
        match fitting(model, index, [floor, end], device.budget.available(requested), needs) {
            Ok(Some(start)) => {
                stages.push(PlacedLayers { device: Some(index), layers: start..end });
                end = start;
            }
            Ok(None) => skipped.push((index, SkipReason::OutOfMemory)),
            Err(error) => skipped.push((index, SkipReason::Error(error))),
        }
    }
    if requested != Layers::Auto && end > floor && !budgets.is_empty() {
        if let Some(error) = first_error(&skipped) {
            return Err(error.clone().into());
        }
        let needed = if budgets.len() == 1 { needs(0, floor..layers).ok() } else { None };
        let (requested, fitting, budgets) = (layers - floor, layers - end, budgets.to_vec());
        return Err(InsufficientMemory { requested, layers, needed, budgets, fitting }.into());
    }
    Ok(Placement::with_host(stages, end, skipped))
}

/// The first error among the reasons for skipped devices.
pub(crate) fn first_error(skipped: &[(usize, SkipReason)]) -> Option<&Error> {
    skipped.iter().find_map(|(_, why)| if let SkipReason::Error(error) = why { Some(error) } else { None })
}

/// Why the requested placement is impossible.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
#[error(transparent)]
#[expect(missing_docs, reason = "the types say it")]
pub enum PlacementError {
    InsufficientMemory(#[from] InsufficientMemory),
    ShareTooLarge(#[from] ShareTooLarge),
    TooManyProportions(#[from] TooManyProportions),
    TensorSplit(#[from] TensorSplitError),
    /// A device cannot be opened, or cannot run the model.
    Backend(#[from] Error),
}

/// The `requested` of all `layers` do not fit the memory of the devices. `needed` is known for a single device.
#[derive(Clone, Debug, thiserror::Error)]
#[error(
    "{requested} of {layers} layers and the output {} on {}: {}",
    need(needed),
    listed(budgets),
    fit(fitting)
)]
#[expect(missing_docs, reason = "the message explains the fields")]
pub struct InsufficientMemory {
    pub requested: usize,
    pub layers: usize,
    pub needed: Option<u64>,
    pub budgets: Vec<DeviceBudget>,
    pub fitting: usize,
}

fn need(needed: &Option<u64>) -> String {
    needed.map_or_else(|| "do not fit".to_owned(), |bytes| format!("need {}", readable_size(bytes)))
}

fn listed(budgets: &[DeviceBudget]) -> String {
    budgets.iter().map(DeviceBudget::to_string).collect::<Vec<_>>().join(" and ")
}

fn fit(layers: &usize) -> String {
    match layers {
        0 => "no layer fits".to_owned(),
        1 => "1 layer fits".to_owned(),
        layers => format!("{layers} layers fit"),
    }
}

#[cfg(test)]
mod tests;
