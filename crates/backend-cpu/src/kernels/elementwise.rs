//! Element-wise and row-wise kernels.

use graph::Pairing;

use crate::lanes::{self, LANES, Lanes, exp};

/// The mean of `f(x)`, summed in f64, in 16 partial sums.
#[inline(always)]
fn mean_by(x: &[f32], f: impl Fn(f64) -> f64) -> f64 {
    let mut sums = [0.0f64; LANES];
    let (chunks, rest) = x.as_chunks::<LANES>();
    for x in chunks {
        for i in 0..LANES {
            sums[i] += f(f64::from(x[i]));
        }
    }
    let mut sum = 0.0;
    for &x in rest {
        sum += f(f64::from(x));
    }
    for part in sums {
        sum += part;
    }
    sum / x.len() as f64
}

#[inline(always)]
pub(super) fn mean(x: &[f32]) -> f64 {
    mean_by(x, |x| x)
}

/// `y = d / sqrt(mean(d^2) + eps) * w` with `d = x - mean`, which is 0 for an RMS norm; without `w`, not multiplied.
#[inline(always)]
pub(super) fn norm(y: &mut [f32], x: &[f32], mean: f64, w: Option<&[f32]>, eps: f32) {
    let square = mean_by(x, |x| (x - mean) * (x - mean));
    scaled(y, x, mean as f32, 1.0 / (square + f64::from(eps)).sqrt(), w);
}

/// `y = x / sqrt(sum(x^2) + eps) * w`; without `w`, not multiplied.
#[inline(always)]
pub(super) fn l2_norm(y: &mut [f32], x: &[f32], w: Option<&[f32]>, eps: f32) {
    let sum = mean_by(x, |x| x * x) * x.len() as f64;
    scaled(y, x, 0.0, 1.0 / (sum + f64::from(eps)).sqrt(), w);
}

/// `y = (x - mean) * scale * w`.
#[inline(always)]
fn scaled(y: &mut [f32], x: &[f32], mean: f32, scale: f64, w: Option<&[f32]>) {
    let scale = scale as f32;
    match w {
        None => y.iter_mut().zip(x).for_each(|(y, &x)| *y = (x - mean) * scale),
        Some(w) => {
            for ((y, &x), &w) in y.iter_mut().zip(x).zip(w) {
                *y = (x - mean) * scale * w;
            }
        }
    }
}

pub(super) trait Activate {
    fn of<L: Lanes>(lanes: L, x: L::Floats) -> L::Floats;
}

/// `x / (1 + e^-x)`.
pub(super) struct Silu;

impl Activate for Silu {
    #[inline(always)]
    fn of<L: Lanes>(lanes: L, x: L::Floats) -> L::Floats {
        let power = exp(lanes, lanes.mul(x, lanes.splat(-1.0)));
        lanes.div(x, lanes.add(power, lanes.splat(1.0)))
    }
}

/// `x / 2 * (1 + tanh(u))` with `u = sqrt(2 / pi) * (x + 0.044715 x^3)`, computed as `x / (1 + e^-2u)`, which has no
/// cancellation.
pub(super) struct GeluTanh;

impl Activate for GeluTanh {
    #[inline(always)]
    fn of<L: Lanes>(lanes: L, x: L::Floats) -> L::Floats {
        // -2 sqrt(2 / pi), and that times 0.044715.
        const LINEAR: f32 = -1.595_769;
        const CUBIC: f32 = -0.071_354_814;
        // Below -20 the result is 0 in f32. Clamping keeps the numerator finite where the denominator saturates.
        let x = lanes.max(lanes.splat(-20.0), x);
        let slope = lanes.mul_add(lanes.mul(x, x), lanes.splat(CUBIC), lanes.splat(LINEAR));
        let power = exp(lanes, lanes.mul(x, slope));
        lanes.div(x, lanes.add(power, lanes.splat(1.0)))
    }
}

/// `x / (1 + e^-1.702x)`.
pub(super) struct GeluSigmoid;

impl Activate for GeluSigmoid {
    #[inline(always)]
    fn of<L: Lanes>(lanes: L, x: L::Floats) -> L::Floats {
        let power = exp(lanes, lanes.mul(x, lanes.splat(-1.702)));
        lanes.div(x, lanes.add(power, lanes.splat(1.0)))
    }
}

/// `1 / (1 + e^-x)`.
pub(super) struct Sigmoid;

impl Activate for Sigmoid {
    #[inline(always)]
    fn of<L: Lanes>(lanes: L, x: L::Floats) -> L::Floats {
        let power = exp(lanes, lanes.mul(x, lanes.splat(-1.0)));
        lanes.div(lanes.splat(1.0), lanes.add(power, lanes.splat(1.0)))
    }
}

/// `ln(1 + e^x)`.
pub(super) struct Softplus;

impl Activate for Softplus {
    #[inline(always)]
    fn of<L: Lanes>(lanes: L, x: L::Floats) -> L::Floats {
        let mut values = [0.0f32; LANES];
        lanes.store_f32(x, &mut values);
        // NaN stays NaN; exp does not overflow.
        let softplus = |x: f32| if x > 0.0 { x + (-x).exp().ln_1p() } else { x.exp().ln_1p() };
        lanes.load_f32(&values.map(softplus))
    }
}

