//! Pipelines: a model on several devices, one after the other.

use std::collections::{HashMap, HashSet};

use backend::{
    Backend, Bucket, Description, Error, Feature, KvFormat, KvLayout, LoadedModel, Memory, Outputs, Program,
    Step, Taps, Ticket, Timing, Weights,
};
use graph::Graph;

/// Backends that each compute consecutive layers of a model. The hidden rows are passed on once per step.
pub struct Pipeline {
    stages: Vec<(Box<dyn Backend>, usize)>,
}

impl Pipeline {
    /// Creates a pipeline of backends with their numbers of layers, first layers first. The last stage also computes the
    /// output.
    pub fn new(stages: Vec<(Box<dyn Backend>, usize)>) -> Pipeline {
        Pipeline { stages }
    }

    fn parts(&self, graph: &Graph) -> Result<Vec<Graph>, Error> {
        let layers: Vec<usize> = self.stages.iter().map(|(_, layers)| *layers).collect();
        parts(graph, &layers)
    }
}

/// Splits `graph` into parts of the given numbers of layers.
pub(crate) fn parts(graph: &Graph, layers: &[usize]) -> Result<Vec<Graph>, Error> {
    let cut = |at, why| Error::Cut { layers: graph.layers(), at, why };
    let all = layers.iter().fold(0, |all: usize, layers| all.saturating_add(*layers));
    if all != graph.layers() || layers.is_empty() {
        return Err(cut(all, "the stages must cover every layer exactly once"));
    }
    let (mut parts, mut rest, mut at) = (Vec::new(), graph.clone(), 0);
    for layers in &layers[..layers.len() - 1] {
        at += layers;
        let (part, after) = rest.cut(*layers).ok_or_else(|| {
            let is_empty = *layers == 0 || at == graph.layers();
            let shared = "later layers read values or K/V of earlier layers";
            cut(at, if is_empty { "a stage would have no layer" } else { shared })
        })?;
        parts.push(part);
        rest = after;
    }
    parts.push(rest);
    Ok(parts)
}

impl Backend for Pipeline {
    fn describe(&self) -> Description {
        describe(self.stages.iter().map(|(backend, layers)| (backend.describe(), *layers)))
    }

    fn requirements(
        &self,
        graph: &Graph,
        weights: &dyn Weights,
        kv_layout: &KvLayout,
        buckets: &[Bucket],
        taps: Taps<'_>,
    ) -> Result<Memory, Error> {
        let parts = self.parts(graph)?;
        let stage_of = stages_by_value(graph, &parts, taps)?;
        let last = parts.len() - 1;
        let needed = self.stages.iter().zip(&parts).enumerate().map(|(stage, ((backend, _), part))| {
            let buckets: Vec<Bucket> =
                buckets.iter().map(|bucket| stage_bucket(*bucket, stage == last)).collect();
            let is_here = |name: &str| stage_of.get(name) == Some(&stage);
            with_taps(taps, is_here, |taps| backend.requirements(part, weights, kv_layout, &buckets, taps))
        });
        Ok(sum(needed.collect::<Result<Vec<_>, Error>>()?))
    }

    fn load(
        self: Box<Self>,
        graph: &Graph,
        weights: &dyn Weights,
        kv_layout: &KvLayout,
    ) -> Result<Box<dyn LoadedModel>, Error> {
        let parts = self.parts(graph)?;
        let stages = self.stages.into_iter().zip(parts).map(|((backend, layers), part)| {
            let loaded = backend.load(&part, weights, kv_layout)?;
            Ok(Stage { loaded, part, layers })
        });
        let stages = stages.collect::<Result<Vec<_>, Error>>()?;
        Ok(Box::new(Loaded { graph: graph.clone(), stages }))
    }
}

struct Loaded {
    graph: Graph,
    stages: Vec<Stage>,
}

/// A part of the model on its device.
struct Stage {
    loaded: Box<dyn LoadedModel>,
    part: Graph,
    layers: usize,
}

impl LoadedModel for Loaded {
    fn describe(&self) -> Description {
        describe(self.stages.iter().map(|stage| (stage.loaded.describe(), stage.layers)))
    }

    fn compile(&mut self, bucket: Bucket, taps: Taps<'_>) -> Result<Box<dyn Program>, Error> {
        let parts: Vec<&Graph> = self.stages.iter().map(|stage| &stage.part).collect();
        let stage_of = stages_by_value(&self.graph, &parts, taps)?;
        let last = self.stages.len() - 1;
        let programs = self.stages.iter_mut().enumerate().map(|(number, stage)| {
            let bucket = stage_bucket(bucket, number == last);
            let is_here = |name: &str| stage_of.get(name) == Some(&number);
            with_taps(taps, is_here, |taps| stage.loaded.compile(bucket, taps))
        });
        let programs = programs.collect::<Result<Vec<_>, Error>>()?;
        Ok(Box::new(PipelineProgram { bucket, programs, stage_of }))
    }

    fn prepare(&mut self, copied: &mut dyn FnMut(&str)) -> Result<(), Error> {
        prepare(self.stages.iter_mut().map(|stage| (&mut stage.loaded, &stage.part)).collect(), copied)
    }

    fn memory(&self) -> Memory {
        sum(self.stages.iter().map(|stage| stage.loaded.memory()))
    }

    fn kv_format(&self, requested: KvFormat) -> KvFormat {
        let mut formats = self.stages.iter().map(|stage| stage.loaded.kv_format(requested));
        formats.find(|format| *format != requested).unwrap_or(requested)
    }

