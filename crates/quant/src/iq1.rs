//! IQ1_S and IQ1_M: vectors of eight ternary values from a grid of 2048, shifted by an eighth.
//!
//! `x = scale * (q + shift)` with `q` -1, 0 or 1 and a shift of 1/8 or -1/8; the scale is `d * (2 s + 1)`. Quants are in eighths.
//! Vector `v` holds values `8v..8v + 8`. All words are little-endian.
//!
//! IQ1_S, a scale and a shift for each group of 32:
//!
//! | offset | field | meaning |
//! |---|---|---|
//! | 0 | `d` | F16 scale |
//! | 2 | `qs[32]` | vector `v`: bits 0 to 7 of its index |
//! | 34 | `qh[8]` | group `j`: bits 8 to 10 of the indices of its four vectors from bit 0 on, `s` in bits 12 to 14; bit 15 is set if the shift is negative |
//!
//! IQ1_M, a scale for each group of 16, a shift for each vector:
//!
//! | offset | field | meaning |
//! |---|---|---|
//! | 0 | `qs[32]` | vector `v`: bits 0 to 7 of its index |
//! | 32 | `qh[16]` | vector `v`, low nibble of byte `v / 2` for an even `v`, high for an odd: bits 8 to 10 of its index; bit 3 is set if the shift is negative |
//! | 48 | `scales[4]` | word `i`: `s` of groups `4i..4i + 4`, three bits each from bit 0 on; bits 12 to 15 are bits `4i..` of the F16 scale `d` |

use crate::F16Le;
use crate::block::blocks;
use crate::encode::Encode;
use crate::fit::Unit;
use crate::fit::grid::{self, Codebook, Signs};
use crate::grid_block::{GridBlock, join_nibbles, nibbles, twice, vector_codes};
use crate::grids::IQ1_GRID;

blocks! {
    IQ1_S: BlockIQ1_S { d: F16Le, qs: [u8; 32], qh: [[u8; 2]; 8] }
    IQ1_M: BlockIQ1_M { qs: [u8; 32], qh: [u8; 16], scales: [[u8; 2]; 4] }
}

/// Values shifted up, then from code 4 on values shifted down, in eighths.
const QUANTS: [i8; 16] = [-7, 1, 9, 0, -9, -1, 7, 0, 0, 0, 0, 0, 0, 0, 0, 0];

/// The codes of entry `index`, shifted down if `is_down`.
fn shifted(index: usize, is_down: bool) -> [u8; 8] {
    let down = if is_down { 0x0404_0404_0404_0404 } else { 0 };
    (IQ1_GRID[index] | down).to_le_bytes()
}

impl GridBlock for BlockIQ1_S {
    const QUANTS: [i8; 16] = QUANTS;
    const UNIT: f32 = 0.125;
    const GROUP: usize = 32;

    fn d(&self) -> F16Le {
        self.d
    }

    fn scales(&self) -> [u8; 16] {
        twice(self.qh.map(|word| word[1] >> 4 & 7))
    }

    fn codes(&self) -> [[u8; 32]; 8] {
        vector_codes((0..32).map(|v| {
            let word = u16::from_le_bytes(self.qh[v / 4]);
            let high = usize::from(word >> (v % 4 * 3) & 7);
            shifted(usize::from(self.qs[v]) | high << 8, word >> 15 == 1)
        }))
    }
}

impl GridBlock for BlockIQ1_M {
    const QUANTS: [i8; 16] = QUANTS;
    const UNIT: f32 = 0.125;
    const GROUP: usize = 16;

    fn d(&self) -> F16Le {
        let [a, b, c, d] = self.scales.map(|word| word[1] >> 4);
        F16Le([a | b << 4, c | d << 4])
    }

    fn scales(&self) -> [u8; 16] {
        let words = self.scales.map(u16::from_le_bytes);
        std::array::from_fn(|j| (words[j / 4] >> (j % 4 * 3) & 7) as u8)
    }

    fn codes(&self) -> [[u8; 32]; 8] {
        let high: [u8; 32] = nibbles(&self.qh);
        vector_codes(
            (0..32)
                .map(|v| shifted(usize::from(self.qs[v]) | usize::from(high[v] & 7) << 8, high[v] & 8 != 0)),
        )
    }
}

/// Entries shifted up, and shifted down.
static UP: Codebook<8> = Codebook::new(|| grid::values((0..2048).map(|index| shifted(index, false)), QUANTS));
static DOWN: Codebook<8> =
    Codebook::new(|| grid::values((0..2048).map(|index| shifted(index, true)), QUANTS));

/// Both, first those shifted up.
static BOTH: Codebook<8> =
    Codebook::new(|| grid::values((0..4096).map(|index| shifted(index % 2048, index >= 2048)), QUANTS));

impl Encode<256> for BlockIQ1_S {
    fn encode(x: &[f32; 256], weights: &[f32; 256], unit: Unit) -> BlockIQ1_S {
        let found = grid::search::<BlockIQ1_S, 8>(&[&UP, &DOWN], Signs::None, 7, x, weights, unit);
        let qh = std::array::from_fn(|j| {
            let mut word = u16::from(found.scales[j]) << 12 | (found.books[j] as u16) << 15;
            for (i, entry) in found.entries[4 * j..4 * j + 4].iter().enumerate() {
                word |= (entry >> 8) << (3 * i);
            }
            word.to_le_bytes()
        });
        BlockIQ1_S { d: found.d, qs: std::array::from_fn(|v| found.entries[v] as u8), qh }
    }
}

impl Encode<256> for BlockIQ1_M {
    fn encode(x: &[f32; 256], weights: &[f32; 256], unit: Unit) -> BlockIQ1_M {
        let found = grid::search::<BlockIQ1_M, 8>(&[&BOTH], Signs::None, 7, x, weights, unit);
        let high: [u8; 32] = std::array::from_fn(|v| (found.entries[v] >> 8) as u8);
        let d = u16::from_le_bytes(found.d.0);
        let scales = std::array::from_fn(|i| {
            let mut word = (d >> (4 * i) & 15) << 12;
            for (j, &scale) in found.scales[4 * i..4 * i + 4].iter().enumerate() {
                word |= u16::from(scale) << (3 * j);
            }
            word.to_le_bytes()
        });
        let qs = std::array::from_fn(|v| found.entries[v] as u8);
        BlockIQ1_M { qs, qh: join_nibbles(&high), scales }
    }
}
