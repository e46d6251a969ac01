//! A model with the same routes in every run.

use std::collections::HashMap;

use backend::{Weight, Weights};
use engine::Model;
use graph::Graph;
use quant::Format;
use runner::FileWeights;

/// A graph whose routers read recorded logits, and these as weights beside those of the file.
pub(super) struct GivenRoutes<'a> {
    pub(super) graph: Graph,
    /// The names of the routers' logits, which are still computed.
    pub(super) routers: Vec<String>,
    file: FileWeights<'a>,
    tables: HashMap<String, Weight>,
}

impl<'a> GivenRoutes<'a> {
    /// `logits` are those of each router, in the order of computation: `[positions, experts]`.
    pub(super) fn new(model: &'a Model, positions: usize, logits: &[Vec<f32>]) -> GivenRoutes<'a> {
        let (graph, given) = model.graph().with_given_routes(positions);
        let (mut routers, mut tables) = (Vec::new(), HashMap::new());
        for ((router, table), logits) in given.into_iter().zip(logits) {
            let bytes: Vec<u8> = logits.iter().flat_map(|logit| logit.to_le_bytes()).collect();
            let (format, cols) = (Format::F32, logits.len() / positions);
            tables.insert(table, Weight { format, count: 1, rows: positions, cols, bytes: bytes.into() });
            routers.push(router);
        }
        GivenRoutes { graph, routers, file: FileWeights(model.file()), tables }
    }
}

impl Weights for GivenRoutes<'_> {
    fn weight(&self, weight: &graph::Weight) -> Option<Weight> {
        self.tables.get(&weight.tensor).cloned().or_else(|| self.file.weight(weight))
    }
}

/// The names of the routers' logits in `graph`, in the order of computation.
pub(super) fn routers(graph: &Graph) -> Vec<String> {
    let logits = graph.values().filter_map(|(_, value)| match value.op {
        graph::Op::Route { logits, .. } => Some(graph.value(logits).name.clone()),
        _ => None,
    });
    logits.collect()
}
