//! Affine quantisation, `y = a q + o`: a scale, an offset and levels from 0 to `N`.

use super::{F16Scale, Group, LANES, ROUNDS, Unit, inverse, round_within, total};

/// A scale, at least 0, and an offset.
#[derive(Clone, Copy)]
pub(crate) struct Line {
    pub(crate) scale: f32,
    pub(crate) offset: f32,
}

#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Offsets {
    Any,
    /// At most 0, so that the representable range includes 0.
    Negative,
}

/// Weighted sums `Σ w q`, `Σ w q²` and `Σ w x q` over a group's levels `q`, which determine the least-squares line and the
/// error of any line.
#[derive(Clone, Copy)]
pub(crate) struct Sums {
    q: f32,
    qq: f32,
    xq: f32,
}

/// Sums that do not depend on the levels: `Σ w` and `Σ w x`.
#[derive(Clone, Copy)]
struct Moments {
    one: f32,
    x: f32,
}

impl Moments {
    fn new<const K: usize>(group: &Group<K>) -> Moments {
        let (mut one, mut x) = ([0.0; LANES], [0.0; LANES]);
        for (w, wx) in group.w.as_chunks::<LANES>().0.iter().zip(group.wx.as_chunks::<LANES>().0) {
            for i in 0..LANES {
                one[i] += w[i];
                x[i] += wx[i];
            }
        }
        Moments { one: total(one), x: total(x) }
    }
}

impl Sums {
    /// Sums for the levels nearest to `(x - offset) * by`, clamped to 0..=`N`.
    #[inline]
    fn new<const N: u8, const K: usize>(group: &Group<K>, by: f32, offset: f32) -> Sums {
        let (mut sq, mut qq, mut xq) = ([0.0; LANES], [0.0; LANES], [0.0; LANES]);
        let (x, w, wx) = (group.x.as_chunks().0, group.w.as_chunks().0, group.wx.as_chunks().0);
        for ((x, w), wx) in x.iter().zip(w).zip(wx) {
            let (x, w, wx): (&[f32; LANES], &[f32; LANES], &[f32; LANES]) = (x, w, wx);
            for i in 0..LANES {
                let q = nearest::<N>((x[i] - offset) * by);
                let wq = w[i] * q;
                sq[i] += wq;
                qq[i] += wq * q;
                xq[i] += wx[i] * q;
            }
        }
        Sums { q: total(sq), qq: total(qq), xq: total(xq) }
    }

    /// The least-squares line for these levels, and how far its error is below that of `y = 0`.
    fn best(self, all: Moments, offsets: Offsets) -> (f32, Line) {
        let determinant = all.one * self.qq - self.q * self.q;
        if determinant > 1e-6 * all.one * self.qq {
            let scale = (all.one * self.xq - all.x * self.q) / determinant;
            let offset = (self.qq * all.x - self.q * self.xq) / determinant;
            if scale >= 0.0 && (offsets == Offsets::Any || offset <= 0.0) {
                return (scale * self.xq + offset * all.x, Line { scale, offset });
            }
        }
        let scale = if self.qq > 0.0 && self.xq > 0.0 { self.xq / self.qq } else { 0.0 };
        (scale * self.xq, Line { scale, offset: 0.0 })
    }

    /// The error of a line minus that of `y = 0`; negative if the line is better.
    fn error(self, all: Moments, Line { scale, offset }: Line) -> f32 {
        scale * (scale * self.qq + 2.0 * (offset * self.q - self.xq))
            + offset * (offset * all.one - 2.0 * all.x)
    }
}

#[inline(always)]
fn nearest<const N: u8>(v: f32) -> f32 {
    round_within(v, 0.0, f32::from(N))
}

/// Initial scales to try, as the number of levels that span the range of values, minus `N`.
const fn guesses(n: u8) -> &'static [f32] {
    match n {
        3 => &[-0.9, -0.6, -0.4, -0.2, 0.0, 0.15, 0.3, 0.45, 0.6, 0.8, 1.0, 1.3],
        15 => &[-1.5, -0.9, -0.5, -0.2, 0.0, 0.2, 0.4, 0.6, 0.8, 1.1, 1.5, 2.0],
        _ => &[-1.6, -0.8, -0.3, 0.0, 0.3, 0.6, 1.0, 1.4, 2.0, 3.0],
    }
}

