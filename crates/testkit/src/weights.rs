//! Random weights in every format, without a quantiser.
//!
//! A quantised matrix consists of random blocks whose F16 scales are then set such that the values have mean 0 and the
//! given standard deviation. All bit patterns of quants occur.

use quant::Format;

use crate::random::Random;

/// The scales of a block format.
struct Scales {
    /// Offset of the F16 scale `d` in a block.
    d: usize,
    /// RMS of the values if `d` is 1 and all other bits are random.
    rms: f32,
    /// Offset of a second F16 scale, and its ratio to `d` that gives mean 0.
    min: Option<(usize, f32)>,
}

/// `None` for formats without blocks.
fn scales(format: Format) -> Option<Scales> {
    let (d, rms, min) = match format {
        Format::F32 | Format::F16 | Format::BF16 => return None,
        Format::Q4_0 => (0, 4.637, None),
        Format::Q4_1 => (0, 4.610, Some((2, -7.5))),
        Format::Q5_0 => (0, 9.247, None),
        Format::Q5_1 => (0, 9.233, Some((2, -15.5))),
        Format::Q8_0 => (0, 73.9, None),
        Format::Q2_K => (80, 13.87, Some((82, 1.5))),
        Format::Q3_K => (108, 43.34, None),
        Format::Q4_K => (0, 258.3, Some((2, 7.5))),
        Format::Q5_K => (0, 526.9, Some((2, 15.5))),
        Format::Q6_K => (208, 1366.0, None),
        Format::IQ4_NL => (0, 67.44, None),
        Format::IQ4_XS => (0, 1246.0, None),
    };
    Some(Scales { d, rms, min })
}

/// At least `values` random values in `format` with approximately this standard deviation, up to a whole block.
pub(crate) fn matrix(format: Format, values: usize, deviation: f32, random: Random) -> Vec<u8> {
    let normal = |i| random.normal(i) * deviation;
    let indices = 0..values as u64;
    let Some(Scales { d, rms, min }) = scales(format) else {
        return match format {
            Format::F16 => indices.flat_map(|i| half::f16::from_f32(normal(i)).to_le_bytes()).collect(),
            Format::BF16 => indices.flat_map(|i| half::bf16::from_f32(normal(i)).to_le_bytes()).collect(),
            _ => indices.flat_map(|i| normal(i).to_le_bytes()).collect(),
        };
    };
    let mut bytes = random.bytes(values.div_ceil(format.block_len()) * format.block_bytes());
    for block in bytes.chunks_exact_mut(format.block_bytes()) {
        // The random bytes in place of the scale vary it between blocks, and its sign, so that the mean is 0 where the
        // values of a block are biased.
        let spread = (0.75 + f32::from(block[d]) / 512.0) * if block[d + 1] < 128 { 1.0 } else { -1.0 };
        let scale = half::f16::from_f32(deviation / rms * spread);
        block[d..d + 2].copy_from_slice(&scale.to_le_bytes());
        if let Some((min, ratio)) = min {
            let scale = half::f16::from_f32(scale.to_f32() * ratio);
            block[min..min + 2].copy_from_slice(&scale.to_le_bytes());
        }
    }
    bytes
}

/// Sets all scales to the F16 maximum; F16 values stay.
pub(crate) fn enlarge(format: Format, bytes: &mut [u8]) {
    let (at, large): (usize, Vec<u8>) = match (scales(format), format) {
        (Some(Scales { d, .. }), _) => (d, half::f16::MAX.to_le_bytes().into()),
        (None, Format::F32) => (0, 1e5_f32.to_le_bytes().into()),
        (None, Format::BF16) => (0, half::bf16::from_f32(1e5).to_le_bytes().into()),
        (None, _) => return,
    };
    // Of float formats, every third value.
    let step = if format.block_len() == 1 { 3 } else { 1 };
    for block in bytes.chunks_exact_mut(format.block_bytes()).step_by(step) {
        block[at..][..large.len()].copy_from_slice(&large);
    }
}

/// `values` F32 values, uniform within a quarter of `mean` around it.
pub(crate) fn vector(values: usize, mean: f32, random: Random) -> Vec<u8> {
    let value = |i| mean * (0.75 + random.uniform(i) / 2.0);
    (0..values as u64).flat_map(|i| value(i).to_le_bytes()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_have_the_given_deviation() {
        for format in Format::ALL {
            let random = Random::new(7, format.name());
            let mut values = vec![0.0; 1 << 16];
            format.dequantize(&matrix(format, values.len(), 0.25, random), &mut values);
            let mean = values.iter().map(|x| f64::from(*x)).sum::<f64>() / values.len() as f64;
            let square = values.iter().map(|x| f64::from(*x).powi(2)).sum::<f64>() / values.len() as f64;
            assert!(mean.abs() < 0.01, "{format}: mean {mean}");
            assert!(
                (square.sqrt() / 0.25 - 1.0).abs() < 0.05,
                "{format}: root mean square {}",
                square.sqrt()
            );
        }
    }
}
