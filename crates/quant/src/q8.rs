//! Q8_0: 32 `i8` quants with one scale, `x = d * q`.
//!
//! | offset | field | meaning |
//! |---|---|---|
//! | 0 | `d` | F16 scale |
//! | 2 | `qs[32]` | signed bytes; byte `i` is value `i` |

#![expect(missing_docs, reason = "the table describes the fields")]

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::encode::Encode;
use crate::fit::{Unit, inverse, round_within};
use crate::groups::{Groups, Halves};
use crate::{F16Le, Format};

/// A block of Q8_0.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct BlockQ8_0 {
    pub d: F16Le,
    pub qs: [i8; 32],
}

impl Groups<1> for BlockQ8_0 {
    const FORMAT: Format = Format::Q8_0;
    const OFFSETS: bool = false;
    const UNSIGNED: bool = false;

    fn factors(&self, to_f32: impl Fn(F16Le) -> f32) -> (Halves<1>, Halves<1>) {
        ([[to_f32(self.d); 2]], [[0.0; 2]])
    }

    fn quants(&self) -> [[i8; 32]; 1] {
        [self.qs]
    }
}

/// Rounds with `d = max |x| / 127`: with 255 levels, a scale search gains nothing.
impl Encode<32> for BlockQ8_0 {
    fn encode(x: &[f32; 32], _: &[f32; 32], unit: Unit) -> BlockQ8_0 {
        let largest = x.iter().fold(0.0f32, |largest, x| if x.abs() > largest { x.abs() } else { largest });
        let d = unit.f16_scale(largest / 127.0);
        let by = inverse(d.value);
        BlockQ8_0 { d: d.stored, qs: x.map(|x| round_within(x * by, -127.0, 127.0) as i8) }
    }
}
