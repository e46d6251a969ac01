//! Activation functions and gated linear units.

use std::fmt;

/// An element-wise activation function.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Activation {
    /// `x / (1 + exp(-x))`.
    Silu,
    /// `x / 2 * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 x^3)))` (Hendrycks and Gimpel 2016).
    GeluTanh,
    /// `x / (1 + exp(-1.702 x))` (Hendrycks and Gimpel 2016).
    GeluSigmoid,
    /// `1 / (1 + exp(-x))`.
    Sigmoid,
    /// `ln(1 + exp(x))`.
    Softplus,
    /// `max(x, 0)`.
    Relu,
    /// `max(x, 0)^2` (So et al. 2021).
    ReluSquared,
    /// `x`.
    Identity,
}

impl Activation {
    /// The name, such as `silu`.
    pub fn name(self) -> &'static str {
        match self {
            Activation::Silu => "silu",
            Activation::GeluTanh => "gelu_tanh",
            Activation::GeluSigmoid => "gelu_sigmoid",
            Activation::Sigmoid => "sigmoid",
            Activation::Softplus => "softplus",
            Activation::Relu => "relu",
            Activation::ReluSquared => "relu_squared",
            Activation::Identity => "identity",
        }
    }

    /// The function of `x`.
    pub fn apply(self, x: f64) -> f64 {
        match self {
            Activation::Silu => x / (1.0 + (-x).exp()),
            Activation::GeluTanh => {
                let inner = (2.0 / std::f64::consts::PI).sqrt() * (x + 0.044_715 * x * x * x);
                0.5 * x * (1.0 + inner.tanh())
            }
            Activation::GeluSigmoid => x / (1.0 + (-1.702 * x).exp()),
            Activation::Sigmoid => 1.0 / (1.0 + (-x).exp()),
            // exp(x) overflows where the result is x.
            Activation::Softplus if x > 40.0 => x,
            Activation::Softplus => x.exp().ln_1p(),
            Activation::Relu if x < 0.0 => 0.0,
            // NaN stays NaN.
            Activation::Relu | Activation::Identity => x,
            Activation::ReluSquared => Activation::Relu.apply(x).powi(2),
        }
    }

    /// All activation functions.
    pub const ALL: [Activation; 8] = [
        Activation::Silu,
        Activation::GeluTanh,
        Activation::GeluSigmoid,
        Activation::Sigmoid,
        Activation::Softplus,
        Activation::Relu,
        Activation::ReluSquared,
        Activation::Identity,
    ];
}

/// A gated linear unit (Shazeer 2020): `act(gate) * up`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Glu {
    /// Activation of the gate.
    pub act: Activation,
    /// With a limit `c`: `act(min(gate, c)) * (clamp(up, -c, c) + 1)` (OpenAI 2025, gpt-oss).
    pub limit: Option<f32>,
}

impl Glu {
    /// The value for one gate and one up.
    pub fn apply(self, gate: f64, up: f64) -> f64 {
        match self.limit.map(f64::from) {
            None => self.act.apply(gate) * up,
            // NaN stays NaN.
            Some(limit) => {
                let gate = if gate > limit { limit } else { gate };
                self.act.apply(gate) * (up.clamp(-limit, limit) + 1.0)
            }
        }
    }
}

impl From<Activation> for Glu {
    fn from(act: Activation) -> Glu {
        Glu { act, limit: None }
    }
}

impl fmt::Display for Glu {
    /// Such as `silu`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.act.name())?;
        self.limit.map_or(Ok(()), |limit| write!(f, ", limit {limit}"))
    }
}