/// `max(x, 0)`.
pub(super) struct Relu;

impl Activate for Relu {
    #[inline(always)]
    fn of<L: Lanes>(lanes: L, x: L::Floats) -> L::Floats {
        lanes.max(lanes.splat(0.0), x)
    }
}

/// `max(x, 0)^2`.
pub(super) struct ReluSquared;

impl Activate for ReluSquared {
    #[inline(always)]
    fn of<L: Lanes>(lanes: L, x: L::Floats) -> L::Floats {
        let x = Relu::of(lanes, x);
        lanes.mul(x, x)
    }
}

pub(super) struct Identity;

impl Activate for Identity {
    #[inline(always)]
    fn of<L: Lanes>(_: L, x: L::Floats) -> L::Floats {
        x
    }
}

/// `y = factor * x`.
#[inline(always)]
pub(super) fn scale(y: &mut [f32], x: &[f32], factor: f32) {
    for (y, &x) in y.iter_mut().zip(x) {
        *y = factor * x;
    }
}

/// `y = cap * tanh(x / cap)`.
#[inline(always)]
pub(super) fn softcap<L: Lanes>(lanes: L, y: &mut [f32], x: &[f32], cap: f32) {
    map(y, x, |x| {
        let mut y = [0.0; LANES];
        lanes.store_f32(lanes::softcap(lanes, lanes.load_f32(x), cap), &mut y);
        y
    });
}

#[inline(always)]
pub(super) fn act<L: Lanes, A: Activate>(lanes: L, y: &mut [f32], x: &[f32]) {
    map(y, x, |x| {
        let mut y = [0.0; LANES];
        lanes.store_f32(A::of(lanes, lanes.load_f32(x)), &mut y);
        y
    });
}

/// `y = f(x)`, 16 values at a time; the last ones are filled up with 0.
#[inline(always)]
fn map(y: &mut [f32], x: &[f32], f: impl Fn(&[f32; LANES]) -> [f32; LANES]) {
    let (chunks, rest) = y.as_chunks_mut::<LANES>();
    let (values, last) = x.as_chunks();
    for (y, x) in chunks.iter_mut().zip(values) {
        *y = f(x);
    }
    let mut filled = [0.0; LANES];
    filled[..last.len()].copy_from_slice(last);
    rest.copy_from_slice(&f(&filled)[..rest.len()]);
}

/// `y = act(gate) * up`, or with a limit `act(min(gate, limit)) * (clamp(up, -limit, limit) + 1)`.
#[inline(always)]
pub(super) fn gate<L: Lanes, A: Activate>(
    lanes: L,
    y: &mut [f32],
    gate: &[f32],
    up: &[f32],
    limit: Option<f32>,
) {
    let (chunks, rest) = y.as_chunks_mut::<LANES>();
    let (gates, gate_rest) = gate.as_chunks();
    let (ups, up_rest) = up.as_chunks();
    for ((y, gate), up) in chunks.iter_mut().zip(gates).zip(ups) {
        gate_16::<L, A>(lanes, y, gate, up, limit);
    }
    let (mut last, mut gate, mut up) = ([0.0; LANES], [0.0; LANES], [0.0; LANES]);
    gate[..rest.len()].copy_from_slice(gate_rest);
    up[..rest.len()].copy_from_slice(up_rest);
    gate_16::<L, A>(lanes, &mut last, &gate, &up, limit);
    rest.copy_from_slice(&last[..rest.len()]);
}

#[inline(always)]
fn gate_16<L: Lanes, A: Activate>(
    lanes: L,
    y: &mut [f32; LANES],
    gate: &[f32; LANES],
    up: &[f32; LANES],
    limit: Option<f32>,
) {
    let (mut gate, mut up) = (lanes.load_f32(gate), lanes.load_f32(up));
    if let Some(limit) = limit {
        let [low, high] = [-limit, limit].map(|limit| lanes.splat(limit));
        gate = lanes.min(high, gate);
        up = lanes.add(lanes.max(low, lanes.min(high, up)), lanes.splat(1.0));
    }
    lanes.store_f32(lanes.mul(A::of(lanes, gate), up), y);
}

/// Ropes the first columns of each head by `cos_sin`, one (cos, sin) per pair, and copies the rest.
#[inline(always)]
pub(super) fn rope(y: &mut [f32], x: &[f32], head_dim: usize, pairing: Pairing, cos_sin: &[[f32; 2]]) {
    y.copy_from_slice(x);
    for head in y.chunks_exact_mut(head_dim) {
        match pairing {
            Pairing::Interleaved => {
                for (pair, &[cos, sin]) in head.as_chunks_mut::<2>().0.iter_mut().zip(cos_sin) {
                    let [a, b] = *pair;
                    *pair = [a * cos - b * sin, a * sin + b * cos];
                }
            }
            Pairing::Halves => {
                let (first, second) = head[..2 * cos_sin.len()].split_at_mut(cos_sin.len());
                for ((a, b), &[cos, sin]) in first.iter_mut().zip(second).zip(cos_sin) {
                    (*a, *b) = (*a * cos - *b * sin, *a * sin + *b * cos);
                }
            }
        }
    }
}
