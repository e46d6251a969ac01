//! A model that runs steps of a few sequences.

use backend::{Bucket, KV_BLOCK, KvFormat, KvLayout, Row, Sequence, Step, Weights};
use graph::Graph;
use runner::ModelRunner;

use super::{Candidate, Failure};

pub(super) struct Part<'a> {
    pub(super) sequence: usize,
    pub(super) n_past: usize,
    pub(super) tokens: &'a [u32],
}

pub(super) struct Runner {
    pub(super) runner: ModelRunner,
    pub(super) n_vocab: usize,
    blocks: usize,
}

impl Runner {
    /// For steps of up to `outputs` output rows.
    pub(super) fn new(
        graph: &Graph,
        weights: &dyn Weights,
        candidate: &Candidate,
        [sequences, positions]: [usize; 2],
        outputs: usize,
    ) -> Result<Runner, Failure> {
        let blocks = positions.div_ceil(KV_BLOCK);
        let kv_layout = KvLayout::uniform(graph, sequences * blocks, KvFormat::F16);
        let bucket = Bucket { rows: sequences * positions, outputs };
        let runner = ModelRunner::with_weights(weights, graph, (candidate.open)()?, &kv_layout, &[bucket])?;
        Ok(Runner { runner, n_vocab: graph.value(graph.output()).cols, blocks })
    }

    /// Runs a step; the logits of every row, `[rows, n_vocab]`.
    pub(super) fn step(&mut self, parts: &[Part<'_>]) -> Result<Vec<f32>, Failure> {
        let rows: usize = parts.iter().map(|part| part.tokens.len()).sum();
        self.rows(parts, (0..rows as u32).collect())
    }

    pub(super) fn rows(&mut self, parts: &[Part<'_>], outputs: Vec<u32>) -> Result<Vec<f32>, Failure> {
        let groups = self.runner.graph().groups().len();
        let sequences = parts.iter().map(|part| {
            let first = part.sequence * self.blocks;
            let blocks = (first..first + self.blocks).map(|block| block as u32);
            Sequence::uniform(part.n_past, part.tokens.len(), groups, blocks).in_slot(part.sequence as u32)
        });
        let tokens = parts.iter().flat_map(|part| part.tokens).copied();
        let step = Step::new(Row::logits(tokens, outputs), sequences.collect())?;
        Ok(self.runner.run(&step)?.values().to_vec())
    }
}
