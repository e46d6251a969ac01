//! The keys that say what a model is, and that no engine computes with.

use gguf::{Metadata, Value};

use crate::checkpoint::Checkpoint;
use crate::plan::Output;

/// Version of the quantised formats.
const QUANTIZATION_VERSION: u32 = 2;

/// Writes `general.*`.
pub(crate) fn write(checkpoint: &Checkpoint, file_type: u32, outputs: &[Output], metadata: &mut Metadata) {
    metadata.insert("general.type", "model");
    let name = checkpoint.folder().canonicalize().ok();
    let name = name.as_deref().and_then(|path| Some(path.file_name()?.to_string_lossy().into_owned()));
    metadata.insert("general.name", name.unwrap_or_else(|| "model".to_owned()));
    metadata.insert("general.size_label", size_label(outputs));
    metadata.insert("general.file_type", Value::U32(file_type));
    metadata.insert("general.quantization_version", Value::U32(QUANTIZATION_VERSION));
}

/// Parameters, as in `7B`, or `8x7B` with experts.
fn size_label(outputs: &[Output]) -> String {
    let total: u64 = outputs.iter().map(Output::len).sum();
    count(total)
}

fn count(parameters: u64) -> String {
    let millions = parameters as f64 / 1e6;
    if millions >= 1000.0 { format!("{:.0}B", millions / 1000.0) } else { format!("{millions:.0}M") }
}
