//! From the rows of the last layer to embeddings or to the scores of a classifier.

use graph::{Activation, Graph, Map, Mask, Op, Pool, ValueId};

use super::GraphContext;
use crate::{Error, Keys, Pooling};

pub(crate) fn labels(keys: &mut Keys<'_>) -> Result<usize, Error> {
    Ok(keys.strings("classifier.output_labels")?.map_or(1, |labels| labels.max(1)))
}

/// The mask of an encoder, whose rows see the whole sequence.
pub(crate) fn full_mask(keys: &mut Keys<'_>) -> Result<Mask, Error> {
    if keys.flag_or("attention.causal", false)? {
        return Err(keys.bad("attention.causal", true, "false"));
    }
    Ok(Mask::Full)
}

impl GraphContext<'_> {
    /// The row that represents a sequence; `None` for the output rows: all rows, or the last.
    pub(crate) fn pool(&self) -> Option<Pool> {
        // llama.cpp ranks with the last row of Qwen 3, and with the first row of others.
        let ranks_by_last = self.c.architecture.starts_with("qwen3");
        match self.c.pooling {
            None | Some(Pooling::None | Pooling::Last) => None,
            Some(Pooling::Mean) => Some(Pool::Mean),
            Some(Pooling::Cls) => Some(Pool::First),
            Some(Pooling::Rank) if ranks_by_last => None,
            Some(Pooling::Rank) => Some(self.rank_pool),
        }
    }

    /// Finishes the graph with the embeddings of `x`, `[outputs, cols]`. `act` is a classifier's activation (identity: `tanh`).
    #[track_caller]
    pub(crate) fn embeddings(mut self, x: ValueId, act: Activation) -> Graph {
        let x = match self.pool() {
            _ if self.g.has_output_rows(x) => x,
            None => self.g.output_rows("result_embd_outputs", x),
            Some(pool) => self.g.pool("embd_pooled", x, pool),
        }; // [outputs, hidden]
        let x = if self.c.pooling == Some(Pooling::Rank) { self.rank(x, act) } else { self.dense(x) };
        self.g.finish(x)
    }

    /// The scores of a classifier: a hidden layer, if any, and a score per label; of Qwen 3 probabilities (Yang et al. 2025).
    fn rank(&mut self, mut x: ValueId, act: Activation) -> ValueId {
        let (hidden, labels) = (self.hidden(), self.labels);
        if self.has("cls.weight") {
            let outputs = if self.has("cls.output.weight") { hidden } else { labels };
            x = self.head("cls", x, outputs, ["cls_mm", "cls_b"]);
            let map = if act == Activation::Identity { Map::Softcap(1.0) } else { Map::Act(act) };
            x = self.g.op("cls_act", Op::Map { x, map });
            if self.has("cls.norm.weight") {
                x = self.norm_by("cls_norm", x, "cls.norm.weight", hidden);
            }
        }
        if self.has("cls.output.weight") {
            x = self.head("cls.output", x, labels, ["cls_out_mm", "cls_out"]);
            if self.c.architecture.starts_with("qwen3") {
                // A router that uses all experts has the softmax over all.
                x = self.g.route("result_scores", x, labels);
            }
        }
        x
    }

    /// `tensor` with its bias, if it has one: `[outputs, rows of the weight]`.
    fn head(&mut self, tensor: &str, x: ValueId, rows: usize, [product, sum]: [&'static str; 2]) -> ValueId {
        let weight = self.g.weight(format!("{tensor}.weight"), rows, self.hidden());
        let x = self.g.linear(product, x, weight);
        let bias = format!("{tensor}.bias");
        if !self.has(&bias) {
            return x;
        }
        let bias = self.g.weight(bias, 1, rows);
        self.g.add_bias(sum, x, bias)
    }

    /// The matrices after pooling, if the family has declared their widths.
    fn dense(&mut self, mut x: ValueId) -> ValueId {
        let mut inputs = self.hidden();
        for (name, outputs) in std::mem::take(&mut self.dense) {
            let weight = self.g.weight(format!("{name}.weight"), outputs, inputs);
            x = self.g.linear(name, x, weight);
            inputs = outputs;
        }
        x
    }
}
