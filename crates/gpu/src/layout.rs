//! How weights are stored in device memory.
//!
//! The blocks of a quantised format are split into planes: low bits, high bits, scales. A plane holds the elements of
//! all rows, row by row, and starts at a multiple of 16 bytes. Kernels can thus load whole vectors, where the file
//! has blocks of 18 or 210 bytes. Without padding between rows the planes take as many bytes as the blocks. Kernels see
//! every format as chunks of 32 values.

use quant::Format;

use crate::formats::{self, CHUNK, rows_per_thread};
use crate::pack::pack_row;

/// Vector load size in bytes; planes start at a multiple of it.
const VECTOR: usize = 16;

/// The layout of a weight, or of a shard of one, in its buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names say it")]
pub struct Layout {
    pub format: Format,
    /// Of all matrices.
    pub rows: usize,
    /// Chunks per row; unquantised formats pad the last one with zeros.
    pub chunks: usize,
}

impl Layout {
    /// The layout of `rows` rows of `cols` values.
    pub fn new(format: Format, rows: usize, cols: usize) -> Layout {
        Layout { format, rows, chunks: cols.div_ceil(CHUNK) }
    }

    /// Size of the buffer, a multiple of 16.
    pub fn bytes(&self) -> usize {
        self.ends().last().expect("every format has a plane")
    }

    /// Bytes between the rows of each plane.
    pub(crate) fn pitches(&self) -> impl Iterator<Item = usize> {
        let values = self.chunks * CHUNK;
        formats::planes(self.format).iter().map(move |(bytes, shared_by)| values / shared_by * bytes)
    }

    /// Offset of each plane in bytes, a multiple of 16.
    #[cfg(test)]
    pub(crate) fn offsets(&self) -> impl Iterator<Item = usize> {
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

    /// Parameters for kernels: chunks per row, then the offsets of planes 1 to 3 in
    /// vectors of 16 bytes.
    pub fn params(&self) -> [u32; 4] {
        let mut params = [self.chunks as u32, 0, 0, 0];
        for (param, end) in params[1..].iter_mut().zip(self.ends()) {
            *param = (end / VECTOR) as u32;
        }
        params
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
                let part = Layout { rows: bytes.len() / row, ..*self };
                let rows = planes.iter_mut().zip(part.sizes());
                let rows =
                    rows.map(|(plane, size)| plane.split_off_mut(..size).expect("planes hold all rows"));
                let planes: Vec<&mut [u8]> = rows.collect();
                parts.push(scope.spawn(move || part.pack_rows(format, bytes, cols, planes)));
            }
            let bounds = parts.into_iter().map(|part| part.join().expect("packing does not panic"));
            bounds.fold(0.0, f32::max)
        })
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
