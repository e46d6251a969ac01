//! What can go wrong in a backend.

/// An error of a backend.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The bytes given for a weight are not those of its shape.
    #[error(
        "weight `{name}`: {found} bytes for {count} times {rows} rows of {cols} {format} values, expected {expected}"
    )]
    WeightBytes {
        /// The weight.
        name: String,
        /// Its format.
        format: quant::Format,
        /// Its matrices.
        count: usize,
        /// Rows of each.
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
    #[error("weight `{name}` has shape {found:?} (matrices, rows, columns), the graph expects {expected:?}")]
    WeightShape {
        /// The weight.
        name: String,
        /// Matrices, rows and columns given.
        found: [usize; 3],
        /// Those of the graph.
        expected: [usize; 3],
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
    /// A layout of stores that is another graph's.
    #[error("the layout of the K/V cache has {found} groups of stores, the graph has {expected}")]
    Stores {
        /// Groups of the layout.
        found: usize,
        /// Groups of the graph.
        expected: usize,
    },
    /// A model that cannot be computed in such parts.
    #[error("the model of {layers} layers cannot be cut after {at}: {why}")]
    Cut {
        /// Layers of the model.
        layers: usize,
        /// Layers of the parts before.
        at: usize,
        /// Why not.
        why: &'static str,
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
    #[error("no room for {bytes} bytes of {what}: {remedy}")]
    OutOfMemory {
        /// What was to be stored.
        what: &'static str,
        /// Its size.
        bytes: u64,
        /// Whose memory it is.
        memory: MemoryKind,
        /// What to do.
        remedy: Remedy,
    },
    /// A device that failed, or was lost.
    #[error("{device}: {why}; use another device, or start again")]
    Device {
        /// Its name.
        device: String,
        /// What it said.
        why: String,
    },
}

/// Whose memory there is not enough of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MemoryKind {
    /// The processor's.
    Host,
    /// That of another device: fewer layers there take less of it.
    Device,
}

/// What to do about an error, so that a program can say it in its own words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Remedy {
    /// Fewer positions in the K/V cache.
    SmallerContext,
    /// Fewer rows a step.
    SmallerBatch,
    /// A model of fewer parameters, or of fewer bits each.
    SmallerModel,
    /// The same, or weights left where the file has them.
    LeaveWeightsInFile,
    /// Fewer layers on the device.
    FewerLayers,
    /// The CPU: the device cannot take such a model at all.
    UseCpu,
    /// A higher limit for the device's memory, or fewer layers on it.
    RaiseLimit,
}

impl std::fmt::Display for Remedy {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Remedy::SmallerContext => "use a smaller context",
            Remedy::SmallerBatch => "use smaller batches",
            Remedy::SmallerModel => "use a smaller model or a format of fewer bits",
            Remedy::LeaveWeightsInFile => {
                "use a smaller model or a format of fewer bits, or leave weights in the file"
            }
            Remedy::FewerLayers => "put fewer layers on the device",
            Remedy::UseCpu => "the device cannot take such a model; use the CPU",
            Remedy::RaiseLimit => "allow more of the device's memory, or put fewer layers on it",
        })
    }
}
