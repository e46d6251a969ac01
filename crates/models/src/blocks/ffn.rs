//! Feed-forward networks, most of them gated (Shazeer 2020).

use graph::{Activation, ValueId};

use super::{GraphContext, Linear};

/// Gate, up and down.
const DENSE: [Linear; 3] = [
    Linear { tensor: "ffn_gate", name: "ffn_gate", biased: ["ffn_gate", "ffn_gate_b"] },
    Linear { tensor: "ffn_up", name: "ffn_up", biased: ["ffn_up", "ffn_up_b"] },
    Linear { tensor: "ffn_down", name: "ffn_out", biased: ["ffn_down", "ffn_out"] },
];

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

impl GraphContext<'_> {
    /// `down(silu(gate(x)) * up(x))` of layer `il` with `ffn` hidden columns: `[rows, hidden]`.
    pub(crate) fn swiglu(&mut self, il: usize, x: ValueId, ffn: usize) -> ValueId {
        self.network(il, x, ffn, (Activation::Silu, "ffn_swiglu"), &DENSE)
    }

    /// `down(gelu(gate(x)) * up(x))` of layer `il` with `ffn` hidden columns: `[rows, hidden]`.
    pub(crate) fn geglu(&mut self, il: usize, x: ValueId, ffn: usize) -> ValueId {
        self.network(il, x, ffn, (Activation::GeluTanh, "ffn_geglu"), &DENSE)
    }

    /// `down(act(up(x)))` of layer `il` with `ffn` hidden columns: `[rows, hidden]`.
    pub(crate) fn ungated_ffn(&mut self, il: usize, x: ValueId, ffn: usize, act: Activation) -> ValueId {
        let name = if act == Activation::ReluSquared { "ffn_relu_sqr" } else { "ffn_act" };
        self.network(il, x, ffn, (act, name), &DENSE[1..])
    }

    /// `down(act(gate(x)) * up(x))` with gate and up fused: the gate is the first half of the rows of `ffn_up`.
    pub(crate) fn fused_ffn(&mut self, il: usize, x: ValueId, ffn: usize, act: Activation) -> ValueId {
        let hidden = self.hidden();
        let halves = [("ffn_gate", 0), ("ffn_up", ffn)];
        let [gate, up] = if self.in_layers("ffn_up.bias") {
            let up = Linear { tensor: "ffn_up", name: "ffn_up", biased: ["ffn_up_gate_mm", "ffn_up_gate"] };
            let both = self.project(&up, il, x, [hidden, 2 * ffn]); // [rows, 2 * ffn]
            halves.map(|(name, first)| self.g.slice((name, il), both, 1, first..first + ffn))
        } else {
            halves.map(|(name, first)| {
                let tensor = format!("blk.{il}.ffn_up.weight");
                let weight = self.g.weight_rows(tensor, 2 * ffn, first..first + ffn, hidden);
                self.linear((name, il), x, weight)
            })
        }; // [rows, ffn] each
        let h = self.g.gate(("ffn_swiglu", il), gate, up, act);
        self.project(&DENSE[2], il, h, [ffn, hidden]) // [rows, hidden]
    }

    /// The network that every row uses beside its experts, gated by the sigmoid of its router, if any: `[rows, hidden]`.
    pub(crate) fn shared_expert(&mut self, il: usize, x: ValueId, ffn: usize) -> ValueId {
        let y = self.network(il, x, ffn, (Activation::Silu, "ffn_shexp_swiglu"), &SHARED);
        if !self.in_layers("ffn_gate_inp_shexp.weight") {
            return y;
        }
        let router = self.g.weight(format!("blk.{il}.ffn_gate_inp_shexp.weight"), 1, self.hidden());
        let gate = self.linear(("shared_expert_gate", il), x, router); // [rows, 1]
        self.g.gate(("ffn_shexp_gated", il), gate, y, Activation::Sigmoid)
    }

    /// `down(max(up(x), 0)^2)` of the network that every row uses beside its experts: `[rows, hidden]`.
    pub(crate) fn shared_relu_squared(&mut self, il: usize, x: ValueId, ffn: usize) -> ValueId {
        self.network(il, x, ffn, (Activation::ReluSquared, "ffn_shexp_relu_sqr"), &SHARED[1..])
    }

    /// `down(act(gate(x)) * up(x))`, or `down(act(up(x)))` without a gate.
    fn network(
        &mut self,
        il: usize,
        x: ValueId,
        ffn: usize,
        (act, name): (Activation, &'static str),
        linears: &[Linear],
    ) -> ValueId {
        let hidden = self.hidden();
        let [inner @ .., down] = linears else { unreachable!("a network has a last matrix") };
        let inner: Vec<_> = inner.iter().map(|linear| self.project(linear, il, x, [hidden, ffn])).collect();
        let h = match inner[..] {
            [gate, up] => self.g.gate((name, il), gate, up, act),
            _ => self.g.act((name, il), inner[0], act),
        }; // [rows, ffn]
        self.project(down, il, h, [ffn, hidden]) // [rows, hidden]
    }
}
