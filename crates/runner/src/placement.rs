//! Which device computes which layers: a pure function of what devices have, what layers take and what was asked for.

use std::fmt;
use std::ops::Range;

use backend::{DeviceInfo, DeviceKind, DeviceMemory, Error, Remedy, readable_size};

/// How many layers devices are to have besides the host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Layers {
    /// As many as they have room for.
    Auto,
    /// All.
    All,
    /// So many, the last ones, with the output.
    Last(usize),
}

/// The memory that may be used on a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Budget {
    /// What is free, as far as the driver says, or what the user allows.
    bytes: Option<u64>,
    /// What [`Layers::Auto`] leaves of it: drivers, other programs and larger batches take some.
    reserve: u64,
    is_limited: bool,
    /// Whether others may have taken some of it, for all the driver says.
    is_total: bool,
}

impl Budget {
    /// What may be used of this memory, with a limit that the user has set.
    pub fn new(memory: DeviceMemory, limit: Option<u64>) -> Budget {
        const MIB: u64 = 1 << 20;
        let free = memory.free.or(memory.total);
        let is_limited = limit.is_some_and(|limit| free.is_none_or(|free| limit < free));
        let bytes = if is_limited { limit } else { free };
        let reserve = memory.total.map_or(0, |total| (total / 16).clamp(256 * MIB, 1024 * MIB));
        let is_total = memory.free.is_none();
        Budget { bytes, reserve: if is_limited { 0 } else { reserve }, is_limited, is_total }
    }

    /// What [`Layers::Auto`] uses; none when nobody knows.
    pub fn for_auto(self) -> Option<u64> {
        self.bytes.map(|bytes| bytes.saturating_sub(self.reserve))
    }

    /// What may be used for a number of layers that was asked for.
    fn room(self, wanted: Layers) -> Option<u64> {
        if wanted == Layers::Auto { self.for_auto() } else { self.bytes }
    }
}

/// Such as `1.2 GiB is free`.
impl fmt::Display for Budget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bytes = self.bytes.map_or_else(|| "an unknown amount".to_owned(), readable_size);
        match self {
            Budget { is_limited: true, .. } => write!(f, "{bytes} may be used"),
            Budget { is_total: true, .. } => write!(f, "{bytes} is all there is"),
            _ => write!(f, "{bytes} is free"),
        }
    }
}

/// Which of these devices to use for layers, by index, the one to fill first at the front: all of the best kind that
/// is there. A program that stands in for a device is taken when `is_named`, that is when somebody asked for the
/// backend; a choice by itself on a machine without a graphics processor is better off with the host.
///
/// Where the driver does not say where in the machine a device is, two may be one, so only one is used.
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
pub struct PlacedLayers {
    /// The device, by index; none for the host.
    pub device: Option<usize>,
    /// The layers.
    pub layers: Range<usize>,
}

/// Who computes which layers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Placement {
    /// The first layers first.
    pub stages: Vec<PlacedLayers>,
    /// Devices that have no layer, though there were some left, with what kept them from it.
    pub left_out: Vec<(usize, LeftOut)>,
}

/// Why a device has no layer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LeftOut {
    /// It has no room for one.
    NoRoom,
    /// It cannot be opened, or cannot compute the model.
    Error(Error),
}

impl Placement {
    /// All layers on the host.
    pub fn on_host(layers: usize) -> Placement {
        Placement { stages: vec![PlacedLayers { device: None, layers: 0..layers }], left_out: Vec::new() }
    }

    /// Layers that devices have besides the host.
    pub fn on_devices(&self) -> usize {
        let on_devices = self.stages.iter().filter(|stage| stage.device.is_some());
        on_devices.map(|stage| stage.layers.len()).sum()
    }

    /// With half as many layers on each device at most: for when one had no room. None when no device has any.
    pub fn halved(&self, model: Cuts<'_>) -> Option<Placement> {
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

    /// `stages`, the last layers first, after the host with the first `end` layers.
    fn with_host(mut stages: Vec<PlacedLayers>, end: usize, left_out: Vec<(usize, LeftOut)>) -> Placement {
        if end > 0 || stages.is_empty() {
            stages.push(PlacedLayers { device: None, layers: 0..end });
        }
        stages.reverse();
        Placement { stages, left_out }
    }
}

/// Where a model can be cut.
#[derive(Clone, Copy, Debug)]
pub struct Cuts<'a> {
    /// Its layers.
    pub layers: usize,
    /// The numbers of layers after which it can be cut, rising, from 1 to `layers - 1`.
    pub after: &'a [usize],
}

impl Cuts<'_> {
    /// Where layers that end before `end` can start, from `floor` on, rising.
    fn starts(self, floor: usize, end: usize) -> Vec<usize> {
        let starts = (floor == 0).then_some(0).into_iter().chain(self.after.iter().copied());
        starts.filter(|start| (floor..end).contains(start)).collect()
    }
}

