//! Calls the code of a format's block struct.

use crate::encode::{quantize, round};
use crate::format::formats;
use crate::{block, *};

macro_rules! implement {
    (
        $(float $float:ident = $float_id:literal, 1 in $float_bytes:literal: $value:ident;)+
        $(block $format:ident = $id:literal, $len:literal in $bytes:literal: $block:ident;)+
    ) => {
        impl Format {
            pub(crate) fn decode(self, bytes: &[u8], out: &mut [f32]) {
                match self {
                    $(Format::$float => block::dequantize::<$value, _>(bytes, out),)+
                    $(Format::$format => block::dequantize::<$block, _>(bytes, out),)+
                }
            }

            /// Quantises to whole blocks. Floats round to the nearest value.
            pub(crate) fn encode(self, x: &[f32], importance: Option<&[f32]>, out: &mut [u8]) {
                match self {
                    $(Format::$float => round(x, out, |x| $value::nearest(x).0),)+
                    $(Format::$format => quantize::<$block, _>(x, importance, out),)+
                }
            }
        }
    };
}

formats!(implement);
