//! A device that draws as the draw says gives the sampler's token.

use backend::{Draw, Filter};
use proptest::prelude::*;

use super::best::{logits, sampling};
use super::*;

const HISTORY: [u32; 5] = [7, 3, 7, 9, 3];

fn draw(sampling: Sampling, before: &[u32]) -> Option<Draw> {
    sampler(sampling).expect("parameters in range").draw(before)
}

#[test]
fn the_default_samplers_are_a_draw() {
    let penalised = Sampling { frequency_penalty: 0.5, penalty_last_n: 4, ..Sampling::default() };
    let logit_bias = vec![(8, 1.0), (2, -1.0), (8, 0.5)];
    let found = draw(Sampling { logit_bias, ..penalised.clone() }, &HISTORY).expect("a draw");
    assert_eq!(*found.biases, [(2, -1.0), (8, 1.0), (8, 0.5)]);
    assert_eq!(found.top_k, 40);
    assert_eq!(*found.filters, [Filter::TopP(0.95), Filter::MinP(0.05), Filter::Temperature(0.8)]);
    // The window of four has the last three of these, and the row's own token.
    assert_eq!(found.penalties.expect("penalties").counts, [(3, 1), (7, 1), (9, 1)]);
    let own_alone = draw(Sampling { penalty_last_n: 1, ..penalised.clone() }, &HISTORY).expect("a draw");
    assert_eq!(own_alone.penalties.expect("penalties").counts, []);
    let all = draw(Sampling { penalty_last_n: usize::MAX, ..penalised }, &HISTORY).expect("a draw");
    assert_eq!(all.penalties.expect("penalties").counts, [(3, 2), (7, 2), (9, 1)]);
    let greedy = Sampling { temperature: 0.0, logit_bias: vec![(1, 2.0)], ..Sampling::default() };
    let greedy = draw(greedy, &[]).expect("a draw");
    assert_eq!((greedy.top_k, &*greedy.filters), (1, &[][..]));
}

#[test]
fn draws_may_consider_all_tokens() {
    let many = draw(Sampling { top_k: 5000, ..Sampling::default() }, &HISTORY).expect("a draw");
    assert_eq!(many.top_k, 5000);
    let presence_penalty = 0.5;
    let all = draw(Sampling { top_k: 0, presence_penalty, ..Sampling::default() }, &HISTORY).expect("a draw");
    assert_eq!(all.top_k, 0);
    assert!(all.penalties.is_some());
    assert_eq!(*all.filters, [Filter::TopP(0.95), Filter::MinP(0.05), Filter::Temperature(0.8)]);
    let hot = Sampling { temperature: 1.5, top_p: 0.9, ..off() };
    let samplers = vec![SamplerKind::Temperature, SamplerKind::TopP];
    let first = draw(Sampling { samplers, ..hot }, &HISTORY).expect("a draw");
    assert_eq!((first.top_k, &*first.filters), (0, &[Filter::Temperature(1.5), Filter::TopP(0.9)][..]));
    let as_they_are = draw(off(), &HISTORY).expect("a draw");
    assert_eq!((as_they_are.top_k, &*as_they_are.filters), (0, &[][..]));
}

#[test]
fn what_a_device_cannot_do_is_no_draw() {
    let seed = Some(1);
    for sampling in [
        Sampling::greedy(),
        Sampling { typical_p: 0.5, ..Sampling::default() },
        Sampling { top_n_sigma: 1.0, ..Sampling::default() },
        Sampling { xtc: Xtc { probability: 0.5, threshold: 0.1 }, ..Sampling::default() },
        Sampling { dry: Dry { multiplier: 0.8, ..Dry::default() }, ..Sampling::default() },
        Sampling {
            dynamic_temperature: DynamicTemperature { range: 0.5, exponent: 1.0 },
            ..Sampling::default()
        },
        Sampling {
            mirostat: Some(Mirostat { version: MirostatVersion::V2, tau: 5.0, eta: 0.1 }),
            seed,
            ..off()
        },
        Sampling { samplers: vec![SamplerKind::TopP, SamplerKind::TopK], ..Sampling::default() },
        Sampling {
            samplers: vec![SamplerKind::TopK, SamplerKind::Penalties],
            presence_penalty: 1.0,
            ..Sampling::default()
        },
    ] {
        assert_eq!(draw(sampling.clone(), &HISTORY), None, "{sampling:?}");
    }
    let far = Sampling { penalty_last_n: usize::MAX, presence_penalty: 1.0, ..Sampling::default() };
    assert!(draw(far.clone(), &[5; Draw::MAX_ENTRIES]).is_some());
    assert_eq!(draw(far, &[5; Draw::MAX_ENTRIES + 1]), None);
}

/// Half of the probability is one of two equal logits, the one of the lower id.
#[test]
fn zeros_of_both_signs_are_equal() {
    for logits in [[-0.0, 0.0], [0.0, -0.0]] {
        let half = Sampling { top_k: 2, top_p: 0.5, seed: Some(1), ..off() };
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
        sampling in sampling(),
        temperature in prop::sample::select(vec![0.0f32, 0.6, 1.0, 1e-6, 1e30]),
        history in prop::collection::vec(0u32..12, 1..24),
    ) {
        // Without what no device does.
        let (typical_p, top_n_sigma) = (1.0, 0.0);
        let (xtc, dry) = (Xtc { probability: 0.0, threshold: 0.1 }, Dry::default());
        let sampling = Sampling { temperature, typical_p, top_n_sigma, xtc, dry, ..sampling };
        let mut sampler = sampler(sampling).expect("parameters in range");
        for len in (1..=history.len()).step_by(3) {
            let (own, before) = history[..len].split_last().expect("a token");
            let Some(draw) = sampler.draw(before) else { return Ok(()) };
            let found = sampler.sample(&logits, &history[..len]).ok();
            prop_assert!(testkit::is_drawn(found, &logits, &draw, *own), "{:?} after {:?}: {:?}", draw, own, found);
        }
    }
}
