//! Models in fewer bits, as `llama-quantize` makes them.
//!
//! A [`Plan`] says which format each tensor of a file gets: by a [`Mix`], by the importance of columns that an
//! [`Imatrix`] holds. [`Plan::check`] looks at every value, and [`Plan::write`] then writes the file tensor by tensor,
//! so that memory stays the same however large the model.

mod convert;
mod error;
mod imatrix;
mod mix;
mod plan;

pub use convert::scan;
pub use error::{Error, NotFinite, Warning};
pub use imatrix::Imatrix;
pub use mix::{Facts, Mix, UnknownMix, choose};
pub use plan::{Override, Plan, Planned, Recipe};
