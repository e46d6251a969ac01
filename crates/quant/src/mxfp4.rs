//! MXFP4: 32 values in FP4 (E2M1) with a power of two as their scale, as the Open Compute Project's Microscaling Formats
//! (MX) specification 1.0 defines them. `x = 2^(e - 128) * MXFP4_VALUES[q]`.
//!
//! | offset | field | meaning |
//! |---|---|---|
//! | 0 | `e` | exponent of the scale (E8M0), biased by 128, because the values are doubled |
//! | 1 | `qs[16]` | low nibble of byte `i` is value `i`, high nibble value `i + 16` |

use crate::F16Le;
use crate::block::blocks;
use crate::encode::Encode;
use crate::fit::{Group, Unit};
use crate::groups::{Groups, Halves, pack_nibbles, unpack_nibbles};

/// Twice the values of FP4. Code 8 is negative zero.
pub const MXFP4_VALUES: [i8; 16] = [0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12];

blocks! {
    MXFP4: BlockMXFP4 { e: u8, qs: [u8; 16] }
}

impl BlockMXFP4 {
    /// `2^(e - 128)`. The two smallest are subnormal.
    #[inline(always)]
    pub fn scale(e: u8) -> f32 {
        f32::from_bits(if e < 2 { 0x0020_0000 << e } else { (u32::from(e) - 1) << 23 })
    }
}

impl Groups<1> for BlockMXFP4 {
    fn factors(&self, _: impl Fn(F16Le) -> f32) -> (Halves<1>, Halves<1>) {
        ([[BlockMXFP4::scale(self.e); 2]], [[0.0; 2]])
    }

    fn quants(&self) -> [[i8; 32]; 1] {
        [unpack_nibbles(&self.qs).map(|q| MXFP4_VALUES[usize::from(q)])]
    }
}

/// The code of the value nearest to `v`.
#[inline(always)]
pub(crate) fn nearest(v: f32) -> u8 {
    const MIDPOINTS: [f32; 7] = [0.5, 1.5, 2.5, 3.5, 5.0, 7.0, 10.0];
    let magnitude: u8 = MIDPOINTS.iter().map(|&midpoint| u8::from(v.abs() > midpoint)).sum();
    if v < 0.0 && magnitude > 0 { magnitude | 8 } else { magnitude }
}

/// The largest exponent whose values are all finite.
const MAX_EXPONENT: i32 = 252;

impl Encode<32> for BlockMXFP4 {
    /// Tries scales whose largest value is 3, 1.5 and 0.75; the largest magnitude is in [1, 2).
    fn encode(x: &[f32; 32], weights: &[f32; 32], unit: Unit) -> BlockMXFP4 {
        let group = Group::new(*x, *weights);
        let mut best = (f32::INFINITY, BlockMXFP4 { e: 0, qs: [0; 16] });
        for below in 2..=4 {
            let e = (128 + unit.exponent() - below).clamp(0, MAX_EXPONENT);
            let scale = f32::exp2((e - 128 - unit.exponent()) as f32);
            let codes = x.map(|x| nearest(x / scale));
            let mut error = 0.0;
            for (i, code) in codes.iter().enumerate() {
                let y = scale * f32::from(MXFP4_VALUES[usize::from(*code)]);
                error += group.w[i] * (group.x[i] - y).powi(2);
            }
            if error < best.0 {
                best = (error, BlockMXFP4 { e: e as u8, qs: pack_nibbles(&codes) });
            }
        }
        best.1
    }
}
