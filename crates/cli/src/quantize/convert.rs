//! Numbers: looked through before anything is written, then turned into blocks by all threads.
//!
//! A tensor is done in waves of a few million values, each of which threads share in runs of whole rows,
//! so that memory stays the same however large the tensor.

use std::io::{self, Write};
use std::num::NonZero;
use std::sync::{Mutex, PoisonError};

use gguf::{Tensor, quoted};
use indicatif::ProgressBar;
use quant::Format;

use super::plan::Planned;

/// Values that a thread takes at once, where rows are not longer.
const RUN: usize = 1 << 16;
/// Runs in a wave for each thread.
const RUNS: usize = 32;

/// A value that is no number, or none that a format could be chosen for.
#[derive(Debug, thiserror::Error)]
#[error(
    "{} holds {value} in row {row}, column {column}: only finite numbers can be quantised; nothing was written",
    quoted(tensor)
)]
pub(crate) struct NotFinite {
    tensor: String,
    row: usize,
    column: usize,
    value: f32,
}

/// Looks at every value of a tensor, in its order; the largest magnitude.
///
/// # Errors
/// The first that is not finite.
pub(crate) fn check(tensor: &Tensor, threads: NonZero<usize>, bar: &ProgressBar) -> Result<f32, NotFinite> {
    let rows = rows_in_run(tensor);
    let found = Mutex::new((0.0f32, None::<(usize, f32)>));
    let runs = tensor.data.chunks(rows * tensor.row_bytes()).enumerate();
    share(runs, threads, |buffer, (run, bytes)| {
        let x = dequantized(tensor, bytes, buffer);
        // Magnitudes are ordered as their bits are, infinities and NaN above all numbers.
        let largest = x.iter().fold(0, |most, x| most.max(x.to_bits() & !(1 << 31)));
        let wrong = (largest >= f32::INFINITY.to_bits()).then(|| x.iter().position(|x| !x.is_finite()));
        let mut found = found.lock().unwrap_or_else(PoisonError::into_inner);
        match wrong.flatten() {
            None => found.0 = found.0.max(f32::from_bits(largest)),
            Some(at) => {
                let place = run * rows * tensor.row_len() + at;
                if found.1.is_none_or(|(first, _)| place < first) {
                    found.1 = Some((place, x[at]));
                }
            }
        }
        bar.inc(bytes.len() as u64);
    });
    let (largest, wrong) = found.into_inner().unwrap_or_else(PoisonError::into_inner);
    match wrong {
        None => Ok(largest),
        Some((place, value)) => Err(NotFinite {
            tensor: tensor.name.clone(),
            row: place / tensor.row_len(),
            column: place % tensor.row_len(),
            value,
        }),
    }
}

/// Writes a tensor's data in its new format.
///
/// # Errors
/// When `out` cannot be written.
pub(crate) fn convert(
    Planned { tensor, format, importance }: &Planned<'_>,
    threads: NonZero<usize>,
    out: &mut dyn Write,
    bar: &ProgressBar,
) -> io::Result<()> {
    let rows = rows_in_run(tensor);
    let (run, run_out) = (rows * tensor.row_bytes(), bytes(*format, rows * tensor.row_len()));
    let runs = RUNS * threads.get();
    let mut blocks = Vec::new();
    for wave in tensor.data.chunks(runs * run) {
        let values = wave.len() / tensor.format.block_bytes() * tensor.format.block_len();
        blocks.resize(bytes(*format, values), 0);
        share(wave.chunks(run).zip(blocks.chunks_mut(run_out)), threads, |buffer, (bytes, blocks)| {
            format.quantize(dequantized(tensor, bytes, buffer), *importance, blocks);
            bar.inc(bytes.len() as u64);
        });
        out.write_all(&blocks)?;
    }
    Ok(())
}

fn rows_in_run(tensor: &Tensor) -> usize {
    (RUN / tensor.row_len()).max(1)
}

/// Bytes of whole rows.
fn bytes(format: Format, values: usize) -> usize {
    values / format.block_len() * format.block_bytes()
}

fn dequantized<'a>(tensor: &Tensor, bytes: &[u8], buffer: &'a mut Vec<f32>) -> &'a [f32] {
    buffer.resize(bytes.len() / tensor.format.block_bytes() * tensor.format.block_len(), 0.0);
    tensor.format.dequantize(bytes, buffer);
    buffer
}

/// Gives each item to the next thread that is free. Each thread has a buffer of its own.
fn share<T: Send>(
    items: impl Iterator<Item = T> + Send,
    threads: NonZero<usize>,
    work: impl Fn(&mut Vec<f32>, T) + Sync,
) {
    let items = Mutex::new(items);
    let next = || items.lock().unwrap_or_else(PoisonError::into_inner).next();
    let worker = || {
        let mut buffer = Vec::new();
        while let Some(item) = next() {
            work(&mut buffer, item);
        }
    };
    std::thread::scope(|scope| {
        for _ in 1..threads.get() {
            // Where the system starts no more, those that there are do it all.
            if std::thread::Builder::new().spawn_scoped(scope, worker).is_err() {
                break;
            }
        }
        worker();
    });
}
