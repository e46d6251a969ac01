//! Mixture of experts (Jiang et al. 2024): each row uses some experts, chosen and weighted by a router.

use graph::{Activation, Gating, Glu, Hidden, Op, Router, ValueId, WeightId};

use super::{GraphContext, Linear};
use crate::{Error, Keys};

const LOGITS: Linear = Linear {
    tensor: "ffn_gate_inp",
    name: "ffn_moe_logits",
    biased: ["ffn_moe_logits_mm", "ffn_moe_logits"],
};

#[derive(Clone, Copy, Debug)]
pub(crate) struct Moe {
    pub(crate) count: usize,
    pub(crate) router: Router,
    pub(crate) glu: Glu,
    /// The routing weights multiply the experts' inputs.
    pub(crate) weighs_inputs: bool,
    /// Hidden columns of the network that every row uses; 0 for none.
    pub(crate) shared: usize,
}

impl Moe {
    /// Reads the number of experts; `None` if the model has none. Their weights are the softmax over the chosen.
    pub(crate) fn read(keys: &mut Keys<'_>) -> Result<Option<Moe>, Error> {
        let count = keys.count("expert_count")?;
        if count == 0 {
            return Ok(None);
        }
        let used = keys.size("expert_used_count", "the number of experts per token")?;
        if used > count {
            return Err(keys.bad("expert_used_count", used, format!("at most the {count} experts")));
        }
        let (router, glu) = (Router::new(used), Activation::Silu.into());
        let mut moe = Moe { count, router, glu, weighs_inputs: false, shared: 0 };
        moe.read_groups(keys)?;
        Ok(Some(moe))
    }

    pub(crate) fn required(keys: &mut Keys<'_>) -> Result<Moe, Error> {
        let none = keys.missing("expert_count", "the number of experts");
        Moe::read(keys)?.ok_or(none)
    }

    pub(crate) fn read_gating(&mut self, keys: &mut Keys<'_>, gating: Gating) -> Result<(), Error> {
        let name = "expert_gating_func";
        self.router.gating = match keys.count(name)? {
            0 => gating,
            1 => Gating::Softmax,
            2 => Gating::Sigmoid,
            3 => Gating::ChosenSoftmax,
            other => {
                return Err(keys.bad(name, other, "1 (softmax), 2 (sigmoid) or 3 (softmax of the chosen)"));
            }
        };
        Ok(())
    }

    pub(crate) fn read_norm(&mut self, keys: &mut Keys<'_>) -> Result<(), Error> {
        self.router.renormalises = keys.flag_or("expert_weights_norm", false)?;
        Ok(())
    }

    pub(crate) fn read_scale(&mut self, keys: &mut Keys<'_>) -> Result<(), Error> {
        self.router.scale = keys.positive_or_zero("expert_weights_scale")?.unwrap_or(1.0);
        Ok(())
    }

    fn read_groups(&mut self, keys: &mut Keys<'_>) -> Result<(), Error> {
        let (groups, name) = (keys.count("expert_group_count")?, "expert_group_used_count");
        let used = keys.count(name)?;
        if groups <= 1 {
            return Ok(());
        }
        let fits = self.count.is_multiple_of(groups) && (1..=groups).contains(&used);
        if !fits || self.router.used > self.count / groups * used {
            let expected = format!("{groups} groups of {} experts, of which enough are used", self.count);
            return Err(keys.bad(name, used, expected));
        }
        self.router.groups = Some([groups, used]);
        Ok(())
    }

    /// Hidden columns of an expert, per layer; by default `feed_forward_length` divided by the experts per row.
    pub(crate) fn widths(&self, keys: &mut Keys<'_>) -> Result<Vec<usize>, Error> {
        let (own, whole) = ("expert_feed_forward_length", "feed_forward_length");
        if keys.has(own) || !keys.has(whole) {
            return keys.sizes(own, "the hidden size of an expert");
        }
        let widths = keys.sizes(whole, "")?;
        Ok(widths.into_iter().map(|width| width / self.router.used).collect())
    }

    /// The mixture of layer `il`, with `ffn` hidden columns per expert, plus the shared network: `[rows, hidden]`.
    pub(crate) fn mix(&self, ctx: &mut GraphContext<'_>, il: usize, x: ValueId, ffn: usize) -> ValueId {
        let logits = self.logits(ctx, il, x);
        let routes = self.route(ctx, il, logits);
        let mixed = self.experts(ctx, il, x, routes, ffn);
        if self.shared == 0 {
            return mixed;
        }
        let shared = ctx.shared_expert(il, x, self.shared); // [rows, hidden]
        ctx.g.add(("ffn_out", il), mixed, shared)
    }

