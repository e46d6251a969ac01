//! What an engine promises, on random models and real backends.

use std::ops::ControlFlow;
use std::sync::Arc;

use crate::common::{
    Answer, cpu, eight, model, model_with, opened, prompt, reference, run, serve, spec, until,
};
use engine::{Engine, Error, Event, LogitRows, Model, Options, Params, Refusal, Request, StopReason};
use quant::Format;
use testkit::fixtures::Spec;

fn greedy(prompt: Vec<u32>, max_tokens: usize) -> Request {
    Request::new(prompt).params(Params::greedy()).max_tokens(max_tokens)
}

/// Eight requests, unlike in prompt, length and sampling.
fn mixed() -> Vec<Request> {
    let sampled = |seed| Params { seed: Some(seed), repeat_penalty: 1.1, ..Params::default() };
    (0..8)
        .map(|i| {
            let sampling = if i % 2 == 0 { Params::greedy() } else { sampled(i) };
            Request::new(prompt(i, 2 + 13 * i as usize)).params(sampling).max_tokens(20 + i as usize)
        })
        .collect()
}

/// The answers of `requests` when each has an engine of its own.
fn alone(model: &Arc<Model>, requests: Vec<Request>) -> Vec<Answer> {
    let each = |request| run(&mut serve(model, 1, Options::default()), [request]);
    requests.into_iter().flat_map(each).collect()
}

fn contents(answers: &[Answer]) -> Vec<(&[u32], &str, &StopReason)> {
    answers.iter().map(Answer::content).collect()
}

#[test]
fn a_batch_answers_as_each_request_alone() {
    for format in [Format::F32, Format::Q8_0, Format::Q4_0] {
        let model = model(format);
        let expected = alone(&model, mixed());
        assert!(expected.iter().filter(|answer| answer.reason == StopReason::MaxTokens).count() > 5);
        for threads in [1, 2, 3] {
            let mut engine = serve(&model, threads, eight());
            let together = run(&mut engine, mixed());
            assert_eq!(contents(&together), contents(&expected), "{format}, {threads} threads");
        }
    }
}

#[test]
fn the_reference_backend_answers_alike_in_a_batch() {
    let model = model(Format::F32);
    let short = || mixed().into_iter().take(3).map(|request| request.max_tokens(5));
    let together = run(&mut Engine::new(model.clone(), reference(), eight()).unwrap(), short());
    for (request, together) in short().zip(&together) {
        let alone = run(&mut Engine::new(model.clone(), reference(), Options::default()).unwrap(), [request]);
        assert_eq!(alone[0].content(), together.content());
    }
}

#[test]
fn chunks_of_a_prompt_make_no_difference() {
    let model = model(Format::Q8_0);
    let expected = alone(&model, vec![greedy(prompt(3, 100), 20)]);
    for n_batch in [1, 3, 32, 99] {
        let options = Options { n_batch, ..Options::default() };
        let chunked = run(&mut serve(&model, 2, options), [greedy(prompt(3, 100), 20)]);
        assert_eq!(contents(&chunked), contents(&expected), "n_batch {n_batch}");
    }
}

#[test]
fn chunks_of_a_prompt_make_no_difference_on_the_reference_backend() {
    let model = model(Format::Q8_0);
    let serve = |n_batch| {
        let options = Options { n_batch, ..Options::default() };
        Engine::new(model.clone(), reference(), options).expect("the reference computes every model")
    };
    let whole = run(&mut serve(512), [greedy(prompt(3, 50), 6)]);
    for n_batch in [1, 7, 32] {
        let chunked = run(&mut serve(n_batch), [greedy(prompt(3, 50), 6)]);
        assert_eq!(contents(&chunked), contents(&whole), "n_batch {n_batch}");
    }
}

#[test]
fn waiting_and_preemption_make_no_difference() {
    let model = model(Format::F32);
    // Four requests of 80 tokens take three blocks each at their end; there are five.
    let requests = || (0..4).map(|i| mixed()[i].clone().max_tokens(60));
    let requests = || requests().enumerate().map(|(i, r)| Request { prompt: prompt(i as u32, 20), ..r });
    let expected = alone(&model, requests().collect());
    for (sequences, blocks) in [(4, 5), (4, 3), (2, 12), (1, 12)] {
        let options = Options { sequences, blocks: Some(blocks), ..Options::default() };
        let mut engine = serve(&model, 1, options);
        let together = run(&mut engine, requests());
        assert_eq!(contents(&together), contents(&expected), "{sequences} at once, {blocks} blocks");
        assert!(together.iter().all(|answer| answer.usage.prompt_tokens == 20));
    }
}

