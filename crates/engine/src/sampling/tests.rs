//! The sampler against llama.cpp's (`tools/goldens/sampling.py`), and what has no counterpart there.

mod best;
mod device;

use std::str::FromStr;
use std::sync::{Arc, LazyLock};

use serde::Deserialize;

use super::*;
use crate::candidates::{self, Candidate};

/// The vocabulary of the test models, 512 tokens.
static TOKENIZER: LazyLock<Tokenizer> =
    LazyLock::new(|| Tokenizer::from_metadata(&testkit::fixtures::small().metadata()).expect("a good file"));

fn sampler(sampling: Sampling) -> Result<Sampler, SamplingError> {
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
fn sampling(options: &serde_json::Map<String, serde_json::Value>) -> Sampling {
    let mut sampling = off();
    for (name, value) in options {
        let number = value.as_f64().unwrap_or(0.0) as f32;
        match name.as_str() {
            "top_k" => sampling.top_k = number as usize,
            "typical_p" => sampling.typical_p = number,
            "top_p" => sampling.top_p = number,
            "min_p" => sampling.min_p = number,
            "penalty_last_n" => sampling.penalty_last_n = number as usize,
            "repeat_penalty" => sampling.repeat_penalty = number,
            "frequency_penalty" => sampling.frequency_penalty = number,
            "presence_penalty" => sampling.presence_penalty = number,
            "temperature" => sampling.temperature = number,
            "top_n_sigma" => sampling.top_n_sigma = number,
            "dynamic_temperature.range" => sampling.dynamic_temperature.range = number,
            "dynamic_temperature.exponent" => sampling.dynamic_temperature.exponent = number,
            "xtc.probability" => sampling.xtc.probability = number,
            "xtc.threshold" => sampling.xtc.threshold = number,
            "dry.multiplier" => sampling.dry.multiplier = number,
            "dry.base" => sampling.dry.base = number,
            "dry.allowed_length" => sampling.dry.allowed_length = number as usize,
            "dry.penalty_last_n" => sampling.dry.penalty_last_n = number as usize,
            "dry.sequence_breakers" => {
                sampling.dry.sequence_breakers = serde_json::from_value(value.clone()).unwrap();
            }
            "samplers" => {
                let names = value.as_str().unwrap().split(';');
                sampling.samplers = names.map(|name| SamplerKind::from_str(name).unwrap()).collect();
            }
            "mirostat" => {
                let (version, tau, eta): (u32, f32, f32) = serde_json::from_value(value.clone()).unwrap();
                let version = if version == 1 { MirostatVersion::V1 } else { MirostatVersion::V2 };
                sampling.mirostat = Some(Mirostat { version, tau, eta });
            }
            "logit_bias" => sampling.logit_bias = serde_json::from_value(value.clone()).unwrap(),
            other => panic!("unknown option {other}"),
        }
    }
    sampling
}

fn off() -> Sampling {
    Sampling { temperature: 1.0, top_k: 0, top_p: 1.0, min_p: 0.0, seed: Some(1), ..Sampling::default() }
}

/// The token whatever the seed is: a draw that only happens to give it is no proof of temperature 0.
fn with_any_seed(logits: &[f32], tokens: &[u32], sampling: Sampling) -> Result<u32, SamplingError> {
    let sample = |seed| {
        let seed = Some(seed);
        sampler(Sampling { seed, ..sampling.clone() })?.sample(logits, tokens)
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
        let mut sampler = sampler(sampling(&case.options)).unwrap();
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
    for temperature in [0.0, -1.0] {
        let sampling = Sampling { temperature, top_k: 3, top_p: 0.0, typical_p: 0.1, ..Sampling::default() };
        assert_eq!(with_any_seed(&ties, &[], sampling), Ok(1), "ties go to the lowest id");
    }
    let biased = Sampling { logit_bias: vec![(4, 1.5)], ..Sampling::greedy() };
    assert_eq!(with_any_seed(&ties, &[], biased), Ok(4));
    let banned = Sampling { logit_bias: vec![(1, f32::NEG_INFINITY)], ..Sampling::greedy() };
    assert_eq!(with_any_seed(&ties, &[], banned), Ok(3));
    let penalised = Sampling { presence_penalty: 0.5, ..Sampling::greedy() };
    assert_eq!(with_any_seed(&ties, &[1, 1], penalised), Ok(3));
}

#[test]
fn draws_follow_the_softmax() {
    let logits = [0.0, 1.0, 2.0, -1.0];
    let temperature = 0.5;
    let weights = logits.map(|logit: f64| (logit / f64::from(temperature)).exp());
    let total: f64 = weights.iter().sum();
    let mut sampler = sampler(Sampling { temperature, ..off() }).unwrap();
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
    let mut sampler = sampler(Sampling { seed: Some(42), ..Sampling::default() }).unwrap();
    let tokens: Vec<u32> = (0..8).map(|n| sampler.sample(&logits, &vec![0; n]).unwrap()).collect();
    assert_eq!(tokens, FOR_EVER);
}

#[test]
fn a_text_can_be_continued_from_any_token() {
    let sampling = || Sampling { seed: Some(9), xtc: Xtc { probability: 0.5, threshold: 0.0 }, ..off() };
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
        let seed = || sampler(Sampling { seed, ..off() }).unwrap().seed();
        let seeds = [seed(), seed(), seed()];
        assert!(!seeds.contains(&u32::MAX) && seeds != [seeds[0]; 3]);
    }
    assert_eq!(sampler(Sampling { seed: Some(7), ..off() }).unwrap().seed(), 7);
}

#[test]
fn impossible_logits_are_errors() {
    let none = [f32::NEG_INFINITY; 3];
    for temperature in [0.0, 1.0] {
        let mut sampler = sampler(Sampling { temperature, ..off() }).unwrap();
        assert_eq!(sampler.sample(&none, &[]), Err(SamplingError::NoToken));
        assert_eq!(sampler.sample(&[], &[]), Err(SamplingError::NoToken));
        for broken in [f32::NAN, f32::INFINITY] {
            let error = sampler.sample(&[0.0, broken], &[]).unwrap_err();
            assert!(matches!(error, SamplingError::Logit { token: 1, .. }), "{error}");
        }
        assert_eq!(sampler.sample(&[f32::NEG_INFINITY, f32::MIN], &[]), Ok(1));
        assert!(sampler.sample(&[f32::MAX, f32::MIN, 0.0], &[]).is_ok());
    }
    let error = sampler(Sampling { logit_bias: vec![(512, 1.0)], ..off() }).unwrap_err();
    assert_eq!(error, SamplingError::Bias { token: 512, n_vocab: 512 });
}

#[test]
fn a_banned_token_stays_banned_whatever_the_penalties_are() {
    let logits = [0.0, 1.0, 9.0];
    for penalty in [-1e6, 1e6] {
        for (temperature, repeat_penalty) in [(0.0, 1.0), (1.0, 1e-6), (1.0, 1e6)] {
            let sampling = Sampling {
                temperature,
                repeat_penalty,
                frequency_penalty: penalty,
                presence_penalty: penalty,
                logit_bias: vec![(2, f32::NEG_INFINITY)],
                ..off()
            };
            let token = sampler(sampling).unwrap().sample(&logits, &[2, 2]);
            assert!(matches!(token, Ok(0 | 1)), "{token:?}");
        }
    }
}

#[test]
fn parameters_outside_their_range_are_refused() {
    let wrong = [
        Sampling { temperature: f32::NAN, ..off() },
        Sampling { top_p: 1.5, ..off() },
        Sampling { min_p: -0.1, ..off() },
        Sampling { typical_p: f32::NAN, ..off() },
        Sampling { repeat_penalty: 0.0, ..off() },
        Sampling { repeat_penalty: 1e-38, ..off() },
        Sampling { repeat_penalty: 3e38, ..off() },
        Sampling { presence_penalty: -1.1e6, ..off() },
        Sampling { frequency_penalty: -3e38, ..off() },
        Sampling { frequency_penalty: f32::INFINITY, ..off() },
        Sampling { logit_bias: vec![(0, f32::NAN)], ..off() },
        Sampling { top_n_sigma: f32::NAN, ..off() },
        Sampling { xtc: Xtc { probability: 1.1, threshold: 0.1 }, ..off() },
        Sampling { xtc: Xtc { probability: 1.0, threshold: f32::NAN }, ..off() },
        Sampling { dry: Dry { base: 0.9, ..Dry::default() }, ..off() },
        Sampling { dry: Dry { multiplier: -1.0, ..Dry::default() }, ..off() },
        Sampling { dynamic_temperature: DynamicTemperature { range: -1.0, exponent: 1.0 }, ..off() },
        Sampling { dynamic_temperature: DynamicTemperature { range: 1.0, exponent: f32::INFINITY }, ..off() },
        Sampling {
            mirostat: Some(Mirostat { version: MirostatVersion::V2, tau: f32::NAN, eta: 0.1 }),
            ..off()
        },
    ];
    for sampling in wrong {
        let error = sampler(sampling.clone()).unwrap_err();
        assert!(matches!(error, SamplingError::Parameter { .. }), "{sampling:?}");
    }
    let message = sampler(Sampling { top_p: 1.5, ..off() }).unwrap_err().to_string();
    assert_eq!(message, "sampling parameter `top_p` is 1.5, expected a number from 0 to 1");
    for breaker in [String::new(), "x".repeat(41)] {
        let dry = Dry { sequence_breakers: vec![breaker], ..Dry::default() };
        let error = sampler(Sampling { dry, ..off() }).unwrap_err();
        assert!(matches!(error, SamplingError::Parameter { .. }), "{error}");
    }
}

/// To find them takes a while: the server does so before a request reaches the engine's thread.
#[test]
fn sequence_breakers_are_found_once_and_ahead() {
    let (breakers, dry) = (Breakers::default(), Dry { multiplier: 1.0, ..Dry::default() });
    prepare(&off(), &breakers, &TOKENIZER);
    assert!(!breakers.has(&dry.sequence_breakers), "nobody needs them");
    prepare(&Sampling { dry: dry.clone(), ..off() }, &breakers, &TOKENIZER);
    assert!(breakers.has(&dry.sequence_breakers));
    let found = breakers.of(&dry.sequence_breakers, &TOKENIZER);
    assert!(Arc::ptr_eq(&found, &breakers.of(&dry.sequence_breakers, &TOKENIZER)));
    for number in 0..20 {
        breakers.of(&[number.to_string()], &TOKENIZER);
    }
    assert!(!breakers.has(&dry.sequence_breakers), "the memory is bounded");
}

#[test]
fn no_parameters_in_range_break_a_draw() {
    let mut random = SplitMix64(9);
    for round in 0..2_000 {
        let mut pick = |values: &[f32]| values[(random.next_u64() % values.len() as u64) as usize];
        let sampling = Sampling {
            temperature: pick(&[-1.0, 0.0, 1e-30, 0.7, 1.0, 1e30]),
            top_k: pick(&[0.0, 1.0, 7.0, 300.0]) as usize,
            typical_p: pick(&[0.0, 0.2, 1.0]),
            top_p: pick(&[0.0, 0.5, 0.9999, 1.0]),
            min_p: pick(&[0.0, 0.1, 1.0]),
            repeat_penalty: pick(&[1e-6, 0.5, 1.0, 1e6]),
            frequency_penalty: pick(&[-1e6, 0.0, 1e6]),
            top_n_sigma: pick(&[-1.0, 1e-30, 1.0, 1e30]),
            xtc: Xtc { probability: pick(&[0.0, 0.5, 1.0]), threshold: pick(&[0.0, 0.1, 0.5]) },
            dynamic_temperature: DynamicTemperature {
                range: pick(&[0.0, 1e-6, 1e6]),
                exponent: pick(&[0.0, 1.0, 1e6]),
            },
            dry: Dry {
                multiplier: pick(&[0.0, 1e-30, 1e6]),
                base: pick(&[1.0, 1.75, 1e6]),
                allowed_length: pick(&[0.0, 2.0]) as usize,
                ..Dry::default()
            },
            mirostat: match pick(&[0.0, 0.0, 0.0, 1.0, 2.0]) {
                0.0 => None,
                version => Some(Mirostat {
                    version: if version == 1.0 { MirostatVersion::V1 } else { MirostatVersion::V2 },
                    tau: pick(&[0.0, 5.0, 1e6]),
                    eta: pick(&[0.0, 0.1, 1e6]),
                }),
            },
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
        let sampling = sampling(&case.options);
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
                let mut state = mirostat::MirostatState::new(sampling.mirostat.unwrap());
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
    let xtc = Xtc { probability: 0.3, threshold: 0.2 };
    let mut drawn = sampler(Sampling { xtc, ..off() }).unwrap();
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
    for version in [MirostatVersion::V1, MirostatVersion::V2] {
        let mirostat = Some(Mirostat { version, tau: 2.0, eta: 0.1 });
        let mut drawn = sampler(Sampling { mirostat, top_k: 1, ..off() }).unwrap();
        let values: Vec<f32> = logits(7, 512).into_iter().map(|logit| logit * logit.abs() / 8.0).collect();
        let tokens = [0; 2_000];
        let surprise = |n: usize| {
            let token = drawn.sample(&values, &tokens[..n]).unwrap();
            -candidates::probability(&drawn.candidates, token).log2()
        };
        let mean = (0..2_000).map(surprise).skip(200).sum::<f64>() / 1_800.0;
        assert!((mean - 2.0).abs() < 0.15, "{version:?}: {mean} bits");
    }
}

#[test]
fn a_seed_gives_the_same_tokens_with_every_sampler() {
    let sampling = Sampling {
        seed: Some(5),
        xtc: Xtc { probability: 0.5, threshold: 0.1 },
        dynamic_temperature: DynamicTemperature { range: 0.5, exponent: 1.0 },
        dry: Dry { multiplier: 0.8, ..Dry::default() },
        ..Sampling::default()
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
    for kind in SamplerKind::DEFAULT {
        assert_eq!(kind.name().parse(), Ok(kind));
        assert_eq!(SamplerKind::from_letter(kind.words().1), Ok(kind));
    }
    assert_eq!("top-n-sigma".parse(), Ok(SamplerKind::TopNSigma));
    assert_eq!("typical_p".parse(), Ok(SamplerKind::TypicalP));
    let error = "infill".parse::<SamplerKind>().unwrap_err().to_string();
    assert!(error.contains("infill") && error.contains("top_k (k)") && error.contains("xtc (x)"), "{error}");
}
