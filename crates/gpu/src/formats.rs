//! Formats of weights on a device.
//!
//! Backends say which formats they have kernels for. Weights in others become F16, or F32 where F16 would overflow.

use std::collections::HashMap;
use std::num::NonZero;

use backend::Weight;
use bytes::Bytes;
use half::f16;
use quant::Format;

/// Values per chunk.
pub const CHUNK: usize = 32;

/// Bytes per element and values per element of a plane.
pub(crate) type Plane = (usize, usize);

/// Planes of formats of a grid whose codes have 4 bits: codes, two scales per chunk, F16 scales of blocks.
const GRID_4_BITS: &[Plane] = &[(16, 32), (1, 32), (2, 256)];

/// The same with codes of 3 bits, in planes of 2 and 1.
const GRID_3_BITS: &[Plane] = &[(8, 32), (4, 32), (1, 32), (2, 256)];

const TERNARY: &[Plane] = &[(8, 32), (2, 256)];

/// The name in kernels, and the planes of a packed weight. Formats that are packed alike share a kernel.
fn packed(format: Format) -> (&'static str, &'static [Plane]) {
    match format {
        Format::F32 => ("f32", &[(4, 1)]),
        Format::F16 => ("f16", &[(2, 1)]),
        Format::BF16 => ("bf16", &[(2, 1)]),
        Format::Q4_0 => ("q4_0", &[(16, 32), (2, 32)]),
        Format::Q4_1 => ("q4_1", &[(16, 32), (4, 32)]),
        Format::Q5_0 => ("q5_0", &[(16, 32), (2, 32), (4, 32)]),
        Format::Q5_1 => ("q5_1", &[(16, 32), (8, 32)]),
        Format::Q8_0 => ("q8_0", &[(32, 32), (2, 32)]),
        Format::Q2_K => ("q2_k", &[(8, 32), (16, 256), (4, 256)]),
        Format::Q3_K => ("q3_k", &[(8, 32), (4, 32), (16, 256), (2, 256)]),
        Format::Q4_K => ("q4_k", &[(16, 32), (16, 256)]),
        Format::Q5_K => ("q5_k", &[(16, 32), (16, 256), (4, 32)]),
        Format::Q6_K => ("q6_k", &[(16, 32), (8, 32), (16, 256), (2, 256)]),
        Format::IQ4_NL => ("iq4_nl", &[(16, 32), (2, 32)]),
        Format::IQ4_XS => ("iq4_xs", &[(16, 32), (1, 32), (2, 256)]),
        Format::MXFP4 => ("mxfp4", &[(16, 32), (1, 32)]),
        Format::NVFP4 => ("nvfp4", &[(16, 32), (2, 32)]),
        Format::IQ3_XXS => ("iq3_xxs", GRID_4_BITS),
        Format::IQ3_S => ("iq3_s", GRID_4_BITS),
        Format::IQ2_XXS | Format::IQ2_XS | Format::IQ2_S => ("iq2", GRID_3_BITS),
        Format::IQ1_S | Format::IQ1_M => ("iq1", GRID_3_BITS),
        Format::TQ1_0 | Format::TQ2_0 => ("ternary", TERNARY),
    }
}

/// The name of a format in kernels.
pub fn kernel_name(format: Format) -> &'static str {
    packed(format).0
}

pub(crate) fn planes(format: Format) -> &'static [Plane] {
    packed(format).1
}

/// Whether all values may be finite in f16. For quantised formats [`Layout::pack`](crate::Layout::pack) finds out from
/// the scales.
pub fn may_fit_f16(format: Format) -> bool {
    !matches!(format, Format::F32 | Format::BF16)
}

/// The formats of weights on a device. Some depend on the values of the weight.
#[derive(Debug)]
pub struct Formats {
    with_kernels: &'static [Format],
    /// By address of the weight's bytes. Holding the bytes keeps the addresses unique.
    unquantised: HashMap<(usize, usize), (Bytes, Format)>,
}

impl Formats {
    /// `with_kernels` includes F16 and F32.
    pub fn new(with_kernels: &'static [Format]) -> Formats {
        Formats { with_kernels, unquantised: HashMap::new() }
    }

    /// The format of `weight` on the device: the file's, or an unquantised one if there are no kernels for it.
    pub fn get(&mut self, weight: &Weight) -> Format {
        if self.with_kernels.contains(&weight.format) { weight.format } else { self.unquantised(weight) }
    }

    /// An unquantised format for `weight`: F16, or F32 where F16 would overflow. The values of each weight are read once.
    pub fn unquantised(&mut self, weight: &Weight) -> Format {
        let address = (weight.bytes.as_ptr().addr(), weight.bytes.len());
        let format = || if fits_f16(weight) { Format::F16 } else { Format::F32 };
        self.unquantised.entry(address).or_insert_with(|| (weight.bytes.clone(), format())).1
    }
}

/// Whether all finite values stay finite in F16. Uses one thread per core.
fn fits_f16(weight: &Weight) -> bool {
    let Weight { format, count, rows, cols, ref bytes } = *weight;
    let rows = count * rows;
    let row = bytes.len() / rows;
    let overflows = |value: &f32| value.is_finite() && value.abs() > f32::from(f16::MAX);
    let fit = |bytes: &[u8]| {
        let mut values = vec![0.0; cols];
        bytes.chunks_exact(row).all(|row| {
            format.dequantize(row, &mut values);
            !values.iter().any(overflows)
        })
    };
    std::thread::scope(|scope| {
        let parts = bytes.chunks(rows_per_thread(rows) * row);
        let parts: Vec<_> = parts.map(|part| scope.spawn(move || fit(part))).collect();
        parts.into_iter().all(|part| part.join().expect("dequantisation does not panic"))
    })
}

/// Rows per thread, so that every core has some.
pub(crate) fn rows_per_thread(rows: usize) -> usize {
    let threads = std::thread::available_parallelism().map_or(1, NonZero::get);
    rows.div_ceil(threads).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A block of Q4_1 whose values are `quant` times the largest F16.
    fn weight(quant: u8) -> Weight {
        let mut bytes = vec![quant | quant << 4; 20];
        bytes[..2].copy_from_slice(&f16::MAX.to_le_bytes());
        bytes[2..4].fill(0);
        Weight::matrix(Format::Q4_1, 1, 32, bytes.into())
    }

    #[test]
    fn formats_without_kernels_become_unquantised() {
        let (small, large) = (weight(1), weight(2));
        let mut all = Formats::new(&Format::ALL);
        let mut some = Formats::new(&[Format::F32, Format::F16]);
        assert_eq!([&small, &large].map(|weight| all.get(weight)), [Format::Q4_1; 2]);
        for _ in 0..2 {
            assert_eq!([&small, &large].map(|weight| some.get(weight)), [Format::F16, Format::F32]);
            assert_eq!([&small, &large].map(|weight| all.unquantised(weight)), [Format::F16, Format::F32]);
        }
    }
}
