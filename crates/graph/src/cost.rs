//! What an operation takes to compute.

use crate::{Graph, Op, StoreId, ValueId, WeightId};

/// What one row of a value takes; what is done to each number alone is not counted.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Cost {
    /// Weights that a row is multiplied with, and how many matrices of each.
    pub matmuls: Vec<(WeightId, usize)>,
    /// The store that a row attends to, and the multiply-adds for each position that it sees.
    pub attention: Option<(StoreId, usize)>,
}

impl Graph {
    /// What one row of a value takes.
    pub fn cost(&self, id: ValueId) -> Cost {
        match self.value(id).op {
            Op::Linear { weight, .. } => Cost { matmuls: vec![(weight, 1)], attention: None },
            Op::Experts { routes, gate, up, down, .. } => {
                let used = self.experts_used(routes);
                Cost { matmuls: [gate, up, down].map(|weight| (weight, used)).to_vec(), attention: None }
            }
            Op::Attention { store, heads, .. } => {
                let dims = self.store(store).k_dim + self.store(store).v_dim;
                Cost { matmuls: Vec::new(), attention: Some((store, heads * dims)) }
            }
            Op::Input { .. }
            | Op::Embed { .. }
            | Op::RmsNorm { .. }
            | Op::Rope { .. }
            | Op::Gate { .. }
            | Op::Route { .. }
            | Op::Scale { .. }
            | Op::Add { .. }
            | Op::AddBias { .. }
            | Op::OutputRows { .. } => Cost::default(),
        }
    }

    /// Experts that a row of `routes` chooses; all, where something else than [`Op::Route`] has made it.
    pub fn experts_used(&self, routes: ValueId) -> usize {
        let value = self.value(routes);
        if let Op::Route { used, .. } = value.op { used } else { value.cols }
    }
}
