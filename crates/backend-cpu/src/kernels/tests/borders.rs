//! No kernel accesses memory outside its buffers, whatever their length and alignment. A kernel that does is killed by a
//! signal, and the last line on stderr names it.

use backend::KvFormat;
use graph::{Activation, Glu, Map, Mask, NormKind, Pairing};
use quant::Format;

use super::calls::{Attention, Calls, FP8, MIXED, QUANTISED};
use super::{Isa, kernels};
use crate::tests::guard::Side;

/// Adjacent to the guard page, on either side.
const SIDES: [Side; 2] = [Side::End(0), Side::Start(0)];

/// Row lengths: several vectors and every possible remainder.
const LENGTHS: std::ops::RangeInclusive<usize> = 1..=70;

/// Calls `call` with buffers adjacent to the guard page and, if `off`, at every alignment. All must give the same bits.
fn everywhere(isa: Isa, off: bool, call: impl Fn(Calls) -> Vec<f32>) {
    let Some(kernels) = kernels(isa) else { return };
    let bits = |side| -> Vec<u32> { call(Calls { kernels, side }).iter().map(|y| y.to_bits()).collect() };
    let expected = bits(Side::End(0));
    for side in SIDES.into_iter().chain((1..16).filter(|_| off).map(Side::End)) {
        assert!(bits(side) == expected, "{} {side:?}: other bits", isa.name());
    }
}

fn products(isa: Isa) {
    for format in Format::ALL {
        let block = format.block_len().max(32);
        let of = |rows, n, cols, off| everywhere(isa, off, |calls| calls.product(format, rows, n, cols));
        for rows in 1..=64 {
            of(rows, [1, 16, 17, 31][rows % 4], block, false);
        }
        // Crosses the end of a slab and of a second strip.
        for (rows, n) in [(1, 45), (4, 33), (8, 15), (9, 47), (23, 33), (53, 33)] {
            of(rows, n, 1280, false);
        }
        of(3, 35, 2 * block, true);
        of(19, 35, 2 * block, true);
        of(51, 35, 2 * block, true);
    }
    // Floating-point weights have rows of any length.
    for format in [Format::F32, Format::F16, Format::BF16] {
        for cols in LENGTHS {
            for rows in [1, 2, 7, 9, 13, 53] {
                everywhere(isa, false, |calls| calls.product(format, rows, 19, cols));
            }
        }
    }
}

fn rows_of_numbers(isa: Isa) {
    for len in LENGTHS {
        for kind in [NormKind::Rms, NormKind::Layer] {
            everywhere(isa, true, |calls| calls.norm(kind, len));
        }
        for map in [Map::Scale(0.3), Map::Softcap(30.0), Map::Act(Activation::Silu)] {
            everywhere(isa, true, |calls| calls.map(map, len));
        }
        for (act, limit) in Activation::ALL.into_iter().zip([None, Some(7.0)].into_iter().cycle()) {
            everywhere(isa, true, |calls| calls.gate(Glu { act, limit }, len));
        }
        for pairing in [Pairing::Interleaved, Pairing::Halves] {
            for heads in [1, 3] {
                everywhere(isa, true, |calls| calls.rope(pairing, heads, len, len / 2 * 2));
                everywhere(isa, false, |calls| calls.rope(pairing, heads, len, len / 4 * 2));
            }
        }
    }
}

fn attention(isa: Isa) {
    for format in [KvFormat::F16, KvFormat::F32, FP8, MIXED, QUANTISED] {
        for dim in LENGTHS {
            for (rows, positions) in [(1, 1), (1, 33), (3, 32), (9, 70)] {
                for (heads, kv_heads) in [(1, 1), (6, 2), (8, 1)] {
                    let (k_dim, v_dim) = (71 - dim, dim);
                    let (mask, cap) = [(Mask::Causal, Some(9.0)), (Mask::Window(dim), None)][dim % 2];
                    let shape =
                        Attention { format, rows, positions, heads, kv_heads, k_dim, v_dim, mask, cap };
                    everywhere(isa, dim == 19, |calls| calls.attend(shape));
                }
            }
        }
        // Crosses the end of a chunk of positions.
        for (rows, positions) in [(1, 512), (5, 515), (2, 1100)] {
            for mask in [
                Mask::Causal,
                Mask::Window(40),
                Mask::Window(520),
                Mask::Chunk(90),
                Mask::Full,
                Mask::Around(70),
            ] {
                let (heads, kv_heads, k_dim, v_dim) = (4, 2, 24, 40);
                let cap = None;
                let shape = Attention { format, rows, positions, heads, kv_heads, k_dim, v_dim, mask, cap };
                everywhere(isa, false, |calls| calls.attend(shape));
            }
        }
    }
}

/// The tests of an instruction set.
macro_rules! borders {
    ($name:ident, $isa:expr) => {
        mod $name {
            use super::*;

            #[test]
            fn matmuls() {
                super::products($isa);
            }

            #[test]
            fn row_kernels() {
                super::rows_of_numbers($isa);
            }

            #[test]
            fn attention() {
                super::attention($isa);
            }
        }
    };
}

borders!(scalar, Isa::Scalar);
borders!(avx2, Isa::Avx2);
borders!(avx512, Isa::Avx512);
