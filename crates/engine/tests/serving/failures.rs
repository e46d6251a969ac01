//! What happens when the ground gives way: backends that fail, files that shrink, logits that are none.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use backend::{Backend, KV_BLOCK, MAX_CANDIDATES, Output, Outputs, Program, Step, Ticket, Transfer};
use engine::{
    Bias, Engine, Error, Event, Model, Options, Params, Request, RequestError, SamplingError, StopReason,
};
use quant::Format;
use testkit::wrapped;

use crate::common::{cpu, eight, finish, model, prompt, reference, run, serve, spec};

/// What a [`Faulty`] backend does wrong.
#[derive(Clone, Copy)]
enum Fault {
    /// A step fails.
    Fails,
    /// All steps from then on fail.
    IsLost,
    /// A step's first logits are none.
    Gives(fn(&mut [f32])),
}

/// A backend that fails when `steps` reaches zero.
#[derive(Clone)]
struct Faulty {
    steps: Arc<AtomicUsize>,
    fault: Fault,
    device: Device,
}

/// What its outputs are.
#[derive(Clone, Copy, PartialEq)]
enum Device {
    /// Always logits.
    Returns,
    /// No logits if only tokens and candidates are requested.
    Keeps,
    /// Tokens alone if it can draw them.
    Draws,
}

struct FaultyProgram {
    inner: Box<dyn Program>,
    faulty: Faulty,
    asked: Option<Step>,
    is_wrong: bool,
    logits: Vec<f32>,
}

impl Faulty {
    fn backend(self) -> Box<dyn Backend> {
        let program = move |inner| -> Box<dyn Program> {
            let (faulty, logits) = (self.clone(), Vec::new());
            Box::new(FaultyProgram { inner, faulty, asked: None, is_wrong: false, logits })
        };
        wrapped(cpu(1), program)
    }
}

impl Program for FaultyProgram {
    fn submit(&mut self, step: &Step) -> Result<Ticket, backend::Error> {
        let Faulty { steps, fault, .. } = &self.faulty;
        let left = steps.load(Ordering::Relaxed);
        // Asked again, a device says the same.
        let [before, now] =
            [self.asked.as_ref(), Some(step)].map(|step| step.map_or(Transfer::Logits, Step::transfer));
        let is_again = self.is_wrong && before != Transfer::Logits && now == Transfer::Logits;
        self.is_wrong = left == 0 || is_again;
        if !is_again && (left > 0 || !matches!(fault, Fault::IsLost)) {
            steps.store(left.wrapping_sub(1), Ordering::Relaxed);
        }
        if self.is_wrong && matches!(fault, Fault::Fails | Fault::IsLost) {
            return Err(backend::Error::Device {
                device: "a card".into(),
                why: "the cable was pulled".into(),
            });
        }
        self.asked = Some(step.clone());
        self.inner.submit(step)
    }

    fn wait(&mut self, ticket: Ticket) -> Result<Outputs<'_>, backend::Error> {
        self.logits = self.inner.wait(ticket)?.values().to_vec();
        let asked = self.asked.as_ref().expect("a step was submitted");
        let rows: Vec<Output> = asked.outputs().map(|(_, output)| output.clone()).collect();
        let cols = self.logits.len() / rows.len().max(1);
        if let (Fault::Gives(change), true) = (self.faulty.fault, self.is_wrong) {
            change(&mut self.logits[..cols]);
        }
        let transfer = match self.faulty.device {
            Device::Returns => Transfer::Logits,
            Device::Keeps => asked.transfer_undrawn(),
            Device::Draws => asked.transfer(),
        };
        match transfer {
            Transfer::Tokens | Transfer::Drawn => {
                Ok(Outputs::from_tokens(&testkit::chosen(asked, &self.logits)))
            }
            Transfer::Candidates => {
                let words: Vec<u32> = self.logits.chunks_exact(cols).flat_map(candidates).collect();
                Ok(Outputs::from_candidates(&rows, &words))
            }
            Transfer::Logits => Ok(Outputs::new(&rows, &self.logits, cols)),
        }
    }

    fn read(&self, name: &str) -> Result<&[f32], backend::Error> {
        self.inner.read(name)
    }
}

/// The best candidates of a row as a device returns them.
fn candidates(logits: &[f32]) -> [u32; 2 * MAX_CANDIDATES] {
    let mut words = [Outputs::NO_TOKEN; 2 * MAX_CANDIDATES];
    for (i, (id, logit)) in testkit::best(logits, MAX_CANDIDATES).into_iter().enumerate() {
        (words[i], words[MAX_CANDIDATES + i]) = (id, logit.to_bits());
    }
    words
}

