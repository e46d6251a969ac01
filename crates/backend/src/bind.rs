//! A graph bound to weights and stores: what every backend works out before it compiles.

use std::sync::Arc;

use graph::{Graph, Group, Op, Role, Value, ValueId, WeightId};

use crate::{Bucket, Error, KvLayout, Step, StoreLayout, Taps, Weight, Weights};

/// A model as a backend has it: a graph whose weights are at hand, in shape, and the layout of its stores.
#[derive(Debug)]
pub struct BoundModel {
    graph: Graph,
    weights: Vec<Weight>,
    stores: Vec<StoreLayout>,
    groups: Vec<(Group, usize)>,
    n_vocab: usize,
}

impl BoundModel {
    /// Binds `graph` to its weights and to stores of this layout.
    ///
    /// # Errors
    /// When a weight is missing, or its shape or bytes are not those of the graph, or the layout is of another graph.
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
        Ok(BoundModel { graph: graph.clone(), stores: kv_layout.stores(graph), weights, groups, n_vocab })
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

    /// How the stores are laid out, by [`graph::StoreId`].
    pub fn stores(&self) -> &[StoreLayout] {
        &self.stores
    }

    /// Bytes of the stores; the largest number when there is none so large.
    pub fn kv_bytes(&self) -> u64 {
        self.stores.iter().fold(0, |bytes, store| bytes.saturating_add(store.bytes()))
    }

    /// Pages of all block tables of a sequence, at most.
    pub fn pages(&self) -> usize {
        self.groups.iter().fold(0, |all, (_, pages)| all.saturating_add(*pages))
    }
}

/// A model for steps of up to a bucket's rows, and the values that can be read after each.
#[derive(Clone, Debug)]
pub struct BoundProgram {
    model: Arc<BoundModel>,
    bucket: Bucket,
    tapped: Vec<bool>,
    last_reads: Vec<usize>,
}

impl BoundProgram {
    /// For steps of up to `bucket` rows.
    ///
    /// # Errors
    /// When a tapped name is not in the graph.
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

    /// The value the graph is for.
    pub fn output(&self) -> ValueId {
        self.model.graph.output()
    }

    /// The room for rows.
    pub fn bucket(&self) -> Bucket {
        self.bucket
    }

    /// The last value that reads value `id`; itself where nobody does, none where it is read after the step.
    pub fn last_read(&self, id: ValueId) -> Option<usize> {
        (!self.is_readable(id)).then(|| self.last_reads[id.index()])
    }

    /// Whether a value can be read after a step: it is tapped or the output.
    pub fn is_readable(&self, id: ValueId) -> bool {
        self.tapped[id.index()] || id == self.output()
    }

    /// Checks a step against the bucket, the vocabulary and the stores.
    ///
    /// # Errors
    /// When it has more rows than there is room for, tokens that are not in the vocabulary, block tables that do not fit,
    /// or not as many numbers with it as the graph begins with.
    pub fn check(&self, step: &Step) -> Result<(), Error> {
        let input: usize = self.graph().values().map(|(_, value)| input_cols(&value.op)).sum();
        let expected = input * step.tokens().len();
        if step.input().len() != expected {
            let found = step.input().len();
            return Err(Error::Step(format!(
                "{found} numbers come with it, the graph begins with {expected}"
            )));
        }
        step.check(self.bucket, self.model.n_vocab, &self.model.groups)
    }

    /// The value called `name`, if it can be read after a step.
    ///
    /// # Errors
    /// When the graph has no such value or it was not tapped.
    pub fn readable(&self, name: &str) -> Result<ValueId, Error> {
        let error = |why| Error::Value { name: name.to_owned(), why };
        let id = self.graph().find(name).ok_or_else(|| error("is not in the graph"))?;
        if !self.is_readable(id) {
            return Err(error("was not tapped; compile the graph with a tap on it"));
        }
        Ok(id)
    }
}

/// Columns that come with a step.
fn input_cols(op: &Op) -> usize {
    if let Op::Input { cols } = *op { cols } else { 0 }
}
