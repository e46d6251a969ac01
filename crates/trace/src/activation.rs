//! Activations in f64.

use graph::Activation;

/// `act(x)`.
pub(crate) fn activate(act: Activation, x: f64) -> f64 {
    match act {
        Activation::Silu => x * sigmoid(x),
        Activation::GeluTanh => gelu(x),
    }
}

/// `1 / (1 + exp(-x))`.
pub(crate) fn sigmoid(x: f64) -> f64 {
    1.0 / (1.0 + (-x).exp())
}

/// The tanh form of GELU (Hendrycks and Gimpel 2016).
fn gelu(x: f64) -> f64 {
    0.5 * x * (1.0 + ((2.0 / std::f64::consts::PI).sqrt() * (x + 0.044715 * x.powi(3))).tanh())
}
