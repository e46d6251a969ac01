//! The hidden values of experts.

use std::fmt;

use crate::{Activation, Glu, WeightId};

/// The hidden values of experts, and the weights that compute them. A weight has one matrix per expert, a bias one row, and
/// the scales one number, which multiplies the products before the bias is added.
#[derive(Clone, Copy, Debug, PartialEq)]
#[expect(missing_docs, reason = "the formulas explain the fields")]
pub enum Hidden {
    /// `glu(gate x, up x)` of the weights gate and up. If they are fused, both are one weight, which has two matrices per
    /// expert, the gate's first.
    Gated {
        weights: [WeightId; 2],
        scales: [Option<WeightId>; 2],
        biases: Option<[WeightId; 2]>,
        glu: Glu,
        is_fused: bool,
    },
    /// `act(up x)` of the weight up.
    Plain { weight: WeightId, scale: Option<WeightId>, bias: Option<WeightId>, act: Activation },
}

impl Hidden {
    /// Gate and up, or up alone.
    pub fn weights(&self) -> &[WeightId] {
        match self {
            Hidden::Gated { weights, .. } => weights,
            Hidden::Plain { weight, .. } => std::slice::from_ref(weight),
        }
    }

    /// Factors of the products of each weight.
    pub fn scales(&self) -> &[Option<WeightId>] {
        match self {
            Hidden::Gated { scales, .. } => scales,
            Hidden::Plain { scale, .. } => std::slice::from_ref(scale),
        }
    }

    /// Biases of the products: one per weight, or none.
    pub fn biases(&self) -> &[WeightId] {
        match self {
            Hidden::Gated { biases, .. } => biases.as_ref().map_or(&[], |biases| biases),
            Hidden::Plain { bias, .. } => bias.as_slice(),
        }
    }

    /// Weights, scales and biases, to be replaced.
    pub(crate) fn operands(&mut self) -> (&mut [WeightId], &mut [Option<WeightId>], &mut [WeightId]) {
        match self {
            Hidden::Gated { weights, scales, biases, .. } => {
                (weights, scales, biases.as_mut().map_or(&mut [], |biases| biases))
            }
            Hidden::Plain { weight, scale, bias, .. } => {
                (std::slice::from_mut(weight), std::slice::from_mut(scale), bias.as_mut_slice())
            }
        }
    }

    pub(crate) fn without_biases(self) -> Hidden {
        match self {
            Hidden::Gated { weights, scales, glu, is_fused, .. } => {
                Hidden::Gated { weights, scales, biases: None, glu, is_fused }
            }
            Hidden::Plain { weight, scale, act, .. } => Hidden::Plain { weight, scale, bias: None, act },
        }
    }

    pub(crate) fn without_scales(mut self) -> Hidden {
        self.operands().1.fill(None);
        self
    }

    /// Matrices per expert of a weight.
    pub fn matrices_per_expert(&self) -> usize {
        match self {
            Hidden::Gated { is_fused: true, .. } => 2,
            Hidden::Gated { is_fused: false, .. } | Hidden::Plain { .. } => 1,
        }
    }

    /// The matrix of expert `expert` in the weight of index `number`.
    pub fn matrix(&self, number: usize, expert: usize) -> usize {
        if self.matrices_per_expert() == 2 { 2 * expert + number } else { expert }
    }

    /// The hidden value of one product per weight, biases included.
    pub fn apply(&self, product: impl Fn(usize) -> f64) -> f64 {
        match self {
            Hidden::Gated { glu, .. } => glu.apply(product(0), product(1)),
            Hidden::Plain { act, .. } => act.apply(product(0)),
        }
    }
}

impl fmt::Display for Hidden {
    /// Such as `silu`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Hidden::Gated { glu, .. } => glu.fmt(f),
            Hidden::Plain { act, .. } => f.write_str(act.name()),
        }
    }
}
