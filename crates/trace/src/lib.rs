//! Records the values of a run by name, and finds the first wrong one.
//!
//! A [`Trace`] is a safetensors file with a matrix `[positions, columns]` per value of the graph, and [`Meta`]. A
//! [`Writer`] writes one; a [`Recording`] runs a model and writes its values. [`compare`] compares two traces, and each
//! operation with an [`Oracle`], into a [`Report`].

mod cache;
mod causes;
mod compare;
mod error;
mod html;
mod invalid;
mod judge;
mod matrix;
mod meta;
mod metrics;
mod oracle;
mod record;
mod replay;
mod report;
mod stats;
mod trace;
mod traces;
mod writer;

pub use compare::compare;
pub use error::Error;
pub use matrix::Matrix;
pub use meta::{Meta, digest};
pub use oracle::Oracle;
pub use record::Recording;
pub use report::{First, Method, Report, Verdict};
pub use stats::{Stats, Summary, table};
pub use trace::{Shape, Trace};
pub use writer::Writer;

use record::tapped_name;
