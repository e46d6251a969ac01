//! Deploying a model: querying devices for memory requirements, placing layers, and opening the backend.

use std::ops::Range;
use std::sync::Arc;

use backend::{
    Backend, Bucket, Device, DeviceInfo, Error, KvLayout, Memory, MemoryKind, OpenOptions, Shares, Taps,
    Weights,
};
use graph::Graph;

use crate::pipeline::{parts, stage_bucket};
use crate::placement::{
    Budget, CutPoints, DeviceBudget, Layers, PlacedLayers, Placement, PlacementError, Request, SplitMode,
    TensorSplitError, first_error, fitting, place, ranks,
};
use crate::tensor_parallel::{shards, with_own_taps};
use crate::{Pipeline, TensorParallel};

/// A model and the programs to compile from it.
#[derive(Clone)]
#[expect(missing_docs, reason = "the types say it")]
pub struct Workload<'a> {
    pub weights: &'a dyn Weights,
    pub graph: &'a Graph,
    pub kv_layout: KvLayout,
    pub buckets: Vec<Bucket>,
    pub taps: Taps<'a>,
}

impl Workload<'_> {
    /// Memory that `layers` take on a device.
    fn requirements(&self, backend: &dyn Backend, layers: Range<usize>) -> Result<Memory, Error> {
        let all = self.graph.layers();
        let sizes = [layers.start, layers.len(), all - layers.end];
        let cut = parts(self.graph, &sizes.into_iter().filter(|size| *size > 0).collect::<Vec<_>>())?;
        let part = &cut[usize::from(layers.start > 0)];
        let is_last = layers.end == all;
        let buckets: Vec<Bucket> = self.buckets.iter().map(|bucket| stage_bucket(*bucket, is_last)).collect();
        let requirements =
            |taps: Taps<'_>| backend.requirements(part, self.weights, &self.kv_layout, &buckets, taps);
        with_own_taps(part, self.taps, requirements)
    }

    /// The layer counts after which the graph can be cut.
    fn cuts(&self) -> Vec<usize> {
        (1..self.graph.layers()).filter(|&layers| self.graph.cut(layers).is_some()).collect()
    }
}

/// A device and the options to open it.
#[derive(Clone)]
#[expect(missing_docs, reason = "the types say it")]
pub struct DeviceConfig {
    pub device: Arc<dyn Device>,
    pub options: OpenOptions,
}

impl DeviceConfig {
    /// Opens the device.
    pub fn open(&self) -> Result<Box<dyn Backend>, Error> {
        self.device.open(&self.options)
    }
}

/// Candidate devices for a model. The host runs the layers that are not offloaded.
#[derive(Clone)]
#[expect(missing_docs, reason = "the types say it")]
pub struct Deployment {
    pub host: DeviceConfig,
    /// The other devices, in the order in which they are filled.
    pub devices: Vec<DeviceConfig>,
    pub requested: Request,
    /// Whether the host takes over when a device fails.
    pub fallback: bool,
}

/// The layers of a model, assigned to devices.
pub struct Deployed {
    deployment: Deployment,
    infos: Vec<DeviceInfo>,
    budgets: Vec<DeviceBudget>,
    layers: usize,
    cuts: Vec<usize>,
    placement: Placement,
    /// The devices that share every layer, by rank; none if each has layers of its own.
    ranks: Vec<usize>,
    /// Backends opened during placement and not used yet.
    opened: Vec<Option<Box<dyn Backend>>>,
}

/// How much of a model fits a device.
#[derive(Clone, Debug)]
#[expect(missing_docs, reason = "the names say it")]
pub struct Fit {
    pub info: DeviceInfo,
    /// Memory in bytes that [`Layers::Auto`] would use, if known.
    pub available: Option<u64>,
    /// Memory in bytes that all layers and the output need.
    pub needed: Result<u64, Error>,
    /// Layers that fit, counted from the last one, with the output; `None` if the available memory is unknown.
    pub fitting: Option<usize>,
}

/// Queries devices for requirements; opens each on its first query.
struct MemoryQueries<'a> {
    devices: &'a [DeviceConfig],
    opened: Vec<Option<Result<Box<dyn Backend>, Error>>>,
}

