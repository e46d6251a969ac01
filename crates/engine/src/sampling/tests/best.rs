//! The best candidates give the token that all logits give.

use proptest::prelude::*;
use proptest::sample::select;

use super::*;
use crate::params::Bias;

const NONE: f32 = f32::NEG_INFINITY;

fn needed(sampling: Params) -> Option<usize> {
    sampler(sampling).expect("parameters in range").candidates_needed()
}

#[test]
fn as_many_candidates_are_needed_as_are_kept_or_lowered() {
    let banned =
        |bias: f32| Params { logit_bias: vec![(3, bias).into(), (4, NONE).into()], ..Params::default() };
    let penalised = Params { repeat_last_n: Some(20), repeat_penalty: 1.1, ..Params::default() };
    assert_eq!(needed(Params::default()), Some(40));
    assert_eq!(needed(banned(-1.0)), Some(42));
    assert_eq!(needed(Params { temperature: 0.0, ..banned(NONE) }), Some(3));
    assert_eq!(needed(penalised.clone()), Some(60));
    assert_eq!(needed(Params { temperature: 0.0, ..penalised.clone() }), Some(21));
    assert_eq!(needed(Params { dry_multiplier: 0.8, dry_penalty_last_n: Some(9), ..penalised }), Some(69));
    assert_eq!(needed(Params { top_k: usize::MAX, ..banned(-1.0) }), None);
    assert_eq!(needed(banned(0.1)), None);
    for samplers in [[SamplerKind::TopP, SamplerKind::TopK], [SamplerKind::Temperature, SamplerKind::TopK]] {
        assert_eq!(needed(Params { samplers: samplers.to_vec(), ..Params::default() }), None);
    }
    for all in [
        Params { top_k: 0, ..Params::default() },
        Params { top_n_sigma: 1.0, ..Params::default() },
        Params { repeat_penalty: 0.9, ..Params::default() },
        Params { frequency_penalty: -0.1, ..Params::default() },
        Params { presence_penalty: -0.1, ..Params::default() },
        Params { dry_multiplier: 0.8, ..Params::default() },
        Params { mirostat: 2, mirostat_tau: 5.0, mirostat_eta: 0.1, ..off() },
    ] {
        assert_eq!(needed(all.clone()), None, "{all:?}");
    }
}

#[test]
fn one_candidate_less_may_give_another_token() {
    let sampling = Params { logit_bias: vec![(0, NONE).into()], ..Params::greedy() };
    let best = [(0, 3.0), (2, 2.0)];
    let sample = |best: &[(u32, f32)]| sampler(sampling.clone())?.sample_best(best, &[]);
    assert_eq!(sample(&best), Ok(2));
    assert_eq!(sample(&best[..1]), Err(SamplingError::RuledOut));
}

/// Ties, -0 and impossible tokens; in some rows values that overflow.
pub(super) fn logits() -> impl Strategy<Value = Vec<f32>> {
    let logit = || prop_oneof![select(vec![0.0, -0.0, 1.0, 1.5, -2.0, NONE]), -2f32..2.0];
    let any = prop_oneof![8 => logit(), 1 => select(vec![f32::MIN, f32::MAX, -1e30])];
    prop_oneof![4 => prop::collection::vec(logit(), 1..150), 1 => prop::collection::vec(any, 1..150)]
}

pub(super) fn params() -> impl Strategy<Value = Params> {
    let filters = (
        select(vec![0.0f32, 0.7, 1.0, 3.0]),
        select(vec![0usize, 1, 2, 5, 9]),
        select(vec![0.3f32, 0.9, 1.0]),
        select(vec![0.0f32, 0.1]),
        select(vec![0.5f32, 1.0]),
        select(vec![0.0f32, 0.5, 1.0]),
        select(vec![-1.0f32, -1.0, -1.0, 1.0]),
    );
    let penalties = (
        select(vec![1.0f32, 1.0, 1.3, 100.0, 0.1]),
        select(vec![0.0f32, 0.0, 0.5, -2.0]),
        select(vec![0.0f32, 0.0, 1.0, 2.0, -2.0]),
        0usize..7,
        (select(vec![0.0f32, 0.0, 0.8]), 0usize..7),
    );
    let bias = (0u32..150, select(vec![NONE, NONE, -1.5, 0.0, -99.0]));
    let biases = (prop::collection::vec(bias, 0..5), prop::option::weighted(0.1, 0u32..150));
    let order = prop_oneof![
        3 => Just(SamplerKind::DEFAULT.to_vec()),
        1 => Just(SamplerKind::DEFAULT.to_vec()).prop_shuffle(),
    ];
    (filters, penalties, biases, order, any::<u32>()).prop_map(
        |(filters, penalties, (mut logit_bias, raised), samplers, seed)| {
            let (temperature, top_k, top_p, min_p, typical_p, xtc, top_n_sigma) = filters;
            let (repeat_penalty, frequency_penalty, presence_penalty, last_n, dry) = penalties;
            logit_bias.extend(raised.map(|id| (id, 2.0)));
            Params {
                temperature,
                top_k,
                top_p,
                min_p,
                typical_p,
                xtc_probability: xtc,
                top_n_sigma,
                repeat_penalty,
                frequency_penalty,
                presence_penalty,
                repeat_last_n: Some(last_n),
                dry_multiplier: dry.0,
                dry_allowed_length: 1,
                dry_penalty_last_n: Some(dry.1),
                dry_sequence_breakers: Vec::new(),
                logit_bias: logit_bias.into_iter().map(Bias::from).collect(),
                samplers,
                seed: Some(seed),
                ..Params::default()
            }
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4_000))]

    #[test]
    fn the_best_candidates_give_the_token_of_all_logits(
        logits in logits(),
        sampling in params(),
        history in prop::collection::vec(0u32..12, 0..24),
    ) {
        let mut from_all = sampler(sampling.clone()).expect("parameters in range");
        let mut from_best = from_all.clone();
        let Some(needed) = from_all.candidates_needed() else { return Ok(()) };
        for len in (0..=history.len()).step_by(4) {
            let tokens = &history[..len];
            let expected = from_all.sample(&logits, tokens);
            for more in [0, 1, 20] {
                let best = testkit::best(&logits, needed + more);
                let found = match best.is_empty() {
                    true => Err(SamplingError::NoToken),
                    false => from_best.sample_best(&best, tokens),
                };
                prop_assert_eq!(&found, &expected, "{} and {} candidates after {:?}", needed, more, tokens);
                prop_assert_eq!(best.is_empty(), expected == Err(SamplingError::NoToken));
            }
        }
    }
}
