//! NVFP4: 64 values in FP4 (E2M1), each 16 with an 8-bit float (E4M3, without its sign) as their scale; NVIDIA's format in
//! ggml's blocks. `x = scale(d) * MXFP4_VALUES[q]`.
//!
//! | offset | field | meaning |
//! |---|---|---|
//! | 0 | `d[4]` | scale of each 16 values; halved, because the values are doubled |
//! | 4 | `qs[32]` | 8 bytes for each 16 values: low nibble of byte `i` is value `i`, high nibble value `i + 8` |

use crate::block::blocks;
use crate::encode::Encode;
use crate::fit::{Group, Unit};
use crate::groups::{Groups, Halves};
use crate::mxfp4::nearest;
use crate::{Block, F16Le, MXFP4_VALUES};

blocks! {
    NVFP4: BlockNVFP4 { d: [u8; 4], qs: [u8; 32] }
}

/// The code of the largest scale, 224; the next one, NaN in E4M3, stands for 0.
const LARGEST: u8 = 0x7E;

impl BlockNVFP4 {
    /// Half the value of an E4M3 code; its sign is ignored.
    #[inline(always)]
    pub fn scale(d: u8) -> f32 {
        let (exponent, mantissa) = (d >> 3 & 15, f32::from(d & 7));
        match (exponent, d) {
            (_, 0x7F) => 0.0,
            (0, _) => mantissa * f32::from_bits((127 - 10) << 23),
            _ => (1.0 + mantissa / 8.0) * f32::from_bits((u32::from(exponent) + 127 - 8) << 23),
        }
    }

    /// The code of the scale nearest to `scale`, which is not negative; NaN gives 0.
    pub fn nearest_scale(scale: f32) -> u8 {
        let is_above = |d: u8| scale > 0.5 * (Self::scale(d) + Self::scale(d + 1));
        (0..LARGEST).rev().find(|&d| is_above(d)).map_or(0, |d| d + 1)
    }

    /// The codes of the values, in their order.
    #[inline(always)]
    pub fn codes(&self) -> [[u8; 32]; 2] {
        std::array::from_fn(|g| {
            std::array::from_fn(|i| self.qs[16 * g + 8 * (i / 16) + i % 8] >> (i % 16 / 8 * 4) & 15)
        })
    }
}

impl Groups<2> for BlockNVFP4 {
    fn factors(&self, _: impl Fn(F16Le) -> f32) -> (Halves<2>, Halves<2>) {
        let [a, b, c, d] = self.d.map(BlockNVFP4::scale);
        ([[a, b], [c, d]], [[0.0; 2]; 2])
    }

    fn quants(&self) -> [[i8; 32]; 2] {
        self.codes().map(|codes| codes.map(|code| MXFP4_VALUES[usize::from(code)]))
    }
}

impl Block<64> for BlockNVFP4 {
    fn dequantize(&self) -> [f32; 64] {
        crate::groups::dequantize(self)
    }
}

/// Scales that are tried for 16 values: codes around the one that makes the largest magnitude 6, the largest value.
const BELOW: u8 = 3;
const ABOVE: u8 = 6;

impl Encode<64> for BlockNVFP4 {
    fn encode(x: &[f32; 64], weights: &[f32; 64], unit: Unit) -> BlockNVFP4 {
        let mut block = BlockNVFP4 { d: [0; 4], qs: [0; 32] };
        for (at, group) in Group::<16>::split::<64, 4>(x, weights).into_iter().enumerate() {
            let unit = f32::exp2(unit.exponent() as f32);
            let largest = group.x.iter().fold(0.0f32, |largest, x| largest.max(x.abs()));
            let middle = BlockNVFP4::nearest_scale(largest * unit / 12.0);
            let mut best = (f32::INFINITY, 0, [0; 16]);
            // Scales are tried from the largest down, so that the largest of those with equal errors wins: fewer values saturate.
            let tried = if largest == 0.0 {
                1..1
            } else {
                middle.saturating_sub(BELOW).max(1)..(middle + ABOVE).min(LARGEST) + 1
            };
            for d in tried.rev() {
                let scale = BlockNVFP4::scale(d) / unit;
                let codes = group.x.map(|x| nearest(x / scale));
                let mut error = 0.0;
                for (i, code) in codes.iter().enumerate() {
                    let value = f32::from(MXFP4_VALUES[usize::from(*code)]);
                    // A tiny unit makes scales infinite.
                    let y = if value == 0.0 { 0.0 } else { scale * value };
                    error += group.w[i] * (group.x[i] - y).powi(2);
                }
                if error < best.0 {
                    best = (error, d, codes);
                }
            }
            let (_, d, codes) = best;
            block.d[at] = d;
            for i in 0..8 {
                block.qs[8 * at + i] = codes[i] | codes[i + 8] << 4;
            }
        }
        block
    }
}
