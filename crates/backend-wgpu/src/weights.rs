//! Weights on the device: each in one buffer, or in several where it is longer than what a kernel can bind.

use std::ops::Range;
use std::sync::OnceLock;

use backend::{Error, Weight};

use crate::device::{Buffer, Device};
use crate::formats::{Kept, Layout};

/// Bytes that are on their way to the device at a time.
const UPLOAD: usize = 64 << 20;

/// A weight of a table or of a linear layer.
#[derive(Debug)]
pub(crate) struct Matrix {
    weight: Weight,
    pub(crate) kept: Kept,
    pub(crate) shards: Vec<Shard>,
    /// Once they are on the device, whether all its numbers are numbers of f16.
    uploaded: OnceLock<bool>,
}

/// Some rows.
#[derive(Debug)]
pub(crate) struct Shard {
    pub(crate) rows: Range<usize>,
    pub(crate) layout: Layout,
    pub(crate) buffer: Buffer,
}

impl Matrix {
    /// Room on `device`.
    pub(crate) fn new(device: &Device, weight: Weight) -> Result<Matrix, Error> {
        let kept = Kept::of_weight(&weight);
        let limit = device.limits.max_storage_buffer_binding_size.min(device.limits.max_buffer_size) as usize;
        // As if they were F32, so that weights of as many columns are cut alike.
        let row = Layout::new(Kept::F32, 1, weight.cols).bytes();
        let most = limit / row;
        if most == 0 {
            return Err(Error::OutOfMemory {
                what: "rows of a weight",
                bytes: row as u64,
                hint: "the device binds buffers too small for this model; use the CPU",
            });
        }
        let shard = |first: usize| {
            let rows = first..weight.rows.min(first + most);
            let layout = Layout::new(kept, rows.len(), weight.cols);
            let usage = wgpu::BufferUsages::STORAGE | wgpu::BufferUsages::COPY_DST;
            Ok(Shard { rows, layout, buffer: device.buffer("weights", layout.bytes() as u64, usage)? })
        };
        let shards = (0..weight.rows).step_by(most).map(shard).collect::<Result<_, Error>>()?;
        Ok(Matrix { weight, kept, shards, uploaded: OnceLock::new() })
    }

    pub(crate) fn weight(&self) -> &Weight {
        &self.weight
    }

    /// Copies the rows to the device, once.
    pub(crate) fn upload(&self, device: &Device) -> Result<(), Error> {
        if self.uploaded.get().is_some() {
            return Ok(());
        }
        let mut bound = 0.0_f32;
        for shard in &self.shards {
            let row = self.weight.bytes.len() / self.weight.rows;
            let bytes = &self.weight.bytes[shard.rows.start * row..shard.rows.end * row];
            let mut packed = vec![0; shard.layout.bytes()];
            bound = bound.max(shard.layout.pack(self.weight.format, bytes, self.weight.cols, &mut packed));
            for (i, part) in packed.chunks(UPLOAD).enumerate() {
                device.queue.write_buffer(&shard.buffer, (i * UPLOAD) as u64, part);
                device.queue.submit([]);
                device.wait()?;
            }
        }
        self.uploaded.get_or_init(|| bound <= f32::from(half::f16::MAX));
        Ok(())
    }

    /// Whether all numbers are numbers of f16, which is known when they are on the device.
    pub(crate) fn is_narrow(&self) -> bool {
        self.may_be_narrow() && self.uploaded.get().is_some_and(|&narrow| narrow)
    }

    pub(crate) fn may_be_narrow(&self) -> bool {
        self.kept.may_be_narrow()
    }

    /// Bytes on the device.
    pub(crate) fn bytes(&self) -> u64 {
        self.shards.iter().map(|shard| shard.layout.bytes() as u64).sum()
    }
}
