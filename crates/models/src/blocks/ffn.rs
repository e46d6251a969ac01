//! Gated feed-forward network (Shazeer 2020).

use graph::{Activation, ValueId};

use super::{GraphContext, Linear};

const GATE: Linear = Linear { tensor: "ffn_gate", name: "ffn_gate", biased: ["ffn_gate", "ffn_gate_b"] };
const UP: Linear = Linear { tensor: "ffn_up", name: "ffn_up", biased: ["ffn_up", "ffn_up_b"] };
const DOWN: Linear = Linear { tensor: "ffn_down", name: "ffn_out", biased: ["ffn_down", "ffn_out"] };

const GATE_SHEXP: Linear = Linear {
    tensor: "ffn_gate_shexp",
    name: "ffn_shexp_gate",
    biased: ["ffn_shexp_gate", "ffn_shexp_gate_b"],
};
const UP_SHEXP: Linear =
    Linear { tensor: "ffn_up_shexp", name: "ffn_shexp_up", biased: ["ffn_shexp_up", "ffn_shexp_up_b"] };
const DOWN_SHEXP: Linear =
    Linear { tensor: "ffn_down_shexp", name: "ffn_shexp", biased: ["ffn_shexp_mm", "ffn_shexp"] };

/// `down(act(gate(x)) * up(x))` of layer `il` with `ffn` hidden columns: `[rows, hidden]`.
pub(crate) fn feed_forward(
    ctx: &mut GraphContext<'_>,
    il: usize,
    x: ValueId,
    ffn: usize,
    act: Activation,
) -> ValueId {
    let hidden = ctx.hidden();
    let gate = ctx.project(&GATE, il, x, [hidden, ffn]); // [rows, ffn]
    let up = ctx.project(&UP, il, x, [hidden, ffn]); // [rows, ffn]
    let h = ctx.g.gate((gated(act), il), gate, up, act);
    ctx.project(&DOWN, il, h, [ffn, hidden]) // [rows, hidden]
}

/// `down(act(up(x)))` of layer `il` with `ffn` hidden columns: `[rows, hidden]`.
pub(crate) fn ungated_feed_forward(
    ctx: &mut GraphContext<'_>,
    il: usize,
    x: ValueId,
    ffn: usize,
    act: Activation,
) -> ValueId {
    let hidden = ctx.hidden();
    let up = ctx.project(&UP, il, x, [hidden, ffn]); // [rows, ffn]
    let h = ctx.g.act(("ffn_act", il), up, act);
    ctx.project(&DOWN, il, h, [ffn, hidden]) // [rows, hidden]
}

/// The same as [`feed_forward`] with gate and up fused: the gate is the first half of the rows of `ffn_up`.
pub(crate) fn fused_feed_forward(
    ctx: &mut GraphContext<'_>,
    il: usize,
    x: ValueId,
    ffn: usize,
    act: Activation,
) -> ValueId {
    let hidden = ctx.hidden();
    let [gate, up] = [("ffn_gate", 0), ("ffn_up", ffn)].map(|(name, first)| {
        let tensor = format!("blk.{il}.ffn_up.weight");
        let weight = ctx.g.weight_rows(tensor, 2 * ffn, first..first + ffn, hidden);
        ctx.g.linear((name, il), x, weight) // [rows, ffn]
    });
    let h = ctx.g.gate((gated(act), il), gate, up, act);
    ctx.project(&DOWN, il, h, [ffn, hidden]) // [rows, hidden]
}

/// The feed-forward network that every row uses beside its experts: `[rows, hidden]`.
pub(crate) fn shared_expert(ctx: &mut GraphContext<'_>, il: usize, x: ValueId, ffn: usize) -> ValueId {
    let hidden = ctx.hidden();
    let gate = ctx.project(&GATE_SHEXP, il, x, [hidden, ffn]); // [rows, ffn]
    let up = ctx.project(&UP_SHEXP, il, x, [hidden, ffn]); // [rows, ffn]
    let h = ctx.g.gate(("ffn_shexp_swiglu", il), gate, up, Activation::Silu);
    ctx.project(&DOWN_SHEXP, il, h, [ffn, hidden]) // [rows, hidden]
}

/// llama.cpp's name of a gate with this activation.
fn gated(act: Activation) -> &'static str {
    match act {
        Activation::Silu => "ffn_swiglu",
        Activation::GeluTanh => "ffn_geglu",
        Activation::GeluSigmoid | Activation::Sigmoid | Activation::Identity => "ffn_gated",
    }
}