/// A model with windows of 40 positions in six of seven layers.
#[test]
fn windows_make_no_difference_and_take_less_memory() {
    let spec = Spec { context: 256, ..testkit::fixtures::gemma3(Format::F32) };
    let model = opened(spec.file());
    let requests = || (0..4).map(|i| greedy(prompt(i, 15 + 45 * i as usize), 60));
    let expected = alone(&model, requests().collect());
    // The fewest blocks that the longest request fits in; four at once need more than twice as many.
    for (n_batch, blocks) in [(512, None), (20, None), (33, Some(8))] {
        let options = Options { n_batch, blocks, sequences: 4, ..Options::default() };
        let mut engine = serve(&model, 2, options);
        assert_eq!(contents(&run(&mut engine, requests())), contents(&expected), "n_batch {n_batch}");
    }
    let kv = |spec: &Spec| serve(&opened(spec.file()), 1, Options { n_batch: 32, ..Options::default() });
    let kv = |spec: &Spec| kv(spec).runner().memory().kv;
    // Of 8 blocks six layers have a window's: two for 40 positions, one for a step, and three because they begin and end
    // within blocks and give one back late.
    let all = Spec { window: Some(4096), ..spec.clone() };
    assert_eq!(kv(&spec) * 7 * 8, kv(&all) * (8 + 6 * 6));
}

#[test]
fn a_seed_repeats_its_text_and_a_random_one_is_reported() {
    let model = model(Format::F32);
    let mut engine = serve(&model, 1, eight());
    let hot = |seed| Params { temperature: 2.0, top_k: 0, top_p: 1.0, min_p: 0.0, seed, ..Params::default() };
    let request = |seed| Request::new(prompt(0, 5)).params(hot(seed)).max_tokens(30);
    let drawn = run(&mut engine, [request(None), request(None)]);
    assert_ne!(drawn[0].tokens, drawn[1].tokens);
    for answer in drawn {
        let again = run(&mut engine, [request(Some(answer.usage.seed))]);
        assert_eq!(again[0].content(), answer.content());
    }
}

#[test]
fn cancelling_ends_one_request_and_leaves_the_others() {
    let model = model(Format::F32);
    let expected = alone(&model, mixed());
    let mut engine = serve(&model, 1, eight());
    let ids: Vec<_> = mixed().into_iter().map(|request| engine.submit(request).unwrap()).collect();
    let mut events = Vec::new();
    engine.cancel(ids[7]);
    for _ in 0..4 {
        events.extend(engine.step().unwrap());
    }
    engine.cancel(ids[2]);
    engine.cancel(ids[2]);
    while !engine.is_idle() {
        events.extend(engine.step().unwrap());
    }
    engine.cancel(ids[0]);
    assert!(engine.is_idle() && engine.step().unwrap().is_empty());
    for (i, (id, expected)) in ids.iter().zip(&expected).enumerate() {
        let tokens: Vec<u32> = events
            .iter()
            .filter_map(|event| match event {
                Event::Token { id: of, token, .. } if of == id => Some(*token),
                _ => None,
            })
            .collect();
        let ends: Vec<&StopReason> = events
            .iter()
            .filter_map(|event| match event {
                Event::Done { id: of, reason, .. } if of == id => Some(reason),
                _ => None,
            })
            .collect();
        match i {
            7 => assert_eq!((ends, tokens.len()), (vec![&StopReason::Cancelled], 0)),
            2 => {
                assert_eq!(ends, [&StopReason::Cancelled]);
                assert!(!tokens.is_empty() && expected.tokens.starts_with(&tokens));
            }
            _ => assert_eq!((ends, &tokens), (vec![&expected.reason], &expected.tokens)),
        }
    }
}

#[test]
fn the_context_is_honoured() {
    let model = model(Format::F32);
    let options = Options { n_ctx: Some(40), ..Options::default() };
    let mut engine = serve(&model, 1, options);
    let error = engine.submit(Request::new(prompt(0, 40))).unwrap_err();
    assert!(matches!(error, Error::Prompt(Refusal::TooLong { tokens: 40, n_ctx: 40 })), "{error}");
    let message = error.to_string();
    assert!(message.contains("has 40 tokens") && message.contains("shorten the prompt"), "{message}");
    assert!(engine.is_idle());

    let endless = Request::new(prompt(0, 10)).temperature(0.0);
    let answer = run(&mut engine, [endless]).remove(0);
    assert_eq!((answer.reason, answer.tokens.len()), (StopReason::ContextFull, 30));
    let last = run(&mut engine, [Request::new(prompt(0, 39)).temperature(0.0)]).remove(0);
    assert_eq!((last.reason, last.tokens.len()), (StopReason::ContextFull, 1));

    assert_eq!(serve(&model, 1, Options::default()).limits().n_ctx, 256);
    let few = Options { blocks: Some(2), ..Options::default() };
    assert_eq!(serve(&model, 1, few).limits().n_ctx, 64, "no more than the blocks hold");
}

