//! Symmetric quantisation, `y = a q`: one scale, levels around 0.

use super::{F16Scale, Group, LANES, ROUNDS, Unit, inverse, round_within, total};

pub(crate) trait Levels {
    /// Initial scales to try, as the (fractional) level that the value of largest magnitude maps to.
    const GUESSES: &'static [f32];

    /// How far from the nearest integer the search for a group's integer scale extends. With fewer levels the error is
    /// less smooth in the scale.
    const REACH: i32;

    fn nearest(v: f32) -> f32;
}

pub(crate) struct Integers<const N: i32>;

/// Guesses around both ends of the levels -`N`..=`N - 1`, `low` of them around the lower end. A third of each are beyond
/// the end.
const fn guesses<const N: usize, const COUNT: usize>(low: usize, step: f32) -> [f32; COUNT] {
    let (beyond_low, beyond_high) = (low as f32 / 3.0, (COUNT - low) as f32 / 3.0);
    let mut all = [0.0; COUNT];
    let mut i = 0;
    while i < COUNT {
        all[i] = if i < low {
            (i as f32 - beyond_low) * step - N as f32
        } else {
            (beyond_high - (i - low) as f32) * step + (N - 1) as f32
        };
        i += 1;
    }
    all
}

impl<const N: i32> Levels for Integers<N> {
    const GUESSES: &'static [f32] = match N {
        4 => &const { guesses::<4, 16>(8, 0.2) },
        8 => &const { guesses::<8, 16>(8, 0.3) },
        16 => &const { guesses::<16, 16>(8, 0.4) },
        32 => &const { guesses::<32, 14>(7, 0.5) },
        _ => &const { guesses::<128, 12>(6, 1.0) },
    };
    const REACH: i32 = if N < 8 { 4 } else { 2 };

    #[inline(always)]
    fn nearest(v: f32) -> f32 {
        round_within(v, -N as f32, (N - 1) as f32)
    }
}

/// Weighted sums `Σ w x q` and `Σ w q²` over a group's levels `q`.
#[derive(Clone, Copy)]
struct Sums {
    xq: f32,
    qq: f32,
}

impl Sums {
    /// Sums for the levels nearest to `x * by`.
    #[inline]
    fn new<L: Levels, const K: usize>(group: &Group<K>, by: f32) -> Sums {
        let (mut xq, mut qq) = ([0.0; LANES], [0.0; LANES]);
        let (x, w, wx) = (group.x.as_chunks().0, group.w.as_chunks().0, group.wx.as_chunks().0);
        for ((x, w), wx) in x.iter().zip(w).zip(wx) {
            let (x, w, wx): (&[f32; LANES], &[f32; LANES], &[f32; LANES]) = (x, w, wx);
            for i in 0..LANES {
                let q = L::nearest(x[i] * by);
                xq[i] += wx[i] * q;
                qq[i] += w[i] * q * q;
            }
        }
        Sums { xq: total(xq), qq: total(qq) }
    }

    fn best(self) -> f32 {
        if self.qq > 0.0 { self.xq / self.qq } else { 0.0 }
    }

    /// How far the error of the least-squares scale is below that of `y = 0`.
    fn gain(self) -> f32 {
        self.best() * self.xq
    }

    /// The error of `scale` minus that of `y = 0`; negative if the scale is better.
    fn error(self, scale: f32) -> f32 {
        scale * (scale * self.qq - 2.0 * self.xq)
    }
}

pub(crate) fn fit<L: Levels, const K: usize>(group: &Group<K>) -> f32 {
    let extreme = group.x.iter().fold(0.0f32, |most, &x| if x.abs() > most.abs() { x } else { most });
    if extreme == 0.0 {
        return 0.0;
    }
    let mut best = Sums { xq: 0.0, qq: 0.0 };
    let per_level = 1.0 / extreme;
    for guess in L::GUESSES {
        let sums = Sums::new::<L, K>(group, guess * per_level);
        if sums.gain() > best.gain() {
            best = sums;
        }
    }
    for _ in 0..4 {
        let sums = Sums::new::<L, K>(group, inverse(best.best()));
        if sums.gain() <= best.gain() {
            break;
        }
        best = sums;
    }
    best.best()
}

pub(crate) fn single<L: Levels, const K: usize>(group: &Group<K>, unit: Unit) -> (F16Scale, [f32; K]) {
    let d = unit.f16_scale(fit::<L, K>(group));
    (d, levels::<L, K>(group, d.value))
}

fn levels<L: Levels, const K: usize>(group: &Group<K>, scale: f32) -> [f32; K] {
    let by = inverse(scale);
    group.x.map(|x| L::nearest(x * by))
}

/// A block with integer scales per group.
pub(crate) struct Scaled<const G: usize, const K: usize> {
    pub(crate) d: F16Scale,
    /// One scale per group, -`S`..=`S - 1`.
    pub(crate) scales: [i8; G],
    pub(crate) levels: [[f32; K]; G],
}

/// Fits a block: levels, and per group an integer scale in -`S`..=`S - 1` times an F16.
pub(crate) fn scaled<L: Levels, const S: i32, const G: usize, const K: usize>(
    groups: &[Group<K>; G],
    unit: Unit,
) -> Scaled<G, K> {
    let fits = groups.each_ref().map(fit::<L, K>);
    // A scale error δ adds `δ² Σ w q²` to the error of a group.
    let weights = std::array::from_fn(|g| Sums::new::<L, K>(&groups[g], inverse(fits[g])).qq);
    let mut d = unit.f16_scale(fit::<Integers<S>, G>(&Group::new(fits, weights)));
    let mut scales = fits.map(|scale| scale * inverse(d.value));
    let mut best: Option<(f32, F16Scale, [f32; G])> = None;
    for round in 0..=ROUNDS {
        let (mut error, mut xs, mut ss) = (0.0, 0.0, 0.0);
        for (group, scale) in groups.iter().zip(&mut scales) {
            let around = Integers::<S>::nearest(*scale);
            let mut least = (f32::INFINITY, around, Sums { xq: 0.0, qq: 0.0 });
            for step in -L::REACH..=L::REACH {
                let integer = Integers::<S>::nearest(around + step as f32);
                let a = d.value * integer;
                let sums = Sums::new::<L, K>(group, inverse(a));
                let error = sums.error(a);
                if error < least.0 {
                    least = (error, integer, sums);
                }
            }
            *scale = least.1;
            error += least.0;
            xs += least.1 * least.2.xq;
            ss += least.1 * least.1 * least.2.qq;
        }
        if best.is_none_or(|best| error < best.0) {
            best = Some((error, d, scales));
        }
        let next = unit.f16_scale(if ss > 0.0 { xs / ss } else { 0.0 });
        if round == ROUNDS || next == d {
            break;
        }
        d = next;
    }
    let (_, d, scales) = best.unwrap_or((0.0, d, scales));
    let levels = std::array::from_fn(|g| levels::<L, K>(&groups[g], d.value * scales[g]));
    Scaled { d, scales: scales.map(|scale| scale as i8), levels }
}