fn faulty(fault: Fault, steps: usize) -> (Box<dyn Backend>, Arc<AtomicUsize>) {
    let steps = Arc::new(AtomicUsize::new(steps));
    (Faulty { steps: steps.clone(), fault, device: Device::Returns }.backend(), steps)
}

fn greedy(seed: u32) -> Request {
    Request::new(prompt(seed, 20)).params(Params::greedy()).max_tokens(10)
}

/// It is as if it had not been, however far it came, and whatever else was in it.
#[test]
fn an_interrupted_step_is_run_again() {
    let model = model(Format::F32);
    for backend in [cpu, |_| reference()] {
        let options = Options { n_batch: 16, ..eight() };
        let engine = || Engine::new(model.clone(), backend(1), options).expect("room");
        let requests = || (0..3).map(greedy);
        let expected = run(&mut engine(), requests());
        let mut engine = engine();
        let ids: Vec<_> = requests().map(|request| engine.submit(request).expect("room")).collect();
        let interrupt = engine.interrupt();
        interrupt.raise();
        assert!(engine.step().expect("nothing fails").is_empty());
        let raising = std::thread::spawn(move || {
            for _ in 0..200 {
                interrupt.raise();
                std::thread::sleep(std::time::Duration::from_micros(100));
            }
        });
        let answers = finish(&mut engine);
        raising.join().expect("it ends");
        for (id, expected) in ids.iter().zip(expected) {
            assert_eq!(answers[id].content(), expected.content());
        }
    }
}

/// Ctrl-C in a long prompt: what the cache held before stays.
#[test]
fn a_prompt_is_cancelled_within_a_step() {
    let model = model(Format::F32);
    let mut engine = serve(&model, 1, Options { n_batch: 16, ..Options::default() });
    let long = || Request::new(prompt(1, 64)).params(Params::greedy()).max_tokens(4);
    let id = engine.submit(long()).expect("room");
    assert!(engine.step().expect("nothing fails").is_empty());
    engine.interrupt().raise();
    assert!(engine.step().expect("nothing fails").is_empty());
    engine.cancel(id);
    assert!(matches!(engine.step().as_deref(), Ok([Event::Done { reason: StopReason::Cancelled, .. }])));
    let again = run(&mut engine, [long()]);
    assert_eq!(again[0].usage.reused_tokens, 16);
    let fresh = run(&mut serve(&model, 1, Options::default()), [long()]);
    assert_eq!(again[0].tokens, fresh[0].tokens);
}

/// Steps until a step fails; which requests failed, in order.
fn failed(engine: &mut Engine) -> Vec<engine::RequestId> {
    loop {
        let events = engine.step().expect("the file is whole");
        let failed = events.iter().filter_map(|event| match event {
            Event::Failed { id, error } => {
                assert!(error.to_string().contains("the cable was pulled"), "{error}");
                Some(*id)
            }
            _ => None,
        });
        let failed: Vec<_> = failed.collect();
        if !failed.is_empty() {
            assert_eq!(failed.len(), events.len(), "nothing else comes of a failed step");
            return failed;
        }
    }
}

#[test]
fn a_failed_step_ends_its_requests_and_leaks_nothing() {
    let model = model(Format::F32);
    // Prompts of more than a block: others can find a full block while its request runs.
    let long = |seed| Request::new(prompt(seed, KV_BLOCK + 8)).params(Params::greedy()).max_tokens(10);
    let (backend, steps) = faulty(Fault::Fails, usize::MAX);
    // Each request needs two pages and there are sixteen: one lost page would be missed.
    let options = Options { n_ctx: Some(2 * KV_BLOCK), blocks: Some(16), ..eight() };
    let mut engine = Engine::new(model.clone(), backend, options).unwrap();
    for failing in 0..6 {
        let requests = || (0..8).map(|i| long(8 * failing + i));
        steps.store(failing as usize, Ordering::Relaxed);
        for request in requests() {
            engine.submit(request).unwrap();
        }
        assert_eq!(failed(&mut engine).len(), 8);
        assert!(engine.is_idle() && engine.step().unwrap().is_empty());

        steps.store(usize::MAX, Ordering::Relaxed);
        let answers = run(&mut engine, requests());
        let expected = run(&mut serve(&model, 1, eight()), requests());
        // The first step computes the prompts: their full block is intact if that step succeeded.
        let intact = if failing == 0 { 0 } else { KV_BLOCK };
        for (answer, expected) in answers.iter().zip(&expected) {
            assert_eq!(answer.content(), expected.content());
            assert_eq!(answer.usage.reused_tokens, intact, "what a failed step wrote is not trusted");
        }
    }
}