#[test]
fn every_way_to_stop() {
    let model = model(Format::F32);
    let mut engine = serve(&model, 1, Options::default());
    let free = run(&mut engine, [greedy(prompt(1, 9), 40)]).remove(0);

    let stop_id = free.tokens[12];
    let first = free.tokens.iter().position(|&token| token == stop_id).unwrap();
    let answer = run(&mut engine, [until(greedy(prompt(1, 9), 40), stop_id)]).remove(0);
    assert_eq!((&answer.reason, answer.tokens.len()), (&StopReason::StopId(stop_id), first + 1));
    assert_eq!(answer.text, model_text(&model, &free.tokens[..first]), "the stop token is not printed");

    // A piece of the text from within one token into the next.
    let chars: Vec<char> = free.text.chars().collect();
    let string: String = chars[chars.len() / 2..][..6].iter().collect();
    let answer = run(&mut engine, [greedy(prompt(1, 9), 40).stop("never comes").stop(&string)]).remove(0);
    assert_eq!(answer.text, free.text[..free.text.find(&string).unwrap()]);
    assert_eq!(answer.reason, StopReason::StopString(string));

    // Text held back for a stop string that does not come is there at the end.
    let mut held: String = chars[chars.len() - 2..].iter().collect();
    held.push('\u{1f600}');
    assert_eq!(run(&mut engine, [greedy(prompt(1, 9), 40).stop(held)])[0].content(), free.content());

    for most in [0, 1, 2] {
        let answer = run(&mut engine, [greedy(prompt(1, 9), most)]).remove(0);
        assert_eq!((answer.reason, &*answer.tokens), (StopReason::MaxTokens, &free.tokens[..most]));
    }

    let ending = Params { logit_bias: vec![(2, 100.0).into()], ..Params::greedy() };
    let eager = Request::new(prompt(1, 9)).params(ending).max_tokens(10);
    let answer = run(&mut engine, [eager.clone()]).remove(0);
    assert_eq!(answer.content(), (&[2][..], "", &StopReason::Eog(2)));
    let answer = run(&mut engine, [eager.ignore_eos(true)]).remove(0);
    assert_eq!((answer.reason, answer.tokens.len()), (StopReason::MaxTokens, 10));
    assert!(!answer.tokens.contains(&2));
}

#[test]
fn nothing_ends_a_text_before_its_minimum() {
    let model = model(Format::F32);
    let mut engine = serve(&model, 1, Options::default());
    let ending = Params { logit_bias: vec![(2, 100.0).into()], ..Params::greedy() };
    let eager = Request::new(prompt(1, 9)).params(ending).max_tokens(10);
    for min_tokens in [0, 1, 4, 9] {
        let answer = run(&mut engine, [eager.clone().min_tokens(min_tokens)]).remove(0);
        assert_eq!((&answer.reason, answer.tokens.len()), (&StopReason::Eog(2), min_tokens + 1));
    }
    let at_least = |min_tokens| eager.clone().min_tokens(min_tokens);
    assert_eq!(run(&mut engine, [at_least(10)])[0].reason, StopReason::MaxTokens);
    assert!(matches!(engine.submit(at_least(11)), Err(Error::MinTokens { min: 11, max: 10 })));

    // A stop token is ruled out, and what is likely next comes instead.
    let free = run(&mut engine, [greedy(prompt(1, 9), 40)]).remove(0);
    let answer = run(&mut engine, [until(greedy(prompt(1, 9), 40).min_tokens(8), free.tokens[3])]).remove(0);
    assert!(answer.tokens.len() > 8 && !answer.tokens[..8].contains(&free.tokens[3]));

    // A stop string within the first tokens is text.
    let string = model_text(&model, &free.tokens[..3]);
    let ended = |min_tokens| {
        run(&mut engine, [greedy(prompt(1, 9), 12).stop(&string).min_tokens(min_tokens)]).remove(0)
    };
    let [early, late] = [0, 3].map(ended);
    assert_eq!((early.text.as_str(), early.reason), ("", StopReason::StopString(string.clone())));
    assert!(late.text.starts_with(&string));

    // Nothing but an end is possible: it is no error.
    let n_vocab = model.tokenizer().vocab_size() as u32;
    let only_end = (0..n_vocab).filter(|&id| id != 2).map(|id| (id, f32::NEG_INFINITY).into()).collect();
    let sampling = Params { logit_bias: only_end, ..Params::greedy() };
    let answer = run(&mut engine, [Request::new(prompt(1, 9)).params(sampling).min_tokens(5)]).remove(0);
    assert_eq!(answer.content(), (&[2][..], "", &StopReason::Eog(2)));
}

