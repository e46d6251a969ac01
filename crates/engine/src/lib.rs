//! Scheduling, sequences, paged KV bookkeeping, sampling and stop handling.

mod candidates;
mod pages;
mod random;
mod sampling;
pub mod scheduler;

pub use sampling::{Sampler, Sampling, SamplingError};
