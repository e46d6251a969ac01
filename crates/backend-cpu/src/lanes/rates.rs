//! Peak multiply-add rates of one thread: loops of the GEMM instructions on registers.
//!
//! The loops are assembly, because a compiler would remove them. They have more accumulators than the CPU has
//! multiply-adds in flight (two per cycle, 4 or 5 cycles each). The operands are not zero: zeros draw less power.
#![expect(unsafe_code, reason = "loops in assembly")]

use std::arch::asm;

use super::BYTES;
use super::avx2::Avx2;
use super::avx512::Avx512;

pub(crate) struct Spin {
    /// Multiply-adds per round.
    pub(crate) macs: u64,
    run: unsafe fn(rounds: u64, operand: &[u8; BYTES]),
}

impl Spin {
    pub(crate) fn run(&self, rounds: u64) {
        // As f32, 0.66 in every lane; as bytes, 43, 21, 42 and 63.
        let operand: [u8; BYTES] = std::array::from_fn(|i| [0x2b, 0x15, 0x2a, 0x3f][i % 4]);
        // SAFETY: only a feature proof gives out a loop.
        unsafe { (self.run)(rounds.max(1), &operand) }
    }
}

impl Avx512 {
    pub(crate) fn int8(self) -> Spin {
        Spin { macs: 16 * 64, run: int8_512 }
    }

    pub(crate) fn f32(self) -> Spin {
        Spin { macs: 16 * 16, run: f32_512 }
    }
}

impl Avx2 {
    /// 8-bit dot products; eight are accumulated in 16 bits before widening, as for small weights.
    pub(crate) fn int8(self) -> Spin {
        Spin { macs: 8 * 8 * 32, run: int8_256 }
    }

    pub(crate) fn f32(self) -> Spin {
        Spin { macs: 12 * 8, run: f32_256 }
    }
}

/// Defines a function that loads the operand with `$setup` and repeats `$line` for each accumulator `$i`.
macro_rules! spin {
    ($name:ident, $features:literal, [$($setup:literal)*], $line:ident, $($i:literal)*) => {
        #[target_feature(enable = $features)]
        fn $name(rounds: u64, operand: &[u8; BYTES]) {
            // SAFETY: reads 64 bytes of an array of 64; the function enables the features.
            unsafe {
                asm!(
                    $($setup,)*
                    $(concat!("vpxor xmm", $i, ", xmm", $i, ", xmm", $i),)*
                    ".p2align 5",
                    "2:",
                    $($line!($i),)*
                    "dec r8",
                    "jnz 2b",
                    "vzeroupper",
                    inout("r8") rounds => _,
                    in("r9") operand.as_ptr(),
                    clobber_abi("sysv64"),
                    options(readonly, nostack),
                );
            }
        }
    };
}

macro_rules! vpdpbusd {
    ($i:literal) => {
        concat!("vpdpbusd zmm", $i, ", zmm30, zmm31")
    };
}

macro_rules! vpmaddubsw {
    ($i:literal) => {
        concat!(
            // Eight products fit in 16 bits.
            ".rept 8\n",
            concat!("vpmaddubsw ymm15, ymm12, ymm13\n vpaddw ymm", $i, ", ymm", $i, ", ymm15\n"),
            ".endr\n",
            concat!("vpmaddwd ymm15, ymm", $i, ", ymm14\n vpaddd ymm", $i, ", ymm", $i, ", ymm15")
        )
    };
}

macro_rules! fma_512 {
    ($i:literal) => {
        concat!("vfmadd231ps zmm", $i, ", zmm30, zmm31")
    };
}

macro_rules! fma_256 {
    ($i:literal) => {
        concat!("vfmadd231ps ymm", $i, ", ymm12, ymm13")
    };
}

spin!(
    int8_512,
    "avx512f,avx512vnni",
    ["vmovdqu64 zmm30, [r9]" "vmovdqa64 zmm31, zmm30"],
    vpdpbusd,
    0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15
);

spin!(
    f32_512,
    "avx512f",
    ["vmovdqu64 zmm30, [r9]" "vmovdqa64 zmm31, zmm30"],
    fma_512,
    0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15
);

spin!(
    int8_256,
    "avx2",
    [
        "vmovdqu ymm12, [r9]"
        "vmovdqa ymm13, ymm12"
        // 16-bit ones.
        "vpcmpeqw ymm14, ymm14, ymm14"
        "vpsrlw ymm14, ymm14, 15"
    ],
    vpmaddubsw,
    0 1 2 3 4 5 6 7
);

spin!(
    f32_256,
    "avx2,fma",
    ["vmovdqu ymm12, [r9]" "vmovdqa ymm13, ymm12"],
    fma_256,
    0 1 2 3 4 5 6 7 8 9 10 11
);
