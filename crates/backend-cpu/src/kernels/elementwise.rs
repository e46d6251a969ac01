//! What is done to each number or row alone.

use graph::Pairing;

use crate::lanes::{LANES, Lanes, exp};

/// `y = x / sqrt(mean(x^2) + eps) * w`; the mean is summed in f64, in sixteen parts.
#[inline(always)]
pub(super) fn rms_norm(y: &mut [f32], x: &[f32], w: &[f32], eps: f32) {
    let mut sums = [0.0f64; LANES];
    let (chunks, rest) = x.as_chunks::<LANES>();
    for x in chunks {
        for i in 0..LANES {
            sums[i] += f64::from(x[i]) * f64::from(x[i]);
        }
    }
    let mut sum = 0.0;
    for &x in rest {
        sum += f64::from(x) * f64::from(x);
    }
    for part in sums {
        sum += part;
    }
    let scale = (1.0 / (sum / x.len() as f64 + f64::from(eps)).sqrt()) as f32;
    for ((y, &x), &w) in y.iter_mut().zip(x).zip(w) {
        *y = x * scale * w;
    }
}

/// `y = gate / (1 + e^-gate) * up`.
#[inline(always)]
pub(super) fn swiglu<L: Lanes>(lanes: L, y: &mut [f32], gate: &[f32], up: &[f32]) {
    let (chunks, rest) = y.as_chunks_mut::<LANES>();
    let (gates, gate_rest) = gate.as_chunks();
    let (ups, up_rest) = up.as_chunks();
    for ((y, gate), up) in chunks.iter_mut().zip(gates).zip(ups) {
        swiglu_16(lanes, y, gate, up);
    }
    let (mut last, mut gate, mut up) = ([0.0; LANES], [0.0; LANES], [0.0; LANES]);
    gate[..rest.len()].copy_from_slice(gate_rest);
    up[..rest.len()].copy_from_slice(up_rest);
    swiglu_16(lanes, &mut last, &gate, &up);
    rest.copy_from_slice(&last[..rest.len()]);
}

#[inline(always)]
fn swiglu_16<L: Lanes>(lanes: L, y: &mut [f32; LANES], gate: &[f32; LANES], up: &[f32; LANES]) {
    let (gate, up) = (lanes.floats(gate), lanes.floats(up));
    let power = exp(lanes, lanes.mul(gate, lanes.splat(-1.0)));
    let silu = lanes.div(gate, lanes.add(power, lanes.splat(1.0)));
    lanes.put(lanes.mul(silu, up), y);
}

/// Turns the first columns of each head of `x` by `turns`, a (cosine, sine) each pair; the rest passes.
#[inline(always)]
pub(super) fn rotate(y: &mut [f32], x: &[f32], head_dim: usize, pairing: Pairing, turns: &[[f32; 2]]) {
    y.copy_from_slice(x);
    for head in y.chunks_exact_mut(head_dim) {
        match pairing {
            Pairing::Interleaved => {
                for (pair, &[cos, sin]) in head.as_chunks_mut::<2>().0.iter_mut().zip(turns) {
                    let [a, b] = *pair;
                    *pair = [a * cos - b * sin, a * sin + b * cos];
                }
            }
            Pairing::Halves => {
                let (first, second) = head[..2 * turns.len()].split_at_mut(turns.len());
                for ((a, b), &[cos, sin]) in first.iter_mut().zip(second).zip(turns) {
                    (*a, *b) = (*a * cos - *b * sin, *a * sin + *b * cos);
                }
            }
        }
    }
}
