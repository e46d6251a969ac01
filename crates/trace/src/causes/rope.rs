//! Mistakes of rotary embeddings: pairs, base, positions, scale, factors.
//!
//! The angles by which the recorded values rotate say most: with `x` and `y` as complex numbers, one a
//! pair, `z = y / x` rotates with the position at the frequency of the pair. The frequency is the angle of
//! the sum of `z[r + 1] * conj(z[r])`, the offset that of the sum of `z[r] * exp(-i * r * frequency)`;
//! base and scale follow from frequencies by a line through their logarithms.

use graph::{Op, Pairing, Rope, ValueId};

use super::{Candidate, Diagnosis, Rank};
use crate::metrics::difference;
use crate::oracle::Call;
use crate::{Error, Matrix};

/// Rows up to which the position of each is looked for.
const MOST_ROWS: usize = 128;

pub(super) fn diagnose(diagnosis: &mut Diagnosis<'_>, x: ValueId, rope: &Rope) {
    let s = diagnosis.candidate;
    let (with, other) = match rope.pairing {
        Pairing::Interleaved => (
            Pairing::Halves,
            "halves (x[i], x[i + d/2]) are rotated instead of neighbouring pairs (x[2i], x[2i + 1])",
        ),
        Pairing::Halves => (
            Pairing::Interleaved,
            "neighbouring pairs (x[2i], x[2i + 1]) are rotated instead of halves (x[i], x[i + d/2])",
        ),
    };
    let run = |other: Rope| {
        // The factors are one a pair.
        let factors = rope.factors.filter(|_| other.dims == rope.dims);
        s.as_op(Op::Rope { x, rope: Rope { factors, ..other } })
    };
    diagnosis.try_run("rope-pairs", Rank::Known, other, run(Rope { pairing: with, ..*rope }));
    diagnosis.try_run(
        "rope-direction",
        Rank::Known,
        "the rotation goes the other way: the sign of the sine",
        run(Rope { scale: -rope.scale, ..*rope }),
    );
    diagnosis.try_run(
        "rope-position",
        Rank::Known,
        "positions are too small by 1: row r is rotated as if at position r − 1",
        at_minus_one(s, x, rope),
    );
    diagnosis.try_run(
        "unchanged",
        Rank::Known,
        "every row is rotated as if at position 0",
        restarted(s, 1, true),
    );
    // The first wrong row tells where positions begin again: at that row, or at each so many rows.
    if let Some(&first) = s.region.rows.first().filter(|&&first| first > 1) {
        let text = |what| {
            format!("positions begin at 0 again {what}: the number of tokens already there is not added")
        };
        let steps = text(format!("in every step of {first}"));
        diagnosis.try_run("rope-position", Rank::Known, steps, restarted(s, first, true));
        if s.found.rows > 2 * first {
            let once = text(format!("at row {first}"));
            diagnosis.try_run("rope-position", Rank::Known, once, restarted(s, first, false));
        }
    }
    positions(diagnosis);
    if rope.dims == rope.head_dim && rope.dims >= 4 {
        let text = "only the first half of each head is rotated, with angles for so many columns";
        diagnosis.try_run("rope-dims", Rank::Known, text, run(Rope { dims: rope.dims / 2, ..*rope }));
    } else {
        diagnosis.try_run(
            "rope-dims",
            Rank::Known,
            "the whole head is rotated, not only its first columns",
            run(Rope { dims: rope.head_dim, ..*rope }),
        );
    }
    if rope.scale != 1.0 {
        diagnosis.try_run(
            "rope-scale",
            Rank::Known,
            format!("positions are not scaled by {}", rope.scale),
            run(Rope { scale: 1.0, ..*rope }),
        );
        diagnosis.try_run(
            "rope-scale",
            Rank::Known,
            format!("positions are divided by {} instead of multiplied", rope.scale),
            run(Rope { scale: 1.0 / rope.scale, ..*rope }),
        );
    }
    if rope.factors.is_some() {
        diagnosis.try_run(
            "rope-factors",
            Rank::Known,
            "the factors of rope_freqs.weight are not used",
            s.as_op(Op::Rope { x, rope: Rope { factors: None, ..*rope } }),
        );
    }
    let twice = run(*rope).and_then(|once| s.on(&[&once]));
    diagnosis.try_run("rope-twice", Rank::Known, "it is rotated twice", twice);
    estimated(diagnosis, x, rope);
}

/// Position −1 for the first row: the rotation there is the inverse of position 1.
fn at_minus_one(s: &Candidate<'_>, x: ValueId, rope: &Rope) -> Result<Matrix, Error> {
    // Rotating everything by its position and back by one is rotating from the row before.
    let inverse = Op::Rope { x, rope: Rope { scale: -rope.scale, ..*rope } };
    let inverse = Call { first: 1, ..s.call.with_op(inverse) };
    let roped = &s.expected;
    let rows: Result<Vec<Matrix>, Error> =
        (0..roped.rows).map(|r| s.oracle.run(&inverse, &[&roped.take_rows(&[r])])).collect();
    Ok(Matrix::new(roped.cols, rows?.into_iter().flat_map(|row| row.data).collect()))
}

