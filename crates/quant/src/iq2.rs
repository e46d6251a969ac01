//! IQ2_XXS, IQ2_XS and IQ2_S: vectors of eight values from a grid of 256, 512 or 1024, with their signs.
//!
//! The magnitudes are 8, 25 and 43; a group's scale is `d * (2 s + 1) / 8`. IQ2_XXS and IQ2_XS store seven signs of
//! a vector; the eighth makes the number of negative ones even. All words are little-endian. Vector `v` holds values
//! `8v..8v + 8`; in a byte of signs, bit `i` is set if value `i` is negative.
//!
//! IQ2_XXS, scales for groups of 32:
//!
//! | offset | field | meaning |
//! |---|---|---|
//! | 0 | `d` | F16 scale |
//! | 2 | `qs[8]` | group `j`: the indices of its four vectors, a byte each; then a word with 7 signs of each vector from bit 0 on, and `s` in bits 28 to 31 |
//!
//! IQ2_XS, scales for groups of 16:
//!
//! | offset | field | meaning |
//! |---|---|---|
//! | 0 | `d` | F16 scale |
//! | 2 | `qs[32]` | vector `v`: index in bits 0 to 8, signs in bits 9 to 15 |
//! | 66 | `scales[8]` | low nibble of byte `i` is `s` of group `2i`, high nibble of group `2i + 1` |
//!
//! IQ2_S, scales for groups of 16:
//!
//! | offset | field | meaning |
//! |---|---|---|
//! | 0 | `d` | F16 scale |
//! | 2 | `qs[32]` | vector `v`: bits 0 to 7 of its index |
//! | 34 | `signs[32]` | vector `v`: eight signs |
//! | 66 | `qh[8]` | bits `2(v % 4)..` of byte `v / 4` are bits 8 and 9 of the index |
//! | 74 | `scales[8]` | as in IQ2_XS |

use crate::F16Le;
use crate::block::blocks;
use crate::encode::Encode;
use crate::fit::Unit;
use crate::fit::grid::{self, Codebook, Signs};
use crate::grid_block::{GridBlock, join_nibbles, nibbles, twice, vector_codes};
use crate::grids::{IQ2_S_GRID, IQ2_XS_GRID, IQ2_XXS_GRID, even_signs, spread};

blocks! {
    IQ2_XXS: BlockIQ2_XXS { d: F16Le, qs: [[[u8; 4]; 2]; 8] }
    IQ2_XS: BlockIQ2_XS { d: F16Le, qs: [[u8; 2]; 32], scales: [u8; 8] }
    IQ2_S: BlockIQ2_S { d: F16Le, qs: [u8; 32], signs: [u8; 32], qh: [u8; 8], scales: [u8; 8] }
}

/// Magnitudes, then negative values from code 4 on.
const QUANTS: [i8; 16] = [8, 25, 43, 0, -8, -25, -43, 0, 0, 0, 0, 0, 0, 0, 0, 0];

/// The codes of an entry with signs.
fn signed(entry: u64, signs: u8) -> [u8; 8] {
    (entry | spread(signs) << 2).to_le_bytes()
}

impl GridBlock for BlockIQ2_XXS {
    const QUANTS: [i8; 16] = QUANTS;
    const UNIT: f32 = 0.125;
    const GROUP: usize = 32;

    fn d(&self) -> F16Le {
        self.d
    }

    fn scales(&self) -> [u8; 16] {
        twice(self.qs.map(|[_, word]| word[3] >> 4))
    }

    fn codes(&self) -> [[u8; 32]; 8] {
        vector_codes((0..32).map(|v| {
            let [indices, word] = self.qs[v / 4];
            let signs = even_signs(u32::from_le_bytes(word) >> (v % 4 * 7));
            signed(IQ2_XXS_GRID[usize::from(indices[v % 4])], signs)
        }))
    }
}

