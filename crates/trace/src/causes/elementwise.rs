//! Mistakes of gates, sums and biases.

use graph::{Activation, Op};

use super::{Diagnosis, Rank, general};
use crate::Matrix;
use crate::activation::{activate, sigmoid};

/// Of two inputs, number by number.
fn zip(a: &Matrix, b: &Matrix, of: impl Fn(f64, f64) -> f64) -> Matrix {
    let data = a.data.iter().zip(&b.data).map(|(&a, &b)| of(f64::from(a), f64::from(b)) as f32);
    Matrix { data: data.collect(), ..*a }
}

/// What an activation is called in papers.
pub(super) fn called(act: Activation) -> &'static str {
    match act {
        Activation::Silu => "SiLU",
        Activation::GeluTanh => "GELU",
    }
}

/// A function of one number.
type Function = fn(f64) -> f64;

/// Functions that a gate may go through by mistake, with their names; `own` is not among them.
fn other_activations(own: Activation) -> Vec<(&'static str, Function)> {
    let others: [(_, Function); 6] = [
        (called(Activation::Silu), |x| activate(Activation::Silu, x)),
        (called(Activation::GeluTanh), |x| activate(Activation::GeluTanh, x)),
        ("a quick GELU, x * sigmoid(1.702 x)", |x| x * sigmoid(1.702 * x)),
        ("ReLU", |x| x.max(0.0)),
        ("the sigmoid alone", sigmoid),
        ("no function", |x| x),
    ];
    others.into_iter().filter(|(name, _)| *name != called(own)).collect()
}

pub(super) fn gate(diagnosis: &mut Diagnosis<'_>, act: Activation) {
    let s = diagnosis.candidate;
    let [gate, up] = &s.inputs[..] else { return };
    let (own, name) = (called(act), act.name());
    let mut known = |kind, text: String, of: &dyn Fn(f64, f64) -> f64| {
        diagnosis.try_out(kind, Rank::Known, text, &zip(gate, up, of));
    };
    let right = move |x: f64| activate(act, x);
    known("gate-exchanged", format!("gate and up are exchanged: gate * {name}(up)"), &|gate, up| {
        gate * right(up)
    });
    for (other, of) in other_activations(act) {
        known("gate-function", format!("the gate goes through {other}, not {own}"), &|gate, up| {
            of(gate) * up
        });
    }
    let wrong_sign: (_, Function) = match act {
        Activation::Silu => ("the exponent of SiLU has the wrong sign", |x| x * sigmoid(-x)),
        Activation::GeluTanh => {
            ("the tanh of GELU has the wrong sign", |x| x - activate(Activation::GeluTanh, x))
        }
    };
    known("gate-sign", wrong_sign.0.into(), &|gate, up| wrong_sign.1(gate) * up);
    known("gate-missing", format!("up is missing: it is {name}(gate) alone"), &|gate, _| right(gate));
    known("gate-missing", "the gate is missing: it is up alone".into(), &|_, up| up);
    known("gate-missing", "the gate is added, not multiplied".into(), &|gate, up| right(gate) + up);
}

/// A factor that is left out is found by what all operations have in common: the input is unchanged.
pub(super) fn scale(diagnosis: &mut Diagnosis<'_>, factor: f32) {
    let s = diagnosis.candidate;
    let [x] = &s.inputs[..] else { return };
    for (wrong, text) in [
        (factor * factor, "it is multiplied twice by"),
        (1.0 / factor, "it is divided by, not multiplied with,"),
    ] {
        diagnosis.try_out("scale", Rank::Known, format!("{text} {factor}"), &x.map(|x| wrong * x));
    }
}

pub(super) fn add(diagnosis: &mut Diagnosis<'_>) {
    let s = diagnosis.candidate;
    let [a, b] = &s.inputs[..] else { return };
    let mut inputs = s.call.op.inputs().map(|id| s.name(id));
    let (a_name, b_name) = (inputs.next().unwrap_or_default(), inputs.next().unwrap_or_default());
    let mut known = |kind, text: String, of: &dyn Fn(f64, f64) -> f64| {
        diagnosis.try_out(kind, Rank::Known, text, &zip(a, b, of));
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
pub(super) fn add_bias(diagnosis: &mut Diagnosis<'_>) {
    let s = diagnosis.candidate;
    let (Op::AddBias { weight, .. }, [x]) = (s.call.op, &s.inputs[..]) else { return };
    let mut known = |kind, text: &str, of: &dyn Fn(f64, f64) -> f64| {
        diagnosis.try_out(kind, Rank::Known, text, &zip(x, &s.expected, of));
    };
    known("bias-sign", "the bias is subtracted", &|x, sum| 2.0 * x - sum);
    known("bias-twice", "the bias is added twice", &|x, sum| 2.0 * sum - x);
    known("bias-product", "the bias is multiplied, not added", &|x, sum| x * (sum - x));
    general::other_weights(diagnosis, weight, "bias");
}