/// Positions that count from 0 again from row `first` on: after each so many rows, or only there.
fn restarted(s: &Candidate<'_>, first: usize, again: bool) -> Result<Matrix, Error> {
    let mut data = Vec::with_capacity(s.found.data.len());
    let rows: Vec<usize> = (0..s.found.rows).collect();
    let (begin, rest) = rows.split_at(first.min(rows.len()));
    let steps = rest.chunks(if again { first } else { rest.len().max(1) });
    for step in std::iter::once(begin).chain(steps) {
        data.extend(s.on(&[&s.inputs[0].take_rows(step)])?.data);
    }
    Ok(Matrix::new(s.found.cols, data))
}

/// The position that each wrong row was rotated as if at, when all have one.
fn positions(diagnosis: &mut Diagnosis<'_>) {
    let s = diagnosis.candidate;
    let rows = s.found.rows;
    if rows > MOST_ROWS {
        return;
    }
    let mut made = s.expected.clone();
    let mut found = Vec::new();
    for &r in &s.region.rows {
        // The row at all positions there are, and as many beyond.
        let Ok(table) = s.on(&[&s.inputs[0].take_rows(&vec![r; 2 * rows])]) else { return };
        let error = |p: usize| -> f64 {
            s.region.cols.iter().map(|&c| difference(table.at(p, c), s.found.at(r, c)).powi(2)).sum()
        };
        let position = (0..2 * rows).min_by(|&a, &b| error(a).total_cmp(&error(b))).unwrap_or(r);
        made.data[r * made.cols..][..made.cols].copy_from_slice(table.row(position));
        found.push((r, position));
    }
    let Some(&(first, position)) = found.first() else { return };
    let shift = position as i64 - first as i64;
    let is_shift = found.iter().all(|&(r, p)| p as i64 - r as i64 == shift);
    let (rank, text) = match (is_shift, shift) {
        (true, 1..) => (
            Rank::Known,
            format!("positions are too large by {shift}: row r is rotated as if at position r + {shift}"),
        ),
        (true, _) => (
            Rank::Known,
            format!("positions are too small by {0}: row r is rotated as if at position r − {0}", -shift),
        ),
        _ => {
            let rows = found.iter().take(4).map(|(r, p)| format!("row {r} as if at position {p}"));
            let rows: Vec<String> = rows.collect();
            (Rank::Fitted, format!("positions are wrong: {} is rotated", rows.join(", ")))
        }
    };
    diagnosis.try_out("rope-position", rank, text, &made);
}

/// A rotation as the recorded values show it.
struct Angles {
    /// Angle of each pair from one position to the next.
    frequencies: Vec<f64>,
    /// Angle of each pair at position 0.
    offsets: Vec<f64>,
    /// How steady the angles are, 1 when the values are rotated in these pairs.
    coherence: f64,
}

fn measured(s: &Candidate<'_>, rope: &Rope) -> Angles {
    let pairs = rope.dims / 2;
    let columns = |i: usize| match rope.pairing {
        Pairing::Interleaved => (2 * i, 2 * i + 1),
        Pairing::Halves => (i, i + pairs),
    };
    let (x, y) = (&s.inputs[0], &s.found);
    // y * conj(x), summed over heads: its angle is that of the rotation.
    let rotation = |r: usize, i: usize| -> [f64; 2] {
        let (a, b) = columns(i);
        let mut sum = [0.0; 2];
        for head in (0..x.cols).step_by(rope.head_dim) {
            let at = |table: &Matrix| [a, b].map(|c| f64::from(table.at(r, head + c)));
            let ([xr, xi], [yr, yi]) = (at(x), at(y));
            sum[0] += yr * xr + yi * xi;
            sum[1] += yi * xr - yr * xi;
        }
        sum
    };
    let multiply = |a: [f64; 2], b: [f64; 2]| [a[0] * b[0] - a[1] * b[1], a[0] * b[1] + a[1] * b[0]];
    let norm = |a: [f64; 2]| a[0].hypot(a[1]);
    let (mut frequencies, mut offsets) = (Vec::new(), Vec::new());
    let (mut steady, mut all) = (0.0, 0.0);
    for i in 0..pairs {
        let rotations: Vec<[f64; 2]> = (0..x.rows).map(|r| rotation(r, i)).collect();
        let mut sum = [0.0; 2];
        for pair in rotations.windows(2) {
            let step = multiply(pair[1], [pair[0][0], -pair[0][1]]);
            (sum[0], sum[1]) = (sum[0] + step[0], sum[1] + step[1]);
            all += norm(step);
        }
        steady += norm(sum);
        let mut frequency = sum[1].atan2(sum[0]);
        let phase = |frequency: f64, weight: &dyn Fn(usize) -> f64| -> [f64; 2] {
            rotations.iter().enumerate().fold([0.0; 2], |sum, (r, &rotation)| {
                let (sin, cos) = (-frequency * r as f64).sin_cos();
                let back = multiply(rotation, [cos, sin]);
                [sum[0] + back[0] * weight(r), sum[1] + back[1] * weight(r)]
            })
        };
        // What is left between the first and the second half corrects the frequency.
        let half = rotations.len() / 2;
        let [first, second] = [
            phase(frequency, &|r| f64::from(u8::from(r < half))),
            phase(frequency, &|r| f64::from(u8::from(r >= half))),
        ];
        let left = multiply(second, [first[0], -first[1]]);
        frequency += left[1].atan2(left[0]) / half.max(1) as f64;
        let offset = phase(frequency, &|_| 1.0);
        frequencies.push(frequency);
        offsets.push(offset[1].atan2(offset[0]));
    }
    Angles { frequencies, offsets, coherence: if all == 0.0 { 0.0 } else { steady / all } }
}

