//! Embeddings and scores.

use std::fs;

use rustorch::engine::models::Pooling;
use rustorch::engine::tokenizer::Encode;
use rustorch::engine::{self, Embedder, EmbedderOptions, Normalization};
use rustorch::gguf::Gguf;
use rustorch::{BackendName, Error};
use testkit::fixtures::Spec;

use crate::{demo, options};

const TEXTS: [&str; 3] = ["a b", "c d e f", "a"];

/// The embeddings of the engine on the same backend.
fn expected(
    file: Gguf,
    pooling: Option<Pooling>,
    tokens: impl Fn(&engine::Model) -> Vec<Vec<u32>>,
) -> Vec<Vec<f32>> {
    let model = std::sync::Arc::new(engine::Model::embedding(file, pooling).expect("a model"));
    let cpu = rustorch::devices::host(BackendName::CPU, Default::default()).open().expect("a CPU");
    let tokens = tokens(&model);
    let options = EmbedderOptions { n_ctx: None, n_batch: 512 };
    Embedder::new(model, cpu, options).expect("loads").embed(&tokens).expect("embeddings")
}

fn tokens(model: &engine::Model) -> Vec<Vec<u32>> {
    let encode = Encode { add_special: true, parse_special: false };
    TEXTS.iter().map(|text| model.tokenizer().encode(text, encode)).collect()
}

fn normalized(mut embeddings: Vec<Vec<f32>>) -> Vec<Vec<f32>> {
    embeddings.iter_mut().for_each(|embedding| Normalization::P(2).apply(embedding));
    embeddings
}

#[test]
fn a_model_that_writes_text_embeds_by_the_mean() {
    let file = Gguf::from_bytes(demo_model::EMBEDDED.into()).expect("a file");
    let expected = normalized(expected(file, Some(Pooling::Mean), tokens));
    assert!(demo().embed(&TEXTS).expect("embeddings") == expected);
    assert!(demo().embed(&[""; 0]).expect("nothing").is_empty());
    let error = demo().rerank("a", &TEXTS).expect_err("no reranker");
    assert!(matches!(error, Error::NoReranker { .. }), "{error}");
}

#[test]
fn embedding_models_do_what_they_are_for() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("model.gguf");
    let mut rerankers = 0;
    for (name, spec) in testkit::fixtures::encoders() {
        let bytes = Spec::file(&spec);
        fs::write(&path, &bytes).expect("a file");
        let model = options().open(&path).unwrap_or_else(|error| panic!("{name}: {error}"));
        let file = || Gguf::open(&path).expect("a file");
        let pooling = model.file().config().pooling.expect("a model for embeddings");
        assert_ne!(pooling, Pooling::None, "{name}");
        if pooling == Pooling::Rank {
            rerankers += 1;
            let pairs = |model: &engine::Model| {
                TEXTS.iter().map(|text| model.rerank_tokens("a c", text).expect("tokens")).collect()
            };
            let scores: Vec<f32> = expected(file(), None, pairs).iter().map(|scores| scores[0]).collect();
            assert_eq!(model.rerank("a c", &TEXTS).expect("scores"), scores, "{name}");
        } else {
            let expected = normalized(expected(file(), None, tokens));
            assert!(model.embed(&TEXTS).expect("embeddings") == expected, "{name}");
        }
        let error = model.generate("a").text().expect_err("no text");
        assert!(error.to_string().contains("cannot write text"), "{name}: {error}");
        assert!(model.chat().say("a").text().is_err(), "{name}");
        assert_eq!(model.n_ctx(), None);
    }
    assert!(rerankers > 0);
}
