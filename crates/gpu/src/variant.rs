//! Ways to compute a pass, with the steps they apply to.

use backend::Transfer;
use graph::WeightId;

use crate::{Draws, StepShape};

/// The steps that some launches are for; by default all.
#[derive(Clone, Debug, Default)]
#[expect(missing_docs, reason = "the names say it")]
pub struct When {
    pub max_rows: Option<usize>,
    /// Only steps that split attention over this group of stores.
    pub split: Option<usize>,
    /// Only steps whose splits over this group of stores are clusters.
    pub in_cluster: Option<usize>,
    /// Only steps with one row per sequence.
    pub is_decode: bool,
    /// Only steps whose attention runs in tiles.
    pub is_tiled: bool,
    /// Only steps that read this back of the output rows.
    pub transfer: Option<Transfer>,
    /// Only steps with all of these.
    pub draws: Draws,
    /// Weights whose values must all be finite in f16.
    pub f16_weights: Vec<WeightId>,
}

impl When {
    /// These launches for these steps.
    pub fn launches<L>(self, launches: Vec<L>) -> Variant<L> {
        Variant { when: self, launches }
    }

    fn is_for(&self, rows: usize, shape: &StepShape, fits_f16: impl Fn(WeightId) -> bool) -> bool {
        self.max_rows.is_none_or(|most| rows <= most)
            && self.split.is_none_or(|group| shape.splits[group] > 1)
            && self.in_cluster.is_none_or(|group| shape.in_clusters[group])
            && (!self.is_decode || shape.is_decode)
            && (!self.is_tiled || shape.tiles > 0)
            && self.transfer.is_none_or(|transfer| transfer == shape.transfer)
            && (!self.draws.is_adjusted || shape.draws.is_adjusted)
            && (!self.draws.best || shape.draws.best)
            && (!self.draws.largest || shape.draws.largest)
            && (!self.draws.all || shape.draws.all)
            && self.f16_weights.iter().all(|&weight| fits_f16(weight))
    }
}

/// One way to compute a pass: launches `L`, in order, and the steps they are for.
#[derive(Clone, Debug)]
#[expect(missing_docs, reason = "see above")]
pub struct Variant<L> {
    pub when: When,
    pub launches: Vec<L>,
}

impl<L> Variant<L> {
    /// A variant for all steps.
    pub fn always(launches: Vec<L>) -> Variant<L> {
        When::default().launches(launches)
    }

    /// No launches, for all steps.
    pub fn nothing() -> Variant<L> {
        Variant::always(Vec::new())
    }

    /// The same with each launch built by `build`.
    pub fn build<B, E>(self, build: impl FnMut(L) -> Result<B, E>) -> Result<Variant<B>, E> {
        Ok(self.when.launches(self.launches.into_iter().map(build).collect::<Result<_, E>>()?))
    }

    /// The first of `variants` that applies to a pass of `rows` rows in a step of this shape; the last one applies to all.
    pub fn choose<'a>(
        variants: &'a [Variant<L>],
        rows: usize,
        shape: &StepShape,
        fits_f16: impl Fn(WeightId) -> bool,
    ) -> &'a Variant<L> {
        let is_for = |variant: &&Variant<L>| variant.when.is_for(rows, shape, &fits_f16);
        variants.iter().find(is_for).expect("the last variant applies to all steps")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clusters_are_for_steps_that_have_them() {
        let in_cluster = |group| When { is_decode: true, in_cluster: Some(group), ..When::default() };
        let variants = [in_cluster(1).launches(vec!["cluster"]), Variant::always(vec!["parts"])];
        let shape = |is_decode, in_clusters: [bool; 2]| StepShape {
            splits: vec![8; 2],
            in_clusters: in_clusters.to_vec(),
            is_decode,
            ..StepShape::default()
        };
        let choose = |shape| Variant::choose(&variants, 1, &shape, |_| true).launches[0];
        assert_eq!(choose(shape(true, [false, true])), "cluster");
        assert_eq!(choose(shape(true, [true, false])), "parts");
        assert_eq!(choose(shape(false, [true, true])), "parts");
    }
}
