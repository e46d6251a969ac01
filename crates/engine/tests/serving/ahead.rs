//! Steps that are submitted before the tokens of the step before are known: a device that chooses tokens itself.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use backend::{Outputs, Pending, Program, Step, Ticket};
use engine::{Engine, Event, Model, Options, Params, Request, RequestError, StopReason};
use quant::Format;
use testkit::fixtures::Spec;
use testkit::wrapped;

use crate::common::{Answer, cpu, eight, finish, model, opened, prompt, run, serve, until};

/// A device that chooses tokens, and computes steps that follow those.
#[derive(Clone, Default)]
struct Device {
    /// Steps that took tokens of the step before.
    followed: Arc<AtomicUsize>,
    /// Steps until one gives no token; the next ones compute with token 0 then.
    good: Option<Arc<AtomicUsize>>,
    /// Steps until one fails when it is waited for.
    alive: Option<Arc<AtomicUsize>>,
}

struct DeviceProgram {
    inner: Box<dyn Program>,
    device: Device,
    pending: Pending<2>,
    /// Tokens of the steps in progress, or errors, and those of the last one.
    places: [Result<Vec<u32>, backend::Error>; 2],
    last: Vec<u32>,
    /// The inner ticket of a step that wants logits.
    ticket: Option<Ticket>,
}

fn is_over(left: &Option<Arc<AtomicUsize>>) -> bool {
    left.as_ref().is_some_and(|left| left.fetch_sub(1, Ordering::Relaxed) == 0)
}

impl Program for DeviceProgram {
    fn submit(&mut self, step: &Step) -> Result<Ticket, backend::Error> {
        let place = self.pending.next_buffer();
        let ticket = self.pending.begin(step);
        self.device.followed.fetch_add(usize::from(step.is_ahead()), Ordering::Relaxed);
        let known: Vec<u32> =
            self.last.iter().map(|&token| if token == Outputs::NO_TOKEN { 0 } else { token }).collect();
        let mut resolved = step.clone();
        resolved.resolve(&known);
        self.ticket = None;
        if !step.transfer().are_tokens() {
            self.ticket = Some(self.inner.submit(&resolved)?);
            return Ok(ticket);
        }
        self.last = testkit::chosen(&resolved, self.inner.run(&resolved)?.values());
        if is_over(&self.device.good) {
            self.last[0] = Outputs::NO_TOKEN;
        }
        let lost = || backend::Error::Device { device: "a card".into(), why: "the cable was pulled".into() };
        self.places[place] = if is_over(&self.device.alive) { Err(lost()) } else { Ok(self.last.clone()) };
        Ok(ticket)
    }

    fn can_follow(&self) -> bool {
        true
    }

    fn wait(&mut self, ticket: Ticket) -> Result<Outputs<'_>, backend::Error> {
        let place = self.pending.buffer(&ticket);
        self.pending.end(ticket)?;
        match self.ticket.take() {
            Some(ticket) => self.inner.wait(ticket),
            None => self.places[place].clone().map(|tokens| Outputs::from_tokens(&tokens)),
        }
    }

    fn read(&self, name: &str) -> Result<&[f32], backend::Error> {
        self.inner.read(name)
    }
}

fn on(device: &Device, model: &Arc<Model>, options: Options) -> Engine {
    let device = device.clone();
    let program = move |inner| -> Box<dyn Program> {
        Box::new(DeviceProgram {
            inner,
            device: device.clone(),
            pending: Pending::default(),
            places: [Ok(Vec::new()), Ok(Vec::new())],
            last: Vec::new(),
            ticket: None,
        })
    };
    let backend = wrapped(cpu(1), program);
    Engine::new(model.clone(), backend, options).expect("the CPU backend computes the model")
}

fn greedy(seed: u32, prompt_len: usize, max_tokens: usize) -> Request {
    Request::new(prompt(seed, prompt_len)).params(Params::greedy()).max_tokens(max_tokens)
}

