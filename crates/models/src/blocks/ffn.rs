//! Feed-forward networks, most of them gated (Shazeer 2020).

use graph::{Activation, ValueId};

use super::{GraphContext, Linear};

const UP: Linear = Linear { tensor: "ffn_up", name: "ffn_up", biased: ["ffn_up", "ffn_up_b"] };
const DOWN: Linear = Linear { tensor: "ffn_down", name: "ffn_out", biased: ["ffn_down", "ffn_out"] };

const DENSE: [Linear; 3] =
    [Linear { tensor: "ffn_gate", name: "ffn_gate", biased: ["ffn_gate", "ffn_gate_b"] }, UP, DOWN];

/// Those of the network that every row uses beside its experts.
const SHARED: [Linear; 3] = [
    Linear {
        tensor: "ffn_gate_shexp",
        name: "ffn_shexp_gate",
        biased: ["ffn_shexp_gate", "ffn_shexp_gate_b"],
    },
    Linear { tensor: "ffn_up_shexp", name: "ffn_shexp_up", biased: ["ffn_shexp_up", "ffn_shexp_up_b"] },
    Linear { tensor: "ffn_down_shexp", name: "ffn_shexp", biased: ["ffn_shexp_mm", "ffn_shexp"] },
];

/// `down(silu(gate(x)) * up(x))` of layer `il` with `ffn` hidden columns: `[rows, hidden]`.
pub(crate) fn swiglu(ctx: &mut GraphContext<'_>, il: usize, x: ValueId, ffn: usize) -> ValueId {
    gated(ctx, il, x, ffn, Activation::Silu, &DENSE, "ffn_swiglu")
}

/// `down(gelu(gate(x)) * up(x))` of layer `il` with `ffn` hidden columns: `[rows, hidden]`.
pub(crate) fn geglu(ctx: &mut GraphContext<'_>, il: usize, x: ValueId, ffn: usize) -> ValueId {
    gated(ctx, il, x, ffn, Activation::GeluTanh, &DENSE, "ffn_geglu")
}

/// `down(act(up(x)))` of layer `il` with `ffn` hidden columns: `[rows, hidden]`.
pub(crate) fn ungated_feed_forward(
    ctx: &mut GraphContext<'_>,
    il: usize,
    x: ValueId,
    ffn: usize,
    act: Activation,
) -> ValueId {
    let name = if act == Activation::ReluSquared { "ffn_relu_sqr" } else { "ffn_act" };
    ungated(ctx, il, x, ffn, act, [&UP, &DOWN], name)
}

/// `down(act(gate(x)) * up(x))` with gate and up fused: the gate is the first half of the rows of `ffn_up`.
pub(crate) fn fused_feed_forward(
    ctx: &mut GraphContext<'_>,
    il: usize,
    x: ValueId,
    ffn: usize,
    act: Activation,
) -> ValueId {
    let hidden = ctx.hidden();
    let halves = [("ffn_gate", 0), ("ffn_up", ffn)];
    let [gate, up] = if ctx.in_layers("ffn_up.bias") {
        let up = Linear { tensor: "ffn_up", name: "ffn_up", biased: ["ffn_up_gate_mm", "ffn_up_gate"] };
        let both = ctx.project(&up, il, x, [hidden, 2 * ffn]); // [rows, 2 * ffn]
        halves.map(|(name, first)| ctx.g.slice((name, il), both, 1, first..first + ffn))
    } else {
        halves.map(|(name, first)| {
            let tensor = format!("blk.{il}.ffn_up.weight");
            let weight = ctx.g.weight_rows(tensor, 2 * ffn, first..first + ffn, hidden);
            ctx.linear((name, il), x, weight)
        })
    }; // [rows, ffn] each
    let h = ctx.g.gate(("ffn_swiglu", il), gate, up, act);
    ctx.project(&DOWN, il, h, [ffn, hidden]) // [rows, hidden]
}

/// The network that every row uses beside its experts, gated by the sigmoid of its router, if any: `[rows, hidden]`.
pub(crate) fn shared_expert(ctx: &mut GraphContext<'_>, il: usize, x: ValueId, ffn: usize) -> ValueId {
    let y = gated(ctx, il, x, ffn, Activation::Silu, &SHARED, "ffn_shexp_swiglu");
    if !ctx.in_layers("ffn_gate_inp_shexp.weight") {
        return y;
    }
    let router = ctx.g.weight(format!("blk.{il}.ffn_gate_inp_shexp.weight"), 1, ctx.hidden());
    let gate = ctx.linear(("shared_expert_gate", il), x, router); // [rows, 1]
    ctx.g.gate(("ffn_shexp_gated", il), gate, y, Activation::Sigmoid)
}

/// `down(max(up(x), 0)^2)` of the network that every row uses beside its experts: `[rows, hidden]`.
pub(crate) fn shared_relu_squared(ctx: &mut GraphContext<'_>, il: usize, x: ValueId, ffn: usize) -> ValueId {
    let linears = [&SHARED[1], &SHARED[2]];
    ungated(ctx, il, x, ffn, Activation::ReluSquared, linears, "ffn_shexp_relu_sqr")
}

fn ungated(
    ctx: &mut GraphContext<'_>,
    il: usize,
    x: ValueId,
    ffn: usize,
    act: Activation,
    [up, down]: [&Linear; 2],
    name: &'static str,
) -> ValueId {
    let hidden = ctx.hidden();
    let up = ctx.project(up, il, x, [hidden, ffn]); // [rows, ffn]
    let h = ctx.g.act((name, il), up, act);
    ctx.project(down, il, h, [ffn, hidden]) // [rows, hidden]
}

fn gated(
    ctx: &mut GraphContext<'_>,
    il: usize,
    x: ValueId,
    ffn: usize,
    act: Activation,
    [gate, up, down]: &[Linear; 3],
    name: &'static str,
) -> ValueId {
    let hidden = ctx.hidden();
    let gate = ctx.project(gate, il, x, [hidden, ffn]); // [rows, ffn]
    let up = ctx.project(up, il, x, [hidden, ffn]); // [rows, ffn]
    let h = ctx.g.gate((name, il), gate, up, act);
    ctx.project(down, il, h, [ffn, hidden]) // [rows, hidden]
}
