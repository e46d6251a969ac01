//! How fast one thread can multiply and add: loops of the instructions that products rest on, whose operands
//! stay in registers.
//!
//! In assembly, as a compiler would see that nothing comes of them. There are more sums than the processor
//! has multiply-adds under way (two a cycle, of four or five cycles), and operands are no zeros, which take
//! less power.
#![expect(unsafe_code, reason = "loops in assembly")]

use std::arch::asm;

use super::BYTES;
use super::avx2::Avx2;
use super::avx512::Avx512;

/// A loop of so many rounds.
pub(crate) struct Spin {
    /// Multiply-adds of a round.
    pub(crate) macs: u64,
    run: unsafe fn(rounds: u64, operand: &[u8; BYTES]),
}

impl Spin {
    /// Runs `rounds` rounds, at least one.
    pub(crate) fn run(&self, rounds: u64) {
        // As floats 0.66 in every lane; as bytes 63, 42, 21 and 43.
        let operand: [u8; BYTES] = std::array::from_fn(|i| [0x2b, 0x15, 0x2a, 0x3f][i % 4]);
        // SAFETY: a loop is handed out with the proof that the processor has its instructions.
        unsafe { (self.run)(rounds.max(1), &operand) }
    }
}

impl Avx512 {
    /// Products of four bytes a lane.
    pub(crate) fn int8(self) -> Spin {
        Spin { macs: 16 * 64, run: int8_512 }
    }

    /// f32.
    pub(crate) fn f32(self) -> Spin {
        Spin { macs: 16 * 16, run: f32_512 }
    }
}

impl Avx2 {
    /// Products of four bytes a lane: sums of eight are widened together, as small weights allow.
    pub(crate) fn int8(self) -> Spin {
        Spin { macs: 8 * 8 * 32, run: int8_256 }
    }

    /// f32.
    pub(crate) fn f32(self) -> Spin {
        Spin { macs: 12 * 8, run: f32_256 }
    }
}

/// A function that does `$line` for each sum `$i`, again and again, after `$setup` has put the operand into
/// registers.
macro_rules! spin {
    ($name:ident, $features:literal, [$($setup:literal)*], $line:ident, $($i:literal)*) => {
        #[target_feature(enable = $features)]
        fn $name(rounds: u64, operand: &[u8; BYTES]) {
            // SAFETY: 64 bytes are read from an array of 64; the function has the features.
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
            // Sums of pairs stay in 16 bits for eight products.
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
        // Ones, of 16 bits.
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
