//! Device formats: how weights are stored in GPU memory.
//!
//! The blocks of a quantised format are split into planes: low bits, high bits, scales. A plane holds the elements of
//! all rows, row by row, and starts at a multiple of 16 bytes. Kernels can thus load whole vectors, where the file
//! has blocks of 18 or 210 bytes. Without padding between rows the planes take as many bytes as the blocks. Kernels see
//! every format as chunks of 32 values.

use std::collections::HashMap;
use std::num::NonZero;
use std::ops::Range;

use backend::Weight;
use bytes::Bytes;
use half::f16;
use half::slice::HalfFloatSliceExt;
use quant::*;

/// Values per chunk.
pub const CHUNK: usize = 32;

/// Vector load size in bytes; planes start at a multiple of it.
const VECTOR: usize = 16;

/// Formats that kernels can read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[expect(non_camel_case_types, reason = "standard format names")]
#[expect(missing_docs, reason = "the variants are the file formats of the same names")]
pub enum DeviceFormat {
    F32,
    F16,
    BF16,
    Q4_0,
    Q8_0,
    Q4_K,
    Q5_K,
    Q6_K,
    MXFP4,
    IQ3_XXS,
    IQ3_S,
    IQ2_XXS,
    IQ2_XS,
    IQ2_S,
    IQ1_S,
    IQ1_M,
    TQ1_0,
    TQ2_0,
}

/// Bytes per element and values per element of a plane.
type Plane = (usize, usize);

/// Planes of formats of a grid whose codes have 4 bits: codes, two scales per chunk, F16 scales of blocks.
const NIBBLES_OF_GRID: &[Plane] = &[(16, 32), (1, 32), (2, 256)];

/// The same with codes of 3 bits, in planes of 2 and 1.
const THREE_BITS_OF_GRID: &[Plane] = &[(8, 32), (4, 32), (1, 32), (2, 256)];

/// Planes of ternary formats.
const TERNARY: &[Plane] = &[(8, 32), (2, 256)];

/// Per device format: the equivalent file format, the name in kernel templates, and the planes.
const TABLE: [(DeviceFormat, Format, &str, &[Plane]); 18] = [
    (DeviceFormat::F32, Format::F32, "f32", &[(4, 1)]),
    (DeviceFormat::F16, Format::F16, "f16", &[(2, 1)]),
    (DeviceFormat::BF16, Format::BF16, "bf16", &[(2, 1)]),
    (DeviceFormat::Q4_0, Format::Q4_0, "q4_0", &[(16, 32), (2, 32)]),
    (DeviceFormat::Q8_0, Format::Q8_0, "q8_0", &[(32, 32), (2, 32)]),
    (DeviceFormat::Q4_K, Format::Q4_K, "q4_k", &[(16, 32), (16, 256)]),
    (DeviceFormat::Q5_K, Format::Q5_K, "q5_k", &[(16, 32), (16, 256), (4, 32)]),
    (DeviceFormat::Q6_K, Format::Q6_K, "q6_k", &[(16, 32), (8, 32), (16, 256), (2, 256)]),
    (DeviceFormat::MXFP4, Format::MXFP4, "mxfp4", &[(16, 32), (1, 32)]),
    (DeviceFormat::IQ3_XXS, Format::IQ3_XXS, "iq3_xxs", NIBBLES_OF_GRID),
    (DeviceFormat::IQ3_S, Format::IQ3_S, "iq3_s", NIBBLES_OF_GRID),
    (DeviceFormat::IQ2_XXS, Format::IQ2_XXS, "iq2", THREE_BITS_OF_GRID),
    (DeviceFormat::IQ2_XS, Format::IQ2_XS, "iq2", THREE_BITS_OF_GRID),
    (DeviceFormat::IQ2_S, Format::IQ2_S, "iq2", THREE_BITS_OF_GRID),
    (DeviceFormat::IQ1_S, Format::IQ1_S, "iq1", THREE_BITS_OF_GRID),
    (DeviceFormat::IQ1_M, Format::IQ1_M, "iq1", THREE_BITS_OF_GRID),
    (DeviceFormat::TQ1_0, Format::TQ1_0, "ternary", TERNARY),
    (DeviceFormat::TQ2_0, Format::TQ2_0, "ternary", TERNARY),
];

