//! Random weights in every format, without quantisation: random bytes with scales chosen so that values have a mean near 0 and a
//! given standard deviation. All bit patterns of a block occur.

use std::io::{self, Write};

use quant::{BlockNVFP4, Format};

use crate::random::Random;

#[derive(Clone, Copy)]
enum ScaleField {
    F16(usize),
    /// An F16 in the high nibbles of four words, the first at this offset.
    Nibbles(usize),
    /// The exponent of a power of two at this offset, biased by 128.
    Exponent(usize),
    /// The four scales of NVFP4 at this offset.
    E4M3(usize),
}

struct Scales {
    d: ScaleField,
    /// Root mean square of the values when `d` is 1 and all other bits are random.
    rms: f32,
    /// Offset of a second F16 scale, and its ratio to `d` for which the values have mean 0.
    min: Option<(usize, f32)>,
}

/// `None` for formats without blocks.
#[expect(clippy::approx_constant, reason = "four digits, as the others")]
fn scales(format: Format) -> Option<Scales> {
    let (d, rms, min) = match format {
        Format::F32 | Format::F16 | Format::BF16 => return None,
        Format::Q4_0 => (ScaleField::F16(0), 4.637, None),
        Format::Q4_1 => (ScaleField::F16(0), 4.610, Some((2, -7.5))),
        Format::Q5_0 => (ScaleField::F16(0), 9.247, None),
        Format::Q5_1 => (ScaleField::F16(0), 9.233, Some((2, -15.5))),
        Format::Q8_0 => (ScaleField::F16(0), 73.9, None),
        Format::Q2_K => (ScaleField::F16(80), 13.87, Some((82, 1.5))),
        Format::Q3_K => (ScaleField::F16(108), 43.34, None),
        Format::Q4_K => (ScaleField::F16(0), 258.3, Some((2, 7.5))),
        Format::Q5_K => (ScaleField::F16(0), 526.9, Some((2, 15.5))),
        Format::Q6_K => (ScaleField::F16(208), 1366.0, None),
        Format::IQ4_NL => (ScaleField::F16(0), 67.44, None),
        Format::IQ4_XS => (ScaleField::F16(0), 1246.0, None),
        Format::MXFP4 => (ScaleField::Exponent(0), 5.853, None),
        Format::NVFP4 => (ScaleField::E4M3(0), 5.853, None),
        Format::IQ3_XXS => (ScaleField::F16(0), 143.5, None),
        Format::IQ3_S => (ScaleField::F16(0), 140.0, None),
        Format::IQ2_XXS => (ScaleField::F16(0), 53.49, None),
        Format::IQ2_XS => (ScaleField::F16(0), 55.72, None),
        Format::IQ2_S => (ScaleField::F16(0), 56.44, None),
        Format::IQ1_S => (ScaleField::F16(0), 7.18, None),
        Format::IQ1_M => (ScaleField::Nibbles(48), 7.214, None),
        Format::TQ1_0 => (ScaleField::F16(52), 0.8171, None),
        Format::TQ2_0 => (ScaleField::F16(64), 0.7071, None),
    };
    Some(Scales { d, rms, min })
}

const RUN: usize = 1 << 14;

/// Writes `values` random values of standard deviation about `deviation` in `format`; the last block is whole.
pub(crate) fn write_matrix(
    format: Format,
    values: usize,
    deviation: f32,
    random: Random,
    out: &mut dyn Write,
) -> io::Result<()> {
    let (block_len, block_bytes) = (format.block_len(), format.block_bytes());
    let blocks = values.div_ceil(block_len);
    let mut bytes = vec![0; blocks.min(RUN) * block_bytes];
    for first in (0..blocks).step_by(RUN) {
        let bytes = &mut bytes[..(blocks - first).min(RUN) * block_bytes];
        match scales(format) {
            // A run is a multiple of 8 bytes.
            Some(scales) => {
                random.fill((first * block_bytes / 8) as u64, bytes);
                if format == Format::TQ2_0 {
                    // No file has two bits of 3, which would make most values of a block positive: they become 1.
                    let quants = bytes.chunks_exact_mut(block_bytes).flat_map(|block| &mut block[..64]);
                    quants.for_each(|byte| *byte &= !((*byte << 1) & *byte & 0xAA));
                }
                bytes.chunks_exact_mut(block_bytes).for_each(|block| scales.set(block, deviation));
            }
            None => {
                let normal = (first as u64..).map(|i| random.normal(i) * deviation);
                for (value, bytes) in normal.zip(bytes.chunks_exact_mut(block_bytes)) {
                    match format {
                        Format::F16 => bytes.copy_from_slice(&half::f16::from_f32(value).to_le_bytes()),
                        Format::BF16 => bytes.copy_from_slice(&half::bf16::from_f32(value).to_le_bytes()),
                        _ => bytes.copy_from_slice(&value.to_le_bytes()),
                    }
                }
            }
        }
        out.write_all(bytes)?;
    }
    Ok(())
}

