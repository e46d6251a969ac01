//! Embeddings against an independent exact forward pass (`tools/oracle/exact.py`).

use std::sync::Arc;

use backend_cpu::Cpu;
use backend_reference::Reference;
use engine::gguf::Gguf;
use engine::models::Pooling;
use engine::{Backend, Embedder, EmbedderOptions, Engine, Error, Model, Options};
use testkit::conformance::random::nmse;
use testkit::goldens;

fn file(spec: &testkit::fixtures::Spec) -> Gguf {
    Gguf::from_named_bytes("model", spec.file().into()).expect("a good file")
}

fn embedder(spec: &testkit::fixtures::Spec, pooling: Option<Pooling>, backend: Box<dyn Backend>) -> Embedder {
    let model = Model::embedding(file(spec), pooling).expect("a good model");
    Embedder::new(Arc::new(model), backend, EmbedderOptions { n_ctx: None, n_batch: 512 }).expect("loads")
}

fn reference() -> Box<dyn Backend> {
    Box::new(Reference::new())
}

fn cpu() -> Box<dyn Backend> {
    Box::new(Cpu::new(None))
}

#[test]
fn embeddings_are_exact() {
    for (name, spec) in testkit::fixtures::encoders() {
        for (backend, limit) in [(reference as fn() -> Box<dyn Backend>, 1e-9), (cpu, 1e-5)] {
            let embed = |pooling| {
                let mut embedder = embedder(&spec, Some(pooling), backend());
                let found = embedder.embed(&[goldens::long_tokens()]).expect("a good text").remove(0);
                (embedder.width(), found)
            };
            let is_near = |what: &str, exact: &[f32], found: &[f32]| {
                let error = nmse(exact, found);
                assert!(error <= limit, "{name}, {what}: NMSE {error:e}");
            };
            let (width, rows) = embed(Pooling::None);
            let some: Vec<f32> = rows
                .chunks_exact(width)
                .enumerate()
                .flat_map(|(position, row)| goldens::columns(0, position, width).map(|column| row[column]))
                .collect();
            is_near("rows", goldens::exact_rows(&name).as_flattened(), &some);
            let pooled = [Pooling::Mean, Pooling::Cls, Pooling::Last].map(|pooling| embed(pooling).1);
            is_near("pooled", &goldens::exact_pooled(&name, width), &pooled.concat());
            if spec.optional.contains("cls.weight") {
                let (labels, scores) = embed(Pooling::Rank);
                is_near("scores", &goldens::exact_scores(&name, labels), &scores);
            }
        }
    }
}

/// Short texts share a step, and a text longer than the batch has one of its own: the embeddings are the same.
#[test]
fn texts_do_not_change_each_other() {
    for (name, spec) in testkit::fixtures::encoders() {
        let tokens = goldens::long_tokens();
        let texts: Vec<Vec<u32>> = [5, 1, 200, 33, 7].map(|len| tokens[..len].to_vec()).into();
        let model = Arc::new(Model::embedding(file(&spec), None).expect("a good model"));
        let options = EmbedderOptions { n_ctx: None, n_batch: 64 };
        let mut embedder = Embedder::new(model, cpu(), options).expect("loads");
        let together = embedder.embed(&texts).expect("good texts");
        let alone = texts
            .iter()
            .map(|text| embedder.embed(std::slice::from_ref(text)).expect("a good text").remove(0));
        assert_eq!(together, alone.collect::<Vec<_>>(), "{name}");
    }
}

#[test]
fn unfit_texts_and_models_are_refused() {
    let (_, spec) = testkit::fixtures::encoders().remove(0);
    let mut embedder = embedder(&spec, None, cpu());
    for tokens in [Vec::new(), vec![1; 513]] {
        let error = embedder.embed(&[vec![1], tokens]).expect_err("its length");
        assert!(matches!(error, Error::TextLength { text: 1, n_ctx: 512, .. }), "{error}");
    }
    let model = Arc::new(Model::new(file(&spec)).expect("a good model"));
    let error = Engine::new(model, cpu(), Options::default()).expect_err("it has no logits");
    assert!(matches!(error, Error::ComputesEmbeddings { pooling: Pooling::Cls }), "{error}");
    let decoder = Arc::new(Model::new(file(&testkit::fixtures::small())).expect("a good model"));
    let options = EmbedderOptions { n_ctx: None, n_batch: 64 };
    assert!(matches!(Embedder::new(decoder, cpu(), options), Err(Error::ComputesLogits)));
}
