//! Recording the values of a run by name, and finding the first wrong one.
//!
//! A [`Trace`] is a safetensors file with one matrix a value, `[positions, columns]`, named as in the
//! graph, and a [`Meta`] that says how it came about. A [`Writer`] makes one as the values come; a
//! [`Recording`] runs a model and writes what it computes. [`compare`] holds two traces against each
//! other, and each operation against an [`Oracle`]; what it finds is a [`Report`].

mod causes;
mod compare;
mod digest;
mod error;
mod html;
mod judge;
mod matrix;
mod meta;
mod metrics;
mod oracle;
mod record;
mod replay;
mod report;
mod sides;
mod stats;
mod trace;
mod unfit;
mod writer;

pub use causes::Cause;
pub use compare::compare;
pub use digest::digest;
pub use error::Error;
pub use judge::Region;
pub use matrix::Matrix;
pub use meta::Meta;
pub use metrics::{Largest, Metrics};
pub use oracle::{MakeBackend, Oracle};
pub use record::{Recording, tapped_name};
pub use report::{Compared, First, Method, Own, Report, Side, Verdict};
pub use stats::{Stats, Summary, table};
pub use trace::{Shape, Trace};
pub use writer::Writer;
