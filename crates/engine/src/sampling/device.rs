//! Sampling that a device can do: what it needs to know of each draw.

use std::collections::BTreeMap;
use std::sync::Arc;

use backend::{Draw, Filter, Penalties};

use super::last;
use crate::params::{Params, SamplerKind};
use crate::random::SplitMix64;

/// How a request's tokens are drawn on a device: what all of its draws have in common.
#[derive(Clone, Debug)]
pub(super) struct DeviceSampling {
    seed: u64,
    biases: Arc<[(u32, f32)]>,
    /// Repeat, frequency and presence penalty.
    penalties: Option<[f32; 3]>,
    /// Number of last tokens that these consider.
    window: usize,
    top_k: usize,
    filters: Arc<[Filter]>,
}

impl DeviceSampling {
    /// That of samplers in `order`, which all have an effect; `None` if a device does not have them. It has penalties, then top-k,
    /// then any of top-p, min-p and temperature; any of these may be missing.
    pub(super) fn new(
        params: &Params,
        logit_bias: &[(u32, f32)],
        order: &[SamplerKind],
        is_greedy: bool,
        seed: u32,
    ) -> Option<DeviceSampling> {
        let (penalties, order) = match order {
            [SamplerKind::Penalties, order @ ..] => {
                let Params { repeat_penalty, frequency_penalty, presence_penalty, .. } = *params;
                (Some([repeat_penalty, frequency_penalty, presence_penalty]), order)
            }
            order => (None, order),
        };
        let (top_k, order) = match order {
            [] if is_greedy => (1, order),
            [SamplerKind::TopK, order @ ..] => (params.top_k, order),
            order => (0, order),
        };
        let filter = |kind: &SamplerKind| match kind {
            SamplerKind::TopP => Some(Filter::TopP(params.top_p)),
            SamplerKind::MinP => Some(Filter::MinP(params.min_p)),
            SamplerKind::Temperature if params.dynatemp_range <= 0.0 => {
                Some(Filter::Temperature(params.temperature))
            }
            _ => None,
        };
        let filters: Arc<[Filter]> = order.iter().map(filter).collect::<Option<_>>()?;
        if params.mirostat != 0 || filters.len() > Draw::MAX_FILTERS {
            return None;
        }
        let mut biases = logit_bias.to_vec();
        // Stable: those of one token are added in their order.
        biases.sort_by_key(|(id, _)| *id);
        let (seed, biases, window) = (u64::from(seed), biases.into(), last(params.repeat_last_n));
        Some(DeviceSampling { seed, biases, penalties, window, top_k, filters })
    }

    /// The draw after `before` and one more token, which need not be known. `None` if there are more biases and tokens to penalise than
    /// a device takes.
    pub(super) fn draw(&self, before: &[u32]) -> Option<Draw> {
        let seen = match self.penalties {
            // The token that is not known is the last one of the window.
            Some(_) => &before[before.len().saturating_sub(self.window.saturating_sub(1))..],
            None => &[],
        };
        if self.biases.len() + seen.len() > Draw::MAX_ENTRIES {
            return None;
        }
        let penalties = self.penalties.map(|[repeat, frequency, presence]| {
            let mut counts = BTreeMap::new();
            seen.iter().for_each(|token| *counts.entry(*token).or_default() += 1);
            Penalties { repeat, frequency, presence, counts: counts.into_iter().collect() }
        });
        let u = SplitMix64::nth_f64(self.seed, before.len() + 1);
        let (biases, filters) = (self.biases.clone(), self.filters.clone());
        Some(Draw { u, biases, penalties, top_k: self.top_k, filters })
    }
}
