//! Gated feed-forward network (Shazeer 2020).

use graph::{Activation, ValueId};

use super::{GraphContext, Linear};

const GATE: Linear = Linear { tensor: "ffn_gate", name: "ffn_gate", biased: ["ffn_gate", "ffn_gate_b"] };
const UP: Linear = Linear { tensor: "ffn_up", name: "ffn_up", biased: ["ffn_up", "ffn_up_b"] };
const DOWN: Linear = Linear { tensor: "ffn_down", name: "ffn_out", biased: ["ffn_down", "ffn_out"] };

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

/// llama.cpp's name of a gate with this activation.
fn gated(act: Activation) -> &'static str {
    match act {
        Activation::Silu => "ffn_swiglu",
        Activation::GeluTanh => "ffn_geglu",
    }
}
