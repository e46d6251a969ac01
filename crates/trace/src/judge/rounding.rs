//! What rounding the inputs of a product must cost.
//!
//! Engines round the activations of a product: to 8 bits in blocks where the weights are quantised, to F16
//! or BF16 where these are. What that costs each number follows from the recorded input and the weights.
//!
//! Two things are known of it. How far each number strays: an error of a twelfth of a step squared for each
//! input, independent of each other. And what rounding makes of this very input, in the ways that engines
//! do it: it is no chance that all small inputs of a block with an outlier become 0, or that numbers that
//! are cut off become smaller, and the product is smaller by that.

use backend::Weight;
use half::{bf16, f16};
use quant::Format;

use crate::Matrix;

/// Inputs that are rounded together where weights are in blocks of as many, and by some engines always.
const BLOCK: usize = 32;

/// Ways of rounding that are looked at.
pub(super) const WAYS: usize = 2;

/// What rounding makes of the numbers of a product; nothing where inputs are not rounded.
#[derive(Clone, Debug, Default)]
pub(crate) struct Rounding {
    cols: usize,
    /// Whether what is below the limit, but to one side, is a fault.
    has_direction: bool,
    /// The square error of each number, as expected: `[rows * cols]`.
    squares: Vec<f64>,
    /// What each way of rounding adds to each number: `[WAYS][rows * cols]`.
    added: [Vec<f32>; WAYS],
    /// The square error of each row's `sum y d`, `y` being what should be and `d` the error, and of its
    /// `sum d`. All numbers of a row share the inputs' errors, so these are not the sums of squares.
    along: Vec<[f64; 2]>,
    /// Rows whose input is that of a row before, of these: their errors are no news.
    repeated: Vec<bool>,
}

impl Rounding {
    /// That of `x` times the transpose of `weight`, which is `y`.
    pub(crate) fn of(x: &Matrix, weight: &Weight, y: &Matrix) -> Rounding {
        if weight.format == Format::F32 {
            return Rounding::default();
        }
        let (rows, cols, k) = (x.rows, weight.rows, x.cols);
        let block = weight.format.block_len().max(BLOCK);
        let errors: Vec<Vec<f64>> = (0..rows)
            .map(|r| x.row(r).chunks(block).map(|x| mean_square(x, weight.format)).collect())
            .collect();
        let ways: [Vec<f32>; WAYS] = [0, 1].map(|way| {
            let row = |r: usize| rounded_row(x.row(r), weight.format, way);
            (0..rows).flat_map(row).zip(&x.data).map(|(to, x)| to - x).collect()
        });
        // In K-quants alone do they differ.
        let same = ways[0] == ways[1];
        let mut squares = vec![0.0; rows * cols];
        let mut added = [0, 1].map(|_| vec![0.0f32; rows * cols]);
        let mut summed = [vec![0.0; rows * k], vec![0.0; k]];
        let mut w = vec![0.0f32; k];
        for o in 0..cols {
            weight.format.dequantize(weight.row(o), &mut w);
            let energies: Vec<f64> =
                w.chunks(block).map(|w| w.iter().map(|&w| f64::from(w).powi(2)).sum()).collect();
            summed[1].iter_mut().zip(&w).for_each(|(sum, &w)| *sum += f64::from(w));
            for (r, errors) in errors.iter().enumerate() {
                let at = r * cols + o;
                squares[at] = errors.iter().zip(&energies).map(|(error, energy)| error * energy).sum();
                for way in 0..WAYS {
                    added[way][at] = match way {
                        1 if same => added[0][at],
                        _ => dot(&ways[way][r * k..][..k], &w) as f32,
                    };
                }
                let y = f64::from(y.data[at]);
                summed[0][r * k..][..k].iter_mut().zip(&w).for_each(|(sum, &w)| *sum += y * f64::from(w));
            }
        }
        let along = |r: usize, summed: &[f64]| -> f64 {
            let square = |summed: &[f64]| summed.iter().map(|x| x * x).sum::<f64>();
            summed.chunks(block).zip(&errors[r]).map(|(summed, error)| square(summed) * error).sum()
        };
        let along = (0..rows).map(|r| [along(r, &summed[0][r * k..][..k]), along(r, &summed[1])]).collect();
        let repeated = (0..rows).map(|r| (0..r).any(|q| x.row(q) == x.row(r))).collect();
        Rounding { cols, has_direction: true, squares, added, along, repeated }
    }

    /// That of what is no single product: `ways` are the results with rounded inputs, `y` is that without.
    pub(super) fn simulated(y: &Matrix, ways: &[Matrix; WAYS]) -> Rounding {
        let less = |way: &Matrix| way.data.iter().zip(&y.data).map(|(a, b)| a - b).collect::<Vec<f32>>();
        let added = ways.each_ref().map(less);
        // All numbers of a row stray alike.
        let square = |r: usize| {
            let mean = |added: &Vec<f32>| {
                added[r * y.cols..][..y.cols].iter().map(|&x| f64::from(x).powi(2)).sum::<f64>()
                    / y.cols as f64
            };
            added.iter().map(mean).fold(0.0, f64::max)
        };
        let squares = (0..y.rows).flat_map(|r| std::iter::repeat_n(square(r), y.cols)).collect();
        Rounding { cols: y.cols, squares, added, ..Rounding::default() }
    }

    /// A rounding of which only the square errors of the numbers are known.
    #[cfg(test)]
    pub(super) fn known(cols: usize, squares: Vec<f64>) -> Rounding {
        Rounding { cols, squares, ..Rounding::default() }
    }

    /// The same for what was not computed from these inputs and this weight, but is about as large.
    pub(crate) fn without_direction(self) -> Rounding {
        Rounding { has_direction: false, ..self }
    }

