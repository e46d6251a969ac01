//! Uploads of weights.
//!
//! Packing takes longer than copying, so that all cores pack. Each thread packs parts of weights by turns into two pieces of
//! pinned memory; while it fills one, the device copies the other. The memory is small and reused: new pages would cost more than
//! packing, and pinning them even more.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;
use std::thread;

use backend::{Error, Weight};
use gpu::TiledLayout;

use crate::driver::{Buffer, Device, Pinned};

/// Bytes per part: enough to amortise the start of a copy, and few enough to stay in cache until copied.
const PART: usize = 4 << 20;

/// Most threads. So many pack faster than the bus copies.
const MAX_THREADS: usize = 16;

#[derive(Clone, Copy, Debug)]
pub(crate) struct Upload<'a> {
    pub(crate) weight: &'a Weight,
    pub(crate) layout: &'a TiledLayout,
    pub(crate) to: &'a Buffer,
}

/// Rows of a weight that are packed and copied at once.
#[derive(Clone, Debug)]
struct Part {
    upload: usize,
    rows: Range<usize>,
}

/// Uploads weights. Calls `uploaded` after each, with its index and the bound of its values ([`TiledLayout::pack`]).
pub(crate) fn upload(
    device: &Arc<Device>,
    uploads: &[Upload<'_>],
    mut uploaded: impl FnMut(usize, f32),
) -> Result<(), Error> {
    let parts: Vec<Part> =
        uploads.iter().enumerate().flat_map(|(i, upload)| parts(i, upload.layout)).collect();
    let bytes = |part: &Part| uploads[part.upload].layout.with_rows(part.rows.len()).bytes();
    let largest = parts.iter().map(bytes).max().unwrap_or(0);
    let mut left: Vec<(usize, f32)> = vec![(0, 0.0); uploads.len()];
    parts.iter().for_each(|part| left[part.upload].0 += 1);

    let next = AtomicUsize::new(0);
    let take = || parts.get(next.fetch_add(1, Ordering::Relaxed));
    let threads = thread::available_parallelism().map_or(1, usize::from).min(MAX_THREADS).min(parts.len());
    thread::scope(|scope| {
        let (sender, receiver) = mpsc::channel();
        for _ in 0..threads {
            let sender = sender.clone();
            scope.spawn(move || {
                // Without a receiver, another thread has failed.
                let copied = |part, bound| sender.send(Ok((part, bound))).is_ok();
                if let Err(error) = pack_and_copy(device, uploads, largest, take, copied) {
                    let _ = sender.send(Err(error));
                }
            });
        }
        drop(sender);
        // An error drops the receiver, which stops the threads.
        for part in receiver {
            let (part, bound): (&Part, f32) = part?;
            let (parts, largest) = &mut left[part.upload];
            (*parts, *largest) = (*parts - 1, largest.max(bound));
            if *parts == 0 {
                uploaded(part.upload, *largest);
            }
        }
        Ok(())
    })
}

fn parts(upload: usize, layout: &TiledLayout) -> impl Iterator<Item = Part> + use<> {
    let rows = (PART / layout.pitch()).max(1);
    // Whole pairs.
    let rows = if layout.is_paired() { (rows - rows % 2).max(2) } else { rows };
    let all = layout.rows;
    (0..all).step_by(rows).map(move |first| Part { upload, rows: first..all.min(first + rows) })
}

/// Packs and copies the parts that `take` gives. Calls `copied` after each copy, until it returns false.
fn pack_and_copy<'a>(
    device: &Arc<Device>,
    uploads: &[Upload<'_>],
    largest: usize,
    take: impl Fn() -> Option<&'a Part>,
    copied: impl Fn(&'a Part, f32) -> bool,
) -> Result<(), Error> {
    let words = largest.div_ceil(size_of::<u32>());
    let mut turns = [(Pinned::blocking(device, words)?, None), (Pinned::blocking(device, words)?, None)];
    for turn in 0.. {
        let (memory, packed) = &mut turns[turn % 2];
        let bytes: &mut [u8] = bytemuck::cast_slice_mut(memory.words_mut()?);
        if let Some((part, bound)) = packed.take()
            && !copied(part, bound)
        {
            break;
        }
        let Some(part) = take() else { break };
        let Upload { weight, layout, to } = uploads[part.upload];
        let rows = layout.with_rows(part.rows.len());
        let row = weight.bytes.len() / layout.rows;
        let source = &weight.bytes[part.rows.start * row..part.rows.end * row];
        let bound = rows.pack(weight.format, source, &mut bytes[..rows.bytes()]);
        memory.upload(to, part.rows.start * layout.pitch(), rows.bytes())?;
        *packed = Some((part, bound));
    }
    for (memory, packed) in &turns {
        memory.wait()?;
        if let &Some((part, bound)) = packed {
            copied(part, bound);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use quant::Format;

    #[test]
    fn parts_cover_all_rows_once() {
        // Rows of 144 bytes, 3 MiB, 6 MiB; pairs of 1,152 bytes and of some 9 MiB.
        let (small, large, huge) = ((Format::Q4_K, 256), (Format::F32, 3 << 18), (Format::F32, 3 << 19));
        let (paired, long) = ((Format::Q4_K, 1024), (Format::Q8_0, 4 << 20));
        for ((format, cols), rows, expected) in
            [(small, 40_000, 2), (large, 5, 5), (huge, 2, 2), (paired, 20_001, 3), (long, 3, 2)]
        {
            let layout = TiledLayout { format, rows, cols };
            let parts: Vec<Part> = parts(0, &layout).collect();
            assert_eq!(parts.len(), expected);
            let mut next = 0;
            for Part { rows, .. } in parts {
                assert_eq!(rows.start, next);
                assert!(!layout.is_paired() || rows.start.is_multiple_of(2), "pairs are packed together");
                next = rows.end;
                let bytes = layout.with_rows(rows.len()).bytes();
                let least = if layout.is_paired() { 2 } else { 1 };
                assert!(bytes <= PART || rows.len() <= least, "{bytes} bytes");
            }
            assert_eq!(next, rows);
        }
    }
}
