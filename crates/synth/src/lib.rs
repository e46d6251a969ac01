//! Models with random weights: complete GGUF files, the same bytes on every machine.
//!
//! A [`Spec`] says what a model is like. It becomes metadata, these a graph, and the graph's list of weights is the list
//! of tensors. A [`Synth`] is a [`Spec`] of a real model's [`Shape`] in the formats of a mix: as large and as fast as the
//! real one.

mod random;
mod shape;
mod spec;
mod vocabulary;
mod weights;

pub use random::Random;
pub use shape::{Shape, Synth};
pub use spec::{Planned, RopeFreqs, RopeScaling, Spec};
pub use vocabulary::{SMALL_VOCAB, Vocabulary};
pub use weights::{enlarge, matrix};