/// Base, scale and first position by the angles found.
fn estimated(diagnosis: &mut Diagnosis<'_>, x: ValueId, rope: &Rope) {
    let s = diagnosis.candidate;
    if s.found.rows < 4 || rope.dims < 4 {
        return;
    }
    for pairing in [Pairing::Interleaved, Pairing::Halves] {
        let angles = measured(s, &Rope { pairing, ..*rope });
        if angles.coherence < 0.5 {
            continue;
        }
        let pairs = if pairing == rope.pairing { "" } else { "halves and pairs are exchanged, and " };
        // The factors of the file divide the angles; without them the line is straight.
        let sign = angles.frequencies.first().map_or(1.0, |frequency| frequency.signum());
        let points: Vec<(f64, f64)> = angles
            .frequencies
            .iter()
            .enumerate()
            .filter(|(_, frequency)| **frequency * sign > 1e-4)
            .map(|(i, frequency)| (i as f64, (frequency * sign).ln()))
            .collect();
        if points.len() < 2 || rope.factors.is_some() {
            continue;
        }
        let Some((slope, intercept)) = line(&points) else { continue };
        let exact = (-slope * rope.dims as f64 / 2.0).exp();
        let theta = nice(exact);
        let scale = nice(intercept.exp()) * sign;
        let first = (angles.offsets.first().copied().unwrap_or(0.0) / scale).round().clamp(0.0, 64.0);
        let made = |theta: f64, scale: f64, first: usize| {
            let rope = Rope { theta: theta as f32, scale: scale as f32, pairing, ..*rope };
            s.run(&Call { first, ..s.call.with_op(Op::Rope { x, rope }) })
        };
        let (own_theta, own_scale) = (f64::from(rope.theta), f64::from(rope.scale));
        let differ = |a: f64, b: f64| (a / b - 1.0).abs() > 5e-3;
        // A round number, or the estimate as it is.
        let candidates = [Some(theta), Some(exact).filter(|exact| (exact / theta - 1.0).abs() > 1e-4)];
        for theta in candidates.into_iter().flatten().filter(|&theta| differ(theta, own_theta)) {
            let text = format!("{pairs}the base of the angles is {theta}, not {own_theta}: rope.freq_base");
            diagnosis.try_run("rope-base", Rank::Estimated, text, made(theta, own_scale, 0));
        }
        if differ(scale.abs(), own_scale) {
            let text = format!("{pairs}positions are scaled by {scale}, not {own_scale}: rope.scaling");
            diagnosis.try_run("rope-scale", Rank::Estimated, text, made(own_theta, scale, 0));
        }
        if differ(theta, own_theta) || differ(scale, own_scale) || first != 0.0 {
            let text =
                format!("{pairs}the angles are those of base {theta}, scale {scale}, first position {first}");
            diagnosis.try_run("rope-angles", Rank::Fitted, text, made(theta, scale, first as usize));
        }
    }
}

/// Slope and intercept of the line of least squares.
fn line(points: &[(f64, f64)]) -> Option<(f64, f64)> {
    let n = points.len() as f64;
    let (mx, my) = (points.iter().map(|p| p.0).sum::<f64>() / n, points.iter().map(|p| p.1).sum::<f64>() / n);
    let (xx, xy) =
        points.iter().fold((0.0, 0.0), |(xx, xy), (x, y)| (xx + (x - mx).powi(2), xy + (x - mx) * (y - my)));
    (xx > 0.0).then(|| (xy / xx, my - xy / xx * mx))
}

/// The number with two digits that is as near as the estimate is good, else the number.
fn nice(x: f64) -> f64 {
    let unit = 10f64.powf(x.abs().log10().floor() - 1.0);
    let rounded = (x / unit).round() * unit;
    // `unit` is a power of ten that may not be exact.
    let rounded: f64 = format!("{rounded:.6e}").parse().unwrap_or(rounded);
    if (x / rounded - 1.0).abs() < 0.02 { rounded } else { x }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn estimates_are_rounded_when_near() {
        assert_eq!(nice(500_321.0), 500_000.0);
        assert_eq!(nice(0.2499), 0.25);
        assert_eq!(nice(10_113.0), 10_000.0);
    }

    #[test]
    fn a_line_is_found() {
        let (slope, intercept) = line(&[(0.0, 1.0), (1.0, -1.0), (2.0, -3.0)]).expect("three points");
        assert!((slope + 2.0).abs() < 1e-12 && (intercept - 1.0).abs() < 1e-12);
    }
}