/// `values` random values of standard deviation about `deviation`, as stored in `format`; the last block is whole.
pub fn matrix(format: Format, values: usize, deviation: f32, random: Random) -> Vec<u8> {
    let mut bytes = Vec::new();
    write_matrix(format, values, deviation, random, &mut bytes).expect("a vector takes all");
    bytes
}

impl ScaleField {
    /// Two random bytes in the scale's place.
    fn random(self, block: &[u8]) -> [u8; 2] {
        let (ScaleField::F16(at) | ScaleField::Nibbles(at) | ScaleField::Exponent(at) | ScaleField::E4M3(at)) =
            self;
        [block[at], block[at + 1]]
    }

    fn store(self, block: &mut [u8], scale: half::f16) {
        match self {
            ScaleField::F16(at) => block[at..at + 2].copy_from_slice(&scale.to_le_bytes()),
            ScaleField::Nibbles(at) => {
                for (i, word) in block[at..at + 8].as_chunks_mut::<2>().0.iter_mut().enumerate() {
                    word[1] = word[1] & 15 | ((scale.to_bits() >> (4 * i)) as u8) << 4;
                }
            }
            ScaleField::E4M3(at) => block[at] = BlockNVFP4::nearest_scale(scale.to_f32().abs()),
            ScaleField::Exponent(at) => block[at] = (scale.to_f32().abs().log2() as i32 + 128) as u8,
        }
    }
}

impl Scales {
    fn set(&self, block: &mut [u8], deviation: f32) {
        let Scales { d, rms, min } = *self;
        // The random bytes in the scale's place vary it from block to block. Its random sign makes the mean 0 if the values
        // of a block have a bias.
        let random = d.random(block);
        if let ScaleField::Exponent(at) = d {
            // One of the two nearest powers of two, so that the mean square is right.
            let scale = deviation / rms;
            let exponent = scale.log2().floor();
            let share = ((scale / exponent.exp2()).powi(2) - 1.0) / 3.0;
            block[at] = (exponent as i32 + 128) as u8 + u8::from(f32::from(random[0]) < share * 256.0);
            return;
        }
        if let ScaleField::E4M3(at) = d {
            for d in &mut block[at..at + 4] {
                *d = BlockNVFP4::nearest_scale(deviation / rms * (0.75 + f32::from(*d) / 512.0));
            }
            return;
        }
        let spread = (0.75 + f32::from(random[0]) / 512.0) * if random[1] < 128 { 1.0 } else { -1.0 };
        let scale = half::f16::from_f32(deviation / rms * spread);
        d.store(block, scale);
        if let Some((min, ratio)) = min {
            let scale = half::f16::from_f32(scale.to_f32() * ratio);
            block[min..min + 2].copy_from_slice(&scale.to_le_bytes());
        }
    }
}

/// Sets scales in `bytes` to the largest F16, and some values of F32 and BF16 beyond it; F16 values stay.
pub fn enlarge(format: Format, bytes: &mut [u8]) {
    let large: &[u8] = match (scales(format), format) {
        (Some(Scales { d, .. }), _) => {
            let blocks = bytes.chunks_exact_mut(format.block_bytes());
            return blocks.for_each(|block| d.store(block, half::f16::MAX));
        }
        (None, Format::F32) => &1e5_f32.to_le_bytes(),
        (None, Format::BF16) => &half::bf16::from_f32(1e5).to_le_bytes(),
        (None, _) => return,
    };
    // Every third value.
    for value in bytes.chunks_exact_mut(large.len()).step_by(3) {
        value.copy_from_slice(large);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_have_the_spread_asked_for() {
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
