//! Cached prefixes: whose they are, and how they move to another engine.

use std::sync::Arc;

use engine::{Engine, Event, Logprobs, Model, Options, Params, PrefixKey, Request};
use quant::Format;
use testkit::fixtures::families;

use crate::common::{eight, model, opened, prompt, run, serve};

fn drawn(tokens: Vec<u32>, max_tokens: usize) -> Request {
    let params = Params { temperature: 1.0, seed: Some(11), ..Params::default() };
    Request::new(tokens).params(params).max_tokens(max_tokens).logprobs(4)
}

/// A token, and the most likely ones with the bits of their log-probabilities.
type Told = (u32, Vec<(u32, u32)>);

/// The tokens of an answer with their log-probabilities, bit by bit, and how many tokens of the prompt were cached.
fn tell(engine: &mut Engine, request: Request) -> (Vec<Told>, usize) {
    engine.submit(request).expect("room");
    let (mut tokens, mut reused) = (Vec::new(), 0);
    while !engine.is_idle() {
        for event in engine.step().expect("nothing fails") {
            match event {
                Event::Token { token, logprobs, .. } => {
                    let Logprobs { top, .. } = logprobs.expect("it was asked for");
                    tokens.push((token, top.iter().map(|(id, x)| (*id, x.to_bits())).collect()));
                }
                Event::Done { usage, .. } => reused = usage.reused_tokens,
                Event::Failed { error, .. } => panic!("{error}"),
            }
        }
    }
    (tokens, reused)
}

/// Models with a window, with the states of recurrent layers, and with neither.
fn models() -> Vec<(String, Arc<Model>)> {
    let is_one = |name: &str| ["F32-qwen3", "F32-gemma3", "F32-qwen35", "F32-mamba2"].contains(&name);
    let models: Vec<_> = families().into_iter().filter(|(name, _)| is_one(name)).collect();
    assert_eq!(models.len(), 4);
    models.into_iter().map(|(name, spec)| (name, opened(spec.file()))).collect()
}

#[test]
fn a_sequence_goes_on_in_another_engine_bit_for_bit() {
    for (name, model) in models() {
        for (len, generated) in [(50, 20), (3, 5), (70, 27)] {
            let (expected, _) = tell(&mut serve(&model, 1, eight()), drawn(prompt(1, len), 40));
            let mut from = serve(&model, 2, Options { n_batch: 16, ..eight() });
            let (begun, _) = tell(&mut from, drawn(prompt(1, len), generated));
            assert_eq!(begun, expected[..generated], "{name}");
            let mut text = prompt(1, len);
            text.extend(begun.iter().map(|(token, _)| token));
            let request = drawn(text.clone(), 40 - generated);
            let prefix = from.export(&request).expect("the CPU can").expect("it is cached");
            assert_eq!(prefix.tokens, text[..text.len() - 1], "{name}: all that was computed");
            let mut to = serve(&model, 1, eight());
            assert!(to.import(&prefix).expect("the same model"));
            let (rest, reused) = tell(&mut to, request.clone());
            assert_eq!((rest, reused), (expected[generated..].to_vec(), text.len() - 1), "{name}");
            let other = from.export(&request.clone().adapter(1)).expect("the CPU can");
            assert_eq!(other, None, "another adapter's");
            let other = from.export(&request.cache_salt(*b"x")).expect("the CPU can");
            assert_eq!(other, None, "another user's");
        }
    }
}

#[test]
fn prefixes_of_another_model_are_refused_and_change_nothing() {
    let mut models = models().into_iter().map(|(_, model)| model);
    let (small, other) = (model(Format::F32), models.next_back().expect("a recurrent one"));
    let mut from = serve(&small, 1, eight());
    run(&mut from, [drawn(prompt(2, 70), 3)]);
    let request = drawn(prompt(2, 70), 9);
    let prefix = from.export(&request).expect("the CPU can").expect("it is cached");
    let mut to = serve(&other, 1, eight());
    let expected = tell(&mut serve(&other, 1, eight()), request.clone());
    to.import(&prefix).expect_err("another model");
    let mut cut = prefix.clone();
    cut.groups[0].1.pop();
    from.import(&cut).expect_err("a block is missing");
    let mut short = prefix.clone();
    short.groups[0].1[0].pop();
    from.import(&short).expect_err("a byte is missing");
    assert_eq!(tell(&mut to, request), expected);
}

#[test]
fn requests_with_different_adapters_share_nothing() {
    let model = model(Format::F32);
    let mut engine = serve(&model, 1, Options { prefix_key: Some(PrefixKey([3; 16])), ..eight() });
    let request = |adapter: Option<u64>| drawn(prompt(3, 80), 4).adapter(adapter);
    for adapter in [None, Some(0), Some(7)] {
        let (answer, reused) = tell(&mut engine, request(adapter));
        assert_eq!(reused, 0, "{adapter:?}");
        let (again, reused) = tell(&mut engine, request(adapter));
        assert_eq!((again, reused), (answer, 64), "{adapter:?}");
    }
    assert!(!format!("{:?}", Options { prefix_key: Some(PrefixKey([3; 16])), ..eight() }).contains('3'));
}
