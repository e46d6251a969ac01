//! The compute graph of a model; every value has a name.
//!
//! A [`Graph`] reads like the equations of a paper: one operation per line, without strides, views or devices. Backends
//! compile it; any intermediate value can be read by its [`Value::name`].
//!
//! Every value is an `f32` matrix with one row per token of a step ([`Rows::Step`]) or per output row
//! ([`Rows::Output`]), and a number of columns fixed by the model. The graph also declares the state of sequences:
//! KV [`Store`]s, in [`Group`]s that share a block table, and the state of recurrent operations ([`Graph::state_len`]).

mod activation;
mod builder;
mod cost;
mod cut;
mod given;
mod hidden;
mod ids;
mod liveness;
mod op;
mod print;
mod rope;
mod shape;
mod shard;
mod store;
mod value;
mod vary;

use std::collections::HashMap;

pub use activation::{Activation, Glu};
pub use builder::{Builder, ValueName};
pub use cost::Cost;
pub use hidden::Hidden;
pub use ids::{StoreId, ValueId, WeightId};
pub use liveness::{LiveRange, assign_buffers};
pub use op::{Gating, Index, LinearHeads, Map, NormKind, Op, Operand, Pool, Reads, Role, Router, Score};
pub use rope::{LongFactors, Pairing, Rope, Yarn};
pub use shard::{Rank, ShardError};
pub use store::{Group, Mask, Store};
pub use value::{Rows, Share, Value, Weight};

/// A finished graph, with values in topological order.
#[derive(Clone, Debug)]
pub struct Graph {
    values: Vec<Value>,
    by_name: HashMap<String, ValueId>,
    weights: Vec<Weight>,
    stores: Vec<(Store, usize)>,
    groups: Vec<Group>,
    layer_ends: Vec<ValueId>,
    output: ValueId,
    heads: Vec<ValueId>,
}

impl Graph {
    /// All values in topological order.
    pub fn values(&self) -> impl ExactSizeIterator<Item = (ValueId, &Value)> {
        self.values.iter().enumerate().map(|(i, value)| (ValueId(i as u32), value))
    }

    /// One value.
    pub fn value(&self, id: ValueId) -> &Value {
        &self.values[id.index()]
    }

    /// The value with this name.
    pub fn find(&self, name: &str) -> Option<ValueId> {
        self.by_name.get(name).copied()
    }

    /// All weights, each once.
    pub fn weights(&self) -> impl ExactSizeIterator<Item = (WeightId, &Weight)> {
        self.weights.iter().enumerate().map(|(i, weight)| (WeightId(i as u32), weight))
    }

    /// One weight.
    pub fn weight(&self, id: WeightId) -> &Weight {
        &self.weights[id.index()]
    }

    /// The distinct roles of each weight, by [`WeightId`].
    pub fn roles(&self) -> Vec<Vec<Role>> {
        let mut roles = vec![Vec::new(); self.weights.len()];
        for (id, role) in self.values.iter().flat_map(|value| value.op.weights()) {
            let roles: &mut Vec<Role> = &mut roles[id.index()];
            if !roles.contains(&role) {
                roles.push(role);
            }
        }
        roles
    }

    /// All KV stores, by [`StoreId`].
    pub fn stores(&self) -> impl ExactSizeIterator<Item = (StoreId, &Store)> {
        self.stores.iter().enumerate().map(|(i, (store, _))| (StoreId(i as u32), store))
    }

    /// One store.
    pub fn store(&self, id: StoreId) -> &Store {
        &self.stores[id.index()].0
    }

    /// The index in [`Graph::groups`] of a store's group.
    pub fn store_group(&self, id: StoreId) -> usize {
        self.stores[id.index()].1
    }

    /// The f32 values of a sequence's state that operation `id` reads and writes in each step; 0 without one.
    pub fn state_len(&self, id: ValueId) -> usize {
        let value = self.value(id);
        if let Op::Conv { weight, .. } = value.op {
            value.cols.saturating_mul(self.weight(weight).cols.saturating_sub(1))
        } else if let Op::LinearAttention { k, heads, .. } = value.op {
            (self.value(k).cols / heads.k_heads).saturating_mul(value.cols)
        } else {
            assert!(!value.op.is_recurrent(), "the size of the state of `{}`", value.op.name());
            0
        }
    }

    /// The f32 values of the state of one sequence, besides its KV stores.
    pub fn state_values(&self) -> usize {
        self.values().fold(0, |all, (id, _)| all.saturating_add(self.state_len(id)))
    }

    /// The store groups. Parts of a cut graph have all groups of the whole.
    pub fn groups(&self) -> &[Group] {
        &self.groups
    }

    /// The result: logits, one row per output row; of a part of a cut graph, the input rows of the next part.
    pub fn output(&self) -> ValueId {
        self.output
    }

    /// Further results, one row per output row, such as the logits of a second head; a part has those that it computes.
    pub fn heads(&self) -> &[ValueId] {
        &self.heads
    }

    /// The last value of each layer, first layer first.
    pub fn layer_ends(&self) -> &[ValueId] {
        &self.layer_ends
    }

    /// Number of layers.
    pub fn layers(&self) -> usize {
        self.layer_ends.len()
    }
}
