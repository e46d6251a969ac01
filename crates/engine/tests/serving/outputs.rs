//! What requests ask for besides text: logits of their prompts, log-probabilities, processors.

use std::ops::ControlFlow;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use engine::{
    Engine, Event, LogitRows, Logprobs, Model, Options, Params, Processor, Request, RequestError,
    SamplingError, StopReason,
};
use quant::Format;

use crate::common::{Answer, eight, finish, model, prompt, run, serve};

/// Positions and logits, bit by bit.
type Rows = Vec<(usize, Vec<u32>)>;

fn bits(logits: &[f32]) -> Vec<u32> {
    logits.iter().map(|logit| logit.to_bits()).collect()
}

fn greedy(prompt: Vec<u32>, max_tokens: usize) -> Request {
    Request::new(prompt).params(Params::greedy()).max_tokens(max_tokens)
}

/// The logits after each token, by an engine that does nothing else.
fn all_logits(model: &Arc<Model>, tokens: &[u32]) -> Vec<Vec<f32>> {
    let mut rows = Vec::new();
    serve(model, 1, Options::default())
        .logits(tokens, LogitRows::All, |position, row| {
            assert_eq!(position, rows.len());
            rows.push(row.to_vec());
            ControlFlow::Continue(())
        })
        .expect("it computes");
    rows
}

#[test]
fn requests_go_on_while_logits_are_computed() {
    let model = model(Format::F32);
    let requests = || (0..3).map(|i| greedy(prompt(i, 20 + 30 * i as usize), 25));
    let expected = run(&mut serve(&model, 1, eight()), requests());
    let tokens = prompt(9, 90);
    let rows = all_logits(&model, &tokens);
    // Of three blocks for four sequences of up to four, someone is always preempted.
    for options in [eight(), Options { n_batch: 16, ..eight() }, Options { blocks: Some(5), ..eight() }] {
        let mut engine = serve(&model, 1, options);
        let ids: Vec<_> = requests().map(|request| engine.submit(request).unwrap()).collect();
        let before = engine.step().unwrap();
        let mut found = Rows::new();
        engine
            .logits(&tokens, LogitRows::From(10), |position, row| {
                found.push((position, bits(row)));
                ControlFlow::Continue(())
            })
            .unwrap();
        let all: Rows = rows.iter().map(|row| bits(row)).enumerate().skip(10).collect();
        assert_eq!(found, all);
        let mut tokens = vec![Vec::new(); 3];
        let mut take = |events: Vec<Event>| {
            for event in events {
                if let Event::Token { id, token, .. } = event {
                    tokens[ids.iter().position(|of| *of == id).expect("one of these")].push(token);
                }
            }
        };
        take(before);
        while !engine.is_idle() {
            take(engine.step().unwrap());
        }
        assert!(tokens.iter().eq(expected.iter().map(|answer| &answer.tokens)), "no event is lost");
    }
}

/// Submits `request` with an observer of `rows`; what it saw and became.
fn observed(engine: &mut Engine, request: Request, rows: LogitRows) -> (Rows, Answer) {
    let seen: Arc<Mutex<Rows>> = Arc::default();
    let sink = seen.clone();
    let id = engine
        .submit(request.observe(rows, move |observed| {
            let rows = observed.iter().map(|(row, logits)| (row.position, bits(logits)));
            sink.lock().expect("no panic").extend(rows);
            ControlFlow::Continue(())
        }))
        .expect("it can be served");
    let answer = finish(engine).remove(&id).expect("it ends");
    (std::mem::take(&mut *seen.lock().expect("no panic")), answer)
}

#[test]
fn a_prompts_logits_come_with_its_answer() {
    let model = model(Format::F32);
    let tokens = prompt(4, 70);
    let expected = run(&mut serve(&model, 1, eight()), [greedy(tokens.clone(), 8)]).remove(0);
    let all: Rows = all_logits(&model, &tokens).iter().map(|row| bits(row)).enumerate().collect();
    for n_batch in [7, 512] {
        let mut engine = serve(&model, 1, Options { n_batch, ..Options::default() });
        for (rows, from) in
            [(LogitRows::All, 0), (LogitRows::From(33), 33), (LogitRows::Last, 69), (LogitRows::From(70), 70)]
        {
            let (seen, answer) = observed(&mut engine, greedy(tokens.clone(), 8), rows);
            assert_eq!(seen, all[from..], "{rows:?}");
            assert_eq!(answer.content(), expected.content());
            let (seen, answer) = observed(&mut engine, greedy(tokens.clone(), 0), rows);
            assert_eq!(seen, all[from..], "{rows:?}");
            assert_eq!(answer.content(), (&[][..], "", &StopReason::MaxTokens));
        }
    }
    // Cached rows are computed again if their logits are requested.
    let mut engine = serve(&model, 1, Options::default());
    run(&mut engine, [greedy(tokens.clone(), 8)]);
    let (seen, answer) = observed(&mut engine, greedy(tokens, 8), LogitRows::From(40));
    assert_eq!((seen, answer.usage.reused_tokens), (all[40..].to_vec(), 32));
    assert_eq!(answer.content(), expected.content());
}

