//! Scheduling, sequences, paged KV bookkeeping, sampling and stop handling.

mod candidates;
mod pages;
mod random;
mod sampling;
pub mod scheduler;
mod stop;

pub use sampling::{Sampler, Sampling, SamplingError};
pub use stop::{Stop, StopReason};
