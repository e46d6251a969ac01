//! Every value of every tensor, looked at once.

use std::num::NonZero;
use std::sync::atomic::{AtomicUsize, Ordering};

use anyhow::ensure;
use gguf::{Gguf, Tensor};
use indicatif::ProgressBar;

use super::report::measure;
use crate::output::{count, counted};

/// Values that are looked at together: whole blocks of every format.
const PIECE: usize = 1 << 16;

/// A value that is no finite number.
#[derive(Clone, Copy)]
struct Place {
    /// Which of the file's tensors.
    tensor: usize,
    /// Which of its values.
    value: usize,
    found: f32,
}

/// That no weight is NaN or infinite: such a one spreads to every logit.
pub(super) fn are_finite(
    file: &Gguf,
    threads: Option<NonZero<usize>>,
    bar: &ProgressBar,
) -> anyhow::Result<String> {
    let tensors: Vec<&Tensor> = file.tensors().collect();
    // The number of each tensor's first piece.
    let mut starts = Vec::with_capacity(tensors.len());
    let mut pieces = 0;
    for tensor in &tensors {
        starts.push(pieces);
        pieces += values(tensor).div_ceil(PIECE);
    }
    measure(bar, pieces);
    let next = AtomicUsize::new(0);
    let look = || {
        let (mut bad, mut first, mut buffer) = (0, None::<Place>, vec![0.0; PIECE]);
        loop {
            let piece = next.fetch_add(1, Ordering::Relaxed);
            if piece >= pieces {
                return (bad, first);
            }
            let tensor = starts.partition_point(|&start| start <= piece) - 1;
            let from = (piece - starts[tensor]) * PIECE;
            let found = piece_of(tensors[tensor], from, &mut buffer);
            for (i, &found) in found.iter().enumerate().filter(|(_, value)| !value.is_finite()) {
                bad += 1;
                first = first.or(Some(Place { tensor, value: from + i, found }));
            }
            bar.inc(1);
        }
    };
    let found: Vec<(usize, Option<Place>)> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..threads.map_or(1, NonZero::get)).map(|_| scope.spawn(look)).collect();
        threads.into_iter().map(|thread| thread.join().expect("looking does not panic")).collect()
    });
    file.check_intact()?;
    let bad: usize = found.iter().map(|(bad, _)| bad).sum();
    let first = found.iter().filter_map(|(_, first)| *first).min_by_key(|place| (place.tensor, place.value));
    if let Some(Place { tensor, value, found }) = first {
        let Tensor { name, format, .. } = tensors[tensor];
        let (row, column) = (value / tensors[tensor].row_len(), value % tensors[tensor].row_len());
        anyhow::bail!(
            "{} not finite; the first is {found} in `{name}` ({format}), row {row}, column {column}: the file is \
             damaged",
            counted(bad, "value")
        );
    }
    ensure!(pieces > 0, "the file has no tensors");
    let total = tensors.iter().map(|tensor| values(tensor)).sum();
    Ok(format!("all {} values of {} are finite", count(total), counted(tensors.len(), "tensor")))
}

fn values(tensor: &Tensor) -> usize {
    tensor.row_len() * tensor.rows()
}

/// The values of a tensor from one on, as many as there is room for.
fn piece_of<'a>(tensor: &Tensor, from: usize, buffer: &'a mut [f32]) -> &'a [f32] {
    let format = tensor.format;
    let count = (values(tensor) - from).min(buffer.len());
    let bytes = |values: usize| values / format.block_len() * format.block_bytes();
    let buffer = &mut buffer[..count];
    format.dequantize(&tensor.data[bytes(from)..bytes(from + count)], buffer);
    buffer
}