impl DeviceFormat {
    /// All of them.
    pub fn all() -> impl Iterator<Item = DeviceFormat> {
        TABLE.into_iter().map(|row| row.0)
    }

    /// The device format of `weight`: that of its file format, or F32 where F16 would overflow.
    pub fn of_weight(weight: &Weight) -> DeviceFormat {
        match DeviceFormat::of(weight.format) {
            DeviceFormat::F16 if weight.format != Format::F16 && !fits_f16(weight) => DeviceFormat::F32,
            format => format,
        }
    }

    /// The default device format of a file format: the same one, or F16 if there are no kernels for it.
    pub fn of(format: Format) -> DeviceFormat {
        TABLE.iter().find(|row| row.1 == format).map_or(DeviceFormat::F16, |row| row.0)
    }

    /// The equivalent file format.
    pub fn format(self) -> Format {
        TABLE[self as usize].1
    }

    /// The name in kernel templates.
    pub fn name(self) -> &'static str {
        TABLE[self as usize].2
    }

    /// Whether all values may be finite in f16. For quantised formats [`Layout::pack`] finds out from the scales.
    pub fn may_fit_f16(self) -> bool {
        !matches!(self, DeviceFormat::F32 | DeviceFormat::BF16)
    }

    fn planes(self) -> &'static [Plane] {
        TABLE[self as usize].3
    }
}

/// Device formats that depend on the values of a weight, by address of its bytes. Holding the bytes keeps the addresses
/// unique.
#[derive(Debug, Default)]
pub struct Formats(HashMap<(usize, usize), (Bytes, DeviceFormat)>);

impl Formats {
    /// An unquantised format for `weight`: F16, or F32 where F16 would overflow.
    pub fn unquantised(&mut self, weight: &Weight) -> DeviceFormat {
        if fits_f16(weight) { DeviceFormat::F16 } else { DeviceFormat::F32 }
    }

    /// The device format of `weight`. The values of each weight are read once.
    pub fn get(&mut self, weight: &Weight) -> DeviceFormat {
        match DeviceFormat::of(weight.format) {
            DeviceFormat::F16 if weight.format != Format::F16 => {
                let address = (weight.bytes.as_ptr().addr(), weight.bytes.len());
                let scan = || (weight.bytes.clone(), DeviceFormat::of_weight(weight));
                self.0.entry(address).or_insert_with(scan).1
            }
            format => format,
        }
    }
}

