//! Errors of backends.

/// An error of a backend.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The size of a weight does not match its shape.
    #[error(
        "weight `{name}`: expected {expected} for {count} matrices of {rows} rows of {cols} {format} values, found {found} bytes"
    )]
    WeightBytes {
        /// The weight.
        name: String,
        /// Its format.
        format: quant::Format,
        /// Number of matrices.
        count: usize,
        /// Rows of each matrix.
        rows: usize,
        /// Columns.
        cols: usize,
        /// Size found, in bytes.
        found: usize,
        /// Size of that shape, such as `144 bytes`; `whole blocks` if the rows are not whole blocks.
        expected: String,
    },
    /// A weight of the graph is missing.
    #[error("weight `{name}` is missing; provide every weight of the graph")]
    MissingWeight {
        /// The weight.
        name: String,
    },
    /// A weight has another shape than in the graph.
    #[error("weight `{name}` has shape {found:?} (matrices, rows, columns), the graph expects {expected:?}")]
    WeightShape {
        /// The weight.
        name: String,
        /// Matrices, rows and columns found.
        found: [usize; 3],
        /// Matrices, rows and columns in the graph.
        expected: [usize; 3],
    },
    /// The backend does not support an operation with a weight format.
    #[error("weight `{name}`: this backend does not support {op} with format {format}")]
    WeightFormat {
        /// The weight.
        name: String,
        /// The operation.
        op: &'static str,
        /// Its format.
        format: quant::Format,
    },
    /// The KV layout belongs to another graph.
    #[error("the K/V cache layout has {found} store groups, the graph has {expected}")]
    Stores {
        /// Groups of the layout.
        found: usize,
        /// Groups of the graph.
        expected: usize,
    },
    /// The model cannot be cut into these stages.
    #[error("the model of {layers} layers cannot be cut after {at}: {why}")]
    Cut {
        /// Layers of the model.
        layers: usize,
        /// Layers before the cut.
        at: usize,
        /// Reason.
        why: &'static str,
    },
    /// An invalid step.
    #[error("step: {0}")]
    Step(String),
    /// A step that [`Interrupt`](crate::Interrupt) has ended early.
    #[error("the step was interrupted")]
    Interrupted,
    /// A value cannot be read.
    #[error("value `{name}` {why}")]
    Value {
        /// Name of the value.
        name: String,
        /// Reason.
        why: &'static str,
    },
    /// An allocation failed.
    #[error("out of memory: cannot allocate {bytes} bytes for {what}; {remedy}")]
    OutOfMemory {
        /// Purpose of the allocation.
        what: &'static str,
        /// Its size.
        bytes: u64,
        /// Host or device memory.
        memory: MemoryKind,
        /// Suggested fix.
        remedy: Remedy,
    },
    /// The host memory budget would be exceeded.
    #[error(
        "out of memory: {what} needs {}, but {} of the limit of {} are in use; {remedy}",
        readable_size(*bytes), readable_size(*taken), readable_size(*limit)
    )]
    OverBudget {
        /// Purpose of the allocation.
        what: &'static str,
        /// Its size.
        bytes: u64,
        /// Bytes charged so far.
        taken: u64,
        /// Limit in bytes.
        limit: u64,
        /// Suggested fix.
        remedy: Remedy,
    },
    /// The device failed or was lost.
    #[error("{device}: {why}; use another device or restart the program")]
    Device {
        /// Its name.
        device: String,
        /// The driver's message.
        why: String,
    },
}

/// The kind of memory that ran out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MemoryKind {
    /// Host memory.
    Host,
    /// Memory of a GPU; offloading fewer layers takes less of it.
    Device,
}

/// Suggested fix of an error; a program may word it by its own options.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Remedy {
    /// Reduce the context length.
    SmallerContext,
    /// Reduce the batch size.
    SmallerBatch,
    /// Use a smaller model or fewer bits per weight.
    SmallerModel,
    /// Use a smaller model or fewer bits per weight, or do not repack weights.
    LeaveWeightsInFile,
    /// Offload fewer layers.
    FewerLayers,
    /// Use the CPU; the device does not support the model.
    UseCpu,
    /// Raise the device memory limit or offload fewer layers.
    RaiseLimit,
}

impl std::fmt::Display for Remedy {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Remedy::SmallerContext => "use a smaller context",
            Remedy::SmallerBatch => "use a smaller batch size",
            Remedy::SmallerModel => "use a smaller model or a format with fewer bits",
            Remedy::LeaveWeightsInFile => {
                "use a smaller model or a format with fewer bits, or use the weights in the file without repacking"
            }
            Remedy::FewerLayers => "offload fewer layers to the device",
            Remedy::UseCpu => "the device does not support this model; use the CPU",
            Remedy::RaiseLimit => "raise the device memory limit or offload fewer layers",
        })
    }
}

/// A human-readable size, such as `1.2 MiB`.
pub fn readable_size(bytes: u64) -> String {
    let units = ["KiB", "MiB", "GiB", "TiB", "PiB"];
    match bytes {
        1 => "1 byte".to_owned(),
        ..1024 => format!("{bytes} bytes"),
        _ => {
            let power = (1..units.len()).take_while(|&power| bytes >> (10 * power) >= 1024).count() + 1;
            format!("{:.1} {}", bytes as f64 / (1u64 << (10 * power)) as f64, units[power - 1])
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_human_readable() {
        let sizes = [0, 1, 1023, 1024, 1_500_000, (1 << 20) - 1, 1 << 50, u64::MAX].map(readable_size);
        let expected =
            ["0 bytes", "1 byte", "1023 bytes", "1.0 KiB", "1.4 MiB", "1024.0 KiB", "1.0 PiB", "16384.0 PiB"];
        assert_eq!(sizes, expected);
    }
}
