//! How weights are stored for kernels that copy whole tiles to shared memory.
//!
//! A row has tiles of 32 chunks, in which the planes of a format (`layout.rs`) come one after the other: what a warp needs next
//! is contiguous. Planes of a tile start at multiples of 16 bytes. The last tile of a row has the chunks that are left; if there
//! are several planes, in whole blocks of 4, as many as kernels read at a time.
//!
//! If a format has several planes, and all tiles of a row are whole ones, rows come in pairs: a tile of the first row, the same tile
//! of the second one, the next tile of the first one. So what a warp needs of two rows is contiguous, too.

use std::ops::Range;

use quant::Format;

use crate::formats::{self, CHUNK};
use crate::pack::pack_row;

/// Chunks of a whole tile, and of the blocks of a smaller one.
const TILE: usize = 32;
const BLOCK: usize = 4;

/// Planes start at multiples of this many bytes.
const ALIGN: usize = 16;

/// The layout of a weight in its buffer: row by row, or pair by pair, without gaps. A last row alone has a pair's place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names say it")]
pub struct TiledLayout {
    pub format: Format,
    /// Of all matrices.
    pub rows: usize,
    pub cols: usize,
}

impl TiledLayout {
    /// The same with another number of rows.
    pub fn with_rows(&self, rows: usize) -> TiledLayout {
        TiledLayout { rows, ..*self }
    }

    /// Whether rows come in pairs.
    pub fn is_paired(&self) -> bool {
        formats::planes(self.format).len() > 1 && self.cols.is_multiple_of(TILE * CHUNK)
    }

    /// Bytes of a row, a multiple of 16.
    pub fn pitch(&self) -> usize {
        let chunks = self.cols.div_ceil(CHUNK);
        let last = plane_sizes(self.format, chunks % TILE).sum::<usize>();
        chunks / TILE * tile_bytes(self.format) + last
    }

    /// Size of the buffer in bytes.
    pub fn bytes(&self) -> usize {
        let rows = if self.is_paired() { self.rows.next_multiple_of(2) } else { self.rows };
        rows.saturating_mul(self.pitch())
    }

    /// Where a tile of a row starts.
    fn at(&self, row: usize, tile: usize) -> usize {
        let (pitch, size) = (self.pitch(), tile_bytes(self.format));
        if self.is_paired() {
            (row - row % 2) * pitch + (2 * tile + row % 2) * size
        } else {
            row * pitch + tile * size
        }
    }

    /// Packs `bytes`, all rows in the file's format, into `to`. Returns an upper bound of the magnitude of quantised values, derived
    /// from the scales.
    pub fn pack(&self, format: Format, bytes: &[u8], to: &mut [u8]) -> f32 {
        let mut values = vec![0.0; self.cols.min(TILE * CHUNK)];
        let tiles = || {
            let firsts = (0..self.cols).step_by(TILE * CHUNK);
            firsts.map(|first| first..self.cols.min(first + TILE * CHUNK)).enumerate()
        };
        let mut bound = 0.0_f32;
        for (index, row) in bytes.chunks_exact(bytes.len() / self.rows).enumerate() {
            for (tile, cols) in tiles() {
                let [start, end] = [cols.start, cols.end].map(|col| row_bytes(format, col));
                let mut planes = self.planes(&cols, &mut to[self.at(index, tile)..]);
                let values = &mut values[..cols.len()];
                bound = bound.max(pack_row(format, self.format, &row[start..end], values, &mut planes));
            }
        }
        if self.is_paired() && !self.rows.is_multiple_of(2) {
            for (tile, _) in tiles() {
                to[self.at(self.rows, tile)..][..tile_bytes(self.format)].fill(0);
            }
        }
        bound
    }

    /// The planes of the tile with these columns at the start of `to`. Zeroes what stays unused.
    fn planes<'a>(&self, cols: &Range<usize>, mut to: &'a mut [u8]) -> Vec<&'a mut [u8]> {
        let sizes = plane_sizes(self.format, cols.len().div_ceil(CHUNK));
        let planes = formats::planes(self.format).iter().zip(sizes);
        let plane = |((bytes, shared_by), size): (&(usize, usize), usize)| {
            let plane = to.split_off_mut(..size).expect("rows have all tiles");
            plane[cols.len() / shared_by * bytes..].fill(0);
            plane
        };
        planes.map(plane).collect()
    }
}

/// Bytes of a whole tile.
pub fn tile_bytes(format: Format) -> usize {
    plane_sizes(format, TILE).sum()
}

/// Bytes of each plane in a tile of so many chunks.
fn plane_sizes(format: Format, chunks: usize) -> impl Iterator<Item = usize> {
    let planes = formats::planes(format);
    let chunks = if planes.len() == 1 { chunks } else { chunks.next_multiple_of(BLOCK) };
    planes.iter().map(move |(bytes, shared_by)| (chunks * CHUNK / shared_by * bytes).next_multiple_of(ALIGN))
}

