//! Scheduling, sequences, paged KV bookkeeping, sampling and stop handling.

mod active;
mod candidates;
mod device;
mod engine;
mod error;
mod model;
mod pages;
mod random;
mod request;
mod sampling;
pub mod scheduler;
mod stop;

pub use engine::{DEFAULT_N_CTX, Engine, LogitRows, Options};
pub use error::Error;
pub use model::Model;
pub use request::{Event, Request, Usage};
pub use sampling::{Sampler, Sampling, SamplingError};
pub use scheduler::{Limits, Refusal, RequestId, SequenceId};
pub use stop::{Stop, StopReason};
