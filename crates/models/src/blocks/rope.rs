//! Rotary position embedding, with scaling for contexts longer than the original one. Keys and defaults are llama.cpp's.

use gguf::Value;
use graph::{LongFactors, Pairing, Rope, Yarn};

use super::{Attention, GraphContext};
use crate::{Config, Error, Keys};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scaling {
    /// All frequencies are divided by a factor (Chen et al. 2023).
    Linear,
    /// Low frequencies are divided by a factor (Peng et al. 2023).
    Yarn,
    /// Each frequency has its own divisor, and a different one in long contexts (Ding et al. 2024).
    LongRope,
}

pub(crate) const SCALINGS: &[Scaling] = &[Scaling::Linear, Scaling::Yarn, Scaling::LongRope];

/// The kinds of scaling without tensors.
pub(crate) const LINEAR_OR_YARN: &[Scaling] = &[Scaling::Linear, Scaling::Yarn];

impl Scaling {
    fn name(self) -> &'static str {
        match self {
            Scaling::Linear => "linear",
            Scaling::Yarn => "yarn",
            Scaling::LongRope => "longrope",
        }
    }
}

/// Reads RoPE for heads of `head_dim` columns with `supported` scaling; and with LongRoPE the original context.
pub(super) fn read(
    c: &Config,
    keys: &mut Keys<'_>,
    head_dim: usize,
    pairing: Pairing,
    supported: &[Scaling],
) -> Result<(Rope, Option<usize>), Error> {
    let dims = keys.size_or("rope.dimension_count", head_dim)?;
    if !dims.is_multiple_of(2) || dims > head_dim {
        let expected = format!("an even number up to the key's width {head_dim}");
        return Err(keys.bad("rope.dimension_count", dims, expected));
    }
    let theta = keys.positive_or("rope.freq_base", 10_000.0)?;
    let (scaling, factor) = scaling(keys, supported)?;
    let magnitude = keys.positive_or("rope.scaling.attn_factor", 1.0)?;
    let rope = Rope { dims, scale: 1.0 / factor, magnitude, ..Rope::new(head_dim, pairing, theta) };
    Ok(match scaling {
        None | Some(Scaling::Linear) => (rope, None),
        Some(Scaling::Yarn) => (yarn(c, keys, rope, factor)?, None),
        Some(Scaling::LongRope) => (rope, Some(original_context(c, keys)?)),
    })
}

/// Checks that RoPE by several coordinates, for text all equal, rotates all pairs: each must belong to a coordinate.
pub(crate) fn check_sections(keys: &mut Keys<'_>, attention: &Attention) -> Result<(), Error> {
    let name = "rope.dimension_sections";
    let sections = keys.counts(name)?;
    let pairs = attention.rope.map_or(0, |rope| rope.dims / 2);
    let section = |pair: usize| sections.get(pair % 3).copied().unwrap_or(0) as usize;
    if sections.is_empty() || (0..pairs).all(|pair| pair < 3 * section(pair)) {
        return Ok(());
    }
    Err(keys.bad(name, format!("{sections:?}"), format!("sections that include all {pairs} pairs")))
}

impl Attention {
    /// Adds the file's frequency divisors. LongRoPE requires them.
    pub(crate) fn add_rope_factors(&mut self, ctx: &mut GraphContext<'_>) {
        let Some(rope) = &mut self.rope else { return };
        let pairs = rope.dims / 2;
        if let Some(original_context) = self.long_rope {
            rope.factors = Some(ctx.g.weight("rope_factors_short.weight", 1, pairs));
            let factors = ctx.g.weight("rope_factors_long.weight", 1, pairs);
            rope.long_factors = Some(LongFactors { original_context, factors });
        } else if ctx.has("rope_freqs.weight") {
            rope.factors = Some(ctx.g.weight("rope_freqs.weight", 1, pairs));
        }
    }
}

/// The kind of scaling, by default linear, and its factor by the new key, or else the old one; 0 means 1.
fn scaling(keys: &mut Keys<'_>, supported: &[Scaling]) -> Result<(Option<Scaling>, f32), Error> {
    let name = "rope.scaling.type";
    let kind = keys.string(name)?.unwrap_or("linear").to_owned();
    let [new, old] = ["rope.scaling.factor", "rope.scale_linear"];
    let older = keys.float(old)?;
    let (factor_key, factor) = match keys.float(new)? {
        Some(factor) => (new, factor),
        None => (old, older.unwrap_or(0.0)),
    };
    if kind == "none" {
        keys.mark(name, "none");
        return Ok((None, 1.0));
    }
    let Some(&scaling) = supported.iter().find(|scaling| scaling.name() == kind) else {
        return Err(keys.unsupported(name, Value::String(kind).to_string(), "this type of RoPE scaling"));
    };
    let factor = if factor == 0.0 { 1.0 } else { factor };
    if !(factor.is_finite() && factor > 0.0 && (1.0 / factor).is_finite()) {
        let expected = "0, or a finite, positive number with a finite inverse";
        return Err(keys.bad(factor_key, factor, expected));
    }
    let is_none = scaling == Scaling::Linear && factor == 1.0;
    keys.mark(name, if is_none { "none" } else { scaling.name() });
    Ok((Some(scaling), factor))
}

pub(crate) fn original_context(c: &Config, keys: &mut Keys<'_>) -> Result<usize, Error> {
    let context = keys.count("rope.scaling.original_context_length")?;
    Ok(if context == 0 { c.context_length } else { context })
}

/// Adds YaRN to `rope`. Pairs that rotate more than `beta_fast` times within the original context are not scaled, those
/// that rotate less than `beta_slow` times are. Queries and keys are multiplied, so that attention stays as sharp.
fn yarn(c: &Config, keys: &mut Keys<'_>, rope: Rope, factor: f32) -> Result<Rope, Error> {
    let context = original_context(c, keys)? as f64;
    let fast = keys.positive_or("rope.scaling.yarn_beta_fast", 32.0)?;
    let slow = keys.positive_or("rope.scaling.yarn_beta_slow", 1.0)?;
    let ext_factor = keys.float_or("rope.scaling.yarn_ext_factor", 1.0)?;
    if !(0.0..=1.0).contains(&ext_factor) {
        return Err(keys.bad("rope.scaling.yarn_ext_factor", ext_factor, "a number from 0 to 1"));
    }
    let multiplier = keys.float_or("rope.scaling.yarn_log_multiplier", 0.0)?;
    if !(multiplier.is_finite() && multiplier >= 0.0) {
        return Err(keys.bad("rope.scaling.yarn_log_multiplier", multiplier, "a finite number from 0 on"));
    }
    let dims = rope.dims as f64;
    let pair = |rotations: f32| {
        let pairs_per_log = dims / (2.0 * f64::from(rope.theta).ln());
        pairs_per_log * (context / (f64::from(rotations) * std::f64::consts::TAU)).ln()
    };
    let (low, high) = (pair(fast).floor().max(0.0), pair(slow).ceil().min(dims - 1.0));
    let magnitude = |multiplier: f32| 1.0 + 0.1 * multiplier * factor.ln().max(0.0);
    let magnitude = if ext_factor == 0.0 { 1.0 } else { magnitude(1.0) / magnitude(multiplier) };
    let yarn = Yarn { low: low as f32, high: high as f32, ext_factor };
    Ok(Rope { yarn: Some(yarn), magnitude: rope.magnitude * magnitude, ..rope })
}