/// Tokens that the file says must never be generated are not, however likely; ids outside the vocabulary are ignored.
#[test]
fn suppressed_tokens_are_not_generated() {
    let free =
        run(&mut serve(&model(Format::F32), 1, Options::default()), [greedy(prompt(1, 9), 1)]).remove(0);
    let mut metadata = spec(Format::F32).metadata();
    let suppressed = gguf::Array::I32(vec![free.tokens[0] as i32, -1, 100_000]);
    metadata.insert("tokenizer.ggml.suppress_tokens", gguf::Value::Array(suppressed));
    let mut engine = serve(&model_with(&metadata), 1, Options::default());
    let answer = run(&mut engine, [greedy(prompt(1, 9), 20)]).remove(0);
    assert!(!answer.tokens.contains(&free.tokens[0]), "{:?}", answer.tokens);
}

/// The text of generated tokens.
fn model_text(model: &Model, tokens: &[u32]) -> String {
    let mut detokenizer = tokenizer::Detokenizer::continuing(model.tokenizer().clone());
    tokens.iter().map(|&token| detokenizer.push(token)).collect::<String>() + &detokenizer.finish()
}

#[test]
fn the_text_is_that_of_the_tokens_in_whole_characters() {
    let model = model(Format::F32);
    let mut engine = serve(&model, 1, Options::default());
    for byte in [0x41, 0xc3, 0xf0, 0x80] {
        let force = Params { logit_bias: vec![(3 + u32::from(byte), 100.0).into()], ..Params::greedy() };
        let answer = run(&mut engine, [Request::new(prompt(0, 4)).params(force).max_tokens(3)]).remove(0);
        assert_eq!(answer.text, String::from_utf8_lossy(&[byte; 3]), "{:?}", answer.tokens);
    }
    let answer = run(&mut engine, [greedy(prompt(5, 30), 100)]).remove(0);
    assert_eq!(answer.text, model_text(&model, &answer.tokens));
}

#[test]
fn what_cannot_be_served_is_refused_and_changes_nothing() {
    let model = model(Format::F32);
    let mut engine = serve(&model, 1, Options::default());
    let request = || greedy(prompt(0, 5), 3);
    let wrong = [
        Request::new(Vec::new()),
        Request { prompt: vec![1, 512], ..request() },
        request().params(Params { top_p: 2.0, ..Params::default() }),
        request().params(Params { logit_bias: vec![(512, 1.0).into()], ..Params::default() }),
        request().stop(""),
    ];
    for request in wrong {
        let error = engine.submit(request).unwrap_err();
        assert!(!matches!(error, Error::Backend(_)), "{error}");
    }
    assert!(engine.is_idle() && engine.step().unwrap().is_empty());
    for options in [
        Options { n_ctx: Some(1), ..Options::default() },
        Options { n_ctx: Some(usize::MAX), sequences: 3, ..Options::default() },
        Options { n_ctx: Some(u32::MAX as usize), ..Options::default() },
        Options { sequences: 0, ..Options::default() },
        Options { sequences: usize::MAX, ..Options::default() },
        Options { n_batch: 0, ..Options::default() },
        Options { blocks: Some(0), ..Options::default() },
        Options { blocks: Some(usize::MAX), ..Options::default() },
    ] {
        let Err(Error::Option { name, .. }) = Engine::new(model.clone(), cpu(1), options) else {
            panic!("{options:?} is taken");
        };
        let of_requirements = Engine::requirements(&model, &*cpu(1), options);
        assert!(matches!(of_requirements, Err(Error::Option { name: of, .. }) if of == name));
        let usual = Options::default();
        let named = match name {
            "n_ctx" => options.n_ctx != usual.n_ctx,
            "sequences" => options.sequences != usual.sequences,
            "n_batch" => options.n_batch != usual.n_batch,
            "blocks" => options.blocks != usual.blocks,
            _ => false,
        };
        assert!(named, "`{name}` is blamed for {options:?}");
    }
}