/// The layout of a weight, or of a shard of one, in its buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    /// The format.
    pub format: DeviceFormat,
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
    pub fn new(format: DeviceFormat, rows: usize, cols: usize, row_align: usize) -> Layout {
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
        let planes = self.format.planes().iter();
        planes.map(move |(bytes, shared_by)| (values / shared_by * bytes).next_multiple_of(row_align))
    }

    /// Offset of each plane in bytes, a multiple of 16 and of the rows' alignment.
    pub fn offsets(&self) -> impl Iterator<Item = usize> {
        [0].into_iter().chain(self.ends()).take(self.format.planes().len())
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
            self.format.planes().iter().map(|(bytes, shared_by)| cols / shared_by * bytes).collect();
        let parts = planes.into_iter().zip(self.pitches());
        let mut parts: Vec<_> = parts.map(|(plane, pitch)| plane.chunks_exact_mut(pitch)).collect();
        let mut planes = Vec::new();
        let mut values = vec![0.0; cols];
        let mut bound = 0.0_f32;
        for row in bytes.chunks_exact(bytes.len() / self.rows) {
            planes.clear();
            planes.extend(parts.iter_mut().filter_map(Iterator::next));
            planes.iter_mut().zip(&used).for_each(|(plane, &used)| plane[used..].fill(0));
            bound = bound.max(self.pack_row(format, row, &mut values, &mut planes));
        }
        bound
    }

    /// Packs a row into its part of each plane. `values` has room for its values.
    fn pack_row(&self, format: Format, bytes: &[u8], values: &mut [f32], planes: &mut [&mut [u8]]) -> f32 {
        let mut bound = 0.0_f32;
        let mut bound_by_f32 = |scale: f32, max: f32| {
            let max = scale.abs() * max;
            bound = bound.max(if max.is_nan() { f32::INFINITY } else { max });
        };
        let mut bound_by = |scale: [u8; 2], max| bound_by_f32(f16::from_le_bytes(scale).to_f32(), max);
        match self.format {
            DeviceFormat::F32 | DeviceFormat::F16 | DeviceFormat::BF16 if format == self.format.format() => {
                planes[0][..bytes.len()].copy_from_slice(bytes);
            }
            DeviceFormat::F32 => {
                format.dequantize(bytes, values);
                write_all(planes[0], values.iter().map(|value| value.to_le_bytes()));
            }
            // `of_weight` checked that every value fits.
            DeviceFormat::F16 => {
                format.dequantize(bytes, values);
                let mut halves = [f16::ZERO; CHUNK];
                for (plane, values) in planes[0].chunks_mut(2 * CHUNK).zip(values.chunks(CHUNK)) {
                    let halves = &mut halves[..values.len()];
                    halves.convert_from_f32_slice(values);
                    write_all(plane, halves.iter().map(|half| half.to_le_bytes()));
                }
            }
            DeviceFormat::BF16 => unreachable!("only BF16 becomes BF16"),
            DeviceFormat::Q4_0 => pack_blocks::<BlockQ4_0, 1, 32>(bytes, 8, |at, block, quants| {
                write(planes[0], at, &pack_bits::<16, 4>(&quants[0], 0));
                write(planes[1], at, &block.d.0);
                bound_by(block.d.0, 8.0);
            }),
            DeviceFormat::Q8_0 => {
                for (at, block) in BlockQ8_0::slice(bytes).iter().enumerate() {
                    write(planes[0], at, &block.qs.map(|q| q as u8));
                    write(planes[1], at, &block.d.0);
                    bound_by(block.d.0, 128.0);
                }
            }
            DeviceFormat::Q4_K => pack_blocks::<BlockQ4_K, 8, 256>(bytes, 0, |at, block, quants| {
                for (g, q) in quants.iter().enumerate() {
                    write(planes[0], 8 * at + g, &pack_bits::<16, 4>(q, 0));
                }
                write(planes[1], at, &pack_header(block.d.0, block.dmin.0, block.scales));
                // A value is at most d * 63 * 15 + dmin * 63: bounded by twice the larger term.
                bound_by(block.d.0, 2.0 * 63.0 * 15.0);
                bound_by(block.dmin.0, 2.0 * 63.0);
            }),
            DeviceFormat::Q5_K => pack_blocks::<BlockQ5_K, 8, 256>(bytes, 0, |at, block, quants| {
                for (g, q) in quants.iter().enumerate() {
                    write(planes[0], 8 * at + g, &pack_bits::<16, 4>(q, 0));
                    write(planes[2], 8 * at + g, &pack_bits::<4, 1>(q, 4));
                }
                write(planes[1], at, &pack_header(block.d.0, block.dmin.0, block.scales));
                bound_by(block.d.0, 2.0 * 63.0 * 31.0);
                bound_by(block.dmin.0, 2.0 * 63.0);
            }),
            DeviceFormat::Q6_K => pack_blocks::<BlockQ6_K, 8, 256>(bytes, 32, |at, block, quants| {
                for (g, q) in quants.iter().enumerate() {
                    write(planes[0], 8 * at + g, &pack_bits::<16, 4>(q, 0));
                    write(planes[1], 8 * at + g, &pack_bits::<8, 2>(q, 4));
                }
                write(planes[2], at, &block.scales.map(|scale| scale as u8));
                write(planes[3], at, &block.d.0);
                bound_by(block.d.0, 128.0 * 32.0);
            }),
            DeviceFormat::MXFP4 => {
                for (at, block) in BlockMXFP4::slice(bytes).iter().enumerate() {
                    write(planes[0], at, &pack_bits::<16, 4>(&nibbles(&block.qs), 0));
                    write(planes[1], at, &[block.e]);
                    bound_by_f32(BlockMXFP4::scale(block.e), 12.0);
                }
            }
            DeviceFormat::IQ3_XXS => pack_grid::<BlockIQ3_XXS>(bytes, planes, bound_by),
            DeviceFormat::IQ3_S => pack_grid::<BlockIQ3_S>(bytes, planes, bound_by),
            DeviceFormat::IQ2_XXS => pack_grid::<BlockIQ2_XXS>(bytes, planes, bound_by),
            DeviceFormat::IQ2_XS => pack_grid::<BlockIQ2_XS>(bytes, planes, bound_by),
            DeviceFormat::IQ2_S => pack_grid::<BlockIQ2_S>(bytes, planes, bound_by),
            DeviceFormat::IQ1_S => pack_grid::<BlockIQ1_S>(bytes, planes, bound_by),
            DeviceFormat::IQ1_M => pack_grid::<BlockIQ1_M>(bytes, planes, bound_by),
            DeviceFormat::TQ1_0 => pack_blocks::<BlockTQ1_0, 8, 256>(bytes, 1, |at, block, quants| {
                pack_ternary(planes, at, block.d, &quants);
                bound_by(block.d.0, 2.0);
            }),
            DeviceFormat::TQ2_0 => pack_blocks::<BlockTQ2_0, 8, 256>(bytes, 1, |at, block, quants| {
                pack_ternary(planes, at, block.d, &quants);
                bound_by(block.d.0, 2.0);
            }),
        }
        bound
    }
}

