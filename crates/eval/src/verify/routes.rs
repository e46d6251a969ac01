//! A model with the same routes in every run.

use std::collections::HashMap;

use backend::{Weight, Weights};
use engine::Model;
use graph::{Graph, Op};
use quant::Format;
use runner::FileWeights;

/// A graph whose routers read recorded logits instead of computed ones; the file's weights, and these logits as weights.
pub(super) struct GivenRoutes<'a> {
    pub(super) graph: Graph,
    file: FileWeights<'a>,
    tables: HashMap<String, Weight>,
}

impl<'a> GivenRoutes<'a> {
    /// `logits` are those of each router, in the order of computation: `[positions, experts]`.
    pub(super) fn new(model: &'a Model, positions: usize, logits: &[Vec<f32>]) -> GivenRoutes<'a> {
        let (graph, given) = model.graph().with_given_routes(positions);
        let mut tables = HashMap::new();
        for (table, logits) in given.into_iter().zip(logits) {
            let bytes: Vec<u8> = logits.iter().flat_map(|logit| logit.to_le_bytes()).collect();
            let (format, cols) = (Format::F32, logits.len() / positions);
            tables.insert(table, Weight { format, count: 1, rows: positions, cols, bytes: bytes.into() });
        }
        GivenRoutes { graph, file: FileWeights(model.file()), tables }
    }
}

impl Weights for GivenRoutes<'_> {
    fn weight(&self, weight: &graph::Weight) -> Option<Weight> {
        self.tables.get(&weight.tensor).cloned().or_else(|| self.file.weight(weight))
    }
}

pub(super) struct Router {
    pub(super) logits: String,
    pub(super) routes: String,
}

pub(super) fn routers(graph: &Graph) -> Vec<Router> {
    let routers = graph.values().filter_map(|(_, value)| {
        let Op::Route { logits, .. } = value.op else { return None };
        Some(Router { logits: graph.value(logits).name.clone(), routes: value.name.clone() })
    });
    routers.collect()
}