impl<'a> MemoryQueries<'a> {
    fn new(devices: &'a [DeviceConfig]) -> MemoryQueries<'a> {
        MemoryQueries { devices, opened: devices.iter().map(|_| None).collect() }
    }

    /// Device memory in bytes that `layers` need, with `scale` times the weights of the workload.
    fn needs(
        &mut self,
        workload: &Workload<'_>,
        scale: f64,
        device: usize,
        layers: Range<usize>,
    ) -> Result<u64, Error> {
        let opened = self.opened[device].get_or_insert_with(|| self.devices[device].open());
        let backend = opened.as_ref().map_err(Error::clone)?;
        let memory = workload.requirements(&**backend, layers)?;
        let weights = (memory.weights_on_device as f64 * scale) as u64;
        Ok(weights.saturating_add(memory.kv).saturating_add(memory.activations))
    }
}

/// How much of several models fits the devices of a deployment together; devices stay open between the models.
pub struct Survey<'a> {
    budgets: Vec<DeviceBudget>,
    request: Request,
    queries: MemoryQueries<'a>,
}

impl Survey<'_> {
    /// The devices with their memory.
    pub fn budgets(&self) -> &[DeviceBudget] {
        &self.budgets
    }

    /// Layers that [`Layers::Auto`] offloads, if weights were `scale` times as large: 0 if the devices cannot run the model.
    pub fn offloaded(&mut self, workload: &Workload<'_>, scale: f64) -> usize {
        let cuts = workload.cuts();
        let model = CutPoints { layers: workload.graph.layers(), after: &cuts };
        let mut needs = |device, layers| self.queries.needs(workload, scale, device, layers);
        let placement = place(model, &self.budgets, &self.request, &mut needs);
        placement.map_or(0, |placement| placement.on_devices())
    }

    /// Memory in bytes that all layers need on the first device; `None` without a device that can run the model.
    pub fn needed(&mut self, workload: &Workload<'_>, scale: f64) -> Option<u64> {
        self.budgets.first()?;
        self.queries.needs(workload, scale, 0, 0..workload.graph.layers()).ok()
    }
}

impl Deployment {
    /// The devices with their current memory.
    fn budgets(&self) -> Vec<(DeviceInfo, DeviceBudget)> {
        let with_budget = |config: &DeviceConfig| {
            let info = config.device.info();
            let budget = Budget::new(info.memory, config.options.memory);
            (info.clone(), DeviceBudget { name: info.name, budget })
        };
        self.devices.iter().map(with_budget).collect()
    }

    /// Assigns the layers of a model to devices.
    ///
    /// # Errors
    /// If a requested number of layers does not fit, if there are fewer devices than proportions to divide layers in, or if
    /// a device fails and fallback to the host is off.
    pub fn place(self, workload: &Workload<'_>) -> Result<Deployed, PlacementError> {
        if self.requested.mode == SplitMode::Tensor {
            return self.place_ranks(workload);
        }
        let layers = workload.graph.layers();
        let is_undivided = self.devices.is_empty() && self.requested.split.is_none();
        if is_undivided || self.requested.layers == Layers::Last(0) {
            let placement = Placement::on_host(layers);
            let (infos, budgets, cuts, opened) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
            let ranks = Vec::new();
            return Ok(Deployed { deployment: self, infos, budgets, layers, cuts, placement, ranks, opened });
        }
        let cuts = workload.cuts();
        let (infos, budgets): (Vec<_>, Vec<_>) = self.budgets().into_iter().unzip();
        let mut queries = MemoryQueries::new(&self.devices);
        let model = CutPoints { layers, after: &cuts };
        let mut needs = |device, layers| queries.needs(workload, 1.0, device, layers);
        let placement = place(model, &budgets, &self.requested, &mut needs)?;
        let opened = queries.opened.into_iter().map(|backend| backend?.ok()).collect();
        if let Some(error) = first_error(&placement.skipped).filter(|_| !self.fallback) {
            return Err(error.clone().into());
        }
        let ranks = Vec::new();
        Ok(Deployed { deployment: self, infos, budgets, layers, cuts, placement, ranks, opened })
    }

    /// Gives each device an equal part of every layer.
    fn place_ranks(self, workload: &Workload<'_>) -> Result<Deployed, PlacementError> {
        let (infos, budgets): (Vec<_>, Vec<_>) = self.budgets().into_iter().unzip();
        if let Some(split) = &self.requested.split {
            split.check(budgets.len())?;
        }
        let ranks = ranks(budgets.len(), &self.requested)?;
        let &Workload { weights, graph, ref kv_layout, ref buckets, taps } = workload;
        let parts = shards(graph, weights, ranks.len())?;
        let mut opened: Vec<Option<Box<dyn Backend>>> = self.devices.iter().map(|_| None).collect();
        for (&device, part) in ranks.iter().zip(&parts) {
            let backend = self.devices[device].open()?;
            let needs =
                |taps: Taps<'_>| backend.requirements(part, &Shares(weights), kv_layout, buckets, taps);
            let needed = match with_own_taps(part, taps, needs) {
                Ok(memory) => Some(memory.weights_on_device + memory.kv + memory.activations),
                Err(Error::OutOfMemory { .. }) => None,
                Err(error) => return Err(error.into()),
            };
            let budget = budgets[device].clone();
            let available = budget.budget.available(self.requested.layers);
            if needed.is_none_or(|needed| available.is_some_and(|available| needed > available)) {
                let ranks = ranks.len();
                return Err(TensorSplitError::RankTooLarge { device, budget, ranks, needed }.into());
            }
            opened[device] = Some(backend);
        }
        let layers = graph.layers();
        // For the number of layers on devices; which they are, the ranks tell.
        let stages = vec![PlacedLayers { device: ranks.first().copied(), layers: 0..layers }];
        let placement = Placement { stages, skipped: Vec::new() };
        Ok(Deployed { deployment: self, infos, budgets, layers, cuts: Vec::new(), placement, ranks, opened })
    }

