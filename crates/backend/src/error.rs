//! Errors of backends.

use crate::CacheBlock;

/// An error of a backend.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
#[expect(missing_docs, reason = "the messages explain them")]
pub enum Error {
    #[error(
        "weight `{name}`: expected {expected} for {} matrices of {} rows of {} {format} values, found {found} bytes",
        shape[0], shape[1], shape[2]
    )]
    WeightBytes { name: String, format: quant::Format, shape: [usize; 3], found: usize, expected: String },
    #[error("weight `{name}` is missing; provide every weight of the graph")]
    MissingWeight { name: String },
    #[error("weight `{name}` has shape {found:?} (matrices, rows, columns), the graph expects {expected:?}")]
    WeightShape { name: String, found: [usize; 3], expected: [usize; 3] },
    #[error("the KV cache layout has {found} store groups, the graph has {expected}")]
    Stores { found: usize, expected: usize },
    #[error("the model of {layers} layers cannot be cut after {at}: {why}")]
    Cut { layers: usize, at: usize, why: &'static str },
    #[error("tensor parallelism: {0}")]
    Shard(String),
    #[error("tensor parallelism on {device}: {why}")]
    Group { device: String, why: String },
    #[error("{device} has no KV cache of type {format}: use {supported}, or the CPU, which has every type")]
    KvFormat { device: String, format: String, supported: &'static str },
    #[error("step: {0}")]
    Step(String),
    #[error("{block:?} is outside the cache, which has {count} of its kind")]
    CacheBlock { block: CacheBlock, count: usize },
    #[error(
        "{block:?} of the cache takes {expected} bytes, found {found}; use the same model file and cache type"
    )]
    CacheBytes { block: CacheBlock, found: usize, expected: usize },
    #[error("the {backend} backend does not support {feature}; the cpu backend does")]
    Unsupported { backend: String, feature: Feature },
    /// An [`Interrupt`](crate::Interrupt) ended the step early.
    #[error("the step was interrupted")]
    Interrupted,
    #[error("value `{name}` {why}")]
    Value { name: String, why: &'static str },
    #[error("out of memory: cannot allocate {bytes} bytes for {what}; {remedy}")]
    OutOfMemory { what: &'static str, bytes: u64, memory: MemoryKind, remedy: Remedy },
    /// The host memory budget, of which `taken` bytes are in use, would be exceeded.
    #[error(
        "out of memory: {what} would take {}, but {} of the limit of {} are in use; {remedy}",
        readable_size(*bytes), readable_size(*taken), readable_size(*limit)
    )]
    OverBudget { what: &'static str, bytes: u64, taken: u64, limit: u64, remedy: Remedy },
    /// The device failed or was lost; `why` is the driver's message.
    #[error("{device}: {why}; use another device or restart the program")]
    Device { device: String, why: String },
}

/// A feature that a backend may lack ([`Input::Embedding`](crate::Input::Embedding), [`Sequence::spans`](crate::Sequence::spans),
/// [`LoadedModel::with_block`](crate::LoadedModel::with_block)). One that does refuses what needs it by its own name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[expect(missing_docs, reason = "the messages explain them")]
pub enum Feature {
    #[error("rows of given embeddings")]
    Embeddings,
    #[error("spans of rows that see each other")]
    Spans,
    #[error("reading and writing blocks of the cache")]
    CacheBlocks,
}

/// The kind of memory that ran out. Offloading fewer layers takes less device memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names say it")]
pub enum MemoryKind {
    Host,
    Device,
}

/// Suggested fix for an error; a program may phrase it in terms of its options.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
#[expect(missing_docs, reason = "the messages explain them")]
pub enum Remedy {
    #[error("use a smaller context")]
    SmallerContext,
    #[error("use a smaller batch size")]
    SmallerBatch,
    #[error("use a smaller model or a format with fewer bits")]
    SmallerModel,
    #[error(
        "use a smaller model or a format with fewer bits, or use the weights in the file without repacking"
    )]
    LeaveWeightsInFile,
    #[error("offload fewer layers to the device")]
    FewerLayers,
    #[error("the device does not support this model; use the CPU")]
    UseCpu,
    #[error("raise the device memory limit or offload fewer layers")]
    RaiseLimit,
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
