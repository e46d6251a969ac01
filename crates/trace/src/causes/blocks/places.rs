//! Which values of a block are wrong, when no known misreading is: by the inputs that the errors follow.
//!
//! An error of the weights is a sum over the inputs they meet, `E = X dW`, with far fewer rows than inputs.
//! Of all `dW` that give `E`, the shortest, `X' (X X')^-1 E`, spreads each weight's error over all inputs
//! that are alike in these rows, but keeps most at the right one. Summed over many outputs and over the same
//! place in all blocks, and divided by the part of an input that rows can tell at all (its leverage
//! `x' (X X')^-1 x`), the right places stand out.

use backend::Weight;

use crate::Matrix;
use crate::causes::close::Close;
use crate::causes::words;

/// Values that are looked at together.
const STEP: usize = 16;

/// How far places stand out that are reported.
const OUT: f64 = 1.25;

/// Outputs and rows that are needed to tell.
pub(super) const ENOUGH: usize = 16;

/// Which values of each block the errors come from, in words; `None` when none stand out.
pub(super) fn described(x: &Matrix, close: &Close, weight: &Weight, name: &str) -> Option<String> {
    let block = weight.format.block_len();
    let scores = scores(x, &close.errors, block)?;
    let lowest = {
        let mut sorted = scores.clone();
        sorted.sort_by(f64::total_cmp);
        let half = &sorted[..sorted.len().div_ceil(2)];
        half.iter().sum::<f64>() / half.len() as f64
    };
    let places: Vec<usize> = (0..block).filter(|&v| scores[v / STEP] > OUT * lowest).collect();
    if places.is_empty() || places.len() * 2 > block {
        return None;
    }
    Some(format!(
        "the error comes from values {} of each block of {block}: dequantisation of {} in `{name}`, the fields \
         that these values have for themselves",
        words::list(&places, weight.format.block_len()),
        weight.format
    ))
}

/// The mean square of the weights' errors at each [`STEP`] places of a block, up to a factor.
fn scores(x: &Matrix, errors: &[Vec<f64>], block: usize) -> Option<Vec<f64>> {
    let rows = x.rows;
    if rows < ENOUGH || errors.len() < ENOUGH || block < 2 * STEP {
        return None;
    }
    let product = |a: usize, b: usize| -> f64 {
        x.row(a).iter().zip(x.row(b)).map(|(&a, &b)| f64::from(a) * f64::from(b)).sum()
    };
    let mut gram: Vec<Vec<f64>> = (0..rows).map(|a| (0..=a).map(|b| product(a, b)).collect()).collect();
    let trace: f64 = (0..rows).map(|r| gram[r][r]).sum();
    (0..rows).for_each(|r| gram[r][r] += 1e-6 * trace / rows as f64);
    let root = cholesky(gram)?;
    let solved: Vec<Vec<f64>> = errors.iter().map(|e| solve(&root, e)).collect();
    let mut sums = vec![0.0; block / STEP];
    for k in 0..x.cols {
        let input: Vec<f64> = (0..rows).map(|r| f64::from(x.at(r, k))).collect();
        let dot = |y: &[f64]| -> f64 { input.iter().zip(y).map(|(x, y)| x * y).sum() };
        let leverage = dot(&solve(&root, &input));
        let energy: f64 = solved.iter().map(|y| dot(y).powi(2)).sum();
        if leverage > 0.0 {
            sums[k % block / STEP] += energy / leverage;
        }
    }
    Some(sums)
}

/// The lower triangle whose product with its transpose is `a`, given by its lower triangle.
fn cholesky(mut a: Vec<Vec<f64>>) -> Option<Vec<Vec<f64>>> {
    for i in 0..a.len() {
        for j in 0..=i {
            let sum: f64 = a[i][j] - (0..j).map(|k| a[i][k] * a[j][k]).sum::<f64>();
            a[i][j] = if i == j { Some(sum).filter(|sum| *sum > 0.0)?.sqrt() } else { sum / a[j][j] };
        }
    }
    Some(a)
}

/// `y` of `root root' y = b`.
fn solve(root: &[Vec<f64>], b: &[f64]) -> Vec<f64> {
    let n = b.len();
    let mut y = b.to_vec();
    for i in 0..n {
        y[i] = (y[i] - (0..i).map(|k| root[i][k] * y[k]).sum::<f64>()) / root[i][i];
    }
    for i in (0..n).rev() {
        y[i] = (y[i] - (i + 1..n).map(|k| root[k][i] * y[k]).sum::<f64>()) / root[i][i];
    }
    y
}

#[cfg(test)]
mod tests {
    use super::*;

    fn normal(i: usize) -> f64 {
        // The sum of uniform numbers is near to normal; a fixed sequence of them.
        let uniform =
            |j: usize| ((i * 4 + j).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 40) as f64 / f64::from(1 << 24);
        (0..4).map(uniform).sum::<f64>() - 2.0
    }

    #[test]
    fn the_last_quarter_of_each_block_is_found() {
        let (rows, cols, outputs) = (32, 512, 48);
        let x = Matrix::from_fn(rows, cols, |r, k| normal(r * cols + k) as f32);
        let wrong = |k: usize| k % 256 >= 192;
        let error = |o: usize, r: usize| -> f64 {
            (0..cols)
                .filter(|&k| wrong(k))
                .map(|k| f64::from(x.at(r, k)) * normal(70_000 + o * cols + k))
                .sum()
        };
        let errors: Vec<Vec<f64>> = (0..outputs).map(|o| (0..rows).map(|r| error(o, r)).collect()).collect();
        let scores = scores(&x, &errors, 256).expect("enough rows and outputs");
        let (right, wrong) = scores.split_at(12);
        let (most, least) =
            (right.iter().copied().fold(0.0, f64::max), wrong.iter().copied().fold(f64::MAX, f64::min));
        assert!(least > most, "{scores:?}");
    }
}