    pub(crate) fn logits(&self, ctx: &mut GraphContext<'_>, il: usize, x: ValueId) -> ValueId {
        ctx.project(&LOGITS, il, x, [ctx.hidden(), self.count])
    }

    pub(crate) fn route(&self, ctx: &mut GraphContext<'_>, il: usize, logits: ValueId) -> ValueId {
        let bias = "exp_probs_b.bias";
        let bias = ctx.in_layers(bias).then(|| ctx.g.weight(format!("blk.{il}.{bias}"), 1, self.count));
        ctx.g.op(("ffn_moe_routes", il), Op::Route { logits, bias, router: self.router })
    }

    /// The mixture of networks without gates, `down(act(up(x)))` of `[ffn, cols]` columns, for given routes: `[rows, cols]`.
    pub(crate) fn ungated_experts(
        &self,
        ctx: &mut GraphContext<'_>,
        il: usize,
        x: ValueId,
        routes: ValueId,
        [ffn, cols]: [usize; 2],
        act: Activation,
    ) -> ValueId {
        let weight = ctx.g.weights(format!("blk.{il}.ffn_up_exps.weight"), [self.count, ffn, cols]);
        let down = ctx.g.weights(format!("blk.{il}.ffn_down_exps.weight"), [self.count, cols, ffn]);
        let [up_scale, scale] = ["ffn_up_exps", "ffn_down_exps"].map(|name| self.scale(ctx, il, name));
        let hidden = Hidden::Plain { weight, scale: up_scale, bias: None, act };
        let experts = Op::Experts { x, routes, hidden, down, scale, bias: None, weighs_inputs: false };
        ctx.g.op(("ffn_moe_out", il), experts)
    }

    /// The factors of a tensor's products, one per expert, if the file has them, as files in NVFP4 do.
    fn scale(&self, ctx: &mut GraphContext<'_>, il: usize, tensor: &str) -> Option<WeightId> {
        let name = format!("{tensor}.scale");
        ctx.in_layers(&name).then(|| ctx.g.weight(format!("blk.{il}.{name}"), 1, self.count))
    }

    pub(crate) fn experts(
        &self,
        ctx: &mut GraphContext<'_>,
        il: usize,
        x: ValueId,
        routes: ValueId,
        ffn: usize,
    ) -> ValueId {
        let (hidden, count) = (ctx.hidden(), self.count);
        let tensor = |name: &str| format!("blk.{il}.{name}.weight");
        let is_fused = ctx.has(&tensor("ffn_gate_up_exps"));
        let weights = if is_fused {
            [ctx.g.weight_halves(tensor("ffn_gate_up_exps"), [count, ffn, hidden]); 2]
        } else {
            ["ffn_gate_exps", "ffn_up_exps"].map(|name| ctx.g.weights(tensor(name), [count, ffn, hidden]))
        };
        let down = ctx.g.weights(tensor("ffn_down_exps"), [count, hidden, ffn]);
        let is_biased = ctx.in_layers("ffn_gate_exps.bias");
        let mut bias = |name, cols| ctx.g.weight(format!("blk.{il}.{name}.bias"), count, cols);
        let biases = is_biased.then(|| ["ffn_gate_exps", "ffn_up_exps"].map(|name| bias(name, ffn)));
        let bias = is_biased.then(|| bias("ffn_down_exps", hidden));
        let Moe { glu, weighs_inputs, .. } = *self;
        let scales = ["ffn_gate_exps", "ffn_up_exps"].map(|name| self.scale(ctx, il, name));
        let scale = self.scale(ctx, il, "ffn_down_exps");
        let hidden = Hidden::Gated { weights, scales, biases, glu, is_fused };
        let experts = Op::Experts { x, routes, hidden, down, scale, bias, weighs_inputs };
        ctx.g.op(("ffn_moe_out", il), experts) // [rows, hidden]
    }
}

impl GraphContext<'_> {
    /// The network of layer `il` of a family with and without experts: `[rows, hidden]`.
    pub(crate) fn swiglu_or_moe(&mut self, il: usize, x: ValueId, ffn: usize, moe: Option<&Moe>) -> ValueId {
        if let Some(moe) = moe { moe.mix(self, il, x, ffn) } else { self.swiglu(il, x, ffn) }
    }
}
