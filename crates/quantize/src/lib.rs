//! Quantises models, as `llama-quantize` does.
//!
//! A [`Plan`] chooses the format of each tensor by a [`Mix`], and weighs columns by an [`Imatrix`]. [`Plan::check`] scans
//! every value, then [`Plan::write`] writes the file tensor by tensor, so that memory does not grow with the model.

mod convert;
mod error;
mod imatrix;
mod mix;
mod plan;

pub use convert::scan;
pub use error::{Error, NotFinite, Warning};
pub use imatrix::{Calibration, Imatrix, InputSums};
pub use mix::{Facts, Mix, choose};
pub use plan::{Override, Plan, Planned, Recipe, formats};
