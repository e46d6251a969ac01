//! Portable scalar code, for every CPU.

use half::f16;
use quant::{Bf16Le, BlockMXFP4, F16Le};

use super::{BYTES, LANES, Lanes, WithSimd};

/// Needs no CPU feature.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Scalar;

/// Defines methods of two operands by what they do in a lane, or in a byte.
macro_rules! lanewise {
    ($($name:ident($a:ident, $b:ident: $vector:ty) = $value:expr;)*) => { $(
        #[inline(always)]
        fn $name(self, a: $vector, b: $vector) -> $vector {
            std::array::from_fn(|i| {
                let ($a, $b) = (a[i], b[i]);
                $value
            })
        }
    )* };
}

impl Lanes for Scalar {
    fn detect() -> Option<Scalar> {
        Some(Scalar)
    }

    fn run<W: WithSimd>(self, work: W) {
        work.with_simd(self);
    }

    type Bytes = [u8; BYTES];
    type Ints = [i32; LANES];
    type Floats = [f32; LANES];

    const TILE: usize = 1;
    const CHAINS: usize = 1;

    lanewise! {
        or(a, b: [u8; BYTES]) = a | b;
        add_i32(a, b: [i32; LANES]) = a.wrapping_add(b);
        max_i32(a, b: [i32; LANES]) = a.max(b);
        mul(a, b: [f32; LANES]) = a * b;
        add(a, b: [f32; LANES]) = a + b;
        div(a, b: [f32; LANES]) = a / b;
        max(a, b: [f32; LANES]) = if a > b { a } else { b };
        min(a, b: [f32; LANES]) = if a < b { a } else { b };
    }

    #[inline(always)]
    fn load_u8(self, from: &[u8; BYTES]) -> [u8; BYTES] {
        *from
    }

    #[inline(always)]
    fn store_u8(self, bytes: [u8; BYTES], to: &mut [u8; BYTES]) {
        *to = bytes;
    }

    #[inline(always)]
    fn bits(self, bytes: [u8; BYTES], down: i32, mask: u8) -> [u8; BYTES] {
        bytes.map(|byte| if down < 0 { byte << -down } else { byte >> down } & mask)
    }

    #[inline(always)]
    fn flip(self, bytes: [u8; BYTES], mask: u8) -> [u8; BYTES] {
        bytes.map(|byte| byte ^ mask)
    }

    #[inline(always)]
    fn transpose_4x16(self, rows: [&[u8; 16]; LANES]) -> [[u8; BYTES]; 4] {
        let mut across = [[0; BYTES]; 4];
        for (r, row) in rows.into_iter().enumerate() {
            for (to, word) in across.iter_mut().zip(row.as_chunks::<4>().0) {
                to.as_chunks_mut().0[r] = *word;
            }
        }
        across
    }

    #[inline(always)]
    fn deinterleave_u8(self, bytes: [u8; BYTES]) -> [u8; BYTES] {
        std::array::from_fn(|at| bytes[at % LANES * 4 + at / LANES])
    }

    #[inline(always)]
    fn deinterleave_u16(self, bytes: [u8; BYTES]) -> [u8; BYTES] {
        std::array::from_fn(|at| bytes[at / 2 % LANES * 4 + at / (2 * LANES) * 2 + at % 2])
    }

    #[inline(always)]
    fn lookup(self, table: &[u8; 16], nibbles: [u8; BYTES]) -> [u8; BYTES] {
        nibbles.map(|nibble| table[usize::from(nibble & 15)])
    }

    #[inline(always)]
    fn acc_init<const SIGNED: bool>(self, start: i32) -> [i32; LANES] {
        [start; LANES]
    }

    #[inline(always)]
    fn dot<const SIGNED: bool>(
        self,
        mut sum: [i32; LANES],
        weights: [u8; BYTES],
        x: [i8; 4],
    ) -> [i32; LANES] {
        for (sum, weights) in sum.iter_mut().zip(weights.as_chunks::<4>().0) {
            for (&w, x) in weights.iter().zip(x) {
                *sum += i32::from(w) * i32::from(x);
            }
        }
        sum
    }

    /// Adding 1.5 * 2^23 leaves no fraction bits. Unlike `f32::round_ties_even`, it needs no SSE4.1.
    #[inline(always)]
    fn round_to_i32(self, x: [f32; LANES]) -> [i32; LANES] {
        const SHIFT: f32 = 12_582_912.0;
        x.map(|x| (x + SHIFT).to_bits().wrapping_sub(SHIFT.to_bits()) as i32)
    }

    #[inline(always)]
    fn abs_bits(self, x: [f32; LANES]) -> [i32; LANES] {
        x.map(|x| x.abs().to_bits() as i32)
    }

    #[inline(always)]
    fn reduce_max(self, ints: [i32; LANES]) -> i32 {
        ints.into_iter().fold(i32::MIN, i32::max)
    }

    #[inline(always)]
    fn pack_low_bytes(self, ints: [i32; LANES]) -> [u32; 4] {
        std::array::from_fn(|i| u32::from_le_bytes(std::array::from_fn(|k| ints[4 * i + k] as u8)))
    }

    #[inline(always)]
    fn reduce_add(self, ints: [i32; LANES]) -> i32 {
        ints.into_iter().fold(0, i32::wrapping_add)
    }

    #[inline(always)]
    fn to_f32(self, ints: [i32; LANES]) -> [f32; LANES] {
        ints.map(|x| x as f32)
    }

    #[inline(always)]
    fn splat(self, x: f32) -> [f32; LANES] {
        [x; LANES]
    }

    #[inline(always)]
    fn load_f32(self, from: &[f32; LANES]) -> [f32; LANES] {
        *from
    }

    #[inline(always)]
    fn store_f32(self, floats: [f32; LANES], to: &mut [f32; LANES]) {
        *to = floats;
    }

    #[inline(always)]
    fn load_f16(self, from: &[F16Le; LANES]) -> [f32; LANES] {
        from.map(F16Le::to_f32)
    }

    #[inline(always)]
    fn to_f16(self, floats: [f32; LANES]) -> [u16; LANES] {
        floats.map(|x| f16::from_f32(x).to_bits())
    }

    #[inline(always)]
    fn load_bf16(self, from: &[Bf16Le; LANES]) -> [f32; LANES] {
        from.map(Bf16Le::to_f32)
    }

    #[inline(always)]
    fn u8_to_f32(self, from: &[u8; LANES]) -> [f32; LANES] {
        from.map(f32::from)
    }

    #[inline(always)]
    fn exponents_to_f32(self, from: &[u8; LANES]) -> [f32; LANES] {
        from.map(BlockMXFP4::scale)
    }

    #[inline(always)]
    fn i8_to_f32(self, from: &[i8; LANES]) -> [f32; LANES] {
        from.map(f32::from)
    }

    #[inline(always)]
    fn mul_pow2(self, a: [f32; LANES], n: [f32; LANES]) -> [f32; LANES] {
        let power = |n: f32| if n < -126.0 { 0.0 } else { f32::from_bits(((n as i32 + 127) as u32) << 23) };
        std::array::from_fn(|i| a[i] * power(n[i]))
    }

    #[inline(always)]
    fn mul_add(self, a: [f32; LANES], b: [f32; LANES], c: [f32; LANES]) -> [f32; LANES] {
        std::array::from_fn(|i| a[i] * b[i] + c[i])
    }
}
