//! The sampler against llama.cpp's (`tools/goldens/sampling.py`), and what has no counterpart there.

mod best;
mod device;

use std::sync::{Arc, LazyLock};

use serde::Deserialize;

use super::*;
use crate::candidates::{self, Candidate};

/// The vocabulary of the test models, 512 tokens.
static TOKENIZER: LazyLock<Tokenizer> =
    LazyLock::new(|| Tokenizer::from_metadata(&testkit::fixtures::small().metadata()).expect("a good file"));

fn sampler(sampling: Params) -> Result<Sampler, SamplingError> {
    Sampler::new(sampling, Vec::new(), &TOKENIZER)
}

#[derive(Deserialize)]
struct Case {
    seed: u64,
    n: usize,
    #[serde(default)]
    history: Vec<u32>,
    options: serde_json::Map<String, serde_json::Value>,
    kept: Kept,
    #[serde(default)]
    changed: Vec<(u32, f32)>,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Kept {
    All(#[expect(dead_code, reason = "the word `all`")] String),
    Ids(Vec<u32>),
}

/// The logits of a case, made as the script makes them.
fn logits(seed: u64, n: usize) -> Vec<f32> {
    let mut random = SplitMix64(seed);
    (0..n).map(|_| (random.next_u64() >> 40) as f32 / (1 << 20) as f32 - 8.0).collect()
}

/// All off, then what the case says.
fn params(options: &serde_json::Map<String, serde_json::Value>) -> Params {
    let mut params = off();
    for (name, value) in options {
        params.set(name, value).unwrap();
    }
    params
}

fn off() -> Params {
    Params { temperature: 1.0, top_k: 0, top_p: 1.0, min_p: 0.0, seed: Some(1), ..Params::default() }
}

/// The token whatever the seed is: a draw that only happens to give it is no proof of temperature 0.
fn with_any_seed(logits: &[f32], tokens: &[u32], sampling: Params) -> Result<u32, SamplingError> {
    let sample = |seed| {
        let seed = Some(seed);
        sampler(Params { seed, ..sampling.clone() })?.sample(logits, tokens)
    };
    let first = sample(0);
    (1..64).for_each(|seed| assert_eq!(sample(seed), first, "seed {seed}"));
    first
}

#[test]
fn every_filter_keeps_what_llama_cpp_keeps() {
    let cases: Vec<Case> = serde_json::from_str(include_str!("../../goldens/sampling.json")).unwrap();
    assert_eq!(cases.len(), 99);
    for case in cases {
        let what = format!("seed {}, n {}, {:?}", case.seed, case.n, case.options);
        let before = logits(case.seed, case.n);
        let mut sampler = sampler(params(&case.options)).unwrap();
        sampler.sample(&before, &case.history).unwrap();
        let mut kept: Vec<u32> = sampler.candidates.iter().map(|candidate| candidate.id).collect();
        kept.sort_unstable();
        match case.kept {
            Kept::All(_) => assert_eq!(kept.len(), case.n, "{what}"),
            Kept::Ids(ids) => assert_eq!(kept, ids, "{what}"),
        }
        let changed: Vec<(u32, f32)> = sampler
            .candidates
            .iter()
            .filter(|candidate| candidate.logit != before[candidate.id as usize])
            .map(|candidate| (candidate.id, candidate.logit))
            .collect();
        assert_eq!(changed, case.changed, "{what}");
    }
}

#[test]
fn temperature_zero_is_argmax_and_ignores_the_filters() {
    let ties = [1.0, 5.0, -2.0, 5.0, 4.0];
    let sampling = Params { temperature: 0.0, top_k: 3, top_p: 0.0, typical_p: 0.1, ..Params::default() };
    assert_eq!(with_any_seed(&ties, &[], sampling), Ok(1), "ties go to the lowest id");
    let biased = Params { logit_bias: vec![(4, 1.5).into()], ..Params::greedy() };
    assert_eq!(with_any_seed(&ties, &[], biased), Ok(4));
    let banned = Params { logit_bias: vec![(1, f32::NEG_INFINITY).into()], ..Params::greedy() };
    assert_eq!(with_any_seed(&ties, &[], banned), Ok(3));
    let penalised = Params { presence_penalty: 0.5, ..Params::greedy() };
    assert_eq!(with_any_seed(&ties, &[1, 1], penalised), Ok(3));
}

#[test]
fn draws_follow_the_softmax() {
    let logits = [0.0, 1.0, 2.0, -1.0];
    let temperature = 0.5;
    let weights = logits.map(|logit: f64| (logit / f64::from(temperature)).exp());
    let total: f64 = weights.iter().sum();
    let mut sampler = sampler(Params { temperature, ..off() }).unwrap();
    let mut counts = [0; 4];
    let tokens = [0; 100_000];
    for n in 0..tokens.len() {
        counts[sampler.sample(&logits.map(|logit| logit as f32), &tokens[..n]).unwrap() as usize] += 1;
    }
    for (weight, count) in weights.into_iter().zip(counts) {
        let (expected, found) = (weight / total, f64::from(count) / 100_000.0);
        let error = (expected * (1.0 - expected) / 100_000.0).sqrt();
        assert!((found - expected).abs() < 5.0 * error, "{found} for {expected}");
    }
}

#[test]
fn a_seed_gives_the_same_tokens_for_ever() {
    let logits = logits(3, 1000);
    let mut sampler = sampler(Params { seed: Some(42), ..Params::default() }).unwrap();
    let tokens: Vec<u32> = (0..8).map(|n| sampler.sample(&logits, &vec![0; n]).unwrap()).collect();
    assert_eq!(tokens, FOR_EVER);
}

#[test]
fn a_text_can_be_continued_from_any_token() {
    let sampling = || Params { seed: Some(9), xtc_probability: 0.5, xtc_threshold: 0.0, ..off() };
    let continued = |mut tokens: Vec<u32>| {
        let mut sampler = sampler(sampling()).unwrap();
        while tokens.len() < 40 {
            tokens.push(sampler.sample(&logits(tokens.len() as u64, 100), &tokens).unwrap());
        }
        tokens
    };
    let whole = continued(Vec::new());
    for n in [1, 7, 39] {
        assert_eq!(continued(whole[..n].to_vec()), whole);
    }
}

/// Printed by `tools/goldens/sampling.py`.
const FOR_EVER: [u32; 8] = [701, 299, 397, 430, 108, 865, 323, 787];

#[test]
fn a_random_seed_is_reported() {
    for seed in [None, Some(u32::MAX)] {
        let seed = || sampler(Params { seed, ..off() }).unwrap().seed();
        let seeds = [seed(), seed(), seed()];
        assert!(!seeds.contains(&u32::MAX) && seeds != [seeds[0]; 3]);
    }
    assert_eq!(sampler(Params { seed: Some(7), ..off() }).unwrap().seed(), 7);
}

#[test]
fn impossible_logits_are_errors() {
    let none = [f32::NEG_INFINITY; 3];
    for temperature in [0.0, 1.0] {
        let mut sampler = sampler(Params { temperature, ..off() }).unwrap();
        assert_eq!(sampler.sample(&none, &[]), Err(SamplingError::NoToken));
        assert_eq!(sampler.sample(&[], &[]), Err(SamplingError::NoToken));
        for broken in [f32::NAN, f32::INFINITY] {
            let error = sampler.sample(&[0.0, broken], &[]).unwrap_err();
            assert!(matches!(error, SamplingError::Logit { token: 1, .. }), "{error}");
        }
        assert_eq!(sampler.sample(&[f32::NEG_INFINITY, f32::MIN], &[]), Ok(1));
        assert!(sampler.sample(&[f32::MAX, f32::MIN, 0.0], &[]).is_ok());
    }
    let error = sampler(Params { logit_bias: vec![(512, 1.0).into()], ..off() }).unwrap_err();
    assert_eq!(error, SamplingError::Bias { token: 512, n_vocab: 512 });
}

#[test]
fn a_banned_token_stays_banned_whatever_the_penalties_are() {
    let logits = [0.0, 1.0, 9.0];
    for penalty in [-2.0, 2.0] {
        for (temperature, repeat_penalty) in [(0.0, 1.0), (1.0, 0.01), (1.0, 100.0)] {
            let sampling = Params {
                temperature,
                repeat_penalty,
                frequency_penalty: penalty,
                presence_penalty: penalty,
                logit_bias: vec![(2, f32::NEG_INFINITY).into()],
                ..off()
            };
            let token = sampler(sampling).unwrap().sample(&logits, &[2, 2]);
            assert!(matches!(token, Ok(0 | 1)), "{token:?}");
        }
    }
}

/// To find them takes a while: the server does so before a request reaches the engine's thread.
#[test]
fn sequence_breakers_are_found_once_and_ahead() {
    let (breakers, dry) = (Breakers::default(), Params { dry_multiplier: 1.0, ..off() });
    prepare(&off(), &breakers, &TOKENIZER);
    assert!(!breakers.has(&dry.dry_sequence_breakers), "nobody needs them");
    prepare(&dry, &breakers, &TOKENIZER);
    assert!(breakers.has(&dry.dry_sequence_breakers));
    let found = breakers.of(&dry.dry_sequence_breakers, &TOKENIZER);
    assert!(Arc::ptr_eq(&found, &breakers.of(&dry.dry_sequence_breakers, &TOKENIZER)));
    for number in 0..20 {
        breakers.of(&[number.to_string()], &TOKENIZER);
    }
    assert!(!breakers.has(&dry.dry_sequence_breakers), "the memory is bounded");
}

#[test]
fn no_parameters_in_range_break_a_draw() {
    let mut random = SplitMix64(9);
    for round in 0..2_000 {
        let mut pick = |values: &[f32]| values[(random.next_u64() % values.len() as u64) as usize];
        let sampling = Params {
            temperature: pick(&[0.0, 1e-30, 0.7, 1.0, 100.0]),
            top_k: pick(&[0.0, 1.0, 7.0, 300.0]) as usize,
            typical_p: pick(&[0.0, 0.2, 1.0]),
            top_p: pick(&[0.0, 0.5, 0.9999, 1.0]),
            min_p: pick(&[0.0, 0.1, 1.0]),
            repeat_penalty: pick(&[0.01, 0.5, 1.0, 100.0]),
            frequency_penalty: pick(&[-2.0, 0.0, 2.0]),
            top_n_sigma: pick(&[-1.0, 1e-30, 1.0, 100.0]),
            xtc_probability: pick(&[0.0, 0.5, 1.0]),
            xtc_threshold: pick(&[0.0, 0.1, 0.5]),
            dynatemp_range: pick(&[0.0, 1e-6, 100.0]),
            dynatemp_exponent: pick(&[0.0, 1.0, 100.0]),
            dry_multiplier: pick(&[0.0, 1e-30, 100.0]),
            dry_base: pick(&[1.0, 1.75, 100.0]),
            dry_allowed_length: pick(&[0.0, 2.0]) as usize,
            mirostat: pick(&[0.0, 0.0, 0.0, 1.0, 2.0]) as usize,
            mirostat_tau: pick(&[0.0, 5.0, 100.0]),
            mirostat_eta: pick(&[0.0, 0.1, 100.0]),
            samplers: {
                let first = pick(&[0.0, 3.0, 6.0, 8.0]) as usize;
                let (end, start) = SamplerKind::DEFAULT.split_at(first);
                [start, end].concat()
            },
            ..off()
        };
        let values: Vec<f32> = (0..200)
            .map(|_| pick(&[0.0, -0.0, 1.0, -3.5, 80.0, f32::MAX, f32::MIN, f32::NEG_INFINITY]))
            .collect();
        let mut drawn = sampler(sampling.clone()).unwrap();
        drawn.sample(&values, &[1, 2, 2, 500]).unwrap();
        let token = drawn.sample(&values, &[1, 2, 1, 2, 2, 500]);
        let possible = |token: u32| values[token as usize] > f32::NEG_INFINITY;
        assert!(
            token.as_ref().is_ok_and(|&token| possible(token)),
            "round {round}: {token:?} with {sampling:?}"
        );
    }
}

/// A case of `tools/goldens/samplers.py`, of one of three kinds.
#[derive(Deserialize)]
struct Other {
    seed: u64,
    n: usize,
    #[serde(default)]
    history: Vec<u32>,
    options: serde_json::Map<String, serde_json::Value>,
    #[serde(flatten)]
    expected: Expected,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Expected {
    /// Tokens that are possible, and how probable.
    Kept { ids: Vec<u32>, probabilities: Vec<f64> },
    /// Logits that DRY changes.
    Changed { changed: Vec<(u32, f32)> },
    /// How many tokens Mirostat keeps, and which is drawn.
    Steps { steps: Vec<(usize, u32)> },
}

#[test]
fn every_other_sampler_does_what_llama_cpp_does() {
    let cases: Vec<Other> = serde_json::from_str(include_str!("../../goldens/samplers.json")).unwrap();
    assert_eq!(cases.len(), 178);
    for case in cases {
        let what = format!("seed {}, n {}, {:?}", case.seed, case.n, case.options);
        let sampling = params(&case.options);
        let before = logits(case.seed, case.n);
        let mut drawn = sampler(sampling.clone()).unwrap();
        match case.expected {
            Expected::Kept { ids, probabilities } => {
                drawn.sample(&before, &case.history).unwrap();
                let kept = &mut drawn.candidates;
                kept.sort_unstable_by_key(|candidate| candidate.id);
                assert_eq!(kept.iter().map(|candidate| candidate.id).collect::<Vec<_>>(), ids, "{what}");
                let (weights, total) = candidates::weights(kept);
                for (weight, expected) in weights.iter().zip(probabilities) {
                    let found = weight / total;
                    assert!((found - expected).abs() < 2e-6, "{what}: {found} for {expected}");
                }
            }
            Expected::Changed { changed } => {
                drawn.sample(&before, &case.history).unwrap();
                let is_changed = |c: &&Candidate| c.logit != before[c.id as usize];
                let found: Vec<&Candidate> = drawn.candidates.iter().filter(is_changed).collect();
                assert_eq!(found.len(), changed.len(), "{what}");
                for (found, (id, expected)) in found.into_iter().zip(changed) {
                    assert_eq!(found.id, id, "{what}");
                    let error = (found.logit - expected).abs() / expected.abs().max(1.0);
                    assert!(error < 1e-6, "{what}: {} for {expected}", found.logit);
                }
            }
            // The draws are ours, so those of llama.cpp are observed in their place.
            Expected::Steps { steps } => {
                let mut state = mirostat::MirostatState::new(&sampling).unwrap();
                for (step, (size, token)) in steps.into_iter().enumerate() {
                    let uneven = |logit: f32| logit * logit.abs() / 8.0;
                    let values = logits(case.seed + step as u64, case.n).into_iter().map(uneven);
                    let mut kept: Vec<Candidate> =
                        values.zip(0..).map(|(logit, id)| Candidate { id, logit }).collect();
                    state.truncate(&mut kept, case.n);
                    assert_eq!(kept.len(), size, "{what}, step {step}");
                    state.observe(candidates::probability(&kept, token));
                }
            }
        }
    }
}

#[test]
fn xtc_acts_as_often_as_it_is_asked_to() {
    let mut drawn = sampler(Params { xtc_probability: 0.3, xtc_threshold: 0.2, ..off() }).unwrap();
    let tokens = [0; 10_000];
    let acted = (0..tokens.len()).filter(|&n| {
        drawn.sample(&[1.0, 0.9, -3.0], &tokens[..n]).unwrap();
        drawn.candidates.len() == 2
    });
    let share = acted.count() as f64 / 10_000.0;
    assert!((share - 0.3).abs() < 0.023, "{share}");
}

#[test]
fn mirostat_holds_the_surprise() {
    for mirostat in [1, 2] {
        let mut drawn = sampler(Params { mirostat, mirostat_tau: 2.0, top_k: 1, ..off() }).unwrap();
        let values: Vec<f32> = logits(7, 512).into_iter().map(|logit| logit * logit.abs() / 8.0).collect();
        let tokens = [0; 2_000];
        let surprise = |n: usize| {
            let token = drawn.sample(&values, &tokens[..n]).unwrap();
            -candidates::probability(&drawn.candidates, token).log2()
        };
        let mean = (0..2_000).map(surprise).skip(200).sum::<f64>() / 1_800.0;
        assert!((mean - 2.0).abs() < 0.15, "version {mirostat}: {mean} bits");
    }
}

#[test]
fn a_seed_gives_the_same_tokens_with_every_sampler() {
    let sampling = Params {
        seed: Some(5),
        xtc_probability: 0.5,
        xtc_threshold: 0.1,
        dynatemp_range: 0.5,
        dynatemp_exponent: 1.0,
        dry_multiplier: 0.8,
        ..Params::default()
    };
    let run = || {
        let (mut drawn, mut tokens) = (sampler(sampling.clone()).unwrap(), vec![1, 2]);
        for step in 0..50 {
            let token = drawn.sample(&logits(step % 3, 512), &tokens).unwrap();
            tokens.push(token);
        }
        tokens
    };
    assert_eq!(run(), run());
}

#[test]
fn samplers_have_names_and_letters() {
    for &kind in SamplerKind::DEFAULT {
        assert_eq!(kind.name().parse(), Ok(kind));
        assert_eq!(SamplerKind::from_letter(kind.letter()), Ok(kind));
    }
    assert_eq!("top-n-sigma".parse(), Ok(SamplerKind::TopNSigma));
    assert_eq!("typical_p".parse(), Ok(SamplerKind::TypicalP));
    let error = "infill".parse::<SamplerKind>().unwrap_err().to_string();
    assert!(error.contains("infill") && error.contains("top_k (k)") && error.contains("xtc (x)"), "{error}");
}
