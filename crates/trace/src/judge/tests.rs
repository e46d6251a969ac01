//! Values with known errors, and where they are wrong.

use backend::Weight;
use quant::Format;

use super::*;

/// Elements of size 1 that look random.
fn noise(rows: usize, cols: usize, size: f32, seed: f32) -> Matrix {
    Matrix::from_fn(rows, cols, |r, c| {
        ((r * cols + c) as f32 * 12.9898 + seed).sin() * 43758.547 % 1.0 * size
    })
}

fn region(a: &Matrix, b: &Matrix, limit: f64) -> Option<Region> {
    Pair::plain(a, b, limit).wrong()
}

fn judged(change: impl Fn(usize, usize, f32) -> f32, limit: f64) -> Option<Region> {
    let (a, e) = (noise(32, 64, 1.0, 1.0), noise(32, 64, 0.005, 2.0));
    region(&a, &Matrix::from_fn(32, 64, |r, c| change(r, c, a.at(r, c) + e.at(r, c))), limit)
}

#[test]
fn noise_below_the_limit_is_right() {
    assert_eq!(judged(|_, _, x| x, QUANTIZED), None);
    assert!(judged(|_, _, x| x, FLOAT).is_some());
}

#[test]
fn one_row_one_column_or_one_number_is_found() {
    let all = |n: usize| (0..n).collect::<Vec<_>>();
    let row = judged(|r, _, x| if r == 7 { x * 1.1 } else { x }, QUANTIZED).expect("a wrong row");
    assert_eq!(row.rows, [7]);
    let col = judged(|_, c, x| if c == 9 { x * 1.1 } else { x }, QUANTIZED).expect("a wrong column");
    assert_eq!(col.cols, [9]);
    let one = judged(|r, c, x| if (r, c) == (3, 5) { x + 1.0 } else { x }, QUANTIZED);
    assert_eq!(one, Some(Region { rows: vec![3], cols: vec![5] }));
    let nan = judged(|r, c, x| if (r, c) == (3, 5) { f32::NAN } else { x }, QUANTIZED);
    assert_eq!(nan, Some(Region { rows: vec![3], cols: vec![5] }));
    let every = judged(|_, _, x| -x, QUANTIZED);
    assert_eq!(every, Some(Region { rows: all(32), cols: all(64) }));
}

/// Right rows between wrong ones are right; those of a value that is wrong throughout are so by chance.
#[test]
fn rows_are_those_that_are_wrong() {
    let odd = judged(|r, _, x| if r % 2 == 1 { x * 1.1 } else { x }, QUANTIZED).expect("wrong rows");
    assert_eq!(odd.rows, (0..16).map(|i| 2 * i + 1).collect::<Vec<_>>());
    let thirds = judged(|r, _, x| if r % 3 == 0 { x } else { x * 1.1 }, QUANTIZED).expect("wrong rows");
    assert_eq!(thirds.rows, (0..32).filter(|r| r % 3 != 0).collect::<Vec<_>>());
    let some = |r: usize| if r % 5 == 2 { 1.02 } else { 1.1 };
    let weak = judged(|r, _, x| if r > 3 { x * some(r) } else { x }, QUANTIZED).expect("wrong rows");
    assert_eq!(weak.rows, (4..32).collect::<Vec<_>>());
}

/// Some elements of the lost column are near zero; their rows are still wrong.
#[test]
fn a_column_that_is_lost_later_is_wrong_later() {
    let lost = judged(|r, c, x| if r >= 20 && c == 9 { 0.0 } else { x }, QUANTIZED).expect("a wrong column");
    assert_eq!(lost, Region { rows: (20..32).collect(), cols: vec![9] });
}