/// Whether all finite values stay finite in F16. Uses one thread per core.
fn fits_f16(weight: &Weight) -> bool {
    let Weight { format, count, rows, cols, ref bytes } = *weight;
    let rows = count * rows;
    let row = bytes.len() / rows;
    let overflows = |value: &f32| value.is_finite() && value.abs() > f32::from(f16::MAX);
    let fit = |bytes: &[u8]| {
        let mut values = vec![0.0; cols];
        bytes.chunks_exact(row).all(|row| {
            format.dequantize(row, &mut values);
            !values.iter().any(overflows)
        })
    };
    std::thread::scope(|scope| {
        let parts = bytes.chunks(rows_per_thread(rows) * row);
        let parts: Vec<_> = parts.map(|part| scope.spawn(move || fit(part))).collect();
        parts.into_iter().all(|part| part.join().expect("dequantisation does not panic"))
    })
}

/// Rows per thread, so that every core has some.
fn rows_per_thread(rows: usize) -> usize {
    let threads = std::thread::available_parallelism().map_or(1, NonZero::get);
    rows.div_ceil(threads).max(1)
}

/// Calls `pack` with the index of each block, the block, and its quants plus `zero`.
fn pack_blocks<B: Groups<G> + Block<N>, const G: usize, const N: usize>(
    bytes: &[u8],
    zero: u8,
    mut pack: impl FnMut(usize, &B, [[u8; 32]; G]),
) {
    for (at, block) in B::slice(bytes).iter().enumerate() {
        pack(at, block, unsigned(block, zero));
    }
}

/// The quants of a block plus `zero`. Not inlined, so that the quants are in memory, from where the compiler loads whole
/// words of them; it would combine words from registers byte by byte.
#[inline(never)]
fn unsigned<B: Groups<G>, const G: usize>(block: &B, zero: u8) -> [[u8; 32]; G] {
    let quants = block.quants();
    let mut unsigned = [[0; 32]; G];
    for (to, &q) in unsigned.as_flattened_mut().iter_mut().zip(quants.as_flattened()) {
        *to = (q as u8).wrapping_add(zero);
    }
    unsigned
}

/// Packs blocks of a grid. Kernels expand the codes by arithmetic, so codes of 4 bits are in the order of their values.
fn pack_grid<B: GridBlock + Block<256>>(
    bytes: &[u8],
    planes: &mut [&mut [u8]],
    mut bound_by: impl FnMut([u8; 2], f32),
) {
    let (is_nibbles, last) = (planes.len() == 3, planes.len() - 1);
    let largest = f32::from(B::QUANTS.into_iter().max().unwrap_or(0)) * B::UNIT * 31.0;
    for (at, block) in B::slice(bytes).iter().enumerate() {
        let scales = block.scales();
        let codes = if is_nibbles { in_order(block.codes()) } else { block.codes() };
        for (g, codes) in codes.iter().enumerate() {
            let chunk = 8 * at + g;
            if is_nibbles {
                write(planes[0], chunk, &pack_bits::<16, 4>(codes, 0));
            } else {
                write(planes[0], chunk, &pack_bits::<8, 2>(codes, 0));
                write(planes[1], chunk, &pack_bits::<4, 1>(codes, 2));
            }
            write(planes[last - 1], chunk, &[scales[2 * g] | scales[2 * g + 1] << 4]);
        }
        write(planes[last], at, &block.d().0);
        bound_by(block.d().0, largest);
    }
}