#[test]
fn an_observer_that_breaks_ends_its_request() {
    let model = model(Format::F32);
    let mut engine = serve(&model, 1, eight());
    let seen = Arc::new(Mutex::new(0));
    let sink = seen.clone();
    let id = engine
        .submit(greedy(prompt(0, 50), 5).observe(LogitRows::All, move |_| {
            *sink.lock().expect("no panic") += 1;
            if *sink.lock().expect("no panic") == 3 {
                ControlFlow::Break(())
            } else {
                ControlFlow::Continue(())
            }
        }))
        .unwrap();
    let other = engine.submit(greedy(prompt(1, 5), 5)).unwrap();
    let answers = finish(&mut engine);
    assert_eq!((&answers[&id].reason, answers[&id].tokens.len()), (&StopReason::Cancelled, 0));
    assert_eq!((answers[&other].tokens.len(), *seen.lock().expect("no panic")), (5, 3));
}

/// The log-probabilities that the engine reports for each token.
fn told(engine: &mut Engine, request: Request) -> Vec<(u32, Option<Logprobs>)> {
    engine.submit(request).expect("it can be served");
    let mut told = Vec::new();
    while !engine.is_idle() {
        for event in engine.step().expect("nothing fails here") {
            if let Event::Token { token, logprobs, .. } = event {
                told.push((token, logprobs));
            }
        }
    }
    told
}

#[test]
fn log_probabilities_are_those_of_the_models_softmax() {
    let model = model(Format::F32);
    let mut engine = serve(&model, 1, eight());
    // Whatever a token is chosen by, the probabilities are the model's.
    let biased = Params { logit_bias: vec![(77, 100.0).into()], ..Params::greedy() };
    let sampled = Params { seed: Some(3), temperature: 2.0, repeat_penalty: 1.3, ..Params::default() };
    for sampling in [Params::greedy(), biased, sampled] {
        let request = || Request::new(prompt(2, 12)).params(sampling.clone()).max_tokens(6);
        let plain = told(&mut engine, request());
        assert!(plain.iter().all(|(_, logprobs)| logprobs.is_none()));
        let with = told(&mut engine, request().logprobs(4));
        assert!(with.iter().map(|(token, _)| token).eq(plain.iter().map(|(token, _)| token)));

        let mut tokens = prompt(2, 12);
        tokens.extend(plain.iter().map(|(token, _)| token));
        for ((token, logprobs), logits) in with.iter().zip(&all_logits(&model, &tokens)[11..]) {
            let logits: Vec<f64> = logits.iter().map(|&logit| f64::from(logit)).collect();
            let total: f64 = logits.iter().map(|logit| logit.exp()).sum();
            let expected = |id: u32| (logits[id as usize].exp() / total).ln() as f32;
            let logprobs = logprobs.as_ref().expect("they were asked for");
            let close = |found: f32, id: u32| assert!((found - expected(id)).abs() < 1e-5, "{found} of {id}");
            close(logprobs.token, *token);
            let mut ids: Vec<u32> = (0..512).collect();
            ids.sort_by(|&a, &b| logits[b as usize].total_cmp(&logits[a as usize]).then(a.cmp(&b)));
            assert!(logprobs.top.iter().map(|(id, _)| id).eq(&ids[..4]), "{:?}", logprobs.top);
            logprobs.top.iter().for_each(|&(id, found)| close(found, id));
        }
    }
    let alone = told(&mut engine, greedy(prompt(2, 12), 1).logprobs(0));
    assert!(alone[0].1.as_ref().is_some_and(|logprobs| logprobs.top.is_empty() && logprobs.token < 0.0));
}

/// A grammar of one sentence over and over; `at` counts the tokens that it has seen.
#[derive(Clone, Debug)]
struct Sentence {
    tokens: Vec<u32>,
    at: usize,
}

impl Processor for Sentence {
    fn apply(&mut self, _: &[u32], logits: &mut [f32]) {
        let allowed = self.tokens.get(self.at).copied();
        self.at += 1;
        for (id, logit) in logits.iter_mut().enumerate() {
            if Some(id as u32) != allowed {
                *logit = f32::NEG_INFINITY;
            }
        }
    }

    fn boxed_clone(&self) -> Box<dyn Processor> {
        Box::new(self.clone())
    }
}

#[test]
fn a_processor_masks_what_a_grammar_forbids() {
    let model = model(Format::F32);
    let mut engine = serve(&model, 1, Options { blocks: Some(5), ..eight() });
    let sentence = vec![300, 7, 7, 41];
    let grammar = Sentence { tokens: sentence.clone(), at: 0 };
    for sampling in [Params::greedy(), Params { seed: Some(1), ..Params::default() }] {
        // Requests beside it, so that it is preempted and computed again.
        let request = Request::new(prompt(0, 31)).params(sampling).processor(grammar.clone());
        let others = (1..4).map(|seed| greedy(prompt(seed, 31), 40));
        let answers = run(&mut engine, others.chain([request.clone().max_tokens(4)]));
        assert_eq!(answers[3].tokens, sentence);
        let id = engine.submit(request.max_tokens(5)).unwrap();
        let mut last = None;
        while !engine.is_idle() {
            last = engine.step().unwrap().pop().or(last);
        }
        let error = RequestError::Sampling(SamplingError::RuledOut);
        assert_eq!(last, Some(Event::Failed { id, error }), "there is no fifth word");
    }
}

