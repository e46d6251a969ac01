//! The random number generator for sampling.

/// SplitMix64 (Steele, Lea and Flood 2014, "Fast splittable pseudorandom number generators"), with the
/// constants of Vigna's reference code. The algorithm must not change: a seed always gives the same text.
#[derive(Clone, Debug)]
pub(crate) struct SplitMix64(pub(crate) u64);

const STEP: u64 = 0x9e37_79b9_7f4a_7c15;

impl SplitMix64 {
    /// Number `index` of the generator with this seed, uniform in `[0, 1)`.
    pub(crate) fn nth_f64(seed: u64, index: usize) -> f64 {
        SplitMix64(seed.wrapping_add(STEP.wrapping_mul(index as u64))).next_f64()
    }

    pub(crate) fn next_u64(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(STEP);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Uniform in `[0, 1)`, from the upper 53 bits.
    pub(crate) fn next_f64(&mut self) -> f64 {
        (self.next_u64() >> 11) as f64 / (1u64 << 53) as f64
    }
}

/// An unpredictable seed, never the value that requests a random one.
pub(crate) fn random_seed() -> u32 {
    let seed = unpredictable() as u32;
    if seed == u32::MAX { 0 } else { seed }
}

/// An unpredictable key.
pub(crate) fn random_key() -> [u8; 16] {
    let (low, high) = (u128::from(unpredictable()), u128::from(unpredictable()));
    (high << 64 | low).to_le_bytes()
}

fn unpredictable() -> u64 {
    use std::hash::{BuildHasher, Hasher};
    // Each `RandomState` is keyed with system entropy.
    std::hash::RandomState::new().build_hasher().finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Output of Vigna's reference code for seed 1234567, as published on Rosetta Code.
    #[test]
    fn splitmix64_is_the_published_generator() {
        let mut random = SplitMix64(1_234_567);
        let expected = [
            6_457_827_717_110_365_317,
            3_203_168_211_198_807_973,
            9_817_491_932_198_370_423,
            4_593_380_528_125_082_431,
            16_408_922_859_458_223_821,
        ];
        assert_eq!(std::array::from_fn(|_| random.next_u64()), expected);
    }

    #[test]
    fn any_number_can_be_had() {
        let mut random = SplitMix64(42);
        (0..10).for_each(|index| assert_eq!(SplitMix64::nth_f64(42, index), random.next_f64()));
    }

    #[test]
    fn fractions_stay_below_one() {
        let mut random = SplitMix64(0);
        let draws: Vec<f64> = (0..10_000).map(|_| random.next_f64()).collect();
        assert!(draws.iter().all(|draw| (0.0..1.0).contains(draw)));
        let mean = draws.iter().sum::<f64>() / 10_000.0;
        assert!((mean - 0.5).abs() < 0.015, "mean {mean}");
    }
}
