//! A small model and recordings of it.

use std::path::Path;

use backend::{Backend, KvFormat};
use backend_cpu::Cpu;
use backend_reference::Reference;
use gguf::Gguf;
use models::Model;
use trace::{Error, Recording, Summary};

/// Two blocks and a bit, so that positions go over from block to block.
pub(crate) fn tokens() -> Vec<u32> {
    (0..70).map(|i| (i * 37 + 5) % 512).collect()
}

/// The small model, in memory.
pub(crate) fn small() -> (Gguf, Model) {
    let file = Gguf::from_bytes(testkit::fixtures::small().file().into()).expect("a good file");
    let model = Model::new(&file).expect("a good model");
    (file, model)
}

pub(crate) fn cpu() -> Box<dyn Backend> {
    Box::new(Cpu::new(2.try_into().ok()))
}

pub(crate) fn reference() -> Box<dyn Backend> {
    Box::new(Reference::new())
}

/// What is recorded in these tests unless they say otherwise.
pub(crate) fn everything<'a>(file: &'a Gguf, model: &'a Model, tokens: &'a [u32]) -> Recording<'a> {
    Recording {
        file,
        graph: &model.graph,
        tokens,
        kv: KvFormat::F16,
        rows: 128,
        select: &|_| true,
        producer: "test",
    }
}

/// Records all of the small model's values after `tokens` to `path`.
pub(crate) fn record(
    backend: Box<dyn Backend>,
    tokens: &[u32],
    rows: usize,
    path: &Path,
) -> Result<Vec<Summary>, Error> {
    let (file, model) = small();
    Recording { rows, ..everything(&file, &model, tokens) }.run(backend, Some(path))
}