/// Bytes of the first `cols` columns of a row in the file's format: whole blocks.
fn row_bytes(format: Format, cols: usize) -> usize {
    format.bytes_for(cols as u64).expect("rows and tiles have whole blocks") as usize
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Layout;

    const ROWS: usize = 5;

    /// Each plane of a tile has what the plane of all rows has for its columns. Rows of whole tiles; of a whole one and whole blocks of
    /// chunks; and of a part of a block, or for unquantised formats of a chunk.
    #[test]
    fn tiles_have_the_columns_of_planes() {
        let own = Format::ALL.map(|format| (format, format));
        let converted = [(Format::F16, Format::Q4_1), (Format::F32, Format::BF16)];
        for (on_device, format) in own.into_iter().chain(converted) {
            let block = (1..=256).find(|&cols| format.bytes_for(cols).is_some()).expect("a block") as usize;
            for cols in [2048, 1024 + 512, (1024 + 300_usize).next_multiple_of(block), block] {
                let size = ROWS * format.bytes_for(cols as u64).expect("whole blocks") as usize;
                let bytes: Vec<u8> = (0..size).map(|i| (i * 151 + i / 256 * 7) as u8).collect();
                let planes = Layout::new(on_device, ROWS, cols);
                let mut plane_bytes = vec![0; planes.bytes()];
                let bound = planes.pack(format, &bytes, cols, &mut plane_bytes);
                let layout = TiledLayout { format: on_device, rows: ROWS, cols };
                // What the buffer held before does not matter.
                let mut tiled = vec![0xaa; layout.bytes()];
                let what = format!("{cols} columns of {format:?} as {on_device:?}");
                assert_eq!(layout.pack(format, &bytes, &mut tiled).to_bits(), bound.to_bits(), "{what}");
                assert!(layout.pitch().is_multiple_of(16), "{what}");

                let is_paired = planes.offsets().count() > 1 && cols % 1024 == 0;
                let firsts = || (0..cols).step_by(1024);
                let order: Vec<(usize, usize)> = if is_paired {
                    let pairs = (0..ROWS).step_by(2);
                    pairs.flat_map(|row| firsts().flat_map(move |at| [(row, at), (row + 1, at)])).collect()
                } else {
                    (0..ROWS).flat_map(|row| firsts().map(move |at| (row, at))).collect()
                };
                let mut at = 0;
                for (row, first) in order {
                    if row == ROWS {
                        let size = tile_bytes(on_device);
                        assert!(tiled[at..][..size].iter().all(|&byte| byte == 0), "{what}: no row");
                        at += size;
                        continue;
                    }
                    let chunks = (cols - first).div_ceil(32).min(32);
                    let elements = formats::planes(on_device).iter();
                    for ((&(bytes, shared_by), start), pitch) in
                        elements.zip(planes.offsets()).zip(planes.pitches())
                    {
                        let from = start + row * pitch + first / shared_by * bytes;
                        let len = chunks * 32 / shared_by * bytes;
                        assert_eq!(
                            tiled[at..][..len],
                            plane_bytes[from..][..len],
                            "{what}: row {row}, column {first}"
                        );
                        let room =
                            if planes.offsets().count() == 1 { chunks } else { chunks.next_multiple_of(4) };
                        let room = (room * 32 / shared_by * bytes).next_multiple_of(16);
                        assert!(tiled[at + len..at + room].iter().all(|&byte| byte == 0), "{what}");
                        at += room;
                    }
                }
                assert_eq!(at, tiled.len(), "{what}");
            }
        }
    }

    /// Bytes of a whole tile, by hand: low bits, high bits, scales, factors.
    #[test]
    fn tiles_have_whole_units() {
        assert_eq!(tile_bytes(Format::Q4_K), 512 + 64);
        assert_eq!(tile_bytes(Format::Q6_K), 512 + 256 + 64 + 16);
        assert_eq!(tile_bytes(Format::Q8_0), 1024 + 64);
        assert_eq!(tile_bytes(Format::MXFP4), 512 + 32);
        assert_eq!(tile_bytes(Format::F16), 2048);
        let pitch = |format, cols| TiledLayout { format, rows: 1, cols }.pitch();
        assert_eq!(pitch(Format::Q6_K, 5 * 1024 + 512), 5 * 848 + (256 + 128 + 32 + 16));
        // 36 chunks: a tile, and a block of 4; the same with three of its chunks.
        assert_eq!(pitch(Format::Q4_0, 1152), 576 + (64 + 16));
        assert_eq!(pitch(Format::Q4_0, 1120), 576 + (64 + 16));
        assert_eq!(pitch(Format::F32, 100), 4 * 128);
    }
}
