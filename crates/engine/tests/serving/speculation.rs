//! Speculative decoding: drafts change the speed and nothing else.

use std::collections::BTreeSet;
use std::ops::ControlFlow;
use std::sync::Arc;

use engine::{
    Bias, DraftCounts, DraftModel, Engine, Event, Logprobs, Model, Options, Params, Processor, Request,
    RequestId, Speculation, StopReason,
};
use quant::Format;
use testkit::fixtures::Spec;

use crate::common::{cpu, eight, finish, model, model_with, opened, prompt, serve, until};

fn speculating(options: Options, n_max: usize) -> Options {
    Options { speculation: Some(Speculation { n_max, n_min: 0 }), ..options }
}

/// All that a client learns of a request but the times, bit by bit.
#[derive(Debug, Default, PartialEq)]
struct Told {
    tokens: Vec<(u32, String, Option<Logprobs>)>,
    end: Option<Result<StopReason, String>>,
}

fn tell(engine: &mut Engine, requests: Vec<Request>) -> Vec<Told> {
    let ids: Vec<RequestId> =
        requests.into_iter().map(|request| engine.submit(request).expect("it can be served")).collect();
    let mut told: Vec<Told> = ids.iter().map(|_| Told::default()).collect();
    let mut steps = 0;
    while !engine.is_idle() {
        steps += 1;
        assert!(steps < 100_000, "a request never ends");
        for event in engine.step().expect("the file is whole") {
            let (Event::Token { id, .. } | Event::Done { id, .. } | Event::Failed { id, .. }) = &event;
            let told = &mut told[ids.iter().position(|of| of == id).expect("one of these")];
            assert_eq!(told.end, None, "an event after the end");
            match event {
                Event::Token { token, text, logprobs, .. } => told.tokens.push((token, text, logprobs)),
                Event::Done { reason, .. } => told.end = Some(Ok(reason)),
                Event::Failed { error, .. } => told.end = Some(Err(error.to_string())),
            }
        }
    }
    told
}

/// A grammar: a token and its neighbour follow each other, whose sum depends on how many there were before. It counts what it is
/// told, and fails when that is not the text.
#[derive(Clone, Debug)]
struct Rhyme {
    at: usize,
    chosen: Vec<u32>,
}

impl Rhyme {
    fn new(prompt: usize) -> Rhyme {
        Rhyme { at: prompt, chosen: Vec::new() }
    }
}

impl Processor for Rhyme {
    fn apply(&mut self, tokens: &[u32], logits: &mut [f32]) {
        let is_text = tokens.len() == self.at + self.chosen.len() && tokens.ends_with(&self.chosen);
        let class = self.chosen.len() as u32 % 3;
        for (id, logit) in (0..).zip(logits) {
            if !is_text || id % 3 != class || id > 60 {
                *logit = f32::NEG_INFINITY;
            }
        }
    }

    fn chosen(&mut self, token: u32) {
        self.chosen.push(token);
    }

    fn boxed_clone(&self) -> Box<dyn Processor> {
        Box::new(self.clone())
    }
}

/// A prompt that repeats itself.
fn refrain(seed: u32, len: usize) -> Vec<u32> {
    let verse = prompt(seed, 11);
    verse.iter().cycle().take(len).copied().collect()
}

/// Every sampler, grammar, way to stop and log-probability, on prompts of which some repeat themselves.
fn requests() -> Vec<Request> {
    let drawn = |seed| Params { seed: Some(seed), ..Params::default() };
    // Small temperatures repeat themselves and draw nevertheless.
    let cold = |seed| Params { temperature: 0.2, ..drawn(seed) };
    let mirostat = Params { mirostat_tau: 2.0, mirostat_eta: 0.3, ..drawn(5) };
    let samplings = vec![
        Params::greedy(),
        drawn(1),
        cold(2),
        Params { repeat_penalty: 1.2, frequency_penalty: 0.1, presence_penalty: 0.2, ..cold(3) },
        Params { repeat_penalty: 1.05, ..Params::greedy() },
        Params { dry_multiplier: 0.8, ..cold(4) },
        Params { mirostat: 1, ..mirostat.clone() },
        Params { mirostat: 2, temperature: 0.2, seed: Some(6), ..mirostat },
        Params { xtc_probability: 0.5, xtc_threshold: 0.1, ..cold(7) },
        Params { typical_p: 0.6, top_n_sigma: 1.0, ..drawn(8) },
        Params { logit_bias: vec![(9, 4.0).into(), (10, 4.0).into()], ..cold(9) },
    ];
    let mut all = Vec::new();
    for (number, sampling) in (0..).zip(samplings) {
        let tokens = if number % 3 == 0 { prompt(number, 20) } else { refrain(number, 30 + number as usize) };
        let request = Request::new(tokens.clone()).params(sampling).max_tokens(50 + number as usize);
        // Of few words, so that many drafts are partly right.
        let mut few = request.clone();
        few.params.logit_bias.extend((60..64).map(|token| Bias::from((token, 8.0))));
        all.push(few.clone());
        all.push(few.logprobs(3).max_tokens(37));
        all.push(request.clone());
        all.push(request.processor(Rhyme::new(tokens.len())));
    }
    all
}

