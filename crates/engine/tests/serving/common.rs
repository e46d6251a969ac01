//! Small random models and what a request on them comes to.

use std::collections::BTreeMap;
use std::num::NonZero;
use std::sync::Arc;

use backend::Backend;
use engine::{Engine, Event, Model, Options, Request, RequestId, StopReason, Usage};
use quant::Format;
use testkit::fixtures::Spec;

/// A model of two layers and 512 tokens.
pub(crate) fn spec(format: Format) -> Spec {
    Spec { layers: 2, hidden: 64, heads: 4, kv_heads: 2, ffn: 128, context: 256, ..Spec::new(format) }
}

/// That model, opened.
pub(crate) fn model(format: Format) -> Arc<Model> {
    opened(spec(format).file())
}

/// That model with other metadata.
pub(crate) fn model_with(metadata: &gguf::Metadata) -> Arc<Model> {
    let tensors = spec(Format::F32).tensors();
    opened(gguf::write(Vec::new(), metadata, &tensors).expect("testkit's tensors are valid"))
}

/// A file, opened.
pub(crate) fn opened(file: Vec<u8>) -> Arc<Model> {
    let file = gguf::Gguf::from_bytes(file.into()).expect("what was just written is valid");
    Arc::new(Model::new(file).expect("testkit's models are supported"))
}

/// The CPU backend.
pub(crate) fn cpu(threads: usize) -> Box<dyn Backend> {
    Box::new(backend_cpu::Cpu::new(NonZero::new(threads)))
}

/// The reference backend.
pub(crate) fn reference() -> Box<dyn Backend> {
    Box::new(backend_reference::Reference::new())
}

/// An engine on the CPU backend.
pub(crate) fn serve(model: &Arc<Model>, threads: usize, options: Options) -> Engine {
    Engine::new(model.clone(), cpu(threads), options).expect("the CPU backend computes the model")
}

/// The request with a stop token.
pub(crate) fn until(mut request: Request, id: u32) -> Request {
    request.params.stop_token_ids = vec![id];
    request
}

/// Options with room for eight requests.
pub(crate) fn eight() -> Options {
    Options { sequences: 8, ..Options::default() }
}

/// What became of a request.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Answer {
    pub(crate) tokens: Vec<u32>,
    pub(crate) text: String,
    pub(crate) reason: StopReason,
    pub(crate) usage: Usage,
}

impl Answer {
    /// All but the times.
    pub(crate) fn content(&self) -> (&[u32], &str, &StopReason) {
        (&self.tokens, &self.text, &self.reason)
    }
}

/// Steps until all is done. Every request must end exactly once.
pub(crate) fn finish(engine: &mut Engine) -> BTreeMap<RequestId, Answer> {
    let mut texts: BTreeMap<RequestId, (Vec<u32>, String)> = BTreeMap::new();
    let mut answers = BTreeMap::new();
    while !engine.is_idle() {
        for event in engine.step().expect("nothing fails here") {
            match event {
                Event::Token { id, token, text, logprobs: _ } => {
                    assert!(!answers.contains_key(&id), "a token after the end");
                    let answer = texts.entry(id).or_default();
                    answer.0.push(token);
                    answer.1 += &text;
                }
                Event::Done { id, reason, usage } => {
                    let (tokens, text) = texts.remove(&id).unwrap_or_default();
                    assert_eq!(usage.generated_tokens, tokens.len());
                    let answer = Answer { tokens, text, reason, usage };
                    assert_eq!(answers.insert(id, answer), None, "a request ended twice");
                }
                Event::Failed { error, .. } => panic!("{error}"),
            }
        }
    }
    assert!(texts.is_empty());
    answers
}

/// Runs `requests` together.
pub(crate) fn run(engine: &mut Engine, requests: impl IntoIterator<Item = Request>) -> Vec<Answer> {
    let mut submit = |request| engine.submit(request).expect("the request can be served");
    let ids: Vec<RequestId> = requests.into_iter().map(&mut submit).collect();
    let mut answers = finish(engine);
    ids.iter().map(|id| answers.remove(id).expect("every request ends")).collect()
}

/// A prompt of `len` tokens, another for each `seed`.
pub(crate) fn prompt(seed: u32, len: usize) -> Vec<u32> {
    let step = 2 * seed + 37;
    std::iter::once(1).chain((1..len as u32).map(|i| 3 + (i * step + seed * 101) % 500)).collect()
}