    /// Asks how much of several models fits the devices.
    pub fn survey(&self) -> Survey<'_> {
        let budgets = self.budgets().into_iter().map(|(_, budget)| budget).collect();
        let request = Request { layers: Layers::Auto, ..self.requested.clone() };
        Survey { budgets, request, queries: MemoryQueries::new(&self.devices) }
    }

    /// How much of the model fits each device on its own.
    pub fn fits(&self, workload: &Workload<'_>) -> Vec<Fit> {
        let (layers, cuts) = (workload.graph.layers(), workload.cuts());
        let mut queries = MemoryQueries::new(&self.devices);
        let mut needs = |device, layers| queries.needs(workload, 1.0, device, layers);
        let fit = |(index, (info, device)): (usize, (DeviceInfo, DeviceBudget))| {
            let available = device.budget.for_auto();
            let model = CutPoints { layers, after: &cuts };
            let start =
                available.and_then(|_| fitting(model, index, [0, layers], available, &mut needs).ok());
            let fitting = start.map(|start| start.map_or(0, |start| layers - start));
            Fit { info, available, needed: needs(index, 0..layers), fitting }
        };
        self.budgets().into_iter().enumerate().map(fit).collect()
    }
}

#[expect(missing_docs, reason = "the names say it")]
impl Deployed {
    pub fn placement(&self) -> &Placement {
        &self.placement
    }

    /// The devices that share every layer, by rank; none if each has layers of its own.
    pub fn ranks(&self) -> &[usize] {
        &self.ranks
    }

    /// The device of a stage; `None` for the host.
    pub fn device(&self, index: usize) -> Option<&DeviceInfo> {
        self.infos.get(index)
    }

    /// The memory of the devices at the time of placement.
    pub fn budgets(&self) -> &[DeviceBudget] {
        &self.budgets
    }

    /// The model's number of layers.
    pub fn layers(&self) -> usize {
        self.layers
    }

    /// Opens the backend of the model: a single device, or a [`Pipeline`] or [`TensorParallel`] of several.
    pub fn open(&mut self) -> Result<Box<dyn Backend>, Error> {
        let mut open = |device: Option<usize>| {
            let Some(device) = device else { return self.deployment.host.open() };
            let opened = self.opened.get_mut(device).and_then(Option::take);
            opened.map_or_else(|| self.deployment.devices[device].open(), Ok)
        };
        if !self.ranks.is_empty() {
            let ranks = self.ranks.iter().map(|&device| open(Some(device)));
            return Ok(Box::new(TensorParallel::new(ranks.collect::<Result<_, Error>>()?)));
        }
        let stages = self.placement.stages.iter().map(|stage| Ok((open(stage.device)?, stage.layers.len())));
        let mut stages = stages.collect::<Result<Vec<_>, Error>>()?;
        match stages.pop() {
            Some((backend, _)) if stages.is_empty() => Ok(backend),
            last => Ok(Box::new(Pipeline::new(stages.into_iter().chain(last).collect()))),
        }
    }

    /// Changes the placement after an `error` of loading, compiling or running the model: offloads fewer layers after a
    /// failed allocation, none after a device failure. Returns false if nothing can be reduced, or if the user
    /// requested a fixed number of layers or devices that share every layer.
    pub fn fall_back(&mut self, error: &Error) -> bool {
        if !self.ranks.is_empty() {
            return false;
        }
        let is_auto = self.deployment.requested.layers == Layers::Auto;
        let fewer = match error {
            Error::OutOfMemory { memory: MemoryKind::Device, .. } if is_auto => {
                self.placement.halved(CutPoints { layers: self.layers, after: &self.cuts })
            }
            Error::Device { .. } if self.deployment.fallback && self.placement.on_devices() > 0 => {
                Some(Placement::on_host(self.layers))
            }
            _ => None,
        };
        fewer.map(|fewer| self.placement = fewer).is_some()
    }
}