    fn supports(&self, feature: Feature) -> bool {
        feature != Feature::CacheBlocks && self.stages.iter().all(|stage| stage.loaded.supports(feature))
    }

    fn stages(&self) -> Vec<(Description, Memory)> {
        self.stages.iter().flat_map(|stage| stage.loaded.stages()).collect()
    }

    fn timings(&self) -> Vec<Timing> {
        self.stages.iter().flat_map(|stage| stage.loaded.timings()).collect()
    }
}

struct PipelineProgram {
    bucket: Bucket,
    programs: Vec<Box<dyn Program>>,
    /// The stage that computes each value, by name.
    stage_of: HashMap<String, usize>,
}

impl Program for PipelineProgram {
    fn submit(&mut self, step: &Step) -> Result<Ticket, Error> {
        let Some((last, inner)) = self.programs.split_last_mut() else {
            return Err(Error::Step("the pipeline has no stages".into()));
        };
        if inner.is_empty() {
            return last.submit(step);
        }
        // The last stage would detect it only after the others have written their KV caches.
        let outputs = step.outputs().len();
        if outputs > self.bucket.outputs {
            return Err(Error::Step(format!("{outputs} outputs exceed {:?}", self.bucket)));
        }
        let (mut hidden, mut inner_step) = (step.hidden().to_vec(), step.without_outputs());
        for program in inner {
            inner_step = inner_step.with_hidden(hidden);
            let ticket = program.submit(&inner_step)?;
            hidden = program.wait(ticket)?.values().to_vec();
        }
        last.submit(&step.clone().with_hidden(hidden))
    }

    fn wait(&mut self, ticket: Ticket) -> Result<Outputs<'_>, Error> {
        let none = || Error::Step("no step was submitted".into());
        self.programs.last_mut().ok_or_else(none)?.wait(ticket)
    }

    fn read(&self, name: &str) -> Result<&[f32], Error> {
        let none = || Error::Value { name: name.to_owned(), why: "is not in the graph" };
        self.programs[*self.stage_of.get(name).ok_or_else(none)?].read(name)
    }
}

/// The stage that computes each value, by name; the input of a stage belongs to the stage before it.
fn stages_by_value(
    graph: &Graph,
    parts: &[impl std::borrow::Borrow<Graph>],
    taps: Taps<'_>,
) -> Result<HashMap<String, usize>, Error> {
    taps.check(graph)?;
    let mut stage_of = HashMap::new();
    for (stage, part) in parts.iter().enumerate() {
        for (_, value) in part.borrow().values() {
            stage_of.entry(value.name.clone()).or_insert(stage);
        }
    }
    Ok(stage_of)
}

/// Calls `with` with the taps of a stage.
pub(crate) fn with_taps<T>(
    taps: Taps<'_>,
    is_here: impl Fn(&str) -> bool,
    with: impl FnOnce(Taps<'_>) -> T,
) -> T {
    let Taps::Names(names) = taps else { return with(taps) };
    let names: Vec<&str> = names.iter().copied().filter(|name| is_here(name)).collect();
    with(Taps::Names(&names))
}

/// The bucket of a stage: only the last stage has output rows.
pub(crate) fn stage_bucket(bucket: Bucket, is_last: bool) -> Bucket {
    Bucket { outputs: if is_last { bucket.outputs } else { 0 }, ..bucket }
}

fn describe(stages: impl ExactSizeIterator<Item = (Description, usize)>) -> Description {
    let last = stages.len().saturating_sub(1);
    let (mut devices, mut facts) = (Vec::new(), Vec::new());
    for (number, (stage, layers)) in stages.enumerate() {
        let layers = if number == last { String::new() } else { format!(" for {layers} layers") };
        devices.push(stage.device + &layers);
        facts.extend(stage.facts);
    }
    Description { name: "pipeline", device: devices.join(", then "), facts }
}

pub(crate) fn sum(stages: impl IntoIterator<Item = Memory>) -> Memory {
    stages.into_iter().fold(Memory::default(), |all, stage| Memory {
        weights_mapped: all.weights_mapped.saturating_add(stage.weights_mapped),
        weights_owned: all.weights_owned.saturating_add(stage.weights_owned),
        weights_on_device: all.weights_on_device.saturating_add(stage.weights_on_device),
        weights_converted: [all.weights_converted, stage.weights_converted].concat(),
        kv: all.kv.saturating_add(stage.kv),
        activations: all.activations.saturating_add(stage.activations),
    })
}

/// Prepares models, each with its graph. A tensor's bytes in the file are needed until all that use it have copied them.
pub(crate) fn prepare(
    models: Vec<(&mut Box<dyn LoadedModel>, &Graph)>,
    copied: &mut dyn FnMut(&str),
) -> Result<(), Error> {
    let mut left: HashMap<String, usize> = HashMap::new();
    for (_, part) in &models {
        let tensors: HashSet<&str> = part.weights().map(|(_, weight)| &*weight.tensor).collect();
        tensors.into_iter().for_each(|tensor| *left.entry(tensor.to_owned()).or_default() += 1);
    }
    let mut copied_by_all = |tensor: &str| {
        if let Some(models) = left.get_mut(tensor) {
            *models = models.saturating_sub(1);
            if *models == 0 {
                copied(tensor);
            }
        }
    };
    models.into_iter().try_for_each(|(model, _)| model.prepare(&mut copied_by_all))
}
