//! How weights lie in the device's memory.
//!
//! A format's blocks are taken apart into planes, each of one size of element: numbers, high bits, scales. A plane
//! holds the elements of all rows, row after row, and begins at 16 bytes, so that kernels load whole vectors where
//! the file has blocks of 18 or 210 bytes; together the planes are as long as the blocks. Kernels see every
//! format as chunks of 32 values (`kernels/formats.wgsl`).

use std::num::NonZero;

use backend::Weight;
use half::f16;
use quant::{Block, BlockQ4_0, BlockQ4_K, BlockQ5_K, BlockQ6_K, BlockQ8_0, Format, Groups};

/// Values of a chunk.
pub(crate) const CHUNK: usize = 32;

/// Bytes of the vectors that kernels load; planes begin at a multiple.
const VECTOR: usize = 16;

/// The formats that kernels read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[expect(non_camel_case_types, reason = "the names every user knows")]
pub(crate) enum DeviceFormat {
    F32,
    F16,
    BF16,
    Q4_0,
    Q8_0,
    Q4_K,
    Q5_K,
    Q6_K,
}

impl DeviceFormat {
    /// Every one.
    #[cfg(test)]
    pub(crate) const ALL: [DeviceFormat; 8] = [
        DeviceFormat::F32,
        DeviceFormat::F16,
        DeviceFormat::BF16,
        DeviceFormat::Q4_0,
        DeviceFormat::Q8_0,
        DeviceFormat::Q4_K,
        DeviceFormat::Q5_K,
        DeviceFormat::Q6_K,
    ];

    /// What `weight` becomes: what its format says, or F32 where that would make numbers infinite.
    pub(crate) fn of_weight(weight: &Weight) -> DeviceFormat {
        match DeviceFormat::of(weight.format) {
            DeviceFormat::F16 if weight.format != Format::F16 && !fits_f16(weight) => DeviceFormat::F32,
            format => format,
        }
    }

    /// What a tensor of `format` becomes as a rule: itself, or F16.
    pub(crate) fn of(format: Format) -> DeviceFormat {
        match format {
            Format::F32 => DeviceFormat::F32,
            Format::BF16 => DeviceFormat::BF16,
            Format::Q4_0 => DeviceFormat::Q4_0,
            Format::Q8_0 => DeviceFormat::Q8_0,
            Format::Q4_K => DeviceFormat::Q4_K,
            Format::Q5_K => DeviceFormat::Q5_K,
            Format::Q6_K => DeviceFormat::Q6_K,
            _ => DeviceFormat::F16,
        }
    }

    /// The format whose numbers it holds as they are.
    pub(crate) fn format(self) -> Format {
        match self {
            DeviceFormat::F32 => Format::F32,
            DeviceFormat::F16 => Format::F16,
            DeviceFormat::BF16 => Format::BF16,
            DeviceFormat::Q4_0 => Format::Q4_0,
            DeviceFormat::Q8_0 => Format::Q8_0,
            DeviceFormat::Q4_K => Format::Q4_K,
            DeviceFormat::Q5_K => Format::Q5_K,
            DeviceFormat::Q6_K => Format::Q6_K,
        }
    }

    /// The name that kernels know it by.
    pub(crate) fn name(self) -> &'static str {
        match self {
            DeviceFormat::F32 => "f32",
            DeviceFormat::F16 => "f16",
            DeviceFormat::BF16 => "bf16",
            DeviceFormat::Q4_0 => "q4_0",
            DeviceFormat::Q8_0 => "q8_0",
            DeviceFormat::Q4_K => "q4_k",
            DeviceFormat::Q5_K => "q5_k",
            DeviceFormat::Q6_K => "q6_k",
        }
    }

    /// Whether its values may all fit f16: [`Layout::pack`] knows, when it has seen them.
    pub(crate) fn may_fit_f16(self) -> bool {
        !matches!(self, DeviceFormat::F32 | DeviceFormat::BF16)
    }

    /// Bytes of an element, and values that share it, of each plane.
    fn planes(self) -> &'static [(usize, usize)] {
        match self {
            DeviceFormat::F32 => &[(4, 1)],
            DeviceFormat::F16 | DeviceFormat::BF16 => &[(2, 1)],
            DeviceFormat::Q4_0 => &[(16, 32), (2, 32)],
            DeviceFormat::Q8_0 => &[(32, 32), (2, 32)],
            DeviceFormat::Q4_K => &[(16, 32), (16, 256)],
            DeviceFormat::Q5_K => &[(16, 32), (16, 256), (4, 32)],
            DeviceFormat::Q6_K => &[(16, 32), (8, 32), (16, 256), (2, 256)],
        }
    }
}

/// A weight's place in a buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Layout {
    pub(crate) format: DeviceFormat,
    pub(crate) rows: usize,
    /// Chunks of a row; the last one of floating-point values is filled up with zeros.
    pub(crate) chunks: usize,
}