    /// Whether error to one side can be told from rounding.
    pub(super) fn has_direction(&self) -> bool {
        self.has_direction
    }

    /// The square error expected of the number at a row and a column.
    pub(crate) fn square(&self, row: usize, col: usize) -> f64 {
        self.squares.get(row * self.cols + col).copied().unwrap_or(0.0)
    }

    /// The square error that is no fault of a number: as expected, or as one of the ways of rounding makes
    /// it, if that is more.
    pub(super) fn usual(&self, row: usize, col: usize) -> f64 {
        let at = row * self.cols + col;
        let square = |added: &Vec<f32>| added.get(at).map_or(0.0, |&x| f64::from(x).powi(2));
        self.added.iter().map(square).fold(self.square(row, col), f64::max)
    }

    /// What each way of rounding adds to a number.
    pub(crate) fn added(&self, row: usize, col: usize) -> [f64; WAYS] {
        [0, 1].map(|way| f64::from(self.added[way].get(row * self.cols + col).copied().unwrap_or(0.0)))
    }

    /// The square errors of a row's `sum y d` and `sum d`.
    pub(super) fn along(&self, row: usize) -> [f64; 2] {
        self.along[row]
    }

    /// Whether a row's input is that of a row before.
    pub(super) fn is_repeated(&self, row: usize) -> bool {
        self.repeated[row]
    }
}

/// `sum x w`.
pub(super) fn dot(x: &[f32], w: &[f32]) -> f64 {
    x.iter().zip(w).map(|(&x, &w)| f64::from(x) * f64::from(w)).sum()
}

/// The mean square error of an input of a block.
fn mean_square(x: &[f32], format: Format) -> f64 {
    match format {
        Format::F16 | Format::BF16 => {
            let square = |(to, &x): (f32, &f32)| (f64::from(to) - f64::from(x)).powi(2);
            let way = usize::from(format == Format::BF16);
            rounded(x, format, way).into_iter().zip(x).map(square).sum::<f64>() / x.len() as f64
        }
        _ => (most(x) / 127.0).powi(2) / 12.0,
    }
}

fn most(x: &[f32]) -> f64 {
    f64::from(x.iter().fold(0.0f32, |most, x| most.max(x.abs())))
}

/// A row as engines round it before it is multiplied with a weight of `format`.
pub(super) fn rounded_row(x: &[f32], format: Format, way: usize) -> Vec<f32> {
    match format {
        Format::F32 => x.to_vec(),
        _ => x.chunks(format.block_len().max(BLOCK)).flat_map(|x| rounded(x, format, way)).collect(),
    }
}

/// A block as engines round it: to 127 steps of the largest of 32 inputs, or else of as many as a block of
/// the weight has; to F16 and BF16, to the nearest or else by cutting off.
fn rounded(x: &[f32], format: Format, way: usize) -> Vec<f32> {
    let cut = |x: f32, bits: u32| f32::from_bits(x.to_bits() & (u32::MAX << bits));
    match (format, way) {
        (Format::F16, 0) => x.iter().map(|&x| f16::from_f32(x).to_f32()).collect(),
        (Format::F16, _) => x.iter().map(|&x| cut(x, 13)).collect(),
        (Format::BF16, 0) => x.iter().map(|&x| bf16::from_f32(x).to_f32()).collect(),
        (Format::BF16, _) => x.iter().map(|&x| cut(x, 16)).collect(),
        _ => {
            let steps = |x: &[f32]| -> Vec<f32> {
                let step = (most(x) / 127.0) as f32;
                let to = |&x: &f32| if step > 0.0 { (x / step).round() * step } else { 0.0 };
                x.iter().map(to).collect()
            };
            let len = if way == 0 { BLOCK } else { x.len() };
            x.chunks(len).flat_map(steps).collect()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// By hand: the largest of the block is 127, so a step is 1 and each input's error 1/12; the weights'
    /// energy is 32 * 4. The inputs 0.3 become 0, which takes 31 * 2 * 0.3 away. `y` is 254 + 18.6, and
    /// `sum y d` has its square error, as there is but one number.
    #[test]
    fn rounding_to_8_bits_costs_what_it_costs() {
        let x = Matrix::from_fn(1, 32, |_, k| if k == 0 { 127.0 } else { 0.3 });
        let mut bytes = vec![0x00, 0x40]; // 2.0 as F16
        bytes.extend([1u8; 32]);
        let weight = Weight::matrix(Format::Q8_0, 1, 32, bytes.into());
        let y = 272.6;
        let rounding = Rounding::of(&x, &weight, &Matrix::new(1, vec![y]));
        assert!((rounding.square(0, 0) - 128.0 / 12.0).abs() < 1e-9, "{rounding:?}");
        assert!(rounding.added(0, 0).iter().all(|added| (added + 18.6).abs() < 1e-5), "{rounding:?}");
        let along = f64::from(y).powi(2) * 128.0 / 12.0;
        assert!((rounding.along(0)[0] / along - 1.0).abs() < 1e-9, "{rounding:?}");
        assert!((rounding.along(0)[1] - 128.0 / 12.0).abs() < 1e-9, "{rounding:?}");
    }

    /// 1 + 2^-7 is the next of BF16 after 1, and what lies between becomes 1 when it is cut off.
    #[test]
    fn cutting_off_makes_smaller() {
        let x = [1.0, 1.007, -1.007];
        assert_eq!(rounded(&x, Format::BF16, 0), [1.0, 1.0078125, -1.0078125]);
        assert_eq!(rounded(&x, Format::BF16, 1), [1.0, 1.0, -1.0]);
        assert_eq!(rounded(&[1.0009], Format::F16, 0), [1.0009766]);
        assert_eq!(rounded(&[1.0009], Format::F16, 1), [1.0]);
    }
}
