//! Texts whose tokens the card draws.

use std::collections::BTreeMap;
use std::sync::Arc;

use engine::{Engine, Event, Model, Options, Params, Request, SamplerKind};
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
    let hot = || Params { temperature: 2.5, top_p: 0.99, min_p: 0.01, ..Params::default() };
    let far = Params { repeat_last_n: Some(200), repeat_penalty: 1.3, presence_penalty: 0.4, ..hot() };
    let of = |logprobs: Option<usize>| {
        let samplings = [
            Params::greedy(),
            Params::default(),
            hot(),
            far.clone(),
            Params { temperature: 0.0, ..far.clone() },
            Params {
                logit_bias: vec![(7, 3.0).into(), (9, f32::NEG_INFINITY).into(), (7, 0.5).into()],
                ..hot()
            },
            Params { repeat_last_n: Some(2), frequency_penalty: 1.5, ..hot() },
            Params { top_k: 0, ..hot() },
            Params { top_k: 0, top_p: 1.0, min_p: 0.0, temperature: 1.0, ..far.clone() },
            Params { top_k: 100, min_p: 0.0, ..far.clone() },
            Params { samplers: vec![SamplerKind::Temperature, SamplerKind::TopP], ..hot() },
        ];
        (0..).zip(samplings).map(move |(i, sampling)| {
            let prompt = (0..10 + 3 * i).map(|token| 3 + (token * 37 + i * 101) % 500).collect();
            Request::new(prompt).params(Params { seed: Some(i), logprobs, ..sampling }).max_tokens(20)
        })
    };
    let [drawn, chosen] = [None, Some(0)].map(|logprobs| texts(&model, of(logprobs)));
    assert!(drawn.iter().all(|text| !text.is_empty()));
    assert_eq!(drawn, chosen);
}
