//! Texts whose tokens the card draws.

use std::collections::BTreeMap;
use std::sync::Arc;

use engine::{Engine, Event, Model, Options, Request, SamplerKind, Sampling};
use gguf::Gguf;
use quant::Format;
use testkit::fixtures::Spec;

use super::{card, cuda};

/// Tokens by request.
fn texts(model: &Arc<Model>, requests: impl IntoIterator<Item = Request>) -> Vec<Vec<u32>> {
    let card = card().expect("there is one");
    let options = Options { sequences: 8, ..Options::default() };
    let mut engine = Engine::new(model.clone(), cuda(&card), options).expect("room");
    let ids: Vec<_> =
        requests.into_iter().map(|request| engine.submit(request).expect("a good request")).collect();
    let mut texts: BTreeMap<_, Vec<u32>> = BTreeMap::new();
    while !engine.is_idle() {
        for event in engine.step().expect("a whole file") {
            match event {
                Event::Token { id, token, .. } => texts.entry(id).or_default().push(token),
                Event::Done { .. } => {}
                Event::Failed { error, .. } => panic!("{error}"),
            }
        }
    }
    ids.iter().map(|id| texts.remove(id).unwrap_or_default()).collect()
}

/// Of a request for log-probabilities all logits come back.
#[test]
fn the_card_draws_the_texts_that_the_host_draws() {
    if card().is_none() {
        return;
    }
    let spec = Spec {
        layers: 2,
        hidden: 64,
        heads: 4,
        kv_heads: 2,
        ffn: 128,
        context: 256,
        ..Spec::new(Format::F32)
    };
    let file = Gguf::from_bytes(spec.file().into()).expect("a good file");
    let model = Arc::new(Model::new(file).expect("a good model"));
    let hot = || Sampling { temperature: 2.5, top_p: 0.99, min_p: 0.01, ..Sampling::default() };
    let far = Sampling { penalty_last_n: 200, repeat_penalty: 1.3, presence_penalty: 0.4, ..hot() };
    let of = |logprobs: Option<usize>| {
        let samplings = [
            Sampling::greedy(),
            Sampling::default(),
            hot(),
            far.clone(),
            Sampling { temperature: 0.0, ..far.clone() },
            Sampling { logit_bias: vec![(7, 3.0), (9, f32::NEG_INFINITY), (7, 0.5)], ..hot() },
            Sampling { penalty_last_n: 2, frequency_penalty: 1.5, ..hot() },
            Sampling { top_k: 0, ..hot() },
            Sampling { top_k: 0, top_p: 1.0, min_p: 0.0, temperature: 1.0, ..far.clone() },
            Sampling { top_k: 100, min_p: 0.0, ..far.clone() },
            Sampling { samplers: vec![SamplerKind::Temperature, SamplerKind::TopP], ..hot() },
        ];
        (0..).zip(samplings).map(move |(i, sampling)| {
            let prompt = (0..10 + 3 * i).map(|token| 3 + (token * 37 + i * 101) % 500).collect();
            let sampling = Sampling { seed: Some(i), ..sampling };
            Request { logprobs, ..Request::new(prompt).sampling(sampling).max_tokens(20) }
        })
    };
    let [drawn, chosen] = [None, Some(0)].map(|logprobs| texts(&model, of(logprobs)));
    assert!(drawn.iter().all(|text| !text.is_empty()));
    assert_eq!(drawn, chosen);
}
