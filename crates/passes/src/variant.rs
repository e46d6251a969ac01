//! Ways to compute a pass, with the steps they apply to.

use backend::Wanted;
use graph::WeightId;

use crate::StepShape;

/// One way to compute a pass: launches `L`, and the steps they are for.
#[derive(Clone, Debug)]
pub struct Variant<L> {
    /// Maximum number of rows.
    pub max_rows: usize,
    /// Only for steps that split attention over this group of stores.
    pub split: Option<usize>,
    /// Only for steps with one row per sequence.
    pub is_decode: bool,
    /// Only for steps whose attention runs in tiles.
    pub is_tiled: bool,
    /// Only for steps that read this back of the output rows.
    pub wanted: Option<Wanted>,
    /// Only for steps that change logits before tokens are drawn.
    pub is_adjusted: bool,
    /// Only for steps whose rows take tokens of the step before.
    pub follows: bool,
    /// Weights whose values must all be finite in f16.
    pub f16_weights: Vec<WeightId>,
    /// The launches, in order.
    pub launches: Vec<L>,
}

impl<L> Default for Variant<L> {
    fn default() -> Variant<L> {
        Variant {
            max_rows: usize::MAX,
            split: None,
            is_decode: false,
            is_tiled: false,
            wanted: None,
            is_adjusted: false,
            follows: false,
            f16_weights: Vec::new(),
            launches: Vec::new(),
        }
    }
}

impl<L> Variant<L> {
    /// A variant for all steps.
    pub fn always(launches: Vec<L>) -> Variant<L> {
        Variant { launches, ..Variant::default() }
    }

    /// The same with each launch built by `build`.
    ///
    /// # Errors
    /// The first of `build`.
    pub fn build<B, E>(self, build: impl FnMut(L) -> Result<B, E>) -> Result<Variant<B>, E> {
        let Variant {
            max_rows,
            split,
            is_decode,
            is_tiled,
            wanted,
            is_adjusted,
            follows,
            f16_weights,
            launches,
        } = self;
        let launches = launches.into_iter().map(build).collect::<Result<_, E>>()?;
        Ok(Variant {
            max_rows,
            split,
            is_decode,
            is_tiled,
            wanted,
            is_adjusted,
            follows,
            f16_weights,
            launches,
        })
    }

    /// The first of `variants` that applies to a pass of `rows` rows in a step of this shape; the last one applies to all.
    pub fn choose<'a>(
        variants: &'a [Variant<L>],
        rows: usize,
        shape: &StepShape,
        fits_f16: impl Fn(WeightId) -> bool,
    ) -> &'a Variant<L> {
        let is_for = |variant: &&Variant<L>| variant.is_for(rows, shape, &fits_f16);
        variants.iter().find(is_for).expect("the last variant applies to all steps")
    }

    fn is_for(&self, rows: usize, shape: &StepShape, fits_f16: impl Fn(WeightId) -> bool) -> bool {
        rows <= self.max_rows
            && self.split.is_none_or(|group| shape.splits[group] > 1)
            && (!self.is_decode || shape.is_decode)
            && (!self.is_tiled || shape.tiles > 0)
            && self.wanted.is_none_or(|wanted| wanted == shape.wanted)
            && (!self.is_adjusted || shape.is_adjusted)
            && (!self.follows || shape.follows)
            && self.f16_weights.iter().all(|&weight| fits_f16(weight))
    }
}
