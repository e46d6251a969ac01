//! Random numbers that are the same on every machine: no state, no library, no rounding that may differ.

/// An endless sequence of random words, read by index (splitmix64 of Steele, Lea and Flood, 2014).
#[derive(Clone, Copy, Debug)]
pub struct Random(u64);

impl Random {
    /// The sequence of a seed and a name.
    pub fn new(seed: u64, name: &str) -> Random {
        Random(mix(seed) ^ fnv1a(name.as_bytes()))
    }

    /// Word `i`.
    pub fn word(self, i: u64) -> u64 {
        mix(self.0.wrapping_add(i.wrapping_add(1).wrapping_mul(0x9E37_79B9_7F4A_7C15)))
    }

    /// Number `i`, from 0 up to but not including 1, with 16 random bits.
    pub fn uniform(self, i: u64) -> f32 {
        (self.word(i) >> 48) as f32 / 65536.0
    }

    /// Number `i`, approximately normal: mean 0, standard deviation 1, at most 3.47 from 0. Only the last division rounds.
    pub fn normal(self, i: u64) -> f32 {
        let sum: u32 =
            self.word(i).to_le_bytes().as_chunks().0.iter().map(|b| u32::from(u16::from_le_bytes(*b))).sum();
        (sum as f32 - 131_070.0) / 37_837.2
    }

    /// Fills `bytes` with words, starting with word `first`.
    pub fn fill(self, first: u64, bytes: &mut [u8]) {
        for (i, bytes) in (first..).zip(bytes.chunks_mut(8)) {
            bytes.copy_from_slice(&self.word(i).to_le_bytes()[..bytes.len()]);
        }
    }
}

fn mix(z: u64) -> u64 {
    let z = (z ^ z >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let z = (z ^ z >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ z >> 31
}

fn fnv1a(bytes: &[u8]) -> u64 {
    bytes
        .iter()
        .fold(0xCBF2_9CE4_8422_2325, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01B3))
}
