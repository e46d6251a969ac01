//! Engines serving requests: random models, real backends.

mod ahead;
mod common;
mod demo;
mod failures;
mod known_answers;
mod moving;
mod outputs;
mod promises;
mod speculation;
mod taps;
