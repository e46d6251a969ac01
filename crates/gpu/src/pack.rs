//! Packs rows of a weight into planes.

use half::f16;
use half::slice::HalfFloatSliceExt;
use quant::*;

use crate::formats::CHUNK;

/// Packs a row of format `from` into its part of each plane of format `to`. `values` has room for its values. Returns an upper
/// bound of the magnitude of quantised values, derived from the scales.
pub(crate) fn pack_row(
    from: Format,
    to: Format,
    bytes: &[u8],
    values: &mut [f32],
    planes: &mut [&mut [u8]],
) -> f32 {
    let mut bound = 0.0_f32;
    let mut bound_by_f32 = |scale: f32, max: f32| {
        let max = scale.abs() * max;
        bound = bound.max(if max.is_nan() { f32::INFINITY } else { max });
    };
    let mut bound_by = |scale: [u8; 2], max| bound_by_f32(f16::from_le_bytes(scale).to_f32(), max);
    match to {
        Format::F32 | Format::F16 | Format::BF16 if from == to => {
            planes[0][..bytes.len()].copy_from_slice(bytes);
        }
        Format::F32 => {
            from.dequantize(bytes, values);
            write_all(planes[0], values.iter().map(|value| value.to_le_bytes()));
        }
        // `Formats` checked that every value fits.
        Format::F16 => {
            from.dequantize(bytes, values);
            let mut halves = [f16::ZERO; CHUNK];
            for (plane, values) in planes[0].chunks_mut(2 * CHUNK).zip(values.chunks(CHUNK)) {
                let halves = &mut halves[..values.len()];
                halves.convert_from_f32_slice(values);
                write_all(plane, halves.iter().map(|half| half.to_le_bytes()));
            }
        }
        Format::BF16 => unreachable!("only BF16 becomes BF16"),
        Format::Q4_0 => pack_blocks::<BlockQ4_0, 1, 32>(bytes, 8, |at, block, [quants]| {
            write(planes[0], at, &pack_bits::<16, 4>(&quants, 0));
            write(planes[1], at, &block.d.0);
            bound_by(block.d.0, 8.0);
        }),
        // With minimums, a value is bounded by twice the larger of two terms.
        Format::Q4_1 => pack_blocks::<BlockQ4_1, 1, 32>(bytes, 0, |at, block, [quants]| {
            write(planes[0], at, &pack_bits::<16, 4>(&quants, 0));
            write(planes[1], at, &pair(block.d, block.m));
            bound_by(block.d.0, 2.0 * 15.0);
            bound_by(block.m.0, 2.0);
        }),
        Format::Q5_0 => pack_blocks::<BlockQ5_0, 1, 32>(bytes, 16, |at, block, [quants]| {
            write(planes[0], at, &pack_bits::<16, 4>(&quants, 0));
            write(planes[1], at, &block.d.0);
            write(planes[2], at, &pack_bits::<4, 1>(&quants, 4));
            bound_by(block.d.0, 16.0);
        }),
        Format::Q5_1 => pack_blocks::<BlockQ5_1, 1, 32>(bytes, 0, |at, block, [quants]| {
            write(planes[0], at, &pack_bits::<16, 4>(&quants, 0));
            write(planes[1], 2 * at, &pair(block.d, block.m));
            write(planes[1], 2 * at + 1, &pack_bits::<4, 1>(&quants, 4));
            bound_by(block.d.0, 2.0 * 31.0);
            bound_by(block.m.0, 2.0);
        }),
        Format::Q8_0 => {
            for (at, block) in BlockQ8_0::slice(bytes).iter().enumerate() {
                write(planes[0], at, &block.qs.map(|q| q as u8));
                write(planes[1], at, &block.d.0);
                bound_by(block.d.0, 128.0);
            }
        }
        Format::Q2_K => pack_blocks::<BlockQ2_K, 8, 256>(bytes, 0, |at, block, quants| {
            for (g, q) in quants.iter().enumerate() {
                write(planes[0], 8 * at + g, &pack_bits::<8, 2>(q, 0));
            }
            write(planes[1], at, &block.scales);
            write(planes[2], at, &pair(block.d, block.dmin));
            bound_by(block.d.0, 2.0 * 15.0 * 3.0);
            bound_by(block.dmin.0, 2.0 * 15.0);
        }),
        Format::Q3_K => pack_blocks::<BlockQ3_K, 8, 256>(bytes, 4, |at, block, quants| {
            for (g, q) in quants.iter().enumerate() {
                write(planes[0], 8 * at + g, &pack_bits::<8, 2>(q, 0));
                write(planes[1], 8 * at + g, &pack_bits::<4, 1>(q, 2));
            }
            write(planes[2], at, &block.scales().map(|scale| scale as u8));
            write(planes[3], at, &block.d.0);
            bound_by(block.d.0, 32.0 * 4.0);
        }),
        Format::Q4_K => pack_blocks::<BlockQ4_K, 8, 256>(bytes, 0, |at, block, quants| {
            for (g, q) in quants.iter().enumerate() {
                write(planes[0], 8 * at + g, &pack_bits::<16, 4>(q, 0));
            }
            write(planes[1], at, &pack_header(block.d.0, block.dmin.0, block.scales));
            bound_by(block.d.0, 2.0 * 63.0 * 15.0);
            bound_by(block.dmin.0, 2.0 * 63.0);
        }),
        Format::Q5_K => pack_blocks::<BlockQ5_K, 8, 256>(bytes, 0, |at, block, quants| {
            for (g, q) in quants.iter().enumerate() {
                write(planes[0], 8 * at + g, &pack_bits::<16, 4>(q, 0));
                write(planes[2], 8 * at + g, &pack_bits::<4, 1>(q, 4));
            }
            write(planes[1], at, &pack_header(block.d.0, block.dmin.0, block.scales));
            bound_by(block.d.0, 2.0 * 63.0 * 31.0);
            bound_by(block.dmin.0, 2.0 * 63.0);
        }),
        Format::Q6_K => pack_blocks::<BlockQ6_K, 8, 256>(bytes, 32, |at, block, quants| {
            for (g, q) in quants.iter().enumerate() {
                write(planes[0], 8 * at + g, &pack_bits::<16, 4>(q, 0));
                write(planes[1], 8 * at + g, &pack_bits::<8, 2>(q, 4));
            }
            write(planes[2], at, &block.scales.map(|scale| scale as u8));
            write(planes[3], at, &block.d.0);
            bound_by(block.d.0, 128.0 * 32.0);
        }),
        Format::IQ4_NL => {
            for (at, block) in BlockIQ4_NL::slice(bytes).iter().enumerate() {
                write(planes[0], at, &pack_codes(&nibbles(&block.qs)));
                write(planes[1], at, &block.d.0);
                bound_by(block.d.0, 127.0);
            }
        }
        Format::IQ4_XS => {
            for (at, block) in BlockIQ4_XS::slice(bytes).iter().enumerate() {
                for (g, (qs, scale)) in block.qs.iter().zip(block.scales()).enumerate() {
                    write(planes[0], 8 * at + g, &pack_codes(&nibbles(qs)));
                    write(planes[1], 8 * at + g, &[scale as u8]);
                }
                write(planes[2], at, &block.d.0);
                bound_by(block.d.0, 32.0 * 127.0);
            }
        }
        Format::MXFP4 => {
            for (at, block) in BlockMXFP4::slice(bytes).iter().enumerate() {
                write(planes[0], at, &pack_bits::<16, 4>(&nibbles(&block.qs), 0));
                write(planes[1], at, &[block.e]);
                bound_by_f32(BlockMXFP4::scale(block.e), 12.0);
            }
        }
        Format::NVFP4 => {
            for (at, block) in BlockNVFP4::slice(bytes).iter().enumerate() {
                for (g, codes) in block.codes().iter().enumerate() {
                    write(planes[0], 2 * at + g, &pack_codes(codes));
                }
                // The code of NaN stands for 0.
                write(planes[1], at, &block.d.map(|d| if d == 0x7F { 0 } else { d }));
                block.d.iter().for_each(|&d| bound_by_f32(BlockNVFP4::scale(d), 12.0));
            }
        }
        Format::IQ3_XXS => pack_grid::<BlockIQ3_XXS>(bytes, planes, bound_by),
        Format::IQ3_S => pack_grid::<BlockIQ3_S>(bytes, planes, bound_by),
        Format::IQ2_XXS => pack_grid::<BlockIQ2_XXS>(bytes, planes, bound_by),
        Format::IQ2_XS => pack_grid::<BlockIQ2_XS>(bytes, planes, bound_by),
        Format::IQ2_S => pack_grid::<BlockIQ2_S>(bytes, planes, bound_by),
        Format::IQ1_S => pack_grid::<BlockIQ1_S>(bytes, planes, bound_by),
        Format::IQ1_M => pack_grid::<BlockIQ1_M>(bytes, planes, bound_by),
        Format::TQ1_0 => pack_blocks::<BlockTQ1_0, 8, 256>(bytes, 1, |at, block, quants| {
            pack_ternary(planes, at, block.d, &quants);
            bound_by(block.d.0, 2.0);
        }),
        Format::TQ2_0 => pack_blocks::<BlockTQ2_0, 8, 256>(bytes, 1, |at, block, quants| {
            pack_ternary(planes, at, block.d, &quants);
            bound_by(block.d.0, 2.0);
        }),
    }
    bound
}