/// The answers of requests that are computed one by one, without drafts.
fn plain(model: &Arc<Model>, requests: Vec<Request>) -> Vec<Told> {
    let mut engine = serve(model, 1, Options::default());
    requests.into_iter().flat_map(|request| tell(&mut engine, vec![request])).collect()
}

#[test]
fn answers_are_the_same_with_drafts() {
    for format in [Format::F32, Format::Q4_0] {
        let model = model(format);
        let expected = plain(&model, requests());
        for (sequences, n_max, blocks) in
            [(1, 7, None), (1, 31, None), (4, 16, None), (8, 31, None), (4, 15, Some(8)), (2, 4, None)]
        {
            let options = Options { sequences, blocks, ..Options::default() };
            let mut engine = serve(&model, 2, speculating(options, n_max));
            let told = tell(&mut engine, requests());
            for (number, (told, expected)) in told.iter().zip(&expected).enumerate() {
                assert_eq!(told, expected, "request {number}, {sequences} at once, {n_max} drafted tokens");
            }
            let load = engine.load();
            let DraftCounts { drafts, drafted, accepted } = load.drafts;
            println!("{accepted} of {drafted} accepted: {sequences} at once, {n_max} drafted tokens");
            assert!(accepted > 100 && drafted > accepted + 50, "{accepted} of {drafted} accepted");
            assert!(drafts > 0 && drafted <= drafts * n_max as u64, "{drafted} in {drafts} drafts");
            assert_eq!(load.preemptions > 0, blocks.is_some(), "{} preemptions", load.preemptions);
        }
    }
}

/// Whatever is cached of an answer is what it says: later requests that begin with it go on as without a cache.
#[test]
fn only_accepted_tokens_are_cached() {
    let model = model(Format::F32);
    let mut engine = serve(&model, 1, speculating(eight(), 31));
    let first = |seed| {
        let sampling = Params { seed: Some(seed), temperature: 0.3, ..Params::default() };
        Request::new(refrain(seed, 40)).params(sampling).max_tokens(60)
    };
    let told = tell(&mut engine, (0..6).map(first).collect());
    let next = |(seed, told): (u32, &Told)| {
        let mut tokens = refrain(seed, 40);
        tokens.extend(told.tokens.iter().map(|(token, ..)| token));
        Request::new(tokens).params(Params::greedy()).max_tokens(30)
    };
    let turns: Vec<Request> = (0..).zip(&told).map(next).collect();
    let expected = plain(&model, turns.clone());
    for (turn, expected) in turns.into_iter().zip(expected) {
        let prompt = turn.prompt.len();
        let id = engine.submit(turn.clone()).expect("room");
        let answer = &finish(&mut engine)[&id];
        assert!(answer.usage.reused_tokens + 2 >= prompt, "{} of {prompt}", answer.usage.reused_tokens);
        assert!(answer.tokens.iter().eq(expected.tokens.iter().map(|(token, ..)| token)));
    }
}

/// A model with windows of 40 positions, whose blocks are given back while drafts are rejected.
#[test]
fn windows_have_what_is_computed_again() {
    let spec = Spec { context: 256, ..testkit::fixtures::gemma3(Format::F32) };
    let model = opened(spec.file());
    let requests = || {
        let sampling = |seed| Params { seed: Some(seed), temperature: 0.5, ..Params::default() };
        let each = |seed| Request::new(refrain(seed, 60)).params(sampling(seed)).max_tokens(150);
        (0..4).map(each).collect::<Vec<_>>()
    };
    let expected = plain(&model, requests());
    for (sequences, blocks) in [(1, None), (4, None), (4, Some(9))] {
        let options = Options { sequences, blocks, n_batch: 33, ..Options::default() };
        let mut engine = serve(&model, 1, speculating(options, 31));
        assert_eq!(tell(&mut engine, requests()), expected);
        let drafts = engine.load().drafts;
        assert!(0 < drafts.accepted && drafts.accepted < drafts.drafted, "{drafts:?}");
    }
}

