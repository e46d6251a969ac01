//! How weights are stored in device memory.
//!
//! The blocks of a quantised format are split into planes: low bits, high bits, scales. A plane holds the elements of
//! all rows, row by row, and starts at a multiple of 16 bytes. Kernels can thus load whole vectors, where the file
//! has blocks of 18 or 210 bytes. Without padding between rows the planes take as many bytes as the blocks. Kernels see
//! every format as chunks of 32 values.

use std::ops::Range;

use quant::Format;

use crate::formats::{self, CHUNK, rows_per_thread};
use crate::pack::pack_row;

/// Vector load size in bytes; planes start at a multiple of it.
const VECTOR: usize = 16;

/// The layout of a weight, or of a shard of one, in its buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    /// The format on the device.
    pub format: Format,
    /// Rows of all matrices.
    pub rows: usize,
    /// Chunks per row; unquantised formats pad the last one with zeros.
    pub chunks: usize,
    /// The rows of each plane are padded with zeros to a multiple of this many bytes, a power of two.
    pub row_align: usize,
}

impl Layout {
    /// The layout of `rows` rows of `cols` values. A `row_align` of 1 means no padding.
    ///
    /// # Panics
    /// When `row_align` is not a power of two.
    pub fn new(format: Format, rows: usize, cols: usize, row_align: usize) -> Layout {
        assert!(row_align.is_power_of_two(), "rows are aligned to a power of two, not {row_align}");
        Layout { format, rows, chunks: cols.div_ceil(CHUNK), row_align }
    }

    /// Size of the buffer, a multiple of 16.
    pub fn bytes(&self) -> usize {
        self.ends().last().expect("every format has a plane")
    }

    /// Bytes between the rows of each plane.
    pub fn pitches(&self) -> impl Iterator<Item = usize> {
        let (values, row_align) = (self.chunks * CHUNK, self.row_align);
        let planes = formats::planes(self.format).iter();
        planes.map(move |(bytes, shared_by)| (values / shared_by * bytes).next_multiple_of(row_align))
    }

    /// Offset of each plane in bytes, a multiple of 16 and of the rows' alignment.
    pub fn offsets(&self) -> impl Iterator<Item = usize> {
        [0].into_iter().chain(self.ends()).take(formats::planes(self.format).len())
    }

    /// Size of each plane in bytes, without padding after its last row.
    fn sizes(&self) -> impl Iterator<Item = usize> {
        let rows = self.rows;
        self.pitches().map(move |pitch| rows * pitch)
    }

    /// End of each plane in bytes, padded.
    fn ends(&self) -> impl Iterator<Item = usize> {
        self.sizes().scan(0, |end, size| {
            *end += size.next_multiple_of(VECTOR);
            Some(*end)
        })
    }

    /// Parameters for kernels that read rows without padding: chunks per row, then the offsets of planes 1 to 3 in
    /// vectors of 16 bytes.
    pub fn params(&self) -> [u32; 4] {
        let mut params = [self.chunks as u32, 0, 0, 0];
        for (param, end) in params[1..].iter_mut().zip(self.ends()) {
            *param = (end / VECTOR) as u32;
        }
        params
    }

    /// The layout of `rows` rows of the same length.
    pub fn with_rows(&self, rows: usize) -> Layout {
        Layout { rows, ..*self }
    }

    /// Where `rows` are in the buffer, if they are packed alone: by plane, their bytes in the buffer of these rows, and the
    /// offset in this one.
    pub fn places(&self, rows: &Range<usize>) -> Vec<(Range<usize>, usize)> {
        let alone = self.with_rows(rows.len());
        let ranges = alone.offsets().zip(alone.sizes()).map(|(at, size)| at..at + size);
        let offsets = self.offsets().zip(self.pitches()).map(|(at, pitch)| at + rows.start * pitch);
        ranges.zip(offsets).collect()
    }

    /// Packs `bytes`, all rows in the file's format, of `cols` values each, into `to`, with one thread per core. Returns an
    /// upper bound of the magnitude of quantised values, derived from the scales.
    pub fn pack(&self, format: Format, bytes: &[u8], cols: usize, to: &mut [u8]) -> f32 {
        let mut planes = self.split(to);
        let rows = rows_per_thread(self.rows);
        let row = bytes.len() / self.rows;
        std::thread::scope(|scope| {
            let mut parts = Vec::new();
            for bytes in bytes.chunks(rows * row) {
                let part = self.with_rows(bytes.len() / row);
                let part_planes: Vec<&mut [u8]> = planes
                    .iter_mut()
                    .zip(part.sizes())
                    .map(|(plane, size)| plane.split_off_mut(..size).expect("planes hold all rows"))
                    .collect();
                parts.push(scope.spawn(move || part.pack_rows(format, bytes, cols, part_planes)));
            }
            let bounds = parts.into_iter().map(|part| part.join().expect("packing does not panic"));
            bounds.fold(0.0, f32::max)
        })
    }

    /// As [`Layout::pack`], on the calling thread.
    pub fn pack_here(&self, format: Format, bytes: &[u8], cols: usize, to: &mut [u8]) -> f32 {
        self.pack_rows(format, bytes, cols, self.split(to))
    }