/// Calls `pack` with the index of each block, the block, and its quants plus `zero`.
fn pack_blocks<B: Groups<G> + Block<N>, const G: usize, const N: usize>(
    bytes: &[u8],
    zero: u8,
    mut pack: impl FnMut(usize, &B, [[u8; 32]; G]),
) {
    for (at, block) in B::slice(bytes).iter().enumerate() {
        pack(at, block, unsigned(block, zero));
    }
}

/// The quants of a block plus `zero`. Not inlined, so that the quants are in memory, from where the compiler loads whole
/// words of them; it would combine words from registers byte by byte.
#[inline(never)]
fn unsigned<B: Groups<G>, const G: usize>(block: &B, zero: u8) -> [[u8; 32]; G] {
    let quants = block.quants();
    let mut unsigned = [[0; 32]; G];
    for (to, &q) in unsigned.as_flattened_mut().iter_mut().zip(quants.as_flattened()) {
        *to = (q as u8).wrapping_add(zero);
    }
    unsigned
}

/// Packs blocks of a grid. Kernels expand the codes by arithmetic, so codes of 4 bits are in the order of their values.
fn pack_grid<B: GridBlock + Block<256>>(
    bytes: &[u8],
    planes: &mut [&mut [u8]],
    mut bound_by: impl FnMut([u8; 2], f32),
) {
    let (is_nibbles, last) = (planes.len() == 3, planes.len() - 1);
    let largest = f32::from(B::QUANTS.into_iter().max().unwrap_or(0)) * B::UNIT * 31.0;
    for (at, block) in B::slice(bytes).iter().enumerate() {
        let scales = block.scales();
        let codes = if is_nibbles { in_order(block.codes()) } else { block.codes() };
        for (g, codes) in codes.iter().enumerate() {
            let chunk = 8 * at + g;
            if is_nibbles {
                write(planes[0], chunk, &pack_bits::<16, 4>(codes, 0));
            } else {
                write(planes[0], chunk, &pack_bits::<8, 2>(codes, 0));
                write(planes[1], chunk, &pack_bits::<4, 1>(codes, 2));
            }
            write(planes[last - 1], chunk, &[scales[2 * g] | scales[2 * g + 1] << 4]);
        }
        write(planes[last], at, &block.d().0);
        bound_by(block.d().0, largest);
    }
}

