//! Running a model on one or more devices.
//!
//! A [`ModelRunner`] is the only way to put a model on a backend: it owns the loaded weights, the KV cache and a table
//! of programs by bucket. Engine, traces and checks all run steps on it.

mod deploy;
mod pipeline;
pub mod placement;
mod runner;
mod tensor_parallel;
mod weights;

pub use deploy::{Deployed, Deployment, DeviceConfig, Fit, Survey, Workload};
pub use pipeline::Pipeline;
pub use runner::{ModelRunner, Submitted};
pub use tensor_parallel::TensorParallel;
pub use weights::FileWeights;
