//! Binding of a graph to its weights and KV stores, with the checks that all backends share.

use std::sync::Arc;

use graph::{Graph, Group, Op, Role, Value, ValueId, WeightId};

use crate::{Bucket, Error, KvLayout, Step, StoreLayout, Taps, Weight, Weights};

/// A graph bound to checked weights and to the layout of its KV stores.
#[derive(Debug)]
pub struct BoundModel {
    graph: Graph,
    weights: Vec<Weight>,
    stores: Vec<StoreLayout>,
    groups: Vec<(Group, usize)>,
    n_ctx: usize,
    n_vocab: usize,
}

impl BoundModel {
    /// Binds `graph` to `weights` and `kv_layout`.
    ///
    /// # Errors
    /// If a weight is missing, if its shape or size does not match the graph, or if the KV layout belongs to another graph.
    pub fn new(graph: &Graph, weights: &dyn Weights, kv_layout: &KvLayout) -> Result<BoundModel, Error> {
        let bound = graph.weights().map(|(_, expected)| {
            let name = &expected.name;
            let weight =
                weights.weight(expected).ok_or_else(|| Error::MissingWeight { name: name.clone() })?;
            let found = [weight.count, weight.rows, weight.cols];
            let expected = [expected.count, expected.rows, expected.cols];
            if found != expected {
                return Err(Error::WeightShape { name: name.clone(), found, expected });
            }
            weight.check(name)?;
            Ok(weight)
        });
        let weights = bound.collect::<Result<Vec<_>, Error>>()?;
        if kv_layout.pages.len() != graph.groups().len() {
            let (found, expected) = (kv_layout.pages.len(), graph.groups().len());
            return Err(Error::Stores { found, expected });
        }
        let tables =
            graph.roles().into_iter().zip(&weights).filter(|(roles, _)| roles.contains(&Role::Table));
        let n_vocab = tables.map(|(_, table)| table.rows).min().unwrap_or(usize::MAX);
        let groups = graph.groups().iter().copied().zip(kv_layout.pages.iter().copied()).collect();
        let (graph, stores, n_ctx) = (graph.clone(), kv_layout.stores(graph), kv_layout.n_ctx);
        Ok(BoundModel { graph, stores, weights, groups, n_ctx, n_vocab })
    }

    /// The graph.
    pub fn graph(&self) -> &Graph {
        &self.graph
    }

    /// One weight.
    pub fn weight(&self, id: WeightId) -> &Weight {
        &self.weights[id.index()]
    }

    /// The weights, by [`WeightId`].
    pub fn weights(&self) -> &[Weight] {
        &self.weights
    }

    /// The KV store layouts, by [`graph::StoreId`].
    pub fn stores(&self) -> &[StoreLayout] {
        &self.stores
    }

    /// Total size of the KV stores in bytes, saturating.
    pub fn kv_bytes(&self) -> u64 {
        self.stores.iter().fold(0, |bytes, store| bytes.saturating_add(store.bytes()))
    }

    /// Positions per sequence, at most.
    pub fn n_ctx(&self) -> usize {
        self.n_ctx
    }

    /// Upper bound of the pages in all block tables of a sequence, saturating.
    pub fn pages(&self) -> usize {
        self.groups.iter().fold(0, |all, (_, pages)| all.saturating_add(*pages))
    }
}

/// A bound model together with the bucket and the taps of one program.
#[derive(Clone, Debug)]
pub struct BoundProgram {
    model: Arc<BoundModel>,
    bucket: Bucket,
    tapped: Vec<bool>,
    last_reads: Vec<usize>,
}

impl BoundProgram {
    /// Prepares a program for steps that fit `bucket`.
    ///
    /// # Errors
    /// If a tapped name is not in the graph.
    pub fn new(model: Arc<BoundModel>, bucket: Bucket, taps: Taps<'_>) -> Result<BoundProgram, Error> {
        taps.check(&model.graph)?;
        let tapped = model.graph.values().map(|(_, value)| taps.contains(&value.name)).collect();
        let last_reads = model.graph.last_reads();
        Ok(BoundProgram { model, bucket, tapped, last_reads })
    }

    /// The model.
    pub fn model(&self) -> &Arc<BoundModel> {
        &self.model
    }

    /// The graph.
    pub fn graph(&self) -> &Graph {
        &self.model.graph
    }

    /// One value.
    pub fn value(&self, id: ValueId) -> &Value {
        self.model.graph.value(id)
    }

    /// One weight.
    pub fn weight(&self, id: WeightId) -> &Weight {
        self.model.weight(id)
    }

    /// The result of the graph.
    pub fn output(&self) -> ValueId {
        self.model.graph.output()
    }

    /// The bucket.
    pub fn bucket(&self) -> Bucket {
        self.bucket
    }

    /// The last reader of value `id`, itself if it has none; `None` if the value is readable after the step.
    pub fn last_read(&self, id: ValueId) -> Option<usize> {
        (!self.is_readable(id)).then(|| self.last_reads[id.index()])
    }

    /// Whether a value can be read after a step: it is tapped, or the output.
    pub fn is_readable(&self, id: ValueId) -> bool {
        self.tapped[id.index()] || id == self.output()
    }

    /// Checks a step against bucket, vocabulary, stores and graph input.
    ///
    /// # Errors
    /// If the step exceeds the bucket, has tokens outside the vocabulary, has invalid block tables, or if its input does
    /// not have the size that the graph expects.
    pub fn check(&self, step: &Step) -> Result<(), Error> {
        let input: usize = self.graph().values().map(|(_, value)| input_cols(&value.op)).sum();
        let expected = input * step.tokens().len();
        if step.input().len() != expected {
            let found = step.input().len();
            return Err(Error::Step(format!("the input has {found} values, the graph expects {expected}")));
        }
        step.check(self.bucket, self.model.n_vocab, &self.model.groups)
    }

    /// Looks up value `name`, which must be readable after a step.
    ///
    /// # Errors
    /// If the graph has no such value or it was not tapped.
    pub fn readable(&self, name: &str) -> Result<ValueId, Error> {
        let error = |why| Error::Value { name: name.to_owned(), why };
        let id = self.graph().find(name).ok_or_else(|| error("is not in the graph"))?;
        if !self.is_readable(id) {
            return Err(error("was not tapped; compile the graph with a tap on it"));
        }
        Ok(id)
    }
}

/// Columns of the graph input.
fn input_cols(op: &Op) -> usize {
    if let Op::Input { cols } = *op { cols } else { 0 }
}