#[test]
fn who_was_not_in_a_failed_step_goes_on() {
    let model = model(Format::F32);
    let expected = run(&mut serve(&model, 1, eight()), (0..6).map(greedy));
    for failing in [0, 1, 3] {
        let (backend, steps) = faulty(Fault::Fails, usize::MAX);
        let mut engine = Engine::new(model.clone(), backend, Options { sequences: 4, ..eight() }).unwrap();
        let before = run(&mut engine, [greedy(7)]).remove(0);
        steps.store(failing, Ordering::Relaxed);
        let ids: Vec<_> = (0..6).map(|seed| engine.submit(greedy(seed)).unwrap()).collect();
        assert_eq!(failed(&mut engine), ids[..4], "the first four are in the step, the others wait");
        let answers = finish(&mut engine);
        assert_eq!(answers.keys().collect::<Vec<_>>(), [&ids[4], &ids[5]]);
        for (answer, expected) in answers.values().zip(&expected[4..]) {
            assert_eq!(answer.content(), expected.content());
        }
        let Request { prompt, .. } = greedy(7);
        let longer = [prompt, before.tokens, vec![1]].concat();
        let cached = longer.len() - 2;
        let again = run(&mut engine, [Request::new(longer).max_tokens(1)]).remove(0);
        assert_eq!(again.usage.reused_tokens, cached, "what was not in the step stays cached");
    }
}

#[test]
fn on_a_lost_device_every_request_fails_by_itself() {
    let (backend, _) = faulty(Fault::IsLost, 3);
    let mut engine = Engine::new(model(Format::F32), backend, Options::default()).unwrap();
    let ids = [0, 1, 2].map(|seed| engine.submit(greedy(seed)).unwrap());
    for id in ids {
        assert_eq!(failed(&mut engine), [id]);
    }
    assert!(engine.is_idle());
    let id = engine.submit(greedy(3)).unwrap();
    assert_eq!(failed(&mut engine), [id]);
    let error = engine
        .logits(&[1, 2], engine::LogitRows::Last, |_, _| unreachable!("nothing is computed"))
        .unwrap_err();
    assert!(matches!(error, Error::Backend(backend::Error::Device { .. })), "{error}");
    assert!(engine.is_idle());
}

/// A request whose tokens are drawn from the best candidates.
fn sampled(seed: u32) -> Request {
    greedy(seed).temperature(0.8).seed(seed)
}

/// Two requests of which the first gets logits that are none: how it ends.
fn ends_alone(change: fn(&mut [f32]), device: Device, request: fn(u32) -> Request) -> SamplingError {
    let steps = Arc::new(AtomicUsize::new(2));
    let backend = Faulty { steps, fault: Fault::Gives(change), device }.backend();
    let model = model(Format::F32);
    let expected = run(&mut serve(&model, 1, eight()), [request(1)]).remove(0);
    let mut engine = Engine::new(model, backend, eight()).expect("room");
    let ids = [0, 1].map(|seed| engine.submit(request(seed)).expect("it can be served"));
    let (mut tokens, mut failed) = (Vec::new(), Vec::new());
    while !engine.is_idle() {
        for event in engine.step().expect("the file is whole") {
            match event {
                Event::Failed { id, error: RequestError::Sampling(error) } => failed.push((id, error)),
                Event::Token { id, token, .. } if id == ids[1] => tokens.push(token),
                Event::Token { .. } | Event::Done { .. } => {}
                Event::Failed { error, .. } => panic!("{error}"),
            }
        }
    }
    assert_eq!(tokens, expected.tokens, "the other goes on");
    let (id, error) = failed.remove(0);
    assert!(id == ids[0] && failed.is_empty());
    error
}

#[test]
fn logits_that_are_none_end_their_request_alone() {
    // Debug, as NaN is not equal to itself.
    let text = |error| format!("{error:?}");
    for (device, request) in [
        (Device::Returns, greedy as fn(u32) -> Request),
        (Device::Keeps, greedy),
        (Device::Keeps, sampled),
        (Device::Draws, sampled),
    ] {
        let ends_alone = |change| ends_alone(change, device, request);
        let nan = ends_alone(|logits| logits[7] = f32::NAN);
        assert_eq!(text(nan), text(SamplingError::Logit { token: 7, value: f32::NAN }));
        let infinite = ends_alone(|logits| logits[9] = f32::INFINITY);
        assert_eq!(infinite, SamplingError::Logit { token: 9, value: f32::INFINITY });
        let none = ends_alone(|logits| logits.fill(f32::NEG_INFINITY));
        assert_eq!(none, SamplingError::NoToken);
    }
}

