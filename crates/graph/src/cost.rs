//! The cost of an operation.

use crate::{Graph, Map, Op, StoreId, ValueId, WeightId};

/// Cost of one row of a value. Element-wise and row-wise work is not counted.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Cost {
    /// Weights that a row is multiplied with, and the number of matrices of each.
    pub matmuls: Vec<(WeightId, usize)>,
    /// The store that a row attends to, and the multiply-adds per visible position.
    pub attention: Option<(StoreId, usize)>,
}

impl Graph {
    /// Cost of one row of a value.
    pub fn cost(&self, id: ValueId) -> Cost {
        match self.value(id).op {
            Op::Linear { weight, .. } => Cost { matmuls: vec![(weight, 1)], attention: None },
            Op::Experts { routes, hidden, down, .. } => {
                let (used, weights) = (self.experts_used(routes), hidden.weights().iter().chain([&down]));
                Cost { matmuls: weights.map(|&weight| (weight, used)).collect(), attention: None }
            }
            Op::HeadLinear { weight, .. } => {
                Cost { matmuls: vec![(weight, self.weight(weight).count)], attention: None }
            }
            Op::Attention { store, heads, .. } => {
                let dims = self.store(store).k_dim + self.store(store).v_dim;
                Cost { matmuls: Vec::new(), attention: Some((store, heads * dims)) }
            }
            Op::Input { .. }
            | Op::Embed { .. }
            | Op::Conv { .. }
            | Op::LinearAttention { .. }
            | Op::Norm { .. }
            | Op::Rope { .. }
            | Op::Gate { .. }
            | Op::Route { .. }
            | Op::Map { .. }
            | Op::Add { .. }
            | Op::AddBias { .. }
            | Op::MulWeight { .. }
            | Op::ScaleByPosition { .. }
            | Op::Slice { .. }
            | Op::Join { .. }
            | Op::OutputRows { .. }
            | Op::Pool { .. }
            | Op::AllReduce { .. } => Cost::default(),
        }
    }

    /// Experts per row of `routes`: all of them unless [`Op::Route`] computes it.
    pub fn experts_used(&self, routes: ValueId) -> usize {
        let value = self.value(routes);
        // A weight of an expert that is not chosen stays 0 if it is scaled.
        if let Op::MulWeight { x, .. } | Op::Map { x, map: Map::Scale(_) } = value.op {
            return self.experts_used(x);
        }
        if let Op::Route { router, .. } = value.op { router.used } else { value.cols }
    }
}