/// The same, drawn; the penalties consider every token.
fn drawn(seed: u32, prompt_len: usize, max_tokens: usize) -> Request {
    // Of the best tokens or of all.
    let top_k = if seed.is_multiple_of(2) { 40 } else { 0 };
    let heat = Params { temperature: 1.5, top_k, top_p: 0.98, seed: Some(seed), ..Params::default() };
    let sampling = Params { repeat_penalty: 1.3, presence_penalty: 0.3, repeat_last_n: Some(50), ..heat };
    greedy(seed, prompt_len, 0).params(sampling).max_tokens(max_tokens)
}

fn contents(answers: &[Answer]) -> Vec<(&[u32], &str, &StopReason)> {
    answers.iter().map(Answer::content).collect()
}

/// Texts of several lengths, greedy and drawn, that end by a stop id, a stop string and by length.
fn requests(model: &Arc<Model>) -> Vec<Request> {
    let long = run(&mut serve(model, 1, Options::default()), [greedy(5, 9, 40)]).remove(0);
    let at = long.text.char_indices().nth(long.text.chars().count() / 2).expect("a text").0;
    let string: String = long.text[at..].chars().take(2).collect();
    vec![
        greedy(0, 3, 70),
        greedy(1, 30, 1),
        greedy(2, 70, 2),
        until(greedy(5, 9, 40), long.tokens[17]),
        greedy(5, 9, 40).stop(string),
        greedy(3, 17, 33),
        drawn(6, 12, 60),
        drawn(7, 40, 21),
    ]
}

#[test]
fn steps_ahead_change_no_text() {
    let model = model(Format::F32);
    let requests = requests(&model);
    let options = |sequences, blocks| Options { sequences, blocks, ..Options::default() };
    // One after the other, together, and with so few blocks that some are preempted.
    for options in
        [options(1, None), options(3, None), options(8, None), options(4, Some(4)), options(8, Some(3))]
    {
        let expected = run(&mut serve(&model, 1, options), requests.clone());
        let device = Device::default();
        let mut engine = on(&device, &model, options);
        let answers = run(&mut engine, requests.clone());
        assert_eq!(contents(&answers), contents(&expected), "{options:?}");
        let followed = device.followed.load(Ordering::Relaxed);
        assert!(
            followed > 40 || options.blocks.is_some(),
            "{followed} steps were submitted ahead with {options:?}"
        );
        // What the cache has now is what it should have.
        let mut plain = serve(&model, 1, options);
        let [_, expected] = [0, 1].map(|_| run(&mut plain, requests.clone()));
        let again = run(&mut engine, requests.clone());
        assert_eq!(contents(&again), contents(&expected), "again, {options:?}");
        let reused =
            |answers: &[Answer]| answers.iter().map(|answer| answer.usage.reused_tokens).collect::<Vec<_>>();
        if options.blocks.is_none() {
            assert_eq!(reused(&again), reused(&expected), "{options:?}");
        }
    }
}

#[test]
fn windows_and_states_are_respected() {
    let windowed = opened(Spec { context: 256, ..testkit::fixtures::gemma3(Format::F32) }.file());
    let requests = || (0..3).map(|i| greedy(i, 15 + 45 * i as usize, 90));
    let options = Options { sequences: 3, ..Options::default() };
    let expected = run(&mut serve(&windowed, 1, options), requests());
    let device = Device::default();
    assert_eq!(contents(&run(&mut on(&device, &windowed, options), requests())), contents(&expected));
    assert!(device.followed.load(Ordering::Relaxed) > 50);
}