/// A device that layers can be placed on.
#[derive(Clone, Debug)]
pub struct DeviceBudget {
    /// For people.
    pub name: String,
    /// Its memory.
    pub budget: Budget,
}

/// What layers take.
///
/// Called with the device, by index, and the layers. [`Error::OutOfMemory`] is more than there is, whatever that may be.
pub type Needs<'a> = dyn FnMut(usize, Range<usize>) -> Result<u64, Error> + 'a;

/// The most of the layers that end at `end`, from `floor` on, that `room` is enough for on device `device`; none when it is
/// not enough for any.
///
/// # Errors
/// Those of `needs` but want of room, when there is none for any.
pub fn fitting(
    model: Cuts<'_>,
    device: usize,
    [floor, end]: [usize; 2],
    room: Option<u64>,
    needs: &mut Needs<'_>,
) -> Result<Option<usize>, Error> {
    let starts = model.starts(floor, end);
    let Some(room) = room else { return Ok(starts.first().copied()) };
    let mut last_error = None;
    let mut fits = |start: usize| match needs(device, start..end) {
        Ok(needed) => needed <= room,
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

/// Decides who computes which layers. Devices are filled one after the other: the first has the last layers and the output,
/// the next the layers before; what is left is the host's.
///
/// # Errors
/// When a number of layers was asked for and the model cannot be cut there, or they are known not to fit.
pub fn place(
    model: Cuts<'_>,
    budgets: &[DeviceBudget],
    wanted: Layers,
    needs: &mut Needs<'_>,
) -> Result<Placement, PlacementError> {
    let layers = model.layers;
    let floor = match wanted {
        Layers::Auto | Layers::All => 0,
        Layers::Last(number) => layers.saturating_sub(number),
    };
    if floor != 0 && floor != layers && !model.after.contains(&floor) {
        let why = "layers behind that read values or K/V of layers before";
        return Err(Error::Cut { layers, at: floor, why }.into());
    }
    let (mut stages, mut left_out, mut end) = (Vec::new(), Vec::new(), layers);
    for (index, device) in budgets.iter().enumerate() {
        if end == floor {
            break;
        }
        match fitting(model, index, [floor, end], device.budget.room(wanted), needs) {
            Ok(Some(start)) => {
                stages.push(PlacedLayers { device: Some(index), layers: start..end });
                end = start;
            }
            Ok(None) => left_out.push((index, LeftOut::NoRoom)),
            Err(error) => left_out.push((index, LeftOut::Error(error))),
        }
    }
    if wanted != Layers::Auto && end > floor && !budgets.is_empty() {
        let error = left_out.into_iter().find_map(|(_, why)| match why {
            LeftOut::Error(error) => Some(error),
            LeftOut::NoRoom => None,
        });
        if let Some(error) = error {
            return Err(error.into());
        }
        let needed = if budgets.len() == 1 { needs(0, floor..layers).ok() } else { None };
        let budgets = budgets.to_vec();
        return Err(
            TooLittle { wanted: layers - floor, layers, needed, budgets, fitting: layers - end }.into()
        );
    }
    Ok(Placement::with_host(stages, end, left_out))
}

/// Why layers cannot be placed as was asked for.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PlacementError {
    /// They are known not to fit.
    #[error(transparent)]
    TooLittle(#[from] TooLittle),
    /// A device cannot be opened, or cannot compute the model.
    #[error(transparent)]
    Backend(#[from] Error),
}

/// More layers were asked for than devices have room for.
#[derive(Clone, Debug)]
pub struct TooLittle {
    /// Layers that were asked for.
    pub wanted: usize,
    /// Layers of the model.
    pub layers: usize,
    /// What they take on the only device, if that is known.
    pub needed: Option<u64>,
    /// The devices.
    pub budgets: Vec<DeviceBudget>,
    /// Layers that there is room for.
    pub fitting: usize,
}

impl TooLittle {
    /// What to do.
    pub fn remedy(&self) -> Remedy {
        Remedy::FewerLayers
    }
}

impl std::error::Error for TooLittle {}

impl fmt::Display for TooLittle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let TooLittle { wanted, layers, needed, budgets, fitting } = self;
        write!(f, "{wanted} of {layers} layers and the output ")?;
        match needed {
            Some(needed) => write!(f, "take {} on ", readable_size(*needed))?,
            None => write!(f, "do not fit on ")?,
        }
        for (number, DeviceBudget { name, budget }) in budgets.iter().enumerate() {
            write!(f, "{}{name}, where {budget}", if number == 0 { "" } else { " and " })?;
        }
        match fitting {
            0 => write!(f, ": none fits"),
            1 => write!(f, ": 1 fits"),
            fitting => write!(f, ": {fitting} fit"),
        }
    }
}

#[cfg(test)]
mod tests;
