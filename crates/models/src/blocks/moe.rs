//! Mixture of experts (Jiang et al. 2024): each row uses the experts with the highest router probabilities, weighted by
//! these probabilities, renormalised.

use graph::{Activation, ValueId};

use super::GraphContext;
use crate::{Error, Keys};

#[derive(Clone, Copy, Debug)]
pub(crate) struct Moe {
    count: usize,
    /// Experts per row.
    used: usize,
}

impl Moe {
    /// Reads the keys; `None` if the model has no experts.
    pub(crate) fn read(keys: &mut Keys<'_>) -> Result<Option<Moe>, Error> {
        let count = keys.count("expert_count")?;
        if count == 0 {
            return Ok(None);
        }
        let used = keys.size("expert_used_count", "the number of experts per token")?;
        if used > count {
            return Err(keys.bad("expert_used_count", used, format!("at most the {count} experts")));
        }
        Ok(Some(Moe { count, used }))
    }

    /// Hidden columns of an expert, per layer; by default `feed_forward_length` divided by the number of experts per
    /// row.
    pub(crate) fn widths(&self, keys: &mut Keys<'_>, layers: usize) -> Result<Vec<usize>, Error> {
        let (own, whole) = ("expert_feed_forward_length", "feed_forward_length");
        if keys.has(own) || !keys.has(whole) {
            return keys.sizes(own, "the hidden size of an expert", layers);
        }
        let widths = keys.sizes(whole, "", layers)?;
        Ok(widths.into_iter().map(|width| width / self.used).collect())
    }

    /// The mixture of layer `il`, with `ffn` hidden columns per expert: `[rows, hidden]`.
    pub(crate) fn mix(
        &self,
        ctx: &mut GraphContext<'_>,
        il: usize,
        x: ValueId,
        ffn: usize,
    ) -> Result<ValueId, Error> {
        let (hidden, count) = (ctx.hidden(), self.count);
        let tensor = |name: &str| format!("blk.{il}.{name}.weight");
        let split = tensor("ffn_gate.0");
        if ctx.has(&split) {
            return Err(Error::SplitExperts { name: split });
        }
        let router = ctx.g.weight(tensor("ffn_gate_inp"), count, hidden);
        let gate = ctx.g.weights(tensor("ffn_gate_exps"), [count, ffn, hidden]);
        let up = ctx.g.weights(tensor("ffn_up_exps"), [count, ffn, hidden]);
        let down = ctx.g.weights(tensor("ffn_down_exps"), [count, hidden, ffn]);
        let logits = ctx.g.linear(("ffn_moe_logits", il), x, router); // [rows, experts]
        let routes = ctx.g.route(("ffn_moe_routes", il), logits, self.used); // [rows, experts]
        Ok(ctx.g.experts(("ffn_moe_out", il), x, routes, [gate, up, down], Activation::Silu)) // [rows, hidden]
    }
}
