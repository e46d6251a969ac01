//! Scans and quantises the values of a tensor with several threads.
//!
//! Threads share runs of whole rows. A tensor is converted in waves of a few million values, so that memory does not grow
//! with the tensor.

use std::io::{self, Write};
use std::num::NonZero;
use std::sync::{Mutex, PoisonError};

use gguf::Tensor;
use quant::Format;

use super::NotFinite;

/// Values that a thread takes at once, unless rows are longer.
const RUN: usize = 1 << 16;
/// Runs in a wave for each thread.
const RUNS: usize = 32;

/// Threads call it with the number of bytes that they have read.
pub type Progress<'a> = &'a (dyn Fn(u64) + Sync);

/// The largest magnitude in a tensor; fails if some values are not finite.
pub fn scan(tensor: &Tensor, threads: NonZero<usize>, progress: Progress<'_>) -> Result<f32, NotFinite> {
    let rows = rows_in_run(tensor);
    let found = Mutex::new((0.0f32, 0, None::<(usize, f32)>));
    let runs = tensor.data.chunks(rows * tensor.row_bytes()).enumerate();
    share(runs, threads, |buffer, (run, bytes)| {
        let x = dequantized(tensor, bytes, buffer);
        // Magnitudes are ordered like their bits, with infinities and NaN above all numbers.
        let largest = x.iter().fold(0, |most, x| most.max(x.to_bits() & !(1 << 31)));
        let is_finite = largest < f32::INFINITY.to_bits();
        let count = if is_finite { 0 } else { x.iter().filter(|x| !x.is_finite()).count() };
        let first = if is_finite { None } else { x.iter().position(|x| !x.is_finite()) };
        let first = first.map(|at| (run * rows * tensor.row_len() + at, x[at]));
        let mut found = found.lock().unwrap_or_else(PoisonError::into_inner);
        found.0 = found.0.max(f32::from_bits(largest));
        found.1 += count;
        found.2 = found.2.into_iter().chain(first).min_by_key(|(place, _)| *place);
        progress(bytes.len() as u64);
    });
    let (largest, count, first) = found.into_inner().unwrap_or_else(PoisonError::into_inner);
    let Some((place, value)) = first else { return Ok(largest) };
    let (row, column) = (place / tensor.row_len(), place % tensor.row_len());
    Err(NotFinite { tensor: tensor.name.clone(), row, column, value, count })
}

/// Writes a tensor's data in `format`; `importance` has a weight for each column, or for each column of each expert.
pub(super) fn write_quantised(
    tensor: &Tensor,
    format: Format,
    importance: Option<&[f32]>,
    threads: NonZero<usize>,
    out: &mut dyn Write,
    progress: Progress<'_>,
) -> io::Result<()> {
    let (row_len, rows) = (tensor.row_len(), rows_in_run(tensor));
    let (run, run_out) = (rows * tensor.row_bytes(), bytes(format, rows * row_len));
    let matrices = importance.map_or(1, |importance| importance.len() / row_len);
    let mut blocks = Vec::new();
    for (number, matrix) in tensor.data.chunks(tensor.data.len() / matrices).enumerate() {
        let importance = importance.map(|importance| &importance[number * row_len..][..row_len]);
        for wave in matrix.chunks(RUNS * threads.get() * run) {
            let values = wave.len() / tensor.format.block_bytes() * tensor.format.block_len();
            blocks.resize(bytes(format, values), 0);
            share(wave.chunks(run).zip(blocks.chunks_mut(run_out)), threads, |buffer, (bytes, blocks)| {
                format.quantize(dequantized(tensor, bytes, buffer), importance, blocks);
                progress(bytes.len() as u64);
            });
            out.write_all(&blocks)?;
        }
    }
    Ok(())
}

fn rows_in_run(tensor: &Tensor) -> usize {
    (RUN / tensor.row_len()).max(1)
}

fn bytes(format: Format, values: usize) -> usize {
    values / format.block_len() * format.block_bytes()
}

fn dequantized<'a>(tensor: &Tensor, bytes: &[u8], buffer: &'a mut Vec<f32>) -> &'a [f32] {
    buffer.resize(bytes.len() / tensor.format.block_bytes() * tensor.format.block_len(), 0.0);
    tensor.format.dequantize(bytes, buffer);
    buffer
}

/// Gives each item to the next free thread. Each thread has its own buffer.
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
            // If the system refuses a thread, the others do the work.
            if std::thread::Builder::new().spawn_scoped(scope, worker).is_err() {
                break;
            }
        }
        worker();
    });
}
