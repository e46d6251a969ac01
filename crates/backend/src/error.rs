//! What can go wrong in a backend.

/// An error of a backend.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The bytes given for a weight are not those of its shape.
    #[error("weight `{name}`: {found} bytes for {rows} rows of {cols} {format} values, expected {expected}")]
    WeightBytes {
        /// The weight.
        name: String,
        /// Its format.
        format: quant::Format,
        /// Its rows.
        rows: usize,
        /// Its columns.
        cols: usize,
        /// Bytes given.
        found: usize,
        /// Bytes the shape takes, `whole blocks` when its rows are not.
        expected: String,
    },
    /// The graph uses a weight that was not loaded.
    #[error("weight `{name}` was not loaded; load every weight of the graph before compiling it")]
    MissingWeight {
        /// The weight.
        name: String,
    },
    /// A loaded weight has another shape than the graph says.
    #[error("weight `{name}` has shape {found:?} (rows, columns), the graph expects {expected:?}")]
    WeightShape {
        /// The weight.
        name: String,
        /// Rows and columns loaded.
        found: (usize, usize),
        /// Rows and columns of the graph.
        expected: (usize, usize),
    },
    /// The backend cannot compute an operation on a weight's format.
    #[error("weight `{name}`: {op} cannot use format {format} on this backend")]
    WeightFormat {
        /// The weight.
        name: String,
        /// The operation.
        op: &'static str,
        /// Its format.
        format: quant::Format,
    },
    /// No K/V store, or one that does not fit the graph.
    #[error("the K/V store does not fit value `{value}` ({location}): {why}")]
    Kv {
        /// The attention's name.
        value: String,
        /// The line of the model that made it.
        location: String,
        /// What does not fit.
        why: String,
    },
    /// A step that contradicts itself or the store.
    #[error("step: {0}")]
    Step(String),
    /// A value that cannot be read.
    #[error("value `{name}` {why}")]
    Value {
        /// The name asked for.
        name: String,
        /// Why not.
        why: &'static str,
    },
    /// The device has no room.
    #[error("no room for {bytes} bytes of {what}: {hint}")]
    OutOfMemory {
        /// What was to be stored.
        what: &'static str,
        /// Its size.
        bytes: u64,
        /// What to do.
        hint: &'static str,
    },
    /// A device that failed, or was lost.
    #[error("{device}: {why}; use --backend cpu, or start again")]
    Device {
        /// Its name.
        device: String,
        /// What it said.
        why: String,
    },
}