impl Layout {
    pub(crate) fn new(format: DeviceFormat, rows: usize, cols: usize) -> Layout {
        Layout { format, rows, chunks: cols.div_ceil(CHUNK) }
    }

    /// Bytes of the buffer.
    pub(crate) fn bytes(&self) -> usize {
        self.ends().last().expect("a format has planes")
    }

    /// Bytes of the elements of each plane.
    fn sizes(&self) -> impl Iterator<Item = usize> {
        let values = self.rows * self.chunks * CHUNK;
        self.format.planes().iter().map(move |(bytes, shared_by)| values / shared_by * bytes)
    }

    /// Where each plane ends, in bytes.
    fn ends(&self) -> impl Iterator<Item = usize> {
        self.sizes().scan(0, |end, size| {
            *end += size.next_multiple_of(VECTOR);
            Some(*end)
        })
    }

    /// What kernels have to know: chunks of a row, and where the second, third and fourth planes begin, in vectors.
    pub(crate) fn numbers(&self) -> [u32; 4] {
        let mut numbers = [self.chunks as u32, 0, 0, 0];
        for (number, end) in numbers[1..].iter_mut().zip(self.ends()) {
            *number = (end / VECTOR) as u32;
        }
        numbers
    }

    /// Writes all rows, which lie in `bytes` as the file has them, to `to`, which is all zeros: a part of them on each
    /// thread there is. Returns what no number goes beyond, as far as scales say it.
    pub(crate) fn pack(&self, format: Format, bytes: &[u8], cols: usize, to: &mut [u8]) -> f32 {
        let mut planes: Vec<&mut [u8]> = Vec::new();
        let (mut rest, mut at) = (to, 0);
        for end in self.ends() {
            let (plane, after) = rest.split_at_mut(end - at);
            planes.push(plane);
            (rest, at) = (after, end);
        }
        let rows = rows_of_a_thread(self.rows);
        let row = bytes.len() / self.rows;
        std::thread::scope(|scope| {
            let mut parts = Vec::new();
            for bytes in bytes.chunks(rows * row) {
                let part = Layout { rows: bytes.len() / row, ..*self };
                let of_part: Vec<&mut [u8]> = planes
                    .iter_mut()
                    .zip(part.sizes())
                    .map(|(plane, size)| plane.split_off_mut(..size).expect("a plane has all rows"))
                    .collect();
                parts.push(scope.spawn(move || part.pack_rows(format, bytes, cols, of_part)));
            }
            let bounds = parts.into_iter().map(|part| part.join().expect("packing does not panic"));
            bounds.fold(0.0, f32::max)
        })
    }

    /// Packs some rows to their parts of the planes.
    fn pack_rows(&self, format: Format, bytes: &[u8], cols: usize, mut planes: Vec<&mut [u8]>) -> f32 {
        let mut bound = 0.0_f32;
        let mut see = |scale: [u8; 2], most: f32| {
            let number = f16::from_le_bytes(scale).to_f32().abs() * most;
            bound = bound.max(if number.is_nan() { f32::INFINITY } else { number });
        };
        match self.format {
            DeviceFormat::F32 | DeviceFormat::F16 | DeviceFormat::BF16 if format == self.format.format() => {
                self.copy(bytes, planes[0])
            }
            DeviceFormat::F32 => self.convert(format, bytes, cols, planes[0], f32::to_le_bytes),
            // Every number fits.
            DeviceFormat::F16 => {
                self.convert(format, bytes, cols, planes[0], |number| f16::from_f32(number).to_le_bytes())
            }
            DeviceFormat::BF16 => unreachable!("only BF16 becomes BF16"),
            DeviceFormat::Q4_0 => pack_blocks::<BlockQ4_0, 1, 32>(bytes, 8, |at, block, numbers| {
                put(planes[0], at, &low(&numbers[0]));
                put(planes[1], at, &block.d.0);
                see(block.d.0, 8.0);
            }),
            DeviceFormat::Q8_0 => pack_blocks::<BlockQ8_0, 1, 32>(bytes, 0, |at, block, numbers| {
                put(planes[0], at, &numbers[0]);
                put(planes[1], at, &block.d.0);
                see(block.d.0, 128.0);
            }),
            DeviceFormat::Q4_K => pack_blocks::<BlockQ4_K, 8, 256>(bytes, 0, |at, block, numbers| {
                numbers.iter().enumerate().for_each(|(g, q)| put(planes[0], 8 * at + g, &low(q)));
                put(planes[1], at, &head(block.d.0, block.dmin.0, block.scales));
                // As if both were as large as the larger one.
                see(block.d.0, 2.0 * 63.0 * 15.0);
                see(block.dmin.0, 2.0 * 63.0);
            }),
            DeviceFormat::Q5_K => pack_blocks::<BlockQ5_K, 8, 256>(bytes, 0, |at, block, numbers| {
                for (g, q) in numbers.iter().enumerate() {
                    put(planes[0], 8 * at + g, &low(q));
                    put(planes[2], 8 * at + g, &high::<4, 1>(q));
                }
                put(planes[1], at, &head(block.d.0, block.dmin.0, block.scales));
                see(block.d.0, 2.0 * 63.0 * 31.0);
                see(block.dmin.0, 2.0 * 63.0);
            }),
            DeviceFormat::Q6_K => pack_blocks::<BlockQ6_K, 8, 256>(bytes, 32, |at, block, numbers| {
                for (g, q) in numbers.iter().enumerate() {
                    put(planes[0], 8 * at + g, &low(q));
                    put(planes[1], 8 * at + g, &high::<8, 2>(q));
                }
                put(planes[2], at, &block.scales.map(|scale| scale as u8));
                put(planes[3], at, &block.d.0);
                see(block.d.0, 128.0 * 32.0);
            }),
        }
        bound
    }

