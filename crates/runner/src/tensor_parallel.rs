//! Tensor parallelism: a model on several devices, each with a part of every layer.

mod program;

use std::thread;

use backend::{
    Backend, Bucket, Description, Error, Feature, KvFormat, KvLayout, LoadedModel, Member, Memory, Program,
    Shares, Taps, Timing, Weights,
};
use graph::{Graph, Rank};

use crate::pipeline::{prepare, sum, with_taps};
use program::{GroupProgram, Tapped, panicked};

/// Backends that each compute a shard of a model ([`Graph::shard`]), and sum values over all of them.
pub struct TensorParallel {
    ranks: Vec<Box<dyn Backend>>,
}

impl TensorParallel {
    /// Creates a group of these backends, by rank. The outputs of a step are those of the first.
    pub fn new(ranks: Vec<Box<dyn Backend>>) -> TensorParallel {
        TensorParallel { ranks }
    }
}

/// The graphs of so many ranks.
pub(crate) fn shards(graph: &Graph, weights: &dyn Weights, ranks: usize) -> Result<Vec<Graph>, Error> {
    let block = |weight: &graph::Weight| weights.weight(weight).map_or(1, |weight| weight.format.block_len());
    let shard = |rank| graph.shard(Rank { rank, ranks }, &block);
    (0..ranks).map(shard).collect::<Result<_, _>>().map_err(|error| Error::Shard(error.to_string()))
}

/// The taps of a shard: it lacks values that ranks compute together with others.
pub(crate) fn with_own_taps<T>(part: &Graph, taps: Taps<'_>, with: impl FnOnce(Taps<'_>) -> T) -> T {
    with_taps(taps, |name| part.find(name).is_some(), with)
}

impl Backend for TensorParallel {
    fn describe(&self) -> Description {
        describe(self.ranks.iter().map(|backend| backend.describe()))
    }

    fn requirements(
        &self,
        graph: &Graph,
        weights: &dyn Weights,
        kv_layout: &KvLayout,
        buckets: &[Bucket],
        taps: Taps<'_>,
    ) -> Result<Memory, Error> {
        taps.check(graph)?;
        let parts = shards(graph, weights, self.ranks.len())?;
        let needed = self.ranks.iter().zip(&parts).map(|(backend, part)| {
            let weights = &Shares(weights);
            with_own_taps(part, taps, |taps| backend.requirements(part, weights, kv_layout, buckets, taps))
        });
        Ok(sum(needed.collect::<Result<Vec<_>, Error>>()?))
    }

    fn load(
        mut self: Box<Self>,
        graph: &Graph,
        weights: &dyn Weights,
        kv_layout: &KvLayout,
    ) -> Result<Box<dyn LoadedModel>, Error> {
        let parts = shards(graph, weights, self.ranks.len())?;
        let members = Member::group(self.ranks.len());
        join(&mut self.ranks, &members)?;
        let ranks = self.ranks.into_iter().zip(parts).zip(members).map(|((backend, part), member)| {
            let loaded = backend.load(&part, &Shares(weights), kv_layout)?;
            Ok(Shard { loaded, part, member })
        });
        let ranks = ranks.collect::<Result<Vec<_>, Error>>()?;
        Ok(Box::new(Loaded { graph: graph.clone(), ranks }))
    }
}

/// Makes the backends members of their group, all at the same time.
fn join(backends: &mut [Box<dyn Backend>], members: &[Member]) -> Result<(), Error> {
    thread::scope(|scope| {
        let joining = backends.iter_mut().zip(members);
        let joining: Vec<_> =
            joining.map(|(backend, member)| scope.spawn(|| backend.join(member.clone()))).collect();
        joining.into_iter().try_for_each(|thread| thread.join().unwrap_or_else(|_| Err(panicked())))
    })
}

/// A rank may have some columns of the table that given embeddings replace, and some heads of each block.
const SUPPORTED: &[Feature] = &[Feature::Spans];

struct Loaded {
    graph: Graph,
    ranks: Vec<Shard>,
}

/// A rank's part of the model on its device.
struct Shard {
    loaded: Box<dyn LoadedModel>,
    part: Graph,
    member: Member,
}

impl LoadedModel for Loaded {
    fn describe(&self) -> Description {
        describe(self.ranks.iter().map(|shard| shard.loaded.describe()))
    }

    fn compile(&mut self, bucket: Bucket, taps: Taps<'_>) -> Result<Box<dyn Program>, Error> {
        taps.check(&self.graph)?;
        let mut programs = Vec::new();
        for Shard { loaded, part, member } in &mut self.ranks {
            let program = with_own_taps(part, taps, |taps| loaded.compile(bucket, taps))?;
            programs.push((program, member.clone()));
        }
        let tapped = self.graph.values().filter(|(_, value)| taps.contains(&value.name));
        let parts: Vec<&Graph> = self.ranks.iter().map(|shard| &shard.part).collect();
        let tapped = tapped.map(|(_, value)| Tapped::new(value, &parts)).collect();
        Ok(Box::new(GroupProgram::new(programs, tapped)?))
    }

    fn prepare(&mut self, copied: &mut dyn FnMut(&str)) -> Result<(), Error> {
        prepare(self.ranks.iter_mut().map(|shard| (&mut shard.loaded, &shard.part)).collect(), copied)
    }

    fn memory(&self) -> Memory {
        sum(self.ranks.iter().map(|shard| shard.loaded.memory()))
    }

    fn kv_format(&self, requested: KvFormat) -> KvFormat {
        let mut formats = self.ranks.iter().map(|shard| shard.loaded.kv_format(requested));
        formats.find(|format| *format != requested).unwrap_or(requested)
    }

    fn supports(&self, feature: Feature) -> bool {
        SUPPORTED.contains(&feature) && self.ranks.iter().all(|shard| shard.loaded.supports(feature))
    }

    fn stages(&self) -> Vec<(Description, Memory)> {
        self.ranks.iter().flat_map(|shard| shard.loaded.stages()).collect()
    }

    fn timings(&self) -> Vec<Timing> {
        self.ranks.iter().flat_map(|shard| shard.loaded.timings()).collect()
    }
}

fn describe(ranks: impl Iterator<Item = Description>) -> Description {
    let (mut devices, mut facts) = (Vec::new(), Vec::new());
    for rank in ranks {
        devices.push(rank.device);
        facts.extend(rank.facts);
    }
    Description { name: "tensor-parallel", device: devices.join(" and "), facts }
}