/// Others come and go at every step; a text depends on none of that.
#[test]
fn requests_come_and_go_between_steps() {
    let model = model(Format::F32);
    let request = |i: u32| greedy(i % 5, 5 + 7 * (i as usize % 5), 12 + 9 * (i as usize % 4));
    let expected: Vec<Answer> =
        (0..20).map(|i| run(&mut serve(&model, 1, Options::default()), [request(i)]).remove(0)).collect();
    for every in [1, 2, 3, 7] {
        let mut engine = on(&Device::default(), &model, Options { sequences: 4, ..Options::default() });
        let (mut submitted, mut texts, mut steps) = (Vec::new(), std::collections::BTreeMap::new(), 0);
        let mut cancelled = Vec::new();
        while submitted.len() < 20 || !engine.is_idle() {
            if steps % every == 0 && submitted.len() < 20 {
                submitted.push(engine.submit(request(submitted.len() as u32)).expect("room"));
            }
            if steps % 11 == 10
                && let Some(id) = submitted.get(submitted.len() / 2)
            {
                engine.cancel(*id);
                cancelled.push(*id);
            }
            steps += 1;
            for event in engine.step().expect("nothing fails") {
                match event {
                    Event::Token { id, token, .. } => texts.entry(id).or_insert_with(Vec::new).push(token),
                    Event::Done { .. } => {}
                    Event::Failed { error, .. } => panic!("{error}"),
                }
            }
        }
        for (id, expected) in submitted.iter().zip(&expected) {
            let tokens = texts.remove(id).unwrap_or_default();
            match cancelled.contains(id) {
                true => assert!(expected.tokens.starts_with(&tokens)),
                false => assert_eq!(tokens, expected.tokens, "a request every {every} steps"),
            }
        }
    }
}

/// The row after one without a token is computed with a wrong one. It must leave nothing behind.
#[test]
fn a_row_without_a_token_is_asked_for_logits_and_goes_on() {
    let model = model(Format::F32);
    let requests = || [greedy(0, 20, 100), greedy(1, 20, 100), drawn(2, 20, 100)];
    let expected = run(&mut serve(&model, 1, eight()), requests());
    for step in [0, 1, 2, 30, 44] {
        let device = Device { good: Some(Arc::new(AtomicUsize::new(step))), ..Device::default() };
        let mut engine = on(&device, &model, eight());
        assert_eq!(contents(&run(&mut engine, requests())), contents(&expected), "after {step} steps");
        assert_eq!(contents(&run(&mut engine, requests())), contents(&expected), "after {step} steps, again");
    }
}

#[test]
fn a_failed_step_ends_its_requests_and_nothing_of_it_is_found() {
    let model = model(Format::F32);
    for step in [0, 1, 2, 43, 44, 45] {
        let device = Device { alive: Some(Arc::new(AtomicUsize::new(step))), ..Device::default() };
        let mut engine = on(&device, &model, eight());
        let ids: Vec<_> = (0..3).map(|i| engine.submit(greedy(i, 20, 100)).expect("room")).collect();
        let mut failed = Vec::new();
        while !engine.is_idle() {
            for event in engine.step().expect("the file is intact") {
                if let Event::Failed { id, error: RequestError::Backend(error) } = event {
                    assert!(error.to_string().contains("the cable was pulled"), "{error}");
                    failed.push(id);
                }
            }
        }
        assert_eq!(failed, ids, "after {step} steps");
        let load = engine.load();
        let answers = run(&mut engine, [greedy(0, 20, 100)]);
        let expected = run(&mut serve(&model, 1, eight()), [greedy(0, 20, 100)]);
        assert_eq!(contents(&answers), contents(&expected));
        assert_eq!(answers[0].usage.reused_tokens, 0, "{load:?}");
    }
}

/// While a step ahead is computed, another request comes, so that none follows. A row of it has no token: all are chosen from logits,
/// and the penalties know the token of the step before.
#[test]
fn the_host_draws_from_the_whole_history() {
    let model = model(Format::F32);
    let expected = run(&mut serve(&model, 1, eight()), [drawn(2, 20, 60), drawn(3, 20, 60)]);
    for step in [3, 4, 20] {
        let device = Device { good: Some(Arc::new(AtomicUsize::new(step))), ..Device::default() };
        let mut engine = on(&device, &model, eight());
        let ids = [2, 3].map(|seed| engine.submit(drawn(seed, 20, 60)).expect("room"));
        let mut texts = std::collections::BTreeMap::new();
        for i in 0.. {
            if i == step {
                engine.submit(greedy(4, 30, 5)).expect("room");
            }
            for event in engine.step().expect("nothing fails") {
                if let Event::Token { id, token, .. } = event {
                    texts.entry(id).or_insert_with(Vec::new).push(token);
                }
            }
            if engine.is_idle() {
                break;
            }
        }
        for (id, expected) in ids.iter().zip(&expected) {
            assert_eq!(texts[id], expected.tokens, "no token in step {step}");
        }
    }
}