/// Otherwise the special token would be delivered before the text that precedes it.
#[test]
fn text_before_a_special_token_is_not_held_back() {
    let model = model(Format::F32);
    let raw = tokenizer::Encode { add_special: false, parse_special: false };
    let exclamation = *model.tokenizer().encode("!", raw).last().unwrap();
    // The second is BOS.
    let sentence = Sentence { tokens: vec![exclamation, 1, exclamation, exclamation], at: 0 };
    let mut engine = serve(&model, 1, Options::default());
    let request = Request::new(model.encode_prompt("Hello", false)).params(Params::greedy());
    engine.submit(request.stop("!!").processor(sentence)).unwrap();
    let mut texts = Vec::new();
    while !engine.is_idle() {
        for event in engine.step().unwrap() {
            match event {
                Event::Token { text, .. } => texts.push(text),
                Event::Done { reason, .. } => assert_eq!(reason, StopReason::StopString("!!".into())),
                Event::Failed { error, .. } => panic!("{error}"),
            }
        }
    }
    assert_eq!(texts, ["", "!", "", ""]);
}

/// It ends only after a line, and the text that a stop string holds back is delivered.
#[test]
fn a_text_ends_with_a_line_after_its_time() {
    let model = model(Format::F32);
    let raw = tokenizer::Encode { add_special: false, parse_special: false };
    let token = |text: &str| *model.tokenizer().encode(text, raw).last().unwrap();
    let (mark, line) = (token("!"), token("\n"));
    let answer = |limit| {
        let sentence = Sentence { tokens: vec![mark, mark, line, mark, mark], at: 0 };
        let mut request =
            Request::new(model.encode_prompt("Hello", false)).params(Params::greedy()).max_tokens(5);
        request.params.time_limit = Some(limit);
        let mut engine = serve(&model, 1, Options::default());
        engine.submit(request.stop("!\n?").processor(sentence)).unwrap();
        let (mut all, mut reason) = (String::new(), None);
        while !engine.is_idle() {
            for event in engine.step().unwrap() {
                match event {
                    Event::Token { text, .. } => all += &text,
                    Event::Done { reason: ended, .. } => reason = Some(ended),
                    Event::Failed { error, .. } => panic!("{error}"),
                }
            }
        }
        assert_eq!(reason, Some(StopReason::MaxTokens));
        all
    };
    assert_eq!(answer(Duration::ZERO), "!!\n");
    assert_eq!(answer(Duration::from_secs(3600)), "!!\n!!");
}

/// Notes its calls: lengths of texts, and tokens. Rules out everything once a text has `most` tokens.
#[derive(Clone, Debug)]
struct Listener {
    most: usize,
    calls: Arc<Mutex<Vec<(&'static str, u32)>>>,
}

impl Processor for Listener {
    fn apply(&mut self, tokens: &[u32], logits: &mut [f32]) {
        self.calls.lock().expect("no panic").push(("apply", tokens.len() as u32));
        if tokens.len() >= self.most {
            logits.fill(f32::NEG_INFINITY);
        }
    }

    fn chosen(&mut self, token: u32) {
        self.calls.lock().expect("no panic").push(("chosen", token));
    }

    fn failure(&self) -> Option<String> {
        Some("it has enough".to_owned())
    }

    fn boxed_clone(&self) -> Box<dyn Processor> {
        Box::new(self.clone())
    }
}

#[test]
fn a_processor_learns_of_each_token_that_does_not_end_the_text_and_explains_itself() {
    let model = model(Format::F32);
    let mut engine = serve(&model, 1, eight());
    let listener = Listener { most: 14, calls: Arc::default() };
    let request = Request::new(prompt(0, 10)).params(Params::greedy()).processor(listener.clone());
    let [answer] = &run(&mut engine, [request.clone().max_tokens(3)])[..] else { panic!("one answer") };
    let tokens = &answer.tokens;
    let calls = vec![
        ("apply", 10),
        ("chosen", tokens[0]),
        ("apply", 11),
        ("chosen", tokens[1]),
        ("apply", 12),
        // The last one ends the text.
    ];
    assert_eq!(*listener.calls.lock().expect("no panic"), calls);
    let id = engine.submit(request.max_tokens(9)).unwrap();
    let mut last = None;
    while !engine.is_idle() {
        last = engine.step().unwrap().pop().or(last);
    }
    let error = RequestError::Sampling(SamplingError::Failed("it has enough".to_owned()));
    assert_eq!(error.to_string(), "no token is possible: it has enough");
    assert_eq!(last, Some(Event::Failed { id, error }));
}