/// Codes of 4 bits in the order of their values. Not inlined, as [`unsigned`].
#[inline(never)]
fn in_order(mut codes: [[u8; 32]; 8]) -> [[u8; 32]; 8] {
    for code in codes.as_flattened_mut() {
        *code = if *code < 8 { *code + 8 } else { 15 - *code };
    }
    codes
}

/// Packs a block of ternary values, given plus 1.
fn pack_ternary(planes: &mut [&mut [u8]], at: usize, d: F16Le, quants: &[[u8; 32]; 8]) {
    for (g, q) in quants.iter().enumerate() {
        write(planes[0], 8 * at + g, &pack_bits::<8, 2>(q, 0));
    }
    write(planes[1], at, &d.0);
}

/// The nibbles of 16 bytes: first all low ones, then all high ones. Not inlined, as [`unsigned`].
#[inline(never)]
fn nibbles(bytes: &[u8; 16]) -> [u8; 32] {
    let mut values = [0; 32];
    let (low, high) = values.split_at_mut(16);
    for ((low, high), byte) in low.iter_mut().zip(high).zip(bytes) {
        (*low, *high) = (byte & 15, byte >> 4);
    }
    values
}

/// Writes the element at index `at`.
fn write<const N: usize>(plane: &mut [u8], at: usize, element: &[u8; N]) {
    plane[at * N..][..N].copy_from_slice(element);
}

/// Writes elements from the start on.
fn write_all<const N: usize>(plane: &mut [u8], elements: impl Iterator<Item = [u8; N]>) {
    plane.as_chunks_mut::<N>().0.iter_mut().zip(elements).for_each(|(to, element)| *to = element);
}

/// Packs `BITS` bits of 32 quants each, from bit `shift` on. Byte `j` of a word holds those of quants `j`, `j + 4`, `j + 8`
/// and so on, the first in the lowest bits.
fn pack_bits<const N: usize, const BITS: usize>(quants: &[u8; 32], shift: usize) -> [u8; N] {
    let mask = u64::from_ne_bytes([(1 << BITS) - 1; 8]);
    let mut packed = [0; N];
    let eights = quants.as_chunks::<8>().0.chunks(4 / BITS);
    for (word, eights) in packed.as_chunks_mut::<4>().0.iter_mut().zip(eights) {
        // Quants `j` and `j + 4` are still 4 bytes apart.
        let mut apart = 0;
        for (i, eight) in eights.iter().enumerate() {
            apart |= (u64::from_le_bytes(*eight) >> shift & mask) << (2 * BITS * i);
        }
        *word = ((apart | apart >> (32 - BITS)) as u32).to_le_bytes();
    }
    packed
}

/// Packs codes of 4 bits in their order, the first in the lowest bits.
fn pack_codes(codes: &[u8; 32]) -> [u8; 16] {
    let mut packed = [0; 16];
    for (byte, [low, high]) in packed.iter_mut().zip(codes.as_chunks().0) {
        *byte = low | high << 4;
    }
    packed
}

/// A scale, then a minimum.
fn pair(scale: F16Le, min: F16Le) -> [u8; 4] {
    [scale.0[0], scale.0[1], min.0[0], min.0[1]]
}

/// The scale header of a 256-value block, as one vector: d, dmin, then 12 bytes of packed scales and minimums.
fn pack_header(d: [u8; 2], dmin: [u8; 2], scales: [u8; 12]) -> [u8; 16] {
    let mut head = [0; 16];
    head[..2].copy_from_slice(&d);
    head[2..4].copy_from_slice(&dmin);
    head[4..].copy_from_slice(&scales);
    head
}
