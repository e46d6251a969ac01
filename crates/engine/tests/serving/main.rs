//! Engines serving requests: random models, real backends.

mod common;
mod failures;
mod known_answers;
mod promises;