impl GridBlock for BlockIQ2_XS {
    const QUANTS: [i8; 16] = QUANTS;
    const UNIT: f32 = 0.125;
    const GROUP: usize = 16;

    fn d(&self) -> F16Le {
        self.d
    }

    fn scales(&self) -> [u8; 16] {
        nibbles(&self.scales)
    }

    fn codes(&self) -> [[u8; 32]; 8] {
        vector_codes(self.qs.iter().map(|&word| {
            let word = u16::from_le_bytes(word);
            signed(IQ2_XS_GRID[usize::from(word & 511)], even_signs(u32::from(word >> 9)))
        }))
    }
}

impl GridBlock for BlockIQ2_S {
    const QUANTS: [i8; 16] = QUANTS;
    const UNIT: f32 = 0.125;
    const GROUP: usize = 16;

    fn d(&self) -> F16Le {
        self.d
    }

    fn scales(&self) -> [u8; 16] {
        nibbles(&self.scales)
    }

    fn codes(&self) -> [[u8; 32]; 8] {
        vector_codes((0..32).map(|v| {
            let high = self.qh[v / 4] >> (v % 4 * 2) & 3;
            signed(IQ2_S_GRID[usize::from(self.qs[v]) | usize::from(high) << 8], self.signs[v])
        }))
    }
}

static IQ2_XXS: Codebook<8> = Codebook::new(|| grid::unsigned(&IQ2_XXS_GRID, QUANTS));
static IQ2_XS: Codebook<8> = Codebook::new(|| grid::unsigned(&IQ2_XS_GRID, QUANTS));
static IQ2_S: Codebook<8> = Codebook::new(|| grid::unsigned(&IQ2_S_GRID, QUANTS));

impl Encode<256> for BlockIQ2_XXS {
    fn encode(x: &[f32; 256], weights: &[f32; 256], unit: Unit) -> BlockIQ2_XXS {
        let found = grid::search::<BlockIQ2_XXS, 8>(&[&IQ2_XXS], Signs::Even, 15, x, weights, unit);
        let qs = std::array::from_fn(|j| {
            let vectors = 4 * j..4 * j + 4;
            let mut word = u32::from(found.scales[j]) << 28;
            for (i, signs) in found.signs[vectors.clone()].iter().enumerate() {
                word |= u32::from(signs & 127) << (7 * i);
            }
            let indices = &found.entries[vectors];
            [std::array::from_fn(|i| indices[i] as u8), word.to_le_bytes()]
        });
        BlockIQ2_XXS { d: found.d, qs }
    }
}

impl Encode<256> for BlockIQ2_XS {
    fn encode(x: &[f32; 256], weights: &[f32; 256], unit: Unit) -> BlockIQ2_XS {
        let found = grid::search::<BlockIQ2_XS, 8>(&[&IQ2_XS], Signs::Even, 15, x, weights, unit);
        let word = |v: usize| found.entries[v] | u16::from(found.signs[v] & 127) << 9;
        let qs = std::array::from_fn(|v| word(v).to_le_bytes());
        BlockIQ2_XS { d: found.d, qs, scales: join_nibbles(&found.scales) }
    }
}

impl Encode<256> for BlockIQ2_S {
    fn encode(x: &[f32; 256], weights: &[f32; 256], unit: Unit) -> BlockIQ2_S {
        let found = grid::search::<BlockIQ2_S, 8>(&[&IQ2_S], Signs::Any, 15, x, weights, unit);
        let qs = std::array::from_fn(|v| found.entries[v] as u8);
        let mut qh = [0; 8];
        for (v, entry) in found.entries[..32].iter().enumerate() {
            qh[v / 4] |= ((entry >> 8) as u8) << (v % 4 * 2);
        }
        let signs = std::array::from_fn(|v| found.signs[v]);
        BlockIQ2_S { d: found.d, qs, signs, qh, scales: join_nibbles(&found.scales) }
    }
}