/// Codes of 4 bits in the order of their values. Not inlined, as [`unsigned`].
#[inline(never)]
fn in_order(mut codes: [[u8; 32]; 8]) -> [[u8; 32]; 8] {
    for code in codes.as_flattened_mut() {
        *code = if *code < 8 { *code + 8 } else { 15 - *code };
    }
    codes
}

/// Packs a block of ternary values, given plus 1.
fn pack_ternary(planes: &mut [&mut [u8]], at: usize, d: F16Le, quants: &[[u8; 32]; 8]) {
    for (g, q) in quants.iter().enumerate() {
        write(planes[0], 8 * at + g, &pack_bits::<8, 2>(q, 0));
    }
    write(planes[1], at, &d.0);
}

/// The nibbles of 16 bytes: first all low ones, then all high ones. Not inlined, as [`unsigned`].
#[inline(never)]
fn nibbles(bytes: &[u8; 16]) -> [u8; 32] {
    let mut values = [0; 32];
    let (low, high) = values.split_at_mut(16);
    for ((low, high), byte) in low.iter_mut().zip(high).zip(bytes) {
        (*low, *high) = (byte & 15, byte >> 4);
    }
    values
}

/// Writes the element at index `at`.
fn write<const N: usize>(plane: &mut [u8], at: usize, element: &[u8; N]) {
    plane[at * N..][..N].copy_from_slice(element);
}

/// Writes elements from the start on.
fn write_all<const N: usize>(plane: &mut [u8], elements: impl Iterator<Item = [u8; N]>) {
    plane.as_chunks_mut::<N>().0.iter_mut().zip(elements).for_each(|(to, element)| *to = element);
}

/// Packs `BITS` bits of 32 quants each, from bit `shift` on. Byte `j` of a word holds those of quants `j`, `j + 4`, `j + 8`
/// and so on, the first in the lowest bits.
fn pack_bits<const N: usize, const BITS: usize>(quants: &[u8; 32], shift: usize) -> [u8; N] {
    let mask = u64::from_ne_bytes([(1 << BITS) - 1; 8]);
    let mut packed = [0; N];
    let eights = quants.as_chunks::<8>().0.chunks(4 / BITS);
    for (word, eights) in packed.as_chunks_mut::<4>().0.iter_mut().zip(eights) {
        // Quants `j` and `j + 4` are still 4 bytes apart.
        let mut apart = 0;
        for (i, eight) in eights.iter().enumerate() {
            apart |= (u64::from_le_bytes(*eight) >> shift & mask) << (2 * BITS * i);
        }
        *word = ((apart | apart >> (32 - BITS)) as u32).to_le_bytes();
    }
    packed
}

/// The scale header of a 256-value block, as one vector: d, dmin, then 12 bytes of packed scales and minimums.
fn pack_header(d: [u8; 2], dmin: [u8; 2], scales: [u8; 12]) -> [u8; 16] {
    let mut head = [0; 16];
    head[..2].copy_from_slice(&d);
    head[2..4].copy_from_slice(&dmin);
    head[4..].copy_from_slice(&scales);
    head
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
        let own = DeviceFormat::all().map(|format| (format, format.format()));
        let converted = [(DeviceFormat::F16, Format::Q4_1), (DeviceFormat::F32, Format::BF16)];
        for (device_format, format) in own.chain(converted) {
            let block = (1..=256).find(|&cols| format.bytes_for(cols).is_some()).expect("a block");
            let cols = [100, 288, 768][[1, 32, 256].iter().position(|&size| size == block).expect("a size")];
            let [dense, aligned] = [1, 16].map(|row_align| Layout::new(device_format, ROWS, cols, row_align));
            let (of_dense, bound) = packed(&dense, format, cols);
            let (of_aligned, same_bound) = packed(&aligned, format, cols);
            let what = format!("{format:?} as {device_format:?}");
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