/// The first token of a trained model is such a row.
#[test]
fn a_large_row_hides_no_other() {
    let (a, e) = (noise(32, 64, 1.0, 1.0), noise(32, 64, 0.005, 2.0));
    let size = |r: usize| if r == 0 { 100.0 } else { 1.0 };
    let a = Matrix::from_fn(32, 64, |r, c| size(r) * a.at(r, c));
    let b = Matrix::from_fn(32, 64, |r, c| a.at(r, c) + size(r) * e.at(r, c));
    assert_eq!(region(&a, &b, QUANTIZED), None);
    let lost = |r: usize, c: usize| if (1..4).contains(&r) && c == 9 { 0.0 } else { b.at(r, c) };
    let wrong = region(&a, &Matrix::from_fn(32, 64, lost), QUANTIZED);
    assert_eq!(wrong, Some(Region { rows: vec![1, 2, 3], cols: vec![9] }));
    let one = |r: usize, c: usize| if (r, c) == (5, 9) { b.at(r, c) + 1.0 } else { b.at(r, c) };
    let wrong = region(&a, &Matrix::from_fn(32, 64, one), QUANTIZED);
    assert_eq!(wrong, Some(Region { rows: vec![5], cols: vec![9] }));
}

#[test]
fn a_row_that_cancels_is_allowed_its_rounding() {
    // Row 3 of the product is small relative to its terms.
    let (a, e) = (noise(8, 64, 1.0, 1.0), noise(8, 64, 0.005, 2.0));
    let a = Matrix::from_fn(8, 64, |r, c| if r == 3 { a.at(r, c) * 0.01 } else { a.at(r, c) });
    let b = Matrix::from_fn(8, 64, |r, c| a.at(r, c) + e.at(r, c));
    assert_eq!(region(&a, &b, QUANTIZED).expect("a row with a large relative error").rows, [3]);
    let rounding = Rounding::new([3.0, 4.0].map(|seed| noise(8, 64, 0.005, seed)));
    let wrong = |b: &Matrix| Pair { rounding: Some(&rounding), ..Pair::plain(&a, b, QUANTIZED) }.wrong();
    assert_eq!(wrong(&b), None);
    // Neither are its columns wrong when another row is.
    let of = |r: usize, c: usize| if r == 5 { a.at(r, c) + 40.0 * e.at(r, c) } else { b.at(r, c) };
    assert_eq!(wrong(&Matrix::from_fn(8, 64, of)).expect("a wrong row").rows, [5]);
}

/// `x` times the transpose of the weight.
fn product(x: &Matrix, weight: &Weight) -> Matrix {
    let mut w = vec![0.0; weight.rows * weight.cols];
    weight.format.dequantize(&weight.bytes, &mut w);
    Matrix::from_fn(x.rows, weight.rows, |r, o| {
        let w = &w[o * weight.cols..][..weight.cols];
        x.row(r).iter().zip(w).map(|(&x, &w)| f64::from(x) * f64::from(w)).sum::<f64>() as f32
    })
}

/// Whether an engine is right that takes `rounded` for `x` and multiplies the product by `gain`.
fn is_right(x: &Matrix, rounded: &Matrix, weight: &Weight, gain: f32) -> bool {
    let (expected, found) = (product(x, weight), product(rounded, weight).map(|y| y * gain));
    let added = |way| {
        let made = product(&rounding::rounded(x, weight.format, way), weight);
        Matrix::zip(&made, &expected, |a, b| a - b)
    };
    let rounding = Rounding::new([added(0), added(1)]);
    let limit = if weight.format.block_len() > 1 { QUANTIZED } else { FLOAT };
    let plain = Pair { is_directed: true, ..Pair::plain(&expected, &found, limit) };
    let is_suspicious = plain.wrong().is_some() || plain.is_suspicious();
    !is_suspicious || Pair { rounding: Some(&rounding), ..plain }.wrong().is_none()
}

fn random(i: usize) -> f32 {
    ((i as f32) * 12.9898 + 1.0).sin() * 43758.547 % 1.0
}

const K: usize = 256;

fn weight(format: Format, of: impl Fn(usize) -> Vec<u8>) -> Weight {
    let bytes: Vec<u8> = (0..64 * K / format.block_len()).flat_map(of).collect();
    Weight::matrix(format, 64, K, bytes.into())
}

/// Blocks of 32 integers whose scale is 1; the first of each is 0.
fn integers() -> Weight {
    let value = |i: usize| if i.is_multiple_of(32) { 0 } else { (random(i) * 127.0) as i8 as u8 };
    weight(Format::Q8_0, |block| {
        [0x00, 0x3c].into_iter().chain((0..32).map(|i| value(block * 32 + i))).collect()
    })
}

