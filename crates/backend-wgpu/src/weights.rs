//! Weights in device memory. A weight longer than the binding limit is split into shards, one buffer each.

use std::ops::Range;
use std::sync::OnceLock;

use backend::{Error, Remedy, Weight};
use gpu::{Layout, Purpose, may_fit_f16, out_of_memory};
use quant::Format;

use crate::device::{Buffer, Device, allocated_size};

/// Bytes in flight per upload.
const UPLOAD: usize = 64 << 20;

/// How a table or matrix, or all matrices of the experts, is stored: row-major, split into shards.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct MatrixLayout {
    pub(crate) format: Format,
    pub(crate) cols: usize,
    /// Rows per matrix.
    pub(crate) rows: usize,
    pub(crate) shards: Vec<Shard>,
}

/// A range of rows with its own buffer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Shard {
    pub(crate) rows: Range<usize>,
    pub(crate) layout: Layout,
}

#[derive(Debug)]
pub(crate) struct Matrix {
    pub(crate) buffers: Vec<Buffer>,
    /// Set after the upload: whether all values are finite in f16.
    uploaded: OnceLock<bool>,
}

impl MatrixLayout {
    /// The layout of `weight` in `format`, within the binding limit of `device`. A shard has a multiple of
    /// `unit_rows` rows.
    pub(crate) fn new(
        device: &Device,
        weight: &Weight,
        format: Format,
        unit_rows: usize,
    ) -> Result<MatrixLayout, Error> {
        let limit = device.limits.max_storage_buffer_binding_size.min(device.limits.max_buffer_size);
        // Sized as F32, so that weights with equal rows are split alike in every format.
        let unit_bytes = Layout::new(Format::F32, unit_rows, weight.cols).bytes();
        let max_rows = limit as usize / unit_bytes * unit_rows;
        if max_rows == 0 {
            let what = "rows of a weight, which must fit in one binding";
            return Err(out_of_memory(what, unit_bytes as u64, Remedy::UseCpu));
        }
        let total = weight.count * weight.rows;
        let shard = |first: usize| {
            let rows = first..total.min(first + max_rows);
            Shard { layout: Layout::new(format, rows.len(), weight.cols), rows }
        };
        let shards = (0..total).step_by(max_rows).map(shard).collect();
        Ok(MatrixLayout { format, cols: weight.cols, rows: weight.rows, shards })
    }

    /// Whether all values may be finite in f16; certain only after the upload.
    pub(crate) fn may_fit_f16(&self) -> bool {
        may_fit_f16(self.format)
    }
}

impl gpu::MatrixLayout for MatrixLayout {
    fn format(&self) -> Format {
        self.format
    }

    fn bytes(&self) -> u64 {
        self.shards.iter().map(|shard| allocated_size(shard.layout.bytes() as u64)).sum()
    }
}

impl Matrix {
    pub(crate) fn new(device: &Device, layout: &MatrixLayout) -> Result<Matrix, Error> {
        let buffer = |shard: &Shard| device.buffer(Purpose::Weights, shard.layout.bytes() as u64);
        let buffers = layout.shards.iter().map(buffer).collect::<Result<_, Error>>()?;
        Ok(Matrix { buffers, uploaded: OnceLock::new() })
    }

    /// Packs and uploads `weight`, once.
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

    /// Whether it is uploaded and all its values are finite in f16.
    pub(crate) fn fits_f16(&self, layout: &MatrixLayout) -> bool {
        layout.may_fit_f16() && self.uploaded.get().is_some_and(|&fits| fits)
    }
}
