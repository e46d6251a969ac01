//! Mistakes of gates, sums and biases.

use super::{Hunt, Rank, general};
use crate::Matrix;
use crate::oracle::Call;

/// Of two inputs, number by number.
fn zip(a: &Matrix, b: &Matrix, of: impl Fn(f64, f64) -> f64) -> Matrix {
    let data = a.data.iter().zip(&b.data).map(|(&a, &b)| of(f64::from(a), f64::from(b)) as f32);
    Matrix { data: data.collect(), ..*a }
}

fn sigmoid(x: f64) -> f64 {
    1.0 / (1.0 + (-x).exp())
}

/// The tanh form of GELU (Hendrycks and Gimpel 2016).
fn gelu(x: f64) -> f64 {
    0.5 * x * (1.0 + ((2.0 / std::f64::consts::PI).sqrt() * (x + 0.044715 * x.powi(3))).tanh())
}

pub(super) fn swiglu(hunt: &mut Hunt<'_>) {
    let s = hunt.suspect;
    let [gate, up] = &s.inputs[..] else { return };
    let mut known = |kind, text: &str, of: &dyn Fn(f64, f64) -> f64| {
        hunt.try_out(kind, Rank::Known, text, &zip(gate, up, of));
    };
    known("gate-exchanged", "gate and up are exchanged: gate * silu(up)", &|gate, up| {
        gate * up * sigmoid(up)
    });
    known("gate-function", "the gate goes through GELU, not SiLU", &|gate, up| gelu(gate) * up);
    known(
        "gate-function",
        "the gate goes through a quick GELU, x * sigmoid(1.702 x), not SiLU",
        &|gate, up| gate * sigmoid(1.702 * gate) * up,
    );
    known("gate-function", "the gate goes through ReLU, not SiLU", &|gate, up| gate.max(0.0) * up);
    known("gate-function", "the gate goes through the sigmoid alone: SiLU is x * sigmoid(x)", &|gate, up| {
        sigmoid(gate) * up
    });
    known("gate-function", "the gate goes through no function: gate * up", &|gate, up| gate * up);
    known("gate-sign", "the exponent of SiLU has the wrong sign", &|gate, up| gate * sigmoid(-gate) * up);
    known("gate-missing", "up is missing: it is silu(gate) alone", &|gate, _| gate * sigmoid(gate));
    known("gate-missing", "the gate is missing: it is up alone", &|_, up| up);
    known("gate-missing", "the gate is added, not multiplied", &|gate, up| gate * sigmoid(gate) + up);
}

pub(super) fn add(hunt: &mut Hunt<'_>) {
    let s = hunt.suspect;
    let [a, b] = &s.inputs[..] else { return };
    let mut inputs = s.value().op.inputs().map(|id| s.name(id));
    let (a_name, b_name) = (inputs.next().unwrap_or_default(), inputs.next().unwrap_or_default());
    let mut known = |kind, text: String, of: &dyn Fn(f64, f64) -> f64| {
        hunt.try_out(kind, Rank::Known, text, &zip(a, b, of));
    };
    known("residual-dropped", format!("`{b_name}` is not added: the sum is `{a_name}` alone"), &|a, _| a);
    known("residual-dropped", format!("`{a_name}` is not added: the sum is `{b_name}` alone"), &|_, b| b);
    known("residual-twice", format!("`{b_name}` is added twice"), &|a, b| a + 2.0 * b);
    known("residual-twice", format!("`{a_name}` is added twice"), &|a, b| 2.0 * a + b);
    known("residual-sign", format!("`{b_name}` is subtracted"), &|a, b| a - b);
    known("residual-sign", format!("`{a_name}` is subtracted"), &|a, b| b - a);
    known("residual-product", "the two are multiplied, not added".into(), &|a, b| a * b);
    known("residual-scaled", "the sum is halved".into(), &|a, b| (a + b) / 2.0);
}

/// A bias that is left out is found by what all operations have in common: the input is unchanged.
pub(super) fn add_bias(hunt: &mut Hunt<'_>) {
    let s = hunt.suspect;
    let (Call::AddBias(weight), [x]) = (&s.call, &s.inputs[..]) else { return };
    let mut known = |kind, text: &str, of: &dyn Fn(f64, f64) -> f64| {
        hunt.try_out(kind, Rank::Known, text, &zip(x, &s.expected, of));
    };
    known("bias-sign", "the bias is subtracted", &|x, sum| 2.0 * x - sum);
    known("bias-twice", "the bias is added twice", &|x, sum| 2.0 * sum - x);
    known("bias-product", "the bias is multiplied, not added", &|x, sum| x * (sum - x));
    general::other_weights(hunt, "bias", weight, Call::AddBias);
}