fn in_steps(x: &Matrix, block: usize) -> Matrix {
    let rounded = x.data.chunks(block).flat_map(|x| {
        let step = x.iter().fold(0.0f32, |most, x| most.max(x.abs())) / 127.0;
        x.iter().map(move |x| (x / step).round() * step)
    });
    Matrix::new(x.cols, rounded.collect())
}

#[test]
fn a_gain_is_no_rounding() {
    let (x, weight) = (Matrix::from_fn(24, K, |r, k| random(r * K + k)), integers());
    for block in [16, 32, 64, 256] {
        let rounded = in_steps(&x, block);
        assert!(is_right(&x, &rounded, &weight, 1.0), "{block}");
        for gain in [0.985, 1.01] {
            assert!(!is_right(&x, &rounded, &weight, gain), "{block}, {gain}");
        }
    }
}

/// One token many times over has one error many times over, which says nothing of columns.
#[test]
fn what_is_repeated_is_no_news() {
    let (x, weight) = (Matrix::from_fn(24, K, |r, k| random(r % 4 * K + k)), integers());
    for block in [16, 32, 64, 256] {
        assert!(is_right(&x, &in_steps(&x, block), &weight, 1.0), "{block}");
    }
}

/// Next to an outlier whose weights are 0, all other inputs round to 0: the product is smaller than it
/// should be, and that is what rounding does to it.
#[test]
fn what_outliers_take_away_is_no_fault() {
    let of = |r: usize, k: usize| match k % 32 {
        0 => 127.0,
        _ => 0.35 * random(r * K + k) + 0.2 * random(r * K + k).signum(),
    };
    let (x, weight) = (Matrix::from_fn(24, K, of), integers());
    let rounded = in_steps(&x, 32);
    let lost = x.data.iter().zip(&rounded.data).filter(|(x, to)| x.abs() < 1.0 && **to == 0.0).count();
    assert!(lost > 5000, "{lost}");
    assert!(is_right(&x, &rounded, &weight, 1.0));
    assert!(!is_right(&x, &x, &weight, 3.0));
}

#[test]
fn cutting_off_is_no_fault() {
    let x = Matrix::from_fn(24, K, |r, k| random(r * K + k));
    for (format, bits, gain) in [(Format::F16, 13, 1.003), (Format::BF16, 16, 0.99)] {
        let one = |i: usize| match format {
            Format::F16 => half::f16::from_f32(random(i)).to_le_bytes().to_vec(),
            _ => half::bf16::from_f32(random(i)).to_le_bytes().to_vec(),
        };
        let (weight, cut) = (weight(format, one), x.map(|x| f32::from_bits(x.to_bits() >> bits << bits)));
        assert!(is_right(&x, &cut, &weight, 1.0), "{format}");
        assert!(!is_right(&x, &cut, &weight, gain), "{format}");
    }
}

/// A value of ones, in which rows from 5 on are recorded as 2 in column 2.
#[test]
fn chunks_are_put_together() {
    let found = |r: usize, c: usize| if r >= 5 && c == 2 { 2.0 } else { 1.0 };
    for at_once in [1, 2, 3, 8] {
        let mut judgement = Judgement::default();
        for first in (0..8).step_by(at_once) {
            let rows = at_once.min(8 - first);
            let (ones, found) =
                (Matrix::from_fn(rows, 4, |_, _| 1.0), Matrix::from_fn(rows, 4, |r, c| found(first + r, c)));
            let wrong = Pair::plain(&ones, &found, FLOAT).wrong();
            judgement.add(first, &ones, &found, wrong);
        }
        assert_eq!(judgement.region, Region { rows: vec![5, 6, 7], cols: vec![2] }, "{at_once}");
        assert_eq!((judgement.metrics().nmse, judgement.nmse()), (3.0 / 32.0, 1.0));
        let largest = judgement.metrics().largest;
        assert_eq!((largest.position, largest.column), (5, 2));
    }
}
