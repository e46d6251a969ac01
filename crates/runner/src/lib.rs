//! A model on the devices that compute it.
//!
//! A [`ModelRunner`] is the one way to put a model on a backend: weights from the file, stores, and a table of programs
//! by bucket. Whoever runs steps, be it an engine, a trace or a check, goes through it.

mod deploy;
mod pipeline;
pub mod placement;
mod runner;
mod weights;

pub use deploy::{Deployed, Deployment, Fit, Opening, Workload};
pub use pipeline::Pipeline;
pub use runner::ModelRunner;
pub use weights::FileWeights;