    /// The planes of a buffer. Zeroes what is between them.
    fn split<'a>(&self, mut buffer: &'a mut [u8]) -> Vec<&'a mut [u8]> {
        let plane = |size: usize| {
            let end = size.next_multiple_of(VECTOR);
            let plane = buffer.split_off_mut(..end).expect("the buffer holds all planes");
            let (plane, padding) = plane.split_at_mut(size);
            padding.fill(0);
            plane
        };
        self.sizes().map(plane).collect()
    }

    /// Packs rows into their parts of the planes, which hold no others.
    fn pack_rows(&self, format: Format, bytes: &[u8], cols: usize, planes: Vec<&mut [u8]>) -> f32 {
        let used: Vec<usize> =
            formats::planes(self.format).iter().map(|(bytes, shared_by)| cols / shared_by * bytes).collect();
        let parts = planes.into_iter().zip(self.pitches());
        let mut parts: Vec<_> = parts.map(|(plane, pitch)| plane.chunks_exact_mut(pitch)).collect();
        let mut planes = Vec::new();
        let mut values = vec![0.0; cols];
        let mut bound = 0.0_f32;
        for row in bytes.chunks_exact(bytes.len() / self.rows) {
            planes.clear();
            planes.extend(parts.iter_mut().filter_map(Iterator::next));
            planes.iter_mut().zip(&used).for_each(|(plane, &used)| plane[used..].fill(0));
            bound = bound.max(pack_row(format, self.format, row, &mut values, &mut planes));
        }
        bound
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROWS: usize = 5;

    /// Packs `cols` columns of [`ROWS`] rows of `format`; returns the buffer and the bound of the values.
    fn packed(layout: &Layout, format: Format, cols: usize) -> (Vec<u8>, f32) {
        let size = ROWS * format.bytes_for(cols as u64).expect("whole blocks") as usize;
        let bytes: Vec<u8> = (0..size).map(|i| (i * 151 + i / 256 * 7) as u8).collect();
        // What the buffer held before does not matter.
        let mut to = vec![0xaa; layout.bytes()];
        let bound = layout.pack(format, &bytes, cols, &mut to);
        let in_parts = packed_in_parts(layout, format, &bytes, cols);
        assert_eq!((&to, bound.to_bits()), (&in_parts.0, in_parts.1.to_bits()), "{layout:?} in parts");
        (to, bound)
    }

    /// The same, two rows at a time through one buffer.
    fn packed_in_parts(layout: &Layout, format: Format, bytes: &[u8], cols: usize) -> (Vec<u8>, f32) {
        let (mut to, mut bound) = (vec![0; layout.bytes()], 0.0_f32);
        let mut buffer = vec![0xaa; layout.with_rows(2).bytes()];
        for (i, bytes) in bytes.chunks(2 * bytes.len() / ROWS).enumerate() {
            let rows = 2 * i..ROWS.min(2 * i + 2);
            let part = layout.with_rows(rows.len());
            bound = bound.max(part.pack_here(format, bytes, cols, &mut buffer[..part.bytes()]));
            for (range, at) in layout.places(&rows) {
                to[at..][..range.len()].copy_from_slice(&buffer[range]);
            }
        }
        (to, bound)
    }

    /// The rows of each plane, `pitches` bytes of each.
    fn rows<'a>(layout: &Layout, buffer: &'a [u8], pitches: &[usize]) -> Vec<&'a [u8]> {
        let planes = layout.offsets().zip(layout.pitches()).zip(pitches);
        planes
            .flat_map(|((at, pitch), &len)| (0..ROWS).map(move |row| &buffer[at + row * pitch..][..len]))
            .collect()
    }

    /// Unquantised formats have a partial chunk, quantised ones an odd number of blocks per row.
    #[test]
    fn alignment_only_adds_padding_between_rows() {
        let own = Format::ALL.map(|format| (format, format));
        let converted = [(Format::F16, Format::Q4_1), (Format::F32, Format::BF16)];
        for (on_device, format) in own.into_iter().chain(converted) {
            let block = (1..=256).find(|&cols| format.bytes_for(cols).is_some()).expect("a block");
            let cols = [100, 288, 192, 768]
                [[1, 32, 64, 256].iter().position(|&size| size == block).expect("a size")];
            let [dense, aligned] = [1, 16].map(|row_align| Layout::new(on_device, ROWS, cols, row_align));
            let (of_dense, bound) = packed(&dense, format, cols);
            let (of_aligned, same_bound) = packed(&aligned, format, cols);
            let what = format!("{format:?} as {on_device:?}");
            assert_eq!(bound.to_bits(), same_bound.to_bits(), "{what}");
            let pitches: Vec<usize> = dense.pitches().collect();
            assert_eq!(rows(&dense, &of_dense, &pitches), rows(&aligned, &of_aligned, &pitches), "{what}");
            for (pitch, aligned) in pitches.iter().zip(aligned.pitches()) {
                assert_eq!(aligned, pitch.next_multiple_of(16), "{what}");
            }
            // Padding stays zero.
            let sum = |buffer: &[u8]| buffer.iter().map(|&byte| usize::from(byte)).sum::<usize>();
            assert_eq!(sum(&of_dense), sum(&of_aligned), "{what}");
            assert!(sum(&of_dense) > 0 && aligned.offsets().all(|at| at.is_multiple_of(16)), "{what}");
        }
    }
}
