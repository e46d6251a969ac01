//! IQ3_XXS and IQ3_S: vectors of four values from a grid of 256 or 512, with their signs.
//!
//! Vector `v` holds values `4v..4v + 4`. Groups of 32 have a scale. All words are little-endian. In a byte of signs, bit `i` is
//! set if value `i` of eight is negative.
//!
//! IQ3_XXS, scales `d * (2 s + 1) / 4`; of eight signs seven are stored, the last makes the number of negative values even:
//!
//! | offset | field | meaning |
//! |---|---|---|
//! | 0 | `d` | F16 scale |
//! | 2 | `qs[64]` | index of vector `v` |
//! | 66 | `words[8]` | group `j`: seven signs of each eight values from bit 0 on, `s` in bits 28 to 31 |
//!
//! IQ3_S, scales `d * (2 s + 1)`:
//!
//! | offset | field | meaning |
//! |---|---|---|
//! | 0 | `d` | F16 scale |
//! | 2 | `qs[64]` | vector `v`: bits 0 to 7 of its index |
//! | 66 | `qh[8]` | bit `v % 8` of byte `v / 8` is bit 8 of the index |
//! | 74 | `signs[32]` | eight signs of values `8i..8i + 8` |
//! | 106 | `scales[4]` | low nibble of byte `i` is `s` of group `2i`, high nibble of group `2i + 1` |

use crate::F16Le;
use crate::block::blocks;
use crate::encode::Encode;
use crate::fit::Unit;
use crate::fit::grid::{self, Codebook, Signs};
use crate::grid_block::{GridBlock, join_nibbles, nibbles, twice, vector_codes};
use crate::grids::{IQ3_S_GRID, IQ3_XXS_GRID, even_signs, spread};

blocks! {
    IQ3_XXS: BlockIQ3_XXS { d: F16Le, qs: [u8; 64], words: [[u8; 4]; 8] }
    IQ3_S: BlockIQ3_S { d: F16Le, qs: [u8; 64], qh: [u8; 8], signs: [u8; 32], scales: [u8; 4] }
}

/// The codes of two entries with signs.
fn signed(first: u32, second: u32, signs: u8) -> [u8; 8] {
    (u64::from(first) | u64::from(second) << 32 | spread(signs) << 3).to_le_bytes()
}

impl GridBlock for BlockIQ3_XXS {
    const QUANTS: [i8; 16] = [4, 12, 20, 28, 36, 44, 52, 62, -4, -12, -20, -28, -36, -44, -52, -62];
    const UNIT: f32 = 0.25;
    const GROUP: usize = 32;

    fn d(&self) -> F16Le {
        self.d
    }

    fn scales(&self) -> [u8; 16] {
        twice(self.words.map(|word| word[3] >> 4))
    }

    fn codes(&self) -> [[u8; 32]; 8] {
        let entry = |v: usize| IQ3_XXS_GRID[usize::from(self.qs[v])];
        vector_codes((0..32).map(|i| {
            let signs = even_signs(u32::from_le_bytes(self.words[i / 4]) >> (i % 4 * 7));
            signed(entry(2 * i), entry(2 * i + 1), signs)
        }))
    }
}

impl GridBlock for BlockIQ3_S {
    const QUANTS: [i8; 16] = [1, 3, 5, 7, 9, 11, 13, 15, -1, -3, -5, -7, -9, -11, -13, -15];
    const UNIT: f32 = 1.0;
    const GROUP: usize = 32;

    fn d(&self) -> F16Le {
        self.d
    }

    fn scales(&self) -> [u8; 16] {
        twice(nibbles(&self.scales))
    }

    fn codes(&self) -> [[u8; 32]; 8] {
        let high = |v: usize| usize::from(self.qh[v / 8] >> (v % 8) & 1);
        let entry = |v: usize| IQ3_S_GRID[usize::from(self.qs[v]) | high(v) << 8];
        vector_codes((0..32).map(|i| signed(entry(2 * i), entry(2 * i + 1), self.signs[i])))
    }
}

static IQ3_XXS: Codebook<4> =
    Codebook::new(|| grid::unsigned(&IQ3_XXS_GRID.map(u64::from), BlockIQ3_XXS::QUANTS));
static IQ3_S: Codebook<4> = Codebook::new(|| grid::unsigned(&IQ3_S_GRID.map(u64::from), BlockIQ3_S::QUANTS));

impl Encode<256> for BlockIQ3_XXS {
    fn encode(x: &[f32; 256], weights: &[f32; 256], unit: Unit) -> BlockIQ3_XXS {
        let found = grid::search::<BlockIQ3_XXS, 4>(&[&IQ3_XXS], Signs::Even, 15, x, weights, unit);
        let words = std::array::from_fn(|j| {
            let mut word = u32::from(found.scales[j]) << 28;
            for (i, signs) in found.signs[4 * j..4 * j + 4].iter().enumerate() {
                word |= u32::from(signs & 127) << (7 * i);
            }
            word.to_le_bytes()
        });
        BlockIQ3_XXS { d: found.d, qs: found.entries.map(|entry| entry as u8), words }
    }
}

impl Encode<256> for BlockIQ3_S {
    fn encode(x: &[f32; 256], weights: &[f32; 256], unit: Unit) -> BlockIQ3_S {
        let found = grid::search::<BlockIQ3_S, 4>(&[&IQ3_S], Signs::Any, 15, x, weights, unit);
        let mut qh = [0; 8];
        for (v, entry) in found.entries.iter().enumerate() {
            qh[v / 8] |= ((entry >> 8) as u8) << (v % 8);
        }
        let qs = found.entries.map(|entry| entry as u8);
        BlockIQ3_S { d: found.d, qs, qh, signs: found.signs, scales: join_nibbles(&found.scales) }
    }
}
