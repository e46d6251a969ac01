//! Weights on the device: each in one buffer, or in several where it is longer than what a kernel can bind.

use std::ops::Range;
use std::sync::OnceLock;

use backend::{Error, MemoryKind, Remedy, Weight};

use crate::device::{Buffer, Device, Purpose, taken};
use crate::formats::{DeviceFormat, Layout};

/// Bytes that are on their way to the device at a time.
const UPLOAD: usize = 64 << 20;

/// What buffers of weights are for.
const USAGE: wgpu::BufferUsages = wgpu::BufferUsages::STORAGE.union(wgpu::BufferUsages::COPY_DST);

/// How a table, or a weight that rows are multiplied with, is stored: the rows of all its matrices, one after the other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct MatrixLayout {
    pub(crate) format: DeviceFormat,
    pub(crate) cols: usize,
    /// Rows of one of its matrices.
    pub(crate) rows: usize,
    pub(crate) shards: Vec<Shard>,
}

/// Some rows, which have a buffer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Shard {
    pub(crate) rows: Range<usize>,
    pub(crate) layout: Layout,
}

/// A weight and its buffers, one a shard.
#[derive(Debug)]
pub(crate) struct Matrix {
    pub(crate) buffers: Vec<Buffer>,
    /// Once it is on the device, whether all its values fit f16.
    uploaded: OnceLock<bool>,
}

impl MatrixLayout {
    /// Of `weight` in `format`, within what `device` binds; `are_whole`: a shard has whole matrices.
    ///
    /// # Errors
    /// When the device binds not even one row or matrix.
    pub(crate) fn new(
        device: &Device,
        weight: &Weight,
        format: DeviceFormat,
        are_whole: bool,
    ) -> Result<MatrixLayout, Error> {
        let limit = device.limits.max_storage_buffer_binding_size.min(device.limits.max_buffer_size);
        let together = if are_whole { weight.rows } else { 1 };
        // As if they were F32, so that weights of as many columns are cut alike.
        let unit = Layout::new(DeviceFormat::F32, together, weight.cols).bytes();
        let most = limit as usize / unit * together;
        if most == 0 {
            return Err(Error::OutOfMemory {
                what: "rows of a weight, which the device must bind as a whole",
                bytes: unit as u64,
                memory: MemoryKind::Device,
                remedy: Remedy::UseCpu,
            });
        }
        let all = weight.count * weight.rows;
        let shard = |first: usize| {
            let rows = first..all.min(first + most);
            Shard { layout: Layout::new(format, rows.len(), weight.cols), rows }
        };
        let shards = (0..all).step_by(most).map(shard).collect();
        Ok(MatrixLayout { format, cols: weight.cols, rows: weight.rows, shards })
    }

    /// Bytes on the device.
    pub(crate) fn bytes(&self) -> u64 {
        self.shards.iter().map(|shard| taken(shard.layout.bytes() as u64)).sum()
    }

    /// Whether all its values may fit f16, which is known when they are on the device.
    pub(crate) fn may_fit_f16(&self) -> bool {
        self.format.may_fit_f16()
    }
}

impl Matrix {
    /// Room on `device`.
    pub(crate) fn new(device: &Device, layout: &MatrixLayout) -> Result<Matrix, Error> {
        let buffer = |shard: &Shard| device.buffer(Purpose::Weights, shard.layout.bytes() as u64, USAGE);
        let buffers = layout.shards.iter().map(buffer).collect::<Result<_, Error>>()?;
        Ok(Matrix { buffers, uploaded: OnceLock::new() })
    }

    /// Copies the rows of `weight` to the device, once.
    pub(crate) fn upload(
        &self,
        device: &Device,
        layout: &MatrixLayout,
        weight: &Weight,
    ) -> Result<(), Error> {
        if self.uploaded.get().is_some() {
            return Ok(());
        }
        let mut bound = 0.0_f32;
        for (shard, buffer) in layout.shards.iter().zip(&self.buffers) {
            let row = weight.bytes.len() / (weight.count * weight.rows);
            let bytes = &weight.bytes[shard.rows.start * row..shard.rows.end * row];
            let mut packed = vec![0; shard.layout.bytes()];
            bound = bound.max(shard.layout.pack(weight.format, bytes, weight.cols, &mut packed));
            for (i, part) in packed.chunks(UPLOAD).enumerate() {
                device.queue.write_buffer(buffer, (i * UPLOAD) as u64, part);
                device.queue.submit([]);
                device.wait()?;
            }
        }
        self.uploaded.get_or_init(|| bound <= f32::from(half::f16::MAX));
        Ok(())
    }

    /// Whether it is on the device, and all its values fit f16.
    pub(crate) fn fits_f16(&self, layout: &MatrixLayout) -> bool {
        layout.may_fit_f16() && self.uploaded.get().is_some_and(|&fits| fits)
    }
}
