//! Mistakes of RMS norms: eps, mean, weight.

use backend::Weight;
use graph::WeightId;

use super::{Diagnosis, Rank, general};
use crate::Matrix;

/// `x` with a group of columns a row: the mean is taken over each.
fn grouped(x: &Matrix, cols: usize) -> Matrix {
    Matrix::new(cols, x.data.clone())
}

/// The values of a weight of one row.
fn values(weight: &Weight) -> Vec<f64> {
    let mut w = vec![0.0f32; weight.cols];
    weight.format.dequantize(&weight.bytes, &mut w);
    w.into_iter().map(f64::from).collect()
}

/// The mean of a power of each row's numbers.
fn means(x: &Matrix, power: i32) -> Vec<f64> {
    let mean = |r: usize| x.row(r).iter().map(|&x| f64::from(x).powi(power)).sum::<f64>() / x.cols as f64;
    (0..x.rows).map(mean).collect()
}

pub(super) fn diagnose(diagnosis: &mut Diagnosis<'_>, own: WeightId, eps: f32) {
    let s = diagnosis.candidate;
    let (Ok(weight), [input]) = (s.oracle.weight(own), &s.inputs[..]) else { return };
    let (x, found, w) = (grouped(input, weight.cols), grouped(&s.found, weight.cols), values(&weight));
    let (rows, cols, eps) = (x.rows, x.cols, f64::from(eps));
    let groups = input.cols / cols;
    let (averages, squares) = (means(&x, 1), means(&x, 2));
    let scales: Vec<f64> = squares.iter().map(|square| 1.0 / (square + eps).sqrt()).collect();
    let make = |of: &dyn Fn(f64, usize, usize) -> f64| {
        let made = Matrix::from_fn(rows, cols, |r, c| of(f64::from(x.at(r, c)), r, c) as f32);
        Matrix::new(input.cols, made.data)
    };
    let mut known = |kind, text: &str, of: &dyn Fn(f64, usize, usize) -> f64| {
        diagnosis.try_out(kind, Rank::Known, text, &make(of));
    };
    known("norm-weight", "the norm's weight is not multiplied", &|x, r, _| x * scales[r]);
    known("norm-weight", "the norm's weight is multiplied twice", &|x, r, c| x * scales[r] * w[c] * w[c]);
    known("norm-weight", "1 is added to the norm's weight, as Gemma's files want it", &|x, r, c| {
        x * scales[r] * (1.0 + w[c])
    });
    known(
        "norm-missing",
        "the row is not divided by its root mean square, only multiplied with the weight",
        &|x, _, c| x * w[c],
    );
    known("norm-mean", "the mean is subtracted: this is LayerNorm, the model wants RMSNorm", &|x, r, c| {
        (x - averages[r]) / (squares[r] - averages[r] * averages[r] + eps).sqrt() * w[c]
    });
    known("norm-eps", "eps is added outside the root", &|x, r, c| x / (squares[r].sqrt() + eps) * w[c]);
    known("norm-eps", "there is no eps", &|x, r, c| x / squares[r].sqrt() * w[c]);
    known("norm-sum", "the sum of squares is not divided by the number of columns", &|x, r, c| {
        x / (squares[r] * cols as f64 + eps).sqrt() * w[c]
    });
    known("norm-root", "it is divided by the mean square, not by its root", &|x, r, c| {
        x / (squares[r] + eps) * w[c]
    });
    if groups > 1 {
        let of_rows = means(input, 2);
        known("norm-groups", "the mean is taken over the whole row, not over each head", &|x, r, c| {
            x / (of_rows[r / groups] + eps).sqrt() * w[c]
        });
        known("norm-groups", "all heads are divided by the size of the first", &|x, r, c| {
            x * scales[r / groups * groups] * w[c]
        });
    }
    let wrong: Vec<usize> = s.region.rows.iter().flat_map(|r| r * groups..(r + 1) * groups).collect();
    if let Some(found) = fitted_eps(&found, &x, &w, &squares, &wrong) {
        let near = |other: f64| (found / other - 1.0).abs() < 0.02;
        let digits = format!("{found:.0e}").parse::<f64>().ok().filter(|&round| near(round)).unwrap_or(found);
        let times = if near(eps * 10.0) {
            ", ten times too much"
        } else if near(eps / 10.0) {
            ", a tenth of it"
        } else {
            ""
        };
        let text = format!("eps is {digits:e}, not {eps:e}{times}: attention.layer_norm_rms_epsilon");
        let made = make(&|x, r, c| x / (squares[r] + digits).sqrt() * w[c]);
        diagnosis.try_out("norm-eps", Rank::Estimated, text, &made);
    }
    rescaled(diagnosis, &w);
    general::other_weights(diagnosis, own, "norm's weight");
}

/// Rows that all have one size although they should not.
fn rescaled(diagnosis: &mut Diagnosis<'_>, w: &[f64]) {
    let s = diagnosis.candidate;
    let size = |row: &[f32]| -> f64 {
        (row.iter().map(|&x| f64::from(x).powi(2)).sum::<f64>() / row.len() as f64).sqrt()
    };
    let sizes = |table: &Matrix| -> Vec<f64> { s.region.rows.iter().map(|&r| size(table.row(r))).collect() };
    let (found, expected) = (sizes(&s.found), sizes(&s.expected));
    let mean = found.iter().sum::<f64>() / found.len() as f64;
    let strays = |sizes: &[f64]| sizes.iter().any(|size| (size / mean - 1.0).abs() > STEADY);
    if found.len() < AGREE || strays(&found) || !strays(&expected) {
        return;
    }
    let of_weight = (w.iter().map(|w| w * w).sum::<f64>() / w.len() as f64).sqrt();
    let near = |other: f64| (mean / other - 1.0).abs() < STEADY;
    let whose = match mean {
        _ if near(of_weight) => ", that of the weight".to_owned(),
        _ if near(1.0) => ", 1".to_owned(),
        _ => format!(", {mean:.4}"),
    };
    let text = format!(
        "each row is scaled again, to one size{whose}: the norm ends with the multiplication by the weight"
    );
    let mut made = s.expected.clone();
    for (row, y) in made.data.chunks_mut(made.cols.max(1)).enumerate() {
        let factor = mean / size(s.expected.row(row));
        y.iter_mut().for_each(|y| *y = (f64::from(*y) * factor) as f32);
    }
    diagnosis.try_out("norm-rescaled", Rank::Estimated, text, &made);
}

/// By how much sizes of rows that are one size may differ, relative to it.
const STEADY: f64 = 1e-3;

/// Rows that must agree on an eps or a size, at least.
const AGREE: usize = 3;

/// The eps that the sizes of the rows show, when most of them agree on one.
fn fitted_eps(found: &Matrix, x: &Matrix, w: &[f64], squares: &[f64], rows: &[usize]) -> Option<f64> {
    let mut fits: Vec<f64> = Vec::new();
    for &r in rows {
        let (mut product, mut energy) = (0.0, 0.0);
        for ((&y, &x), &w) in found.row(r).iter().zip(x.row(r)).zip(w) {
            let xw = f64::from(x) * w;
            product += f64::from(y) * xw;
            energy += xw * xw;
        }
        if product > 0.0 {
            fits.push((energy / product).powi(2) - squares[r]);
        }
    }
    fits.sort_by(f64::total_cmp);
    let median = fits.get(fits.len() / 2).copied().filter(|&eps| eps > 0.0)?;
    let agree = fits.iter().filter(|&&eps| (eps / median - 1.0).abs() < 0.05).count();
    (agree >= AGREE && agree * 2 >= fits.len()).then_some(median)
}