pub(crate) fn fit<const N: u8, const K: usize>(group: &Group<K>, offsets: Offsets) -> Line {
    let (mut low, mut high) = (group.x[0], group.x[0]);
    for &x in &group.x {
        low = if x < low { x } else { low };
        high = if x > high { x } else { high };
    }
    if offsets == Offsets::Negative && low > 0.0 {
        low = 0.0;
    }
    if high <= low {
        return Line { scale: 0.0, offset: low };
    }
    let all = Moments::new(group);
    let mut best = (f32::NEG_INFINITY, Line { scale: (high - low) / f32::from(N), offset: low });
    for guess in guesses(N) {
        let by = (f32::from(N) + guess) / (high - low);
        let found = Sums::new::<N, K>(group, by, low).best(all, offsets);
        if found.0 > best.0 {
            best = found;
        }
    }
    for _ in 0..4 {
        let Line { scale, offset } = best.1;
        let found = Sums::new::<N, K>(group, inverse(scale), offset).best(all, offsets);
        if found.0 <= best.0 {
            break;
        }
        best = found;
    }
    best.1
}

pub(crate) fn single<const N: u8, const K: usize>(
    group: &Group<K>,
    unit: Unit,
) -> (F16Scale, F16Scale, [f32; K]) {
    let line = fit::<N, K>(group, Offsets::Any);
    let (d, m) = (unit.f16_scale(line.scale), unit.f16_scale(line.offset));
    (d, m, levels::<N, K>(group, Line { scale: d.value, offset: m.value }))
}

fn levels<const N: u8, const K: usize>(group: &Group<K>, line: Line) -> [f32; K] {
    let by = inverse(line.scale);
    group.x.map(|x| nearest::<N>((x - line.offset) * by))
}

/// A block with integer scales and minimums per group.
pub(crate) struct Scaled<const G: usize, const K: usize> {
    pub(crate) d: F16Scale,
    pub(crate) dmin: F16Scale,
    /// One scale per group, 0..=`S`.
    pub(crate) scales: [u8; G],
    /// One minimum per group, 0..=`S`.
    pub(crate) mins: [u8; G],
    pub(crate) levels: [[f32; K]; G],
}

#[derive(Clone, Copy)]
struct Integers {
    scale: f32,
    min: f32,
}

/// Fits a block: levels, and per group a scale and a minimum (the negated offset), both integers 0..=`S` times an F16.
pub(crate) fn scaled<const N: u8, const S: u8, const G: usize, const K: usize>(
    groups: &[Group<K>; G],
    unit: Unit,
) -> Scaled<G, K> {
    let fits = groups.each_ref().map(|group| fit::<N, K>(group, Offsets::Negative));
    let all = groups.each_ref().map(Moments::new);
    let weights =
        std::array::from_fn(|g| Sums::new::<N, K>(&groups[g], inverse(fits[g].scale), fits[g].offset).qq);
    let mut d = unit.f16_scale(fit_factors::<S, G>(fits.map(|line| line.scale), weights));
    let mut dmin = unit.f16_scale(fit_factors::<S, G>(fits.map(|line| -line.offset), all.map(|all| all.one)));
    let mut chosen = fits.map(|line| Integers {
        scale: line.scale * inverse(d.value),
        min: -line.offset * inverse(dmin.value),
    });
    let mut best: Option<(f32, F16Scale, F16Scale, [Integers; G])> = None;
    for round in 0..=ROUNDS {
        let mut error = 0.0;
        let mut refit = Refit::default();
        for ((group, all), chosen) in groups.iter().zip(all).zip(&mut chosen) {
            let (found, integers, sums) = choose::<N, S, K>(group, all, *chosen, d.value, dmin.value);
            *chosen = integers;
            error += found;
            refit.add(sums, all, integers);
        }
        if best.is_none_or(|best| error < best.0) {
            best = Some((error, d, dmin, chosen));
        }
        let (next, next_min) = refit.solve(d.value, dmin.value);
        let (next, next_min) = (unit.f16_scale(next), unit.f16_scale(next_min));
        if round == ROUNDS || (next == d && next_min == dmin) {
            break;
        }
        (d, dmin) = (next, next_min);
    }
    let (_, d, dmin, chosen) = best.unwrap_or((0.0, d, dmin, chosen));
    let line = |Integers { scale, min }| Line { scale: d.value * scale, offset: -dmin.value * min };
    let levels = std::array::from_fn(|g| levels::<N, K>(&groups[g], line(chosen[g])));
    let (scales, mins) = (chosen.map(|c| c.scale as u8), chosen.map(|c| c.min as u8));
    Scaled { d, dmin, scales, mins, levels }
}

