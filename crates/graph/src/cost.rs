//! The cost of an operation.

use crate::{Graph, Map, Op, Role, StoreId, ValueId, WeightId};

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
        let op = self.value(id).op;
        let used = if let Op::Experts { routes, .. } = op { Some(self.experts_used(routes)) } else { None };
        let matrices = |(weight, role)| match role {
            Role::Matrix => Some((weight, 1)),
            Role::Experts => Some((weight, used.unwrap_or(self.weight(weight).count))),
            Role::Table | Role::Vector => None,
        };
        let attention = if let Op::Attention { store, heads, .. } = op {
            Some((store, heads * (self.store(store).k_dim + self.store(store).v_dim)))
        } else {
            None
        };
        Cost { matmuls: op.weights().filter_map(matrices).collect(), attention }
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
