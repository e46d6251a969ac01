//! Recording the values of a run by name, to files that other programs can write and read, too.
//!
//! A [`Trace`] is a safetensors file with one matrix a value, `[positions, columns]`, named as in the
//! graph, and a [`Meta`] that says how it came about. A [`Writer`] makes one as the values come; a
//! [`Recording`] runs a model and writes what it computes.

mod digest;
mod error;
mod meta;
mod record;
mod stats;
mod trace;
mod writer;

pub use digest::digest;
pub use error::Error;
pub use meta::Meta;
pub use record::{Recording, tapped_name};
pub use stats::{Stats, Summary, table};
pub use trace::{Shape, Trace};
pub use writer::Writer;
