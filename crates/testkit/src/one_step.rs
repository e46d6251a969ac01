//! One step of a small model, for tests of what a backend does when it fails.

use backend::{
    Backend, Bucket, Error, KvFormat, KvLayout, LoadedModel, Program, Row, Sequence, Step, Taps, Weights,
};
use gguf::Gguf;
use graph::Graph;
use models::Model;
use runner::FileWeights;

use crate::fixtures;

/// The bucket of the step.
pub const BUCKET: Bucket = Bucket { rows: 16, outputs: 16 };

/// A loaded model with a program.
pub type Compiled = (Box<dyn LoadedModel>, Box<dyn Program>);

/// Calls `take` with a small model and a cache of two blocks.
pub fn small<T>(take: impl FnOnce(&Graph, &dyn Weights, &KvLayout) -> T) -> T {
    let file = Gguf::from_bytes(fixtures::small().file().into()).expect("a good file");
    let Model { graph, .. } = Model::new(&file).expect("a good model");
    take(&graph, &FileWeights(&file), &KvLayout::uniform(&graph, 2, KvFormat::F16))
}

/// Compiles the small model on `backend`, with its weights uploaded.
///
/// # Errors
/// Those of the backend.
pub fn compile(backend: Box<dyn Backend>) -> Result<Compiled, Error> {
    small(|graph, weights, kv_layout| {
        let mut loaded = backend.load(graph, weights, kv_layout)?;
        let program = loaded.compile(BUCKET, Taps::None)?;
        loaded.prepare(&mut |_| {})?;
        Ok((loaded, program))
    })
}

/// A step of twelve rows, all of which are output rows.
pub fn step() -> Step {
    let sequence = Sequence::uniform(0, 12, 1, [0]);
    Step::new(Row::logits(0..12, 0..12), vec![sequence]).expect("a good step")
}

/// The logits of the step.
///
/// # Errors
/// Those of the backend.
pub fn run(program: &mut dyn Program) -> Result<Vec<f32>, Error> {
    Ok(program.run(&step())?.values().to_vec())
}

/// The logits of the step on `reference`.
pub fn exact(reference: Box<dyn Backend>) -> Vec<f32> {
    let (_loaded, mut program) = compile(reference).expect("a good model");
    run(&mut *program).expect("a good step")
}