/// A device that keeps logits, where tokens or the best candidates suffice, gives the tokens that the sampler would choose.
#[test]
fn a_device_that_chooses_gives_the_same_answers() {
    let model = model(Format::F32);
    let requests = || {
        let endless = greedy(3).ignore_eos(true);
        let hot_for = |seed| Params {
            temperature: 3.0,
            top_k: 30,
            top_p: 1.0,
            min_p: 0.0,
            seed: Some(seed),
            max_tokens: Some(10),
            ..Params::default()
        };
        let hot = hot_for(6);
        let penalised = Params { repeat_last_n: Some(20), frequency_penalty: 0.5, ..hot.clone() };
        let (hot, penalised) = (greedy(4).params(hot), greedy(7).params(penalised));
        // Of these, the best candidates do not suffice.
        let logit_bias = [(9, 4.0), (300, f32::NEG_INFINITY), (9, -1.0)].map(Bias::from).to_vec();
        let biased = Params { logit_bias, ..hot_for(9) };
        let far =
            Params { repeat_last_n: Some(200), repeat_penalty: 1.3, presence_penalty: -0.4, ..hot_for(10) };
        let greedily = Params { temperature: 0.0, ..far.clone() };
        let candidates = [endless, sampled(5), hot, penalised];
        let all = Params { top_k: 0, ..far.clone() };
        let drawn = [biased, far, greedily, all].map(|sampling| greedy(11).params(sampling));
        let logits = sampled(2).seed(8).top_n_sigma(2.0);
        [greedy(0), greedy(1)].into_iter().chain(candidates).chain(drawn).chain([logits])
    };
    let expected = run(&mut serve(&model, 1, eight()), requests());
    let steps = Arc::new(AtomicUsize::new(usize::MAX));
    for device in [Device::Keeps, Device::Draws] {
        let device = Faulty { steps: steps.clone(), fault: Fault::Fails, device };
        for count in 2..=11 {
            let mut engine = Engine::new(model.clone(), device.clone().backend(), eight()).unwrap();
            for (answer, expected) in run(&mut engine, requests().take(count)).iter().zip(&expected) {
                assert_eq!(answer.content(), expected.content());
            }
        }
    }
}

#[test]
fn banning_every_token_is_an_error() {
    let mut engine = Engine::new(model(Format::F32), cpu(1), eight()).unwrap();
    let logit_bias = (0..512).map(|id| (id, f32::NEG_INFINITY).into()).collect();
    let banned = Request::new(prompt(0, 3)).params(Params { logit_bias, ..Params::default() });
    let id = engine.submit(banned).unwrap();
    let events = engine.step().unwrap();
    let error = SamplingError::RuledOut.into();
    assert_eq!(events, [Event::Failed { id, error }]);
    assert!(engine.is_idle());
}

#[test]
fn a_file_truncated_while_in_use_ends_with_an_error() {
    gguf::survive_truncation().unwrap();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("model.gguf");
    spec(Format::F32).write_to(&path).unwrap();
    let model = Arc::new(Model::open(&path).unwrap());
    let mut engine = serve(&model, 1, eight());
    engine.submit(greedy(0)).unwrap();
    engine.step().unwrap();

    let file = std::fs::OpenOptions::new().write(true).open(&path).unwrap();
    file.set_len(file.metadata().unwrap().len() / 2).unwrap();
    let error = engine.step().unwrap_err();
    assert!(matches!(error, Error::File(gguf::Error::TruncatedInUse { .. })), "{error}");
    assert!(error.to_string().contains("model.gguf"), "{error}");
    assert!(engine.is_idle());
}

#[test]
fn what_cannot_be_opened_is_refused_by_name() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("broken.gguf");
    let mut metadata = spec(Format::F32).metadata();
    metadata.insert("general.architecture", "mamba");
    let write = |metadata: &gguf::Metadata| {
        std::fs::write(&path, gguf::write(Vec::new(), metadata, &spec(Format::F32).tensors()).unwrap())
            .unwrap();
        Model::open(&path).unwrap_err()
    };
    let of_model = write(&metadata);
    metadata = spec(Format::F32).metadata();
    metadata.insert("tokenizer.ggml.model", "smoke signals");
    let of_tokenizer = write(&metadata);
    std::fs::write(&path, "GGUF, but not really").unwrap();
    let of_file = Model::open(&path).unwrap_err();
    let of_nothing = Model::open(folder.path().join("broken.gguf.not")).unwrap_err();
    assert!(matches!(of_model, Error::Model { .. }), "{of_model}");
    assert!(matches!(of_tokenizer, Error::Tokenizer { .. }), "{of_tokenizer}");
    for error in [of_model, of_tokenizer, of_file, of_nothing] {
        assert!(error.to_string().contains("broken.gguf"), "{error}");
    }
}
