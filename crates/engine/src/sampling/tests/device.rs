//! A device that draws as the draw says gives the sampler's token.

use backend::{Draw, Filter};
use proptest::prelude::*;

use super::best::{logits, params};
use super::*;

const HISTORY: [u32; 5] = [7, 3, 7, 9, 3];

fn draw(sampling: Params, before: &[u32]) -> Option<Draw> {
    sampler(sampling).expect("parameters in range").draw(before)
}

#[test]
fn the_default_samplers_are_a_draw() {
    let penalised = Params { frequency_penalty: 0.5, repeat_last_n: Some(4), ..Params::default() };
    let logit_bias = [(8, 1.0), (2, -1.0), (8, 0.5)].map(crate::params::Bias::from).to_vec();
    let found = draw(Params { logit_bias, ..penalised.clone() }, &HISTORY).expect("a draw");
    assert_eq!(*found.biases, [(2, -1.0), (8, 1.0), (8, 0.5)]);
    assert_eq!(found.top_k, 40);
    assert_eq!(*found.filters, [Filter::TopP(0.95), Filter::MinP(0.05), Filter::Temperature(0.8)]);
    // The window of four has the last three of these, and the row's own token.
    assert_eq!(found.penalties.expect("penalties").counts, [(3, 1), (7, 1), (9, 1)]);
    let own_alone = draw(Params { repeat_last_n: Some(1), ..penalised.clone() }, &HISTORY).expect("a draw");
    assert_eq!(own_alone.penalties.expect("penalties").counts, []);
    let all = draw(Params { repeat_last_n: None, ..penalised }, &HISTORY).expect("a draw");
    assert_eq!(all.penalties.expect("penalties").counts, [(3, 2), (7, 2), (9, 1)]);
    let greedy = Params { temperature: 0.0, logit_bias: vec![(1, 2.0).into()], ..Params::default() };
    let greedy = draw(greedy, &[]).expect("a draw");
    assert_eq!((greedy.top_k, &*greedy.filters), (1, &[][..]));
}

#[test]
fn draws_may_consider_all_tokens() {
    let many = draw(Params { top_k: 5000, ..Params::default() }, &HISTORY).expect("a draw");
    assert_eq!(many.top_k, 5000);
    let presence_penalty = 0.5;
    let all = draw(Params { top_k: 0, presence_penalty, ..Params::default() }, &HISTORY).expect("a draw");
    assert_eq!(all.top_k, 0);
    assert!(all.penalties.is_some());
    assert_eq!(*all.filters, [Filter::TopP(0.95), Filter::MinP(0.05), Filter::Temperature(0.8)]);
    let hot = Params { temperature: 1.5, top_p: 0.9, ..off() };
    let samplers = vec![SamplerKind::Temperature, SamplerKind::TopP];
    let first = draw(Params { samplers, ..hot }, &HISTORY).expect("a draw");
    assert_eq!((first.top_k, &*first.filters), (0, &[Filter::Temperature(1.5), Filter::TopP(0.9)][..]));
    let as_they_are = draw(off(), &HISTORY).expect("a draw");
    assert_eq!((as_they_are.top_k, &*as_they_are.filters), (0, &[][..]));
}

#[test]
fn what_a_device_cannot_do_is_no_draw() {
    let seed = Some(1);
    for sampling in [
        Params::greedy(),
        Params { typical_p: 0.5, ..Params::default() },
        Params { top_n_sigma: 1.0, ..Params::default() },
        Params { xtc_probability: 0.5, xtc_threshold: 0.1, ..Params::default() },
        Params { dry_multiplier: 0.8, ..Params::default() },
        Params { dynatemp_range: 0.5, dynatemp_exponent: 1.0, ..Params::default() },
        Params { mirostat: 2, mirostat_tau: 5.0, mirostat_eta: 0.1, seed, ..off() },
        Params { samplers: vec![SamplerKind::TopP, SamplerKind::TopK], ..Params::default() },
        Params {
            samplers: vec![SamplerKind::TopK, SamplerKind::Penalties],
            presence_penalty: 1.0,
            ..Params::default()
        },
    ] {
        assert_eq!(draw(sampling.clone(), &HISTORY), None, "{sampling:?}");
    }
    let far = Params { repeat_last_n: None, presence_penalty: 1.0, ..Params::default() };
    assert!(draw(far.clone(), &[5; Draw::MAX_ENTRIES]).is_some());
    assert_eq!(draw(far, &[5; Draw::MAX_ENTRIES + 1]), None);
}

/// Half of the probability is one of two equal logits, the one of the lower id.
#[test]
fn zeros_of_both_signs_are_equal() {
    for logits in [[-0.0, 0.0], [0.0, -0.0]] {
        let half = Params { top_k: 2, top_p: 0.5, seed: Some(1), ..off() };
        let mut sampler = sampler(half).expect("parameters in range");
        for len in 1..20 {
            assert_eq!(sampler.sample(&logits, &vec![9; len]), Ok(0));
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(8_000))]

    #[test]
    fn a_draw_gives_the_token_of_all_logits(
        logits in logits(),
        sampling in params(),
        temperature in prop::sample::select(vec![0.0f32, 0.6, 1.0, 1e-6, 100.0]),
        history in prop::collection::vec(0u32..12, 1..24),
    ) {
        // Without what no device does.
        let (typical_p, top_n_sigma, xtc_probability, dry_multiplier) = (1.0, 0.0, 0.0, 0.0);
        let sampling =
            Params { temperature, typical_p, top_n_sigma, xtc_probability, dry_multiplier, ..sampling };
        let mut sampler = sampler(sampling).expect("parameters in range");
        for len in (1..=history.len()).step_by(3) {
            let (own, before) = history[..len].split_last().expect("a token");
            let Some(draw) = sampler.draw(before) else { return Ok(()) };
            let found = sampler.sample(&logits, &history[..len]).ok();
            prop_assert!(testkit::is_drawn(found, &logits, &draw, *own), "{:?} after {:?}: {:?}", draw, own, found);
        }
    }
}
