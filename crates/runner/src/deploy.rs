//! Putting a model on devices: asking them what it takes, placing its layers, and making the backend.

use std::cell::RefCell;
use std::ops::Range;
use std::sync::Arc;

use backend::{
    Backend, Bucket, Device, DeviceInfo, Error, KvLayout, Memory, MemoryKind, OpenOptions, Taps, Weights,
};
use graph::Graph;

use crate::Pipeline;
use crate::pipeline::{bucket_of, parts};
use crate::placement::{
    Budget, Cuts, DeviceBudget, Layers, LeftOut, Placement, PlacementError, fitting, place,
};

/// A model, and what is made of it on its devices.
#[derive(Clone)]
pub struct Workload<'a> {
    /// Its weights.
    pub weights: &'a dyn Weights,
    /// What it computes.
    pub graph: &'a Graph,
    /// Its stores.
    pub kv_layout: KvLayout,
    /// Its programs.
    pub buckets: Vec<Bucket>,
    /// Which values are read.
    pub taps: Taps<'a>,
}

impl Workload<'_> {
    /// What `layers` of it take on a device.
    fn of(&self, backend: &dyn Backend, layers: Range<usize>) -> Result<Memory, Error> {
        let all = self.graph.layers();
        let sizes = [layers.start, layers.len(), all - layers.end];
        let cut = parts(self.graph, &sizes.into_iter().filter(|size| *size > 0).collect::<Vec<_>>())?;
        let part = &cut[usize::from(layers.start > 0)];
        let names = if let Taps::Names(names) = self.taps { names } else { &[] };
        let names: Vec<&str> = names.iter().copied().filter(|name| part.find(name).is_some()).collect();
        let taps = if let Taps::Names(_) = self.taps { Taps::Names(&names) } else { self.taps };
        let is_last = layers.end == all;
        let buckets: Vec<Bucket> = self.buckets.iter().map(|bucket| bucket_of(*bucket, is_last)).collect();
        backend.requirements(part, self.weights, &self.kv_layout, &buckets, taps)
    }

    /// The numbers of layers after which it can be cut.
    fn cuts(&self) -> Vec<usize> {
        (1..self.graph.layers()).filter(|&layers| self.graph.cut(layers).is_some()).collect()
    }
}

/// A device, and how it is opened.
#[derive(Clone)]
pub struct Opening {
    /// The device.
    pub device: Arc<dyn Device>,
    /// How.
    pub options: OpenOptions,
}

impl Opening {
    /// Opens it.
    ///
    /// # Errors
    /// When the device cannot be opened.
    pub fn open(&self) -> Result<Box<dyn Backend>, Error> {
        self.device.open(&self.options)
    }
}

/// The devices that a model may be put on, and how many of its layers are to be where.
#[derive(Clone)]
pub struct Deployment {
    /// What has the layers that no other device has.
    pub host: Opening,
    /// The others, the one to fill first at the front.
    pub devices: Vec<Opening>,
    /// How many layers they are to have.
    pub wanted: Layers,
    /// Whether the host takes over where a device fails.
    pub falls_back: bool,
}

/// A model's layers on their devices.
pub struct Deployed {
    deployment: Deployment,
    /// What the devices are.
    infos: Vec<DeviceInfo>,
    /// What was free there.
    budgets: Vec<DeviceBudget>,
    layers: usize,
    cuts: Vec<usize>,
    placement: Placement,
    /// Instances that nobody has used yet.
    opened: Vec<Option<Box<dyn Backend>>>,
}

/// What a device has room for.
#[derive(Clone, Debug)]
pub struct Fit {
    /// The device.
    pub info: DeviceInfo,
    /// Bytes that [`Layers::Auto`] would use, if they are known.
    pub room: Option<u64>,
    /// Bytes that all layers and the output take.
    pub needed: Result<u64, Error>,
    /// Layers that there is room for, the last ones with the output, if the room is known.
    pub fitting: Option<usize>,
}

/// Bytes that are in the memory of a device.
fn on_device(memory: &Memory) -> u64 {
    memory.weights_on_device.saturating_add(memory.kv).saturating_add(memory.activations)
}

/// A device that was opened, or why it cannot be.
type Instance = Result<Box<dyn Backend>, Error>;

/// Asks devices, each opened when it is asked first, what layers take there.
struct Asked<'a> {
    devices: &'a [Opening],
    opened: RefCell<Vec<Option<Instance>>>,
    workload: &'a Workload<'a>,
}

