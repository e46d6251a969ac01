//! Parameters of rotary position embedding, and the frequencies, sines and cosines that follow from them.

use std::fmt;

use crate::WeightId;

/// Which columns of a head form a RoPE pair.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pairing {
    /// Adjacent columns, `(x[2i], x[2i + 1])`: architecture `llama` in GGUF files.
    Interleaved,
    /// `(x[i], x[i + d/2])`, also known as NeoX style: architecture `qwen2` in GGUF files.
    Halves,
}

/// Rotary position embedding (Su et al. 2021): pair `i` of each head rotates by `position * frequency[i]` and is
/// multiplied by `magnitude`; see [`Rope::frequencies`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rope {
    /// Columns per head.
    pub head_dim: usize,
    /// Rotated columns, even and at most `head_dim`; the others are copied.
    pub dims: usize,
    /// Which columns form a pair.
    pub pairing: Pairing,
    /// Frequency base.
    pub theta: f32,
    /// Frequency scale: `1 / factor` with scaling for longer contexts, otherwise 1.
    pub scale: f32,
    /// YaRN: which pairs are scaled; `None` scales all.
    pub yarn: Option<Yarn>,
    /// Multiplies the rotated columns; usually 1.
    pub magnitude: f32,
    /// Frequency divisors, one per pair.
    pub factors: Option<WeightId>,
    /// Frequency divisors that replace `factors` in long contexts.
    pub long_factors: Option<LongFactors>,
}

/// Frequency interpolation by parts (YaRN, Peng et al. 2023): pairs up to `low` are not scaled, pairs from `high` on are
/// scaled by [`Rope::scale`], with a linear ramp in between.
#[derive(Clone, Copy, Debug, PartialEq)]
#[expect(missing_docs, reason = "see above")]
pub struct Yarn {
    pub low: f32,
    pub high: f32,
    /// Strength of the correction, from 0 (all pairs are scaled) to 1.
    pub ext_factor: f32,
}

/// Frequency divisors for long contexts (LongRoPE, Ding et al. 2024).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LongFactors {
    /// They apply to contexts longer than this.
    pub original_context: usize,
    /// One per pair.
    pub factors: WeightId,
}

impl Rope {
    /// RoPE of all columns of a head, without scaling.
    pub fn new(head_dim: usize, pairing: Pairing, theta: f32) -> Rope {
        Rope {
            head_dim,
            dims: head_dim,
            pairing,
            theta,
            scale: 1.0,
            yarn: None,
            magnitude: 1.0,
            factors: None,
            long_factors: None,
        }
    }

    /// The frequency divisors for sequences of up to `n_ctx` positions.
    pub fn factors_for(&self, n_ctx: usize) -> Option<WeightId> {
        let long = self.long_factors.filter(|long| n_ctx > long.original_context);
        long.map(|long| long.factors).or(self.factors)
    }

    /// Radians per position of each pair: `theta^(-2i/dims) / factors[i] * (scale + (1 - scale) * unscaled[i])`;
    /// `unscaled` is YaRN's share of the original frequency, 0 without YaRN.
    pub fn frequencies(&self, factors: Option<&[f32]>) -> Vec<f64> {
        let scale = f64::from(self.scale);
        let frequency = |i: usize| {
            let factor = factors.map_or(1.0, |factors| f64::from(factors[i]));
            let unscaled = self.yarn.map_or(0.0, |yarn| yarn.unscaled(i));
            let frequency = f64::from(self.theta).powf(-2.0 * i as f64 / self.dims as f64);
            frequency / factor * (scale + (1.0 - scale) * unscaled)
        };
        (0..self.dims / 2).map(frequency).collect()
    }

    /// Cosine and sine of a pair's angle at a position, times `magnitude`.
    pub fn cos_sin(&self, position: usize, frequency: f64) -> [f64; 2] {
        let (sin, cos) = (position as f64 * frequency).sin_cos();
        [cos, sin].map(|value| f64::from(self.magnitude) * value)
    }
}

impl Yarn {
    /// The share of the original frequency of pair `i`, 0 to 1.
    fn unscaled(&self, i: usize) -> f64 {
        let [low, high, ext_factor] = [self.low, self.high, self.ext_factor].map(f64::from);
        let scaled = (i as f64 - low) / (high - low).max(1e-3);
        (1.0 - scaled.clamp(0.0, 1.0)) * ext_factor
    }
}

impl fmt::Display for Rope {
    /// Such as `Halves, 64 of 64, theta 10000`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Rope { head_dim, dims, pairing, theta, scale, yarn, magnitude, factors: _, long_factors } = self;
        write!(f, "{pairing:?}, {dims} of {head_dim}, theta {theta}")?;
        if *scale != 1.0 {
            write!(f, ", scale {scale}")?;
        }
        if let Some(Yarn { low, high, .. }) = yarn {
            write!(f, ", yarn {low} to {high}")?;
        }
        if let Some(LongFactors { original_context, .. }) = long_factors {
            write!(f, ", long beyond {original_context}")?;
        }
        if *magnitude != 1.0 {
            write!(f, ", magnitude {magnitude}")?;
        }
        Ok(())
    }
}