#[test]
fn texts_end_where_they_do_without_drafts() {
    let model = model(Format::F32);
    // A greedy text in a loop, of which all drafts are accepted.
    let looping = || {
        let sampling = Params { logit_bias: vec![(70, 100.0).into()], ..Params::greedy() };
        Request::new(prompt(0, 9)).params(sampling)
    };
    let ends = || {
        let text = model.tokenizer().token_text(70).expect("a token").repeat(9);
        let mut all: Vec<Request> = (0..30).map(|most| looping().max_tokens(most)).collect();
        all.push(looping());
        all.push(looping().max_tokens(60).stop(text));
        all.push(until(looping().max_tokens(60), 70));
        all
    };
    let options = Options { n_ctx: Some(64), ..eight() };
    let mut engine = serve(&model, 1, options);
    let expected: Vec<Told> =
        ends().into_iter().flat_map(|request| tell(&mut engine, vec![request])).collect();
    let mut engine = serve(&model, 1, speculating(options, 31));
    for (number, (request, expected)) in ends().into_iter().zip(expected).enumerate() {
        assert_eq!(tell(&mut engine, vec![request]), [expected], "request {number}");
    }
}

#[test]
fn a_text_that_repeats_itself_takes_fewer_steps() {
    let model = model(Format::F32);
    let sampling = Params { logit_bias: vec![(70, 100.0).into()], ..Params::greedy() };
    let request = Request::new(prompt(0, 9)).params(sampling).max_tokens(100);
    let mut engine = serve(&model, 1, speculating(Options::default(), 7));
    let id = engine.submit(request).expect("room");
    let (mut steps, mut usage) = (0, None);
    while !engine.is_idle() {
        steps += 1;
        for event in engine.step().expect("nothing fails") {
            if let Event::Done { id: of, usage: at_end, .. } = event {
                assert_eq!(of, id);
                usage = Some(at_end);
            }
        }
    }
    let usage = usage.expect("it ends");
    assert_eq!((usage.generated_tokens, usage.drafts), (100, engine.load().drafts));
    assert_eq!(usage.drafts.accepted, usage.drafts.drafted);
    assert!(steps < 20, "{steps} steps");
}

#[test]
fn requests_that_decode_share_the_rows_for_drafts() {
    let model = model(Format::F32);
    let rows = Arc::new(std::sync::Mutex::new(Vec::new()));
    let options = speculating(eight(), 7);
    let mut engine = serve(&model, 1, options);
    let sink = rows.clone();
    engine
        .observe(&["embd"], move |observed| {
            let requests: BTreeSet<_> = observed.rows.iter().map(|row| row.request).collect();
            sink.lock().expect("no panic").push((requests.len(), observed.rows.len()));
            ControlFlow::Continue(())
        })
        .expect("there is room");
    let sampling = Params { logit_bias: vec![(70, 100.0).into()], ..Params::greedy() };
    for count in [1, 3, 4, 5, 8] {
        let each = |seed| Request::new(prompt(seed, 4)).params(sampling.clone()).max_tokens(40);
        tell(&mut engine, (0..count).map(each).collect());
        let rows = std::mem::take(&mut *rows.lock().expect("no panic"));
        let decode = rows[1..].iter().filter(|(sequences, _)| *sequences == count as usize);
        let most = decode.map(|(_, rows)| *rows).max();
        let share = 8usize.saturating_sub(count as usize) / count as usize;
        assert_eq!(most, Some(count as usize * (1 + share)), "{count} requests");
    }
}

#[test]
fn a_model_with_recurrent_layers_does_without() {
    let mut families = testkit::fixtures::families().into_iter();
    let (_, spec) = families.find(|(name, _)| name == "F32-qwen35").expect("it is one of them");
    let model = opened(spec.file());
    let request = || Request::new(refrain(1, 40)).params(Params::greedy()).max_tokens(30);
    let expected = plain(&model, vec![request()]);
    let mut engine = serve(&model, 1, speculating(Options::default(), 7));
    assert_eq!(tell(&mut engine, vec![request()]), expected);
    assert_eq!(engine.load().drafts.drafted, 0);
}

/// An engine of `model` for which `draft` drafts.
fn drafted_by(draft: &Arc<Model>, model: &Arc<Model>, options: Options) -> Engine {
    let draft =
        DraftModel::new(draft.clone(), cpu(1), model, options).expect("the vocabularies are the same");
    let mut engine = serve(model, 1, options);
    engine.draft_with(draft).expect("it speculates");
    engine
}