impl<'a> Asked<'a> {
    fn new(devices: &'a [Opening], workload: &'a Workload<'a>) -> Asked<'a> {
        Asked { devices, opened: RefCell::new(devices.iter().map(|_| None).collect()), workload }
    }

    fn needs(&self, device: usize, layers: Range<usize>) -> Result<u64, Error> {
        let mut opened = self.opened.borrow_mut();
        match opened[device].get_or_insert_with(|| self.devices[device].open()) {
            Ok(backend) => Ok(on_device(&self.workload.of(&**backend, layers)?)),
            Err(error) => Err(error.clone()),
        }
    }
}

impl Deployment {
    /// The devices with what they have now.
    fn budgets(&self) -> Vec<(DeviceInfo, DeviceBudget)> {
        let budget = |opening: &Opening| {
            let info = opening.device.info();
            let budget = Budget::new(info.memory, opening.options.memory);
            let device = DeviceBudget { name: info.name.clone(), budget };
            (info, device)
        };
        self.devices.iter().map(budget).collect()
    }

    /// Decides who computes which layers of a model.
    ///
    /// # Errors
    /// When a number of layers was asked for and cannot be had, or a device cannot be used and the host may not take over.
    pub fn place(self, workload: &Workload<'_>) -> Result<Deployed, PlacementError> {
        let layers = workload.graph.layers();
        if self.devices.is_empty() || self.wanted == Layers::Last(0) {
            let placement = Placement::on_host(layers);
            let (infos, budgets, cuts, opened) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
            return Ok(Deployed { deployment: self, infos, budgets, layers, cuts, placement, opened });
        }
        let cuts = workload.cuts();
        let (infos, budgets): (Vec<_>, Vec<_>) = self.budgets().into_iter().unzip();
        let asked = Asked::new(&self.devices, workload);
        let model = Cuts { layers, after: &cuts };
        let placement =
            place(model, &budgets, self.wanted, &mut |device, layers| asked.needs(device, layers))?;
        let opened = asked.opened.into_inner().into_iter().map(|instance| instance?.ok()).collect();
        let error = placement.left_out.iter().find_map(|(_, why)| match why {
            LeftOut::Error(error) => Some(error),
            LeftOut::NoRoom => None,
        });
        match error {
            Some(error) if !self.falls_back => Err(error.clone().into()),
            _ => Ok(Deployed { deployment: self, infos, budgets, layers, cuts, placement, opened }),
        }
    }

    /// What each device alone has room for.
    pub fn fits(&self, workload: &Workload<'_>) -> Vec<Fit> {
        let (layers, cuts) = (workload.graph.layers(), workload.cuts());
        let asked = Asked::new(&self.devices, workload);
        let mut needs = |device, layers| asked.needs(device, layers);
        let fit = |(index, (info, device)): (usize, (DeviceInfo, DeviceBudget))| {
            let room = device.budget.for_auto();
            let model = Cuts { layers, after: &cuts };
            let start = room.and_then(|room| fitting(model, index, [0, layers], Some(room), &mut needs).ok());
            let fitting = start.map(|start| start.map_or(0, |start| layers - start));
            Fit { info, room, needed: needs(index, 0..layers), fitting }
        };
        self.budgets().into_iter().enumerate().map(fit).collect()
    }
}

impl Deployed {
    /// Who computes which layers.
    pub fn placement(&self) -> &Placement {
        &self.placement
    }

    /// The device of a stage; none for the host.
    pub fn device(&self, index: usize) -> Option<&DeviceInfo> {
        self.infos.get(index)
    }

    /// The devices with the memory that they had when layers were placed.
    pub fn budgets(&self) -> &[DeviceBudget] {
        &self.budgets
    }

    /// Layers of the model.
    pub fn layers(&self) -> usize {
        self.layers
    }

    /// Makes what computes the model: the device that has all layers, or a [`Pipeline`].
    ///
    /// # Errors
    /// When a device cannot be opened.
    pub fn open(&mut self) -> Result<Box<dyn Backend>, Error> {
        let mut open = |device: Option<usize>| match device {
            None => self.deployment.host.open(),
            Some(device) => match self.opened.get_mut(device).and_then(Option::take) {
                Some(backend) => Ok(backend),
                None => self.deployment.devices[device].open(),
            },
        };
        let stages = self.placement.stages.iter().map(|stage| Ok((open(stage.device)?, stage.layers.len())));
        let mut stages = stages.collect::<Result<Vec<_>, Error>>()?;
        match stages.pop() {
            Some((backend, _)) if stages.is_empty() => Ok(backend),
            last => Ok(Box::new(Pipeline::new(stages.into_iter().chain(last).collect()))),
        }
    }

    /// Places the layers anew after `error` of loading, compiling or running the model: on fewer devices, or with fewer
    /// layers. False when there is nothing to give up, or the user has said what is to be.
    pub fn give_way(&mut self, error: &Error) -> bool {
        let fewer = match error {
            Error::OutOfMemory { memory: MemoryKind::Device, .. }
                if self.deployment.wanted == Layers::Auto =>
            {
                self.placement.halved(Cuts { layers: self.layers, after: &self.cuts })
            }
            Error::Device { .. } if self.deployment.falls_back && self.placement.on_devices() > 0 => {
                Some(Placement::on_host(self.layers))
            }
            _ => None,
        };
        match fewer {
            Some(fewer) => self.placement = fewer,
            None => return false,
        }
        true
    }
}
