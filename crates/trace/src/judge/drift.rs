//! Error that has a direction: a gain or an offset, far within the limit.
//!
//! Rounding strays to both sides, so over many numbers it cancels: `sum y d` and `sum d`, `y` being what
//! should be and `d` the error, stay within a few of their standard errors, and these follow from inputs and
//! weights. A product that is too small by 1.5 % has an NMSE of 2e-4, less than rounding to 8 bits may cost,
//! and is a hundred standard errors away.
//!
//! What rounding does not do by chance is allowed for: see `rounding.rs`.

use super::rounding::WAYS;

/// Standard errors that are no fault: of the thousands of rows and columns of a model's values, none strays
/// so far by chance. The square error is allowed twice, as it is elsewhere.
const STANDARD_ERRORS: f64 = 6.0;

/// The gain of which nothing is said: engines keep the scale of a block of rounded inputs in F16, which is
/// off by up to 2^-11, and in blocks of one row or of few, all to one side.
const GAIN: f64 = 1.0 / 2048.0;

/// The part by which a deterministic error may be larger than it is made here.
const SPARE: f64 = 1.5;

/// Two sums, along what should be and along 1, and what is to be expected of them.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Drift {
    sums: [f64; 2],
    squares: [f64; 2],
    added: [[f64; WAYS]; 2],
    energy: f64,
    weight: f64,
}

impl Drift {
    /// Takes in a number that should be `y` and is `y + d`, times `weight`.
    pub(super) fn add(&mut self, y: f64, d: f64, added: [f64; WAYS], weight: f64) {
        for (i, along) in [y, 1.0].into_iter().enumerate() {
            self.sums[i] += weight * along * d;
            self.added[i].iter_mut().zip(added).for_each(|(sum, added)| *sum += weight * along * added);
        }
        self.energy += weight * y * y;
        self.weight += weight;
    }

    /// Takes in what is expected of the squares of sums whose errors are independent of those so far.
    pub(super) fn stray(&mut self, squares: [f64; 2]) {
        self.squares.iter_mut().zip(squares).for_each(|(sum, square)| *sum += square);
    }

    /// Takes in other numbers, times `weight`, whose errors are independent of those so far.
    pub(super) fn join(&mut self, other: &Drift, weight: f64) {
        for i in 0..2 {
            self.sums[i] += weight * other.sums[i];
            self.squares[i] += weight * weight * other.squares[i];
            (0..WAYS).for_each(|way| self.added[i][way] += weight * other.added[i][way]);
        }
        self.energy += weight * other.energy;
        self.weight += weight * other.weight;
    }

    /// What the sums are relative to.
    fn usual(&self) -> [f64; 2] {
        [self.energy, (self.energy * self.weight).sqrt()]
    }

    /// What each sum is of the largest that is no fault.
    fn parts(&self) -> [f64; 2] {
        let usual = self.usual();
        [0, 1].map(|i| {
            let added = self.added[i].iter().fold(0.0f64, |most, added| most.max(added.abs()));
            let chance = STANDARD_ERRORS * (2.0 * self.squares[i]).sqrt();
            let most = chance + SPARE * added + 2.0 * GAIN * usual[i];
            if self.sums[i] == 0.0 { 0.0 } else { self.sums[i].abs() / most }
        })
    }

    /// Whether it is a fault.
    pub(super) fn is_wrong(&self) -> bool {
        self.parts().into_iter().any(|part| part > 1.0)
    }
}

/// Of slices of a value, its rows or its columns, those that drift; `whole` is the drift of all. Where some
/// do, or the whole does, so does every slice that is nearer to these than to none, or cannot be told from
/// them.
pub(super) fn wrong(slices: &[Drift], whole: &Drift) -> Vec<bool> {
    let mut all = Drift::default();
    let is_wrong: Vec<bool> = slices.iter().map(Drift::is_wrong).collect();
    slices.iter().zip(&is_wrong).filter(|(_, wrong)| **wrong).for_each(|(slice, _)| all.join(slice, 1.0));
    if !is_wrong.contains(&true) {
        if !whole.is_wrong() {
            return is_wrong;
        }
        all = *whole;
    }
    let [along, offset] = all.parts();
    let i = usize::from(offset > along);
    let level = all.sums[i] / all.usual()[i];
    let is_like = |slice: &Drift| {
        let usual = slice.usual()[i];
        let (own, error) = (slice.sums[i] / usual, slice.squares[i].sqrt() / usual);
        if usual == 0.0 || level.abs() < 6.0 * error { whole.is_wrong() } else { own / level > 0.5 }
    };
    slices.iter().zip(is_wrong).map(|(slice, is_wrong)| is_wrong || is_like(slice)).collect()
}

/// Sums that tell, before anything is known of rounding, whether there may be a drift.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Glance {
    sums: [f64; 2],
    squares: f64,
    energy: f64,
    weight: f64,
    numbers: f64,
}

impl Glance {
    /// Takes in a number that should be `y` and is `y + d`, times `weight`.
    pub(super) fn add(&mut self, y: f64, d: f64, weight: f64) {
        self.sums[0] += weight * y * d;
        self.sums[1] += weight * d;
        self.squares += weight * d * d;
        self.energy += weight * y * y;
        self.weight += weight;
        self.numbers += 1.0;
    }

    /// Whether the gain or the offset is more than what is never reported, and more than six standard errors
    /// by what strays about it.
    pub(super) fn is_worth(&self) -> bool {
        let usual = [self.energy, (self.energy * self.weight).sqrt()];
        [self.energy, self.weight].into_iter().enumerate().any(|(i, along)| {
            let sum = self.sums[i].abs();
            let stray = (self.squares - sum * sum / along).max(0.0) * along / (self.numbers - 1.0).max(1.0);
            sum > 2.0 * GAIN * usual[i] && sum > STANDARD_ERRORS * stray.sqrt()
        })
    }
}

#[cfg(test)]
mod tests {
    use backend::Weight;
    use quant::Format;

    use crate::Matrix;
    use crate::judge::{Block, Blocks, Products, judge};

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
        let make = |rows: std::ops::Range<usize>| {
            let rows: Vec<usize> = rows.collect();
            let (x, rounded) = (x.take_rows(&rows), rounded.take_rows(&rows));
            let (expected, found) = (product(&x, weight), product(&rounded, weight).map(|y| y * gain));
            let products = Some(Products::Linear(x, weight.clone()));
            Ok(Block { expected, found, products, is_exact: true })
        };
        let limit = if weight.format.block_len() > 1 { 5e-4 } else { 1e-6 };
        judge(&Blocks::new((x.rows, weight.rows), 7, &make), limit).expect("rows").region.is_none()
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

    /// Beside an outlier whose weights are 0, all that counts becomes 0: the product is smaller than it
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
        for (format, bits, gain) in [(Format::F16, 13, 1.001), (Format::BF16, 16, 0.99)] {
            let one = |i: usize| match format {
                Format::F16 => half::f16::from_f32(random(i)).to_le_bytes().to_vec(),
                _ => half::bf16::from_f32(random(i)).to_le_bytes().to_vec(),
            };
            let (weight, cut) = (weight(format, one), x.map(|x| f32::from_bits(x.to_bits() >> bits << bits)));
            assert!(is_right(&x, &cut, &weight, 1.0), "{format}");
            assert!(!is_right(&x, &cut, &weight, gain), "{format}");
        }
    }
}
