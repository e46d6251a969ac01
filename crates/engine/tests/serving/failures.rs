//! What happens when the ground gives way: backends that fail, files that shrink, logits that are none.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use backend::{Backend, Bucket, Description, KvLayout, Memory, Program, Step, Taps, Weight};
use engine::{Engine, Error, Event, Model, Options, Request, Sampling, SamplingError, Stop};
use graph::Graph;
use quant::Format;

use crate::common::{cpu, eight, model, prompt, run, serve, spec};

/// What a [`Faulty`] backend does wrong.
#[derive(Clone, Copy, PartialEq)]
enum Fault {
    Fails,
    GivesNan,
}

/// A backend that goes wrong when `steps` reaches zero.
struct Faulty {
    inner: Box<dyn Backend>,
    steps: Arc<AtomicUsize>,
    fault: Fault,
}

struct FaultyProgram {
    inner: Box<dyn Program>,
    steps: Arc<AtomicUsize>,
    fault: Fault,
    output: Vec<f32>,
}

impl Backend for Faulty {
    fn describe(&self) -> Description {
        self.inner.describe()
    }

    fn load(&mut self, name: &str, weight: Weight) -> Result<(), backend::Error> {
        self.inner.load(name, weight)
    }

    fn allocate_kv(&mut self, layout: KvLayout) -> Result<(), backend::Error> {
        self.inner.allocate_kv(layout)
    }

    fn compile(
        &mut self,
        graph: &Graph,
        bucket: Bucket,
        taps: Taps<'_>,
    ) -> Result<Box<dyn Program>, backend::Error> {
        let inner = self.inner.compile(graph, bucket, taps)?;
        let (steps, fault) = (self.steps.clone(), self.fault);
        Ok(Box::new(FaultyProgram { inner, steps, fault, output: Vec::new() }))
    }

    fn memory(&self) -> Memory {
        self.inner.memory()
    }
}

impl Program for FaultyProgram {
    fn run(&mut self, step: &Step) -> Result<(), backend::Error> {
        let left = self.steps.load(Ordering::Relaxed);
        self.steps.store(left.wrapping_sub(1), Ordering::Relaxed);
        if left == 0 && self.fault == Fault::Fails {
            return Err(backend::Error::Step("the cable was pulled".into()));
        }
        self.inner.run(step)?;
        self.output = self.inner.output().to_vec();
        if left == 0 {
            self.output[7] = f32::NAN;
        }
        Ok(())
    }

    fn output(&self) -> &[f32] {
        &self.output
    }

    fn read(&self, name: &str) -> Result<&[f32], backend::Error> {
        self.inner.read(name)
    }
}

fn faulty(fault: Fault, steps: usize) -> (Box<dyn Backend>, Arc<AtomicUsize>) {
    let steps = Arc::new(AtomicUsize::new(steps));
    (Box::new(Faulty { inner: cpu(1), steps: steps.clone(), fault }), steps)
}

fn greedy(seed: u32) -> Request {
    Request::new(prompt(seed, 20)).sampling(Sampling::greedy()).max_tokens(10)
}

#[test]
fn a_failed_step_ends_all_requests_and_leaks_nothing() {
    let model = model(Format::F32);
    let expected = run(&mut serve(&model, 1, eight()), (0..8).map(greedy));
    let (backend, steps) = faulty(Fault::Fails, usize::MAX);
    // Each request needs a page and there are eight: one lost page would be missed.
    let options = Options { n_ctx: Some(32), pages: Some(8), ..eight() };
    let mut engine = Engine::new(model, backend, options).unwrap();
    for failing in 0..6 {
        steps.store(failing, Ordering::Relaxed);
        let chat = engine.new_sequence();
        for seed in 0..8 {
            engine.submit(if seed == 0 { greedy(0).sequence(chat) } else { greedy(seed) }).unwrap();
        }
        let error = loop {
            match engine.step() {
                Ok(events) => assert!(!events.is_empty()),
                Err(error) => break error,
            }
        };
        assert!(error.to_string().contains("the cable was pulled"), "{error}");
        assert!(engine.is_idle() && engine.step().unwrap().is_empty());

        steps.store(usize::MAX, Ordering::Relaxed);
        let requests = (0..8).map(|seed| if seed == 0 { greedy(0).sequence(chat) } else { greedy(seed) });
        let answers = run(&mut engine, requests);
        for (answer, expected) in answers.iter().zip(&expected) {
            assert_eq!(answer.content(), expected.content());
            assert_eq!(answer.usage.reused_tokens, 0, "what a failed step wrote is not trusted");
        }
    }
}

#[test]
fn logits_that_are_none_end_their_request_alone() {
    let (backend, _) = faulty(Fault::GivesNan, 2);
    let mut engine = Engine::new(model(Format::F32), backend, eight()).unwrap();
    let ids = [0, 1].map(|seed| engine.submit(greedy(seed)).unwrap());
    let mut ends = Vec::new();
    while !engine.is_idle() {
        for event in engine.step().unwrap() {
            match event {
                Event::Failed { id, error } => {
                    assert!(matches!(error, SamplingError::Logit { token: 7, .. }), "{error}");
                    ends.push((id, false));
                }
                Event::Done { id, .. } => ends.push((id, true)),
                Event::Token { .. } => {}
            }
        }
    }
    assert_eq!(ends, [(ids[0], false), (ids[1], true)]);
}

#[test]
fn banning_every_token_is_an_error() {
    let mut engine = Engine::new(model(Format::F32), cpu(1), eight()).unwrap();
    let logit_bias = (0..512).map(|id| (id, f32::NEG_INFINITY)).collect();
    let banned = Request::new(prompt(0, 3)).sampling(Sampling { logit_bias, ..Sampling::default() });
    let id = engine.submit(banned.stop(Stop::default())).unwrap();
    let events = engine.step().unwrap();
    assert_eq!(events, [Event::Failed { id, error: SamplingError::NoToken { biased: true } }]);
    assert!(engine.is_idle());
}

#[test]
fn a_file_truncated_while_in_use_ends_with_an_error() {
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
