//! Models with random weights: complete GGUF files with the same bytes on every machine.
//!
//! The metadata of a [`Spec`] gives a graph, whose list of weights is the list of tensors. A [`Synth`] is a [`Spec`] with a
//! real model's [`Shape`] and the formats of a mix: as large and as fast as the real model.

mod random;
mod shape;
mod spec;
mod vocabulary;
mod weights;

pub use random::Random;
pub use shape::{Shape, Synth};
pub use spec::{RopeFreqs, RopeScaling, Spec};
pub use vocabulary::{SMALL_VOCAB, Vocabulary};
pub use weights::{enlarge, matrix};
