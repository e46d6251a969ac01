//! TQ1_0 and TQ2_0: ternary values, 256 under one scale.
//!
//! `x = d * (q - 1)` with `q` 0, 1 or 2.
//!
//! TQ1_0 stores five values in a byte, or four: the byte is `ceil(256 n / 243)`, where `n` has the values as digits in base
//! 3, the first value in the highest digit. Digit `i` is thus `3 * (byte * 3^i mod 256) / 256`.
//!
//! | offset | field | meaning |
//! |---|---|---|
//! | 0 | `qs[48]` | digit `i` of byte `j`: value `32i + j` (`j < 32`) or `160 + 16i + j - 32` |
//! | 48 | `qh[4]` | digit `i < 4` of byte `j`: value `240 + 4i + j` |
//! | 52 | `d` | F16 scale |
//!
//! TQ2_0:
//!
//! | offset | field | meaning |
//! |---|---|---|
//! | 0 | `qs[64]` | value `128h + 32s + i` (`i < 32`) is bits `2s..2s + 2` of byte `32h + i` |
//! | 64 | `d` | F16 scale |

use zerocopy::IntoBytes;

use crate::F16Le;
use crate::block::blocks;
use crate::encode::Encode;
use crate::fit::symmetric::{self, Levels};
use crate::fit::{Group, Unit};
use crate::groups::{Groups, Halves, codes, pack_bits, unpack_bits};

blocks! {
    TQ1_0: BlockTQ1_0 { qs: [u8; 48], qh: [u8; 4], d: F16Le }
    TQ2_0: BlockTQ2_0 { qs: [u8; 64], d: F16Le }
}

/// The runs of TQ1_0: first byte, bytes, first value, digits per byte.
const RUNS: [(usize, usize, usize, usize); 3] = [(0, 32, 0, 5), (32, 16, 160, 5), (48, 4, 240, 4)];

impl BlockTQ1_0 {
    /// The values plus 1.
    pub fn codes(&self) -> [[u8; 32]; 8] {
        let mut codes = [[0; 32]; 8];
        for (first_byte, bytes, first, digits) in RUNS {
            let mut rest = [0; 32];
            let rest = &mut rest[..bytes];
            rest.copy_from_slice(&self.as_bytes()[first_byte..][..bytes]);
            for codes in codes.as_flattened_mut()[first..][..bytes * digits].chunks_exact_mut(bytes) {
                for (code, rest) in codes.iter_mut().zip(&mut *rest) {
                    let next = u16::from(*rest) * 3;
                    (*code, *rest) = ((next >> 8) as u8, next as u8);
                }
            }
        }
        codes
    }
}

impl Groups<8> for BlockTQ1_0 {
    fn factors(&self, to_f32: impl Fn(F16Le) -> f32) -> (Halves<8>, Halves<8>) {
        ([[to_f32(self.d); 2]; 8], [[0.0; 2]; 8])
    }

    fn quants(&self) -> [[i8; 32]; 8] {
        self.codes().map(|group| group.map(|code| code as i8 - 1))
    }
}

impl Groups<8> for BlockTQ2_0 {
    fn factors(&self, to_f32: impl Fn(F16Le) -> f32) -> (Halves<8>, Halves<8>) {
        ([[to_f32(self.d); 2]; 8], [[0.0; 2]; 8])
    }

    fn quants(&self) -> [[i8; 32]; 8] {
        std::array::from_fn(|g| unpack_bits(&self.qs, g / 4 * 32, g % 4 * 2, 3).map(|q| q as i8 - 1))
    }
}

/// -1, 0 and 1 as quantisation levels.
struct Ternary;

impl Levels for Ternary {
    const GUESSES: &'static [f32] =
        &[0.5, 0.6, 0.7, 0.85, 1.0, 1.15, 1.3, 1.5, 1.7, 1.9, 2.1, 2.4, 2.8, 3.2, 4.0, 5.0];
    const REACH: i32 = 0;

    #[inline(always)]
    fn nearest(v: f32) -> f32 {
        crate::fit::round_within(v, -1.0, 1.0)
    }
}

fn fit(x: &[f32; 256], weights: &[f32; 256], unit: Unit) -> (F16Le, [[u8; 32]; 8]) {
    let (d, levels) = symmetric::single::<Ternary, 256>(&Group::new(*x, *weights), unit);
    (d.stored, codes(&[levels], 1.0))
}

impl Encode<256> for BlockTQ1_0 {
    fn encode(x: &[f32; 256], weights: &[f32; 256], unit: Unit) -> BlockTQ1_0 {
        let (d, codes) = fit(x, weights, unit);
        let mut packed = [0; 52];
        for (first_byte, bytes, first, digits) in RUNS {
            for (j, byte) in packed[first_byte..][..bytes].iter_mut().enumerate() {
                // With fewer digits, the lowest are 0.
                let digit = |i| if i < digits { codes.as_flattened()[first + i * bytes + j] } else { 0 };
                let number = (0..5).fold(0, |number, i| number * 3 + u16::from(digit(i)));
                *byte = (number * 256).div_ceil(243) as u8;
            }
        }
        let (mut qs, mut qh) = ([0; 48], [0; 4]);
        qs.copy_from_slice(&packed[..48]);
        qh.copy_from_slice(&packed[48..]);
        BlockTQ1_0 { qs, qh, d }
    }
}

impl Encode<256> for BlockTQ2_0 {
    fn encode(x: &[f32; 256], weights: &[f32; 256], unit: Unit) -> BlockTQ2_0 {
        let (d, codes) = fit(x, weights, unit);
        let mut qs = [0; 64];
        for (g, codes) in codes.iter().enumerate() {
            pack_bits(&mut qs, g / 4 * 32, g % 4 * 2, 3, codes);
        }
        BlockTQ2_0 { qs, d }
    }
}