#[test]
fn an_engine_holds_what_its_requirements_say() {
    let model = model(Format::Q8_0);
    let engine = serve(&model, 1, eight());
    let memory = Engine::requirements(&model, &*cpu(1), eight()).unwrap();
    assert_eq!(memory, engine.runner().memory());
    assert!(memory.kv > 0);
}

#[test]
fn a_batch_larger_than_the_context_is_the_context() {
    let model = model(Format::F32);
    let options = Options { n_ctx: Some(40), sequences: 2, n_batch: usize::MAX, ..Options::default() };
    let mut engine = serve(&model, 1, options);
    assert_eq!(engine.limits().n_batch, 80);
    assert_eq!(run(&mut engine, [greedy(prompt(0, 30), 3)])[0].tokens.len(), 3);
}

#[test]
fn a_model_trained_on_one_token_needs_a_context() {
    let mut metadata = spec(Format::F32).metadata();
    metadata.insert("llama.context_length", gguf::Value::U32(1));
    let model = model_with(&metadata);
    let error = Engine::new(model.clone(), cpu(1), Options::default()).unwrap_err().to_string();
    assert!(error.contains("`context_length`") && error.contains("set option `n_ctx`"), "{error}");
    let mut engine = serve(&model, 1, Options { n_ctx: Some(8), ..Options::default() });
    assert_eq!(run(&mut engine, [greedy(prompt(0, 3), 3)])[0].tokens.len(), 3);
}

#[test]
fn a_prompt_gets_bos_and_never_eos() {
    let mut metadata = spec(Format::F32).metadata();
    metadata.insert("tokenizer.ggml.add_eos_token", true);
    let with_bos = model_with(&metadata);
    let ids = with_bos.encode_prompt("Hello world", false);
    assert_eq!((ids[0], ids.iter().filter(|&&id| id <= 2).count()), (1, 1), "{ids:?}");
    assert_eq!(with_bos.encode_prompt("", false), [1]);
    assert_eq!(with_bos.encode_prompt("<s>Hello world", true), ids, "BOS is not doubled");
    assert!(!with_bos.encode_prompt("</s>", false).contains(&2), "text is never a special token");
    metadata.insert("tokenizer.ggml.add_bos_token", false);
    assert_eq!(model_with(&metadata).encode_prompt("Hello world", false), ids[1..]);
}

#[test]
fn logits_are_the_same_bits_however_they_are_asked_for() {
    let model = model(Format::Q8_0);
    let tokens = prompt(2, 70);
    let logits = |n_batch, rows| {
        let mut engine = serve(&model, 2, Options { n_batch, ..Options::default() });
        run(&mut engine, [greedy(prompt(1, 5), 3)]);
        let mut all = Vec::new();
        engine
            .logits(&tokens, rows, |position, row| {
                all.push((position, row.iter().map(|x| x.to_bits()).collect::<Vec<_>>()));
                ControlFlow::Continue(())
            })
            .unwrap();
        all
    };
    let all = logits(512, LogitRows::All);
    assert_eq!(all.iter().map(|(position, _)| *position).collect::<Vec<_>>(), (0..70).collect::<Vec<_>>());
    for n_batch in [1, 7, 64] {
        assert_eq!(logits(n_batch, LogitRows::All), all);
        assert_eq!(logits(n_batch, LogitRows::Last), all[69..]);
        for from in [0, 33, 64, 69] {
            assert_eq!(logits(n_batch, LogitRows::From(from)), all[from..]);
        }
        assert_eq!(logits(n_batch, LogitRows::From(70)), []);
    }

    let mut engine = serve(&model, 1, Options::default());
    let mut rows = 0;
    let stop_at_three = |_: usize, _: &[f32]| {
        rows += 1;
        if rows == 3 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    };
    engine.logits(&tokens, LogitRows::All, stop_at_three).unwrap();
    assert_eq!(rows, 3);
    let full = vec![5; 256];
    engine
        .logits(&full, LogitRows::Last, |position, _| {
            assert_eq!(position, 255);
            ControlFlow::Continue(())
        })
        .unwrap();
    for (tokens, why) in [(&full[..0], "no tokens"), (&vec![5; 257], "257"), (&[512], "512")] {
        let error = engine.logits(tokens, LogitRows::Last, |_, _| unreachable!("nothing runs")).unwrap_err();
        assert!(error.to_string().contains(why), "{error}");
    }
}

#[test]
fn engines_may_move_between_threads_and_models_be_shared() {
    fn moves<T: Send>() {}
    fn is_shared<T: Send + Sync>() {}
    moves::<Engine>();
    is_shared::<Model>();
    is_shared::<Error>();
}