/// A text ends while the step after it is computed, with a row of its last token, and that step fails.
#[test]
fn the_row_of_an_ended_text_is_not_found_if_its_step_fails() {
    let model = model(Format::F32);
    let text = run(&mut serve(&model, 1, eight()), [greedy(5, 9, 40)]).remove(0).tokens;
    let ends = text.iter().position(|token| *token == text[17]).expect("it is there");
    // The prompt's step is the first one.
    let device = Device { alive: Some(Arc::new(AtomicUsize::new(ends + 1))), ..Device::default() };
    let mut engine = on(&device, &model, eight());
    engine.submit(greedy(0, 20, 100)).expect("room");
    let id = engine.submit(until(greedy(5, 9, 40), text[17])).expect("room");
    let mut is_done = false;
    while !engine.is_idle() {
        let events = engine.step().expect("the file is intact");
        is_done |= events.iter().any(|event| matches!(event, Event::Done { id: of, .. } if *of == id));
    }
    assert!(is_done, "its text was whole");
    let whole = [prompt(5, 9), text[..ends + 1].to_vec(), vec![3]].concat();
    let again = run(&mut engine, [Request::new(whole).params(Params::greedy()).max_tokens(3)]).remove(0);
    assert_eq!(again.usage.reused_tokens, 0);
}

/// The last token of a context comes from a step ahead that none follows.
#[test]
fn a_text_fills_the_context_as_without() {
    let model = model(Format::F32);
    for n_ctx in [30, 64, 65] {
        let options = Options { n_ctx: Some(n_ctx), ..Options::default() };
        let endless = || Request::new(prompt(0, 10)).temperature(0.0);
        let expected = run(&mut serve(&model, 1, options), [endless()]);
        let answers = run(&mut on(&Device::default(), &model, options), [endless()]);
        assert_eq!((&answers[0].reason, answers[0].tokens.len()), (&StopReason::ContextFull, n_ctx - 10));
        assert_eq!(contents(&answers), contents(&expected));
    }
}

/// Programs are compiled, taps set and logits asked for while a step is in progress.
#[test]
fn everything_else_waits_for_the_step_in_progress() {
    let model = model(Format::F32);
    let expected = run(&mut serve(&model, 1, eight()), [greedy(0, 20, 30)]);
    let mut engine = on(&Device::default(), &model, eight());
    let id = engine.submit(greedy(0, 20, 30)).expect("room");
    let mut tokens = Vec::new();
    for i in 0.. {
        if i == 5 {
            engine.prepare_logits().expect("memory");
        }
        if i == 9 {
            let mut rows = 0;
            let every = engine::LogitRows::All;
            let count = |_, _: &[f32]| {
                rows += 1;
                std::ops::ControlFlow::Continue(())
            };
            engine.logits(&prompt(3, 40), every, count).expect("room");
            assert_eq!(rows, 40);
        }
        if i == 14 {
            engine.observe(&["embd"], |_| std::ops::ControlFlow::Continue(())).expect("the graph has it");
        }
        for event in engine.step().expect("nothing fails") {
            match event {
                Event::Token { token, .. } => tokens.push(token),
                Event::Done { id: ended, .. } => assert_eq!(ended, id),
                Event::Failed { error, .. } => panic!("{error}"),
            }
        }
        if engine.is_idle() {
            break;
        }
    }
    assert_eq!(tokens, expected[0].tokens);
    assert!(finish(&mut engine).is_empty());
}