    /// Floating-point values, row by row.
    fn copy(&self, bytes: &[u8], plane: &mut [u8]) {
        let row = plane.len() / self.rows;
        let from = bytes.len() / self.rows;
        for (to, from) in plane.chunks_exact_mut(row).zip(bytes.chunks_exact(from)) {
            to[..from.len()].copy_from_slice(from);
        }
    }

    /// Values of any format as floating-point ones.
    fn convert<const N: usize>(
        &self,
        format: Format,
        bytes: &[u8],
        cols: usize,
        plane: &mut [u8],
        as_bytes: impl Fn(f32) -> [u8; N],
    ) {
        let mut numbers = vec![0.0; cols];
        let row = self.chunks * CHUNK * N;
        for (to, from) in plane.chunks_exact_mut(row).zip(bytes.chunks_exact(bytes.len() / self.rows)) {
            format.dequantize(from, &mut numbers);
            for (to, &number) in to.as_chunks_mut::<N>().0.iter_mut().zip(&numbers) {
                *to = as_bytes(number);
            }
        }
    }
}

/// Whether F16 has all numbers: none that is finite would be infinite there. A part of the rows on each thread there is.
fn fits_f16(weight: &Weight) -> bool {
    let Weight { format, count, rows, cols, ref bytes } = *weight;
    let rows = count * rows;
    let row = bytes.len() / rows;
    let is_beyond = |number: &f32| number.is_finite() && number.abs() > f32::from(f16::MAX);
    let fit = |bytes: &[u8]| {
        let mut numbers = vec![0.0; cols];
        bytes.chunks_exact(row).all(|row| {
            format.dequantize(row, &mut numbers);
            !numbers.iter().any(is_beyond)
        })
    };
    std::thread::scope(|scope| {
        let parts = bytes.chunks(rows_of_a_thread(rows) * row);
        let parts: Vec<_> = parts.map(|part| scope.spawn(move || fit(part))).collect();
        parts.into_iter().all(|part| part.join().expect("looking does not panic"))
    })
}

/// Of so many rows.
fn rows_of_a_thread(rows: usize) -> usize {
    let threads = std::thread::available_parallelism().map_or(1, NonZero::get);
    rows.div_ceil(threads).max(1)
}

/// Gives each block its place, the block and its integers plus `zero`.
fn pack_blocks<B: Groups<G> + Block<N>, const G: usize, const N: usize>(
    bytes: &[u8],
    zero: i16,
    mut pack: impl FnMut(usize, &B, [[u8; 32]; G]),
) {
    for (at, block) in B::slice(bytes).iter().enumerate() {
        pack(at, block, block.quants().map(|group| group.map(|q| (i16::from(q) + zero) as u8)));
    }
}

/// Writes element `at`.
fn put<const N: usize>(plane: &mut [u8], at: usize, element: &[u8; N]) {
    plane[at * N..][..N].copy_from_slice(element);
}

/// The low four bits of 32 numbers: those of 8 numbers to a word, the first four of them low.
fn low(numbers: &[u8; 32]) -> [u8; 16] {
    std::array::from_fn(|i| {
        let first = i / 4 * 8 + i % 4;
        numbers[first] & 15 | (numbers[first + 4] & 15) << 4
    })
}

/// The bits of 32 numbers from the fifth on, `BITS` each: byte `j` of a word has those of every fourth number from
/// `j` on.
fn high<const N: usize, const BITS: usize>(numbers: &[u8; 32]) -> [u8; N] {
    let mut bytes = [0; N];
    for (i, number) in numbers.iter().enumerate() {
        let (four, per_word) = (i / 4, 8 / BITS);
        let word = four / per_word;
        bytes[4 * word + i % 4] |= (number >> 4) << (four % per_word * BITS);
    }
    bytes
}

/// Scales of a block of 256, as a vector: both factors, then twelve bytes.
fn head(d: [u8; 2], dmin: [u8; 2], scales: [u8; 12]) -> [u8; 16] {
    let mut head = [0; 16];
    head[..2].copy_from_slice(&d);
    head[2..4].copy_from_slice(&dmin);
    head[4..].copy_from_slice(&scales);
    head
}