#[test]
fn a_draft_model_changes_no_answer() {
    let model = model(Format::F32);
    let other = opened(Spec { seed: 77, layers: 1, ..crate::common::spec(Format::F32) }.file());
    let windows = opened(Spec { context: 256, ..testkit::fixtures::gemma3(Format::F32) }.file());
    let expected = plain(&model, requests());
    for (sequences, n_max, n_batch, blocks) in
        [(1, 7, 512, None), (4, 31, 16, None), (8, 15, 20, None), (4, 15, 512, Some(8))]
    {
        for draft in [&model, &other, &windows] {
            let options = Options { sequences, blocks, n_batch, ..Options::default() };
            let mut engine = drafted_by(draft, &model, speculating(options, n_max));
            for (number, (told, expected)) in tell(&mut engine, requests()).iter().zip(&expected).enumerate()
            {
                assert_eq!(told, expected, "request {number}, {sequences} at once, {n_max} drafted tokens");
            }
            let drafts = engine.load().drafts;
            assert!(drafts.drafted > 100, "{drafts:?}");
        }
    }
}

/// Its cache is right: it drafts what it would write itself, which is what it then writes.
#[test]
fn all_drafts_of_the_model_itself_are_accepted() {
    let model = model(Format::F32);
    let each = |seed| {
        let length = 20 + 15 * seed as usize;
        Request::new(prompt(seed, length)).params(Params::greedy()).max_tokens(60 + seed as usize)
    };
    for (sequences, blocks) in [(1, None), (4, None), (3, Some(8))] {
        let options = Options { sequences, blocks, n_batch: 50, ..Options::default() };
        let mut engine = drafted_by(&model, &model, speculating(options, 15));
        tell(&mut engine, (0..7).map(each).collect());
        let drafts = engine.load().drafts;
        assert_eq!(drafts.accepted, drafts.drafted, "{sequences} at once");
        assert!(drafts.drafted > 200, "{drafts:?}");
    }
}

#[test]
fn a_draft_model_needs_the_same_vocabulary_and_a_cache_that_can_go_back() {
    let model = model(Format::F32);
    let options = speculating(Options::default(), 7);
    let refused = |draft: &Arc<Model>, target: &Arc<Model>| {
        DraftModel::new(draft.clone(), cpu(1), target, options).expect_err("it is refused").to_string()
    };
    let mut metadata = crate::common::spec(Format::F32).metadata();
    let Some(gguf::Value::Array(gguf::Array::String(mut tokens))) =
        metadata.get("tokenizer.ggml.tokens").cloned()
    else {
        panic!("a vocabulary")
    };
    tokens[300] = "another".into();
    metadata.insert("tokenizer.ggml.tokens", gguf::Value::Array(gguf::Array::String(tokens)));
    let error = refused(&model_with(&metadata), &model);
    assert!(error.contains("token 300 is \"another\""), "{error}");
    let mut families = testkit::fixtures::families().into_iter();
    let (_, spec) = families.find(|(name, _)| name == "F32-qwen35").expect("it is one of them");
    let recurrent = opened(spec.file());
    for (draft, target) in [(&recurrent, &model), (&model, &recurrent)] {
        let error = refused(draft, target);
        assert!(error.contains("`qwen35` has recurrent layers"), "{error}");
    }
    let draft = DraftModel::new(model.clone(), cpu(1), &model, options).expect("the same model");
    let error = serve(&model, 1, Options::default()).draft_with(draft).expect_err("it uses none").to_string();
    assert!(error.contains("`speculation`"), "{error}");
}

#[test]
fn memory_for_drafts_is_counted_and_wrong_options_are_refused() {
    let model = model(Format::F32);
    let options = speculating(Options::default(), 31);
    let engine = serve(&model, 1, options);
    assert_eq!(
        Engine::requirements(&model, &*cpu(1), options).expect("good options"),
        engine.runner().memory()
    );
    for (speculation, named) in [
        (Speculation { n_max: 0, n_min: 0 }, "n_max"),
        (Speculation { n_max: 32, n_min: 0 }, "n_max"),
        (Speculation { n_max: 4, n_min: 5 }, "n_min"),
    ] {
        let options = Options { speculation: Some(speculation), ..Options::default() };
        let error = Engine::new(model.clone(), cpu(1), options).expect_err("it is out of range").to_string();
        assert!(error.contains(&format!("`{named}`")), "{error}");
    }
}
