//! Recording the values of a run by name, to files that other programs can write and read, too.
//!
//! A [`Trace`] is a safetensors file with one matrix a value, `[positions, columns]`, named as in the
//! graph, and a [`Meta`] that says how it came about. A [`Writer`] makes one as the values come.

mod causes;
mod compare;
mod error;
mod judge;
mod meta;
mod metrics;
mod oracle;
mod table;
mod trace;
mod writer;

pub use causes::Cause;
pub use compare::{Compared, First, Method, Report, Side, TAPPED, Verdict, compare};
pub use error::Error;
pub use judge::Region;
pub use meta::Meta;
pub use metrics::{Largest, Metrics};
pub use oracle::{MakeBackend, Oracle};
pub use table::Table;
pub use trace::{Shape, Trace};
pub use writer::Writer;
