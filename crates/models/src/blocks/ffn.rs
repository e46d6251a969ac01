//! The feed-forward network with a gate (Shazeer 2020).

use graph::{Activation, ValueId};

use super::{GraphContext, Linear};

/// Gate, up and down.
pub(crate) const FFN: [Linear; 3] = [
    Linear { tensor: "ffn_gate", name: "ffn_gate", biased: None },
    Linear { tensor: "ffn_up", name: "ffn_up", biased: None },
    Linear { tensor: "ffn_down", name: "ffn_out", biased: None },
];

/// The same where the file may have biases.
pub(crate) const BIASED_FFN: [Linear; 3] = {
    let [gate, up, down] = FFN;
    [
        Linear { biased: Some(["ffn_gate", "ffn_gate_b"]), ..gate },
        Linear { biased: Some(["ffn_up", "ffn_up_b"]), ..up },
        Linear { biased: Some(["ffn_down", "ffn_out"]), ..down },
    ]
};

/// `down(act(gate(x)) * up(x))` of layer `il`, `ffn` columns wide: `[rows, hidden]`.
pub(crate) fn feed_forward(
    ctx: &mut GraphContext<'_>,
    il: usize,
    x: ValueId,
    ffn: usize,
    [gate, up, down]: &[Linear; 3],
    act: Activation,
) -> ValueId {
    let hidden = ctx.hidden();
    let gate = ctx.project(gate, il, x, [hidden, ffn]); // [rows, ffn]
    let up = ctx.project(up, il, x, [hidden, ffn]); // [rows, ffn]
    let h = ctx.g.gate((gated(act), il), gate, up, act);
    ctx.project(down, il, h, [ffn, hidden]) // [rows, hidden]
}

/// What llama.cpp calls a gate with this function.
fn gated(act: Activation) -> &'static str {
    match act {
        Activation::Silu => "ffn_swiglu",
        Activation::GeluTanh => "ffn_geglu",
    }
}
