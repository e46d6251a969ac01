//! A model as a small graph whose every value has a name.
//!
//! A [`Graph`] is what a paper would print: one line an operation, no strides, no views, no device.
//! A backend compiles it; whatever can be asked of the numbers is asked by [`Value::name`].
//!
//! Every value is a matrix of `f32`: one row for each token of a step ([`Rows::Step`]) or for each
//! of its output rows ([`Rows::Output`]), and a number of columns fixed by the model. What sequences carry from
//! step to step is declared as well: [`Store`]s, in [`Group`]s that share a block table.

mod builder;
mod cost;
mod cut;
mod ids;
mod liveness;
mod op;
mod print;
mod shape;
mod store;
mod value;

use std::collections::HashMap;

pub use builder::{Builder, ValueName};
pub use cost::Cost;
pub use ids::{StoreId, ValueId, WeightId};
pub use liveness::{LiveRange, assign_buffers};
pub use op::{Activation, Op, Operand, Pairing, Role, Rope};
pub use store::{Group, Store};
pub use value::{Rows, Value, Weight};

/// A finished graph: values in an order in which they can be computed.
///
/// Built once for a model with a [`Builder`]; never changed afterwards.
#[derive(Clone, Debug)]
pub struct Graph {
    values: Vec<Value>,
    by_name: HashMap<String, ValueId>,
    weights: Vec<Weight>,
    stores: Vec<(Store, usize)>,
    groups: Vec<Group>,
    layer_ends: Vec<ValueId>,
    output: ValueId,
}

impl Graph {
    /// All values; each uses only values before it.
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

    /// All weights the graph uses, each once.
    pub fn weights(&self) -> impl ExactSizeIterator<Item = (WeightId, &Weight)> {
        self.weights.iter().enumerate().map(|(i, weight)| (WeightId(i as u32), weight))
    }

    /// One weight.
    pub fn weight(&self, id: WeightId) -> &Weight {
        &self.weights[id.index()]
    }

    /// By weight, how operations use it, each way once.
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

    /// What sequences carry, by [`StoreId`].
    pub fn stores(&self) -> impl ExactSizeIterator<Item = (StoreId, &Store)> {
        self.stores.iter().enumerate().map(|(i, (store, _))| (StoreId(i as u32), store))
    }

    /// One store.
    pub fn store(&self, id: StoreId) -> &Store {
        &self.stores[id.index()].0
    }

    /// The index in [`Graph::groups`] of a store's group.
    pub fn group_of(&self, id: StoreId) -> usize {
        self.stores[id.index()].1
    }

    /// The groups of the stores. A part of a model that was cut has those of the whole model.
    pub fn groups(&self) -> &[Group] {
        &self.groups
    }

    /// The value the graph is for: the logits, one row for each output row; of a part of a model that was cut,
    /// the rows that the next part begins with.
    pub fn output(&self) -> ValueId {
        self.output
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