/// The integer scale and minimum near `around` with the least error, and that error.
fn choose<const N: u8, const S: u8, const K: usize>(
    group: &Group<K>,
    all: Moments,
    around: Integers,
    d: f32,
    dmin: f32,
) -> (f32, Integers, Sums) {
    let middle = nearest::<S>(around.scale);
    let per_min = inverse(dmin);
    let mut least = (f32::INFINITY, around, Sums { q: 0.0, qq: 0.0, xq: 0.0 });
    for step in [0.0, -1.0, 1.0] {
        let scale = nearest::<S>(middle + step);
        let (a, by) = (d * scale, inverse(d * scale));
        // The optimal minimum for the previous levels, then the levels for that minimum.
        let before = Sums::new::<N, K>(group, by, -dmin * around.min);
        let min = nearest::<S>((a * before.q - all.x) / all.one * per_min);
        let sums = Sums::new::<N, K>(group, by, -dmin * min);
        let error = sums.error(all, Line { scale: a, offset: -dmin * min });
        if error < least.0 {
            least = (error, Integers { scale, min }, sums);
        }
    }
    least
}

/// Normal equations of `x = d (scale q) - dmin min` over a block.
#[derive(Default)]
struct Refit {
    ss: f32,
    sm: f32,
    mm: f32,
    xs: f32,
    xm: f32,
}

impl Refit {
    fn add(&mut self, sums: Sums, all: Moments, Integers { scale, min }: Integers) {
        self.ss += scale * scale * sums.qq;
        self.sm += scale * min * sums.q;
        self.mm += min * min * all.one;
        self.xs += scale * sums.xq;
        self.xm += min * all.x;
    }

    /// The `d` and `dmin` with the least error, or the arguments where the system has no admissible solution.
    fn solve(self, d: f32, dmin: f32) -> (f32, f32) {
        let determinant = self.ss * self.mm - self.sm * self.sm;
        if determinant > 1e-6 * self.ss * self.mm {
            let next = (self.mm * self.xs - self.sm * self.xm) / determinant;
            let next_min = (self.sm * self.xs - self.ss * self.xm) / determinant;
            if next >= 0.0 && next_min >= 0.0 {
                return (next, next_min);
            }
        } else if self.mm == 0.0 && self.ss > 0.0 && self.xs > 0.0 {
            return (self.xs / self.ss, dmin);
        }
        (d, dmin)
    }
}

/// The factor `d >= 0` with the least weighted squared error `factors - d q`, `q` integers 0..=`S`.
fn fit_factors<const S: u8, const G: usize>(factors: [f32; G], weights: [f32; G]) -> f32 {
    let largest = factors.iter().fold(0.0f32, |most, &x| if x > most { x } else { most });
    if largest == 0.0 {
        return 0.0;
    }
    let sums = |by: f32| {
        let (mut xq, mut qq) = (0.0, 0.0);
        for (x, w) in factors.iter().zip(&weights) {
            let q = nearest::<S>(x * by);
            xq += w * x * q;
            qq += w * q * q;
        }
        (xq, qq)
    };
    let mut best = (0.0, largest / f32::from(S));
    for guess in [1.0, 0.5, 0.0, -1.0, -2.0, -3.0, -4.0, -5.0, -6.0] {
        let (xq, qq) = sums((f32::from(S) + guess) / largest);
        if qq > 0.0 && xq * xq / qq > best.0 {
            best = (xq * xq / qq, xq / qq);
        }
    }
    best.1
}
