//! A model as a small graph whose every value has a name.
//!
//! A [`Graph`] is what a paper would print: one line an operation, no strides, no views, no device.
//! A backend compiles it; whatever can be asked of the numbers is asked by [`Value::name`].
//!
//! Every value is a matrix of `f32`: one row for each token of a step ([`Rows::Step`]) or for each
//! token whose logits are wanted ([`Rows::Wanted`]), and a number of columns fixed by the model.

mod builder;
mod cut;
mod op;
mod print;

use std::collections::HashMap;

pub use builder::{Builder, Named};
pub use op::{Op, Pairing, Rope, Rows, Value, ValueId, Weight, WeightId};

/// A finished graph: values in an order in which they can be computed.
///
/// Built once for a model with a [`Builder`]; never changed afterwards.
#[derive(Debug)]
pub struct Graph {
    values: Vec<Value>,
    by_name: HashMap<String, ValueId>,
    weights: Vec<Weight>,
    layers: usize,
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

    /// The value the graph is for: the logits, one row for each wanted token; of a part of a model that was cut,
    /// the rows that the next part begins with.
    pub fn output(&self) -> ValueId {
        self.output
    }

    /// Number of attention layers, hence of K/V stores.
    pub fn layers(&self) -> usize {
        self.layers
    }
}
