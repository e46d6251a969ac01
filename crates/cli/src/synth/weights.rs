//! Random weights, many and quickly.
//!
//! For each format and length of rows about a million Gaussian values are quantised once; a matrix is made
//! of these rows, again and again, each time from another row on. Quantising every value would take minutes.

use std::collections::HashMap;
use std::io::{self, Write};

use quant::Format;

use super::shape::{Content, Planned};

/// Values of a pool, about.
const POOL: usize = 1 << 20;

/// What a random matrix makes of its input: 0.7 times its size, so that a residual stream stays tame.
const GAIN: f64 = 0.7;

/// Rows by format and length.
#[derive(Default)]
pub(super) struct Pools {
    rows: HashMap<(Format, usize), Vec<u8>>,
    /// Chooses where a matrix begins.
    random: Random,
}

impl Pools {
    /// Writes the data of `tensor`.
    pub(super) fn write(&mut self, tensor: &Planned, out: &mut dyn Write) -> io::Result<()> {
        let values = match &tensor.content {
            Content::Random => return self.write_random(tensor, out),
            Content::Values(values) => values,
        };
        values.iter().try_for_each(|value| out.write_all(&value.to_le_bytes()))
    }

    fn write_random(&mut self, tensor: &Planned, out: &mut dyn Write) -> io::Result<()> {
        let [cols, rows @ ..] = &*tensor.shape else {
            return Err(io::Error::other(format!("`{}` has no dimensions", tensor.name)));
        };
        let (cols, rows) = (*cols, rows.iter().product::<usize>());
        let pool = self.rows.entry((tensor.format, cols)).or_insert_with(|| pool(tensor.format, cols));
        let row = pool.len() / pool_rows(cols);
        let mut left = rows * row;
        while left > 0 {
            let begin = self.random.below(pool_rows(cols)) * row;
            let bytes = (pool.len() - begin).min(left);
            out.write_all(&pool[begin..begin + bytes])?;
            left -= bytes;
        }
        Ok(())
    }
}

fn pool_rows(cols: usize) -> usize {
    POOL.div_ceil(cols)
}

/// Rows of `cols` values in `format`.
fn pool(format: Format, cols: usize) -> Vec<u8> {
    let mut random = Random(cols as u64);
    let deviation = GAIN / (cols as f64).sqrt();
    let values: Vec<f32> =
        (0..pool_rows(cols) * cols).map(|_| (deviation * random.gaussian()) as f32).collect();
    let bytes = format.bytes_for(values.len() as u64).and_then(|bytes| usize::try_from(bytes).ok());
    let mut rows = vec![0; bytes.unwrap_or_default()];
    format.quantize(&values, None, &mut rows);
    rows
}

/// SplitMix64 (Steele, Lea and Flood 2014).
#[derive(Default)]
struct Random(u64);

impl Random {
    fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn below(&mut self, end: usize) -> usize {
        (self.bits() % end.max(1) as u64) as usize
    }

    /// Above 0, up to 1.
    fn unit(&mut self) -> f64 {
        ((self.bits() >> 11) + 1) as f64 / (1u64 << 53) as f64
    }

    /// Of mean 0 and standard deviation 1 (Box and Muller 1958).
    fn gaussian(&mut self) -> f64 {
        let (radius, turn) = ((-2.0 * self.unit().ln()).sqrt(), std::f64::consts::TAU * self.unit());
        radius * turn.cos()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pool_has_the_deviation_of_its_rows() {
        for format in [Format::F32, Format::Q8_0, Format::Q4_K] {
            let rows = pool(format, 2048);
            let mut values = vec![0.0; POOL];
            format.dequantize(&rows, &mut values);
            let mean = values.iter().map(|&x| f64::from(x)).sum::<f64>() / POOL as f64;
            let square = values.iter().map(|&x| f64::from(x).powi(2)).sum::<f64>() / POOL as f64;
            let expected = 0.7 / 2048f64.sqrt();
            assert!((square.sqrt() / expected - 1.0).abs() < 0.02, "{format}: {square}");
            assert!(mean.abs() < 0.01 * expected, "{format}: {mean}");
        }
    }

    #[test]
    fn matrices_differ() {
        let mut pools = Pools::default();
        let tensor = Planned {
            name: "m".into(),
            shape: vec![64, 100],
            format: Format::Q8_0,
            content: Content::Random,
        };
        let [mut a, mut b] = [Vec::new(), Vec::new()];
        pools.write(&tensor, &mut a).expect("a vector takes all");
        pools.write(&tensor, &mut b).expect("a vector takes all");
        assert_eq!((a.len(), b.len()), (6800, 6800));
        assert_ne!(a, b);
    }
}
