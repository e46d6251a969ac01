//! Importance matrices as `llama-imatrix` writes them: sums of squares and their numbers of terms.

use std::collections::BTreeMap;
use std::io::{self, Write};

use gguf::{Array, Metadata, Tensor, Value, WriteError};
use quant::Format;

use super::{COUNTS, SUMS};

/// The inputs of a tensor: for each of its matrices, the sums of their squares by column and how many there were.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct InputSums {
    /// `[counts.len(), columns]`; with one count for several matrices, `[matrices, columns]`.
    pub sums: Vec<f32>,
    /// Inputs of each matrix, or of every matrix.
    pub counts: Vec<u64>,
}

/// What a calibration text showed, by tensor.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Calibration {
    /// The tensors, by name.
    pub tensors: BTreeMap<String, InputSums>,
    /// The name of the calibration text.
    pub dataset: String,
    /// Chunks of the text.
    pub chunks: u32,
    /// Tokens per chunk.
    pub chunk_size: u32,
}

impl Calibration {
    /// Writes a GGUF file. A count of 0 stays 0.
    ///
    /// # Errors
    /// If `out` cannot be written, or a name is too long for GGUF.
    pub fn write_gguf(&self, out: impl Write) -> Result<(), WriteError> {
        let mut metadata = Metadata::default();
        metadata.insert("general.type", "imatrix");
        metadata.insert("imatrix.datasets", Value::Array(Array::String(vec![self.dataset.clone()])));
        metadata.insert("imatrix.chunk_count", self.chunks);
        metadata.insert("imatrix.chunk_size", self.chunk_size);
        let tensor = |name: String, values: Vec<f32>, rows: usize| Tensor {
            name,
            shape: vec![values.len() / rows, rows],
            format: Format::F32,
            data: values.iter().flat_map(|x| x.to_le_bytes()).collect::<Vec<u8>>().into(),
        };
        let tensors = self.tensors.iter().flat_map(|(name, InputSums { sums, counts })| {
            let terms = counts.iter().map(|&count| count as f32).collect();
            [
                tensor(format!("{name}{SUMS}"), sums.clone(), counts.len()),
                tensor(format!("{name}{COUNTS}"), terms, counts.len()),
            ]
        });
        gguf::write(out, &metadata, &tensors.collect::<Vec<_>>()).map(drop)
    }

    /// Writes the older binary, which has means only: tensors without inputs are left out, and matrices without get equal
    /// weights.
    ///
    /// # Errors
    /// If `out` cannot be written, or a number exceeds an i32.
    pub fn write_dat(&self, mut out: impl Write) -> io::Result<()> {
        let number = |n: u64| {
            let n = i32::try_from(n).map_err(|_| io::Error::other(format!("{n} does not fit into the file")));
            n.map(i32::to_le_bytes)
        };
        let entries: Vec<_> =
            self.tensors.iter().filter(|(_, inputs)| inputs.counts.iter().any(|&count| count > 0)).collect();
        out.write_all(&number(entries.len() as u64)?)?;
        for (name, InputSums { sums, counts }) in entries {
            let most = counts.iter().copied().max().unwrap_or(0);
            let chunks = most.div_ceil(self.chunk_size.max(1).into());
            out.write_all(&number(name.len() as u64)?)?;
            out.write_all(name.as_bytes())?;
            out.write_all(&number(chunks)?)?;
            out.write_all(&number(sums.len() as u64)?)?;
            for (row, &count) in sums.chunks(sums.len() / counts.len()).zip(counts) {
                for sum in row {
                    let mean = if count > 0 { sum / count as f32 } else { 1.0 };
                    out.write_all(&(mean * chunks as f32).to_le_bytes())?;
                }
            }
        }
        out.write_all(&number(self.chunks.into())?)?;
        out.write_all(&number(self.dataset.len() as u64)?)?;
        out.write_all(self.dataset.as_bytes())
    }
}
