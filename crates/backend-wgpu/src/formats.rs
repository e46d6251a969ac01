//! Device formats: how weights are stored in GPU memory.
//!
//! The blocks of a quantised format are split into planes: low bits, high bits, scales. A plane holds the elements of
//! all rows, row by row, and starts at a multiple of 16 bytes. Kernels can thus load whole vectors, where the file
//! has blocks of 18 or 210 bytes. The planes take as many bytes as the blocks. Kernels see every format as chunks of
//! 32 values (`kernels/formats.wgsl`).

use std::num::NonZero;

use backend::Weight;
use half::f16;
use quant::*;

/// Values per chunk.
pub(crate) const CHUNK: usize = 32;

/// Vector load size in bytes; planes start at a multiple of it.
const VECTOR: usize = 16;

/// Formats that kernels can read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[expect(non_camel_case_types, reason = "standard format names")]
pub(crate) enum DeviceFormat {
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
pub(crate) const TABLE: [(DeviceFormat, Format, &str, &[Plane]); 18] = [
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
    /// The device format of `weight`: that of its file format, or F32 where F16 would overflow.
    pub(crate) fn of_weight(weight: &Weight) -> DeviceFormat {
        match DeviceFormat::of(weight.format) {
            DeviceFormat::F16 if weight.format != Format::F16 && !fits_f16(weight) => DeviceFormat::F32,
            format => format,
        }
    }

    /// The default device format of a file format: the same one, or F16 if there are no kernels for it.
    pub(crate) fn of(format: Format) -> DeviceFormat {
        TABLE.iter().find(|row| row.1 == format).map_or(DeviceFormat::F16, |row| row.0)
    }

    pub(crate) fn format(self) -> Format {
        TABLE[self as usize].1
    }

    /// The name in kernel templates.
    pub(crate) fn name(self) -> &'static str {
        TABLE[self as usize].2
    }

    /// Whether all values may be finite in f16. For quantised formats [`Layout::pack`] finds out from the scales.
    pub(crate) fn may_fit_f16(self) -> bool {
        !matches!(self, DeviceFormat::F32 | DeviceFormat::BF16)
    }

    fn planes(self) -> &'static [Plane] {
        TABLE[self as usize].3
    }
}

/// The layout of a weight, or of a shard of one, in its buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Layout {
    pub(crate) format: DeviceFormat,
    pub(crate) rows: usize,
    /// Chunks per row; unquantised formats pad the last one with zeros.
    pub(crate) chunks: usize,
}

impl Layout {
    pub(crate) fn new(format: DeviceFormat, rows: usize, cols: usize) -> Layout {
        Layout { format, rows, chunks: cols.div_ceil(CHUNK) }
    }

    pub(crate) fn bytes(&self) -> usize {
        self.ends().last().expect("every format has a plane")
    }

    /// Size of each plane in bytes, unpadded.
    fn sizes(&self) -> impl Iterator<Item = usize> {
        let values = self.rows * self.chunks * CHUNK;
        self.format.planes().iter().map(move |(bytes, shared_by)| values / shared_by * bytes)
    }

    /// End of each plane in bytes, padded.
    fn ends(&self) -> impl Iterator<Item = usize> {
        self.sizes().scan(0, |end, size| {
            *end += size.next_multiple_of(VECTOR);
            Some(*end)
        })
    }

    /// Parameters for kernels: chunks per row, then the offsets of planes 1 to 3 in vectors.
    pub(crate) fn params(&self) -> [u32; 4] {
        let mut params = [self.chunks as u32, 0, 0, 0];
        for (param, end) in params[1..].iter_mut().zip(self.ends()) {
            *param = (end / VECTOR) as u32;
        }
        params
    }

    /// Packs `bytes`, all rows in the file's format, into the zeroed `to`, with one thread per core. Returns an upper
    /// bound of the magnitude of quantised values, derived from the scales.
    pub(crate) fn pack(&self, format: Format, bytes: &[u8], cols: usize, to: &mut [u8]) -> f32 {
        let mut planes: Vec<&mut [u8]> = Vec::new();
        let (mut rest, mut at) = (to, 0);
        for end in self.ends() {
            let (plane, after) = rest.split_at_mut(end - at);
            planes.push(plane);
            (rest, at) = (after, end);
        }
        let rows = rows_per_thread(self.rows);
        let row = bytes.len() / self.rows;
        std::thread::scope(|scope| {
            let mut parts = Vec::new();
            for bytes in bytes.chunks(rows * row) {
                let part = Layout { rows: bytes.len() / row, ..*self };
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

    /// Packs a range of rows into its parts of the planes.
    fn pack_rows(&self, format: Format, bytes: &[u8], cols: usize, mut planes: Vec<&mut [u8]>) -> f32 {
        let mut bound = 0.0_f32;
        let mut bound_by_f32 = |scale: f32, max: f32| {
            let max = scale.abs() * max;
            bound = bound.max(if max.is_nan() { f32::INFINITY } else { max });
        };
        let mut bound_by = |scale: [u8; 2], max| bound_by_f32(f16::from_le_bytes(scale).to_f32(), max);
        match self.format {
            DeviceFormat::F32 | DeviceFormat::F16 | DeviceFormat::BF16 if format == self.format.format() => {
                self.copy(bytes, planes[0])
            }
            DeviceFormat::F32 => self.convert(format, bytes, cols, planes[0], f32::to_le_bytes),
            // `of_weight` checked that every value fits.
            DeviceFormat::F16 => {
                self.convert(format, bytes, cols, planes[0], |value| f16::from_f32(value).to_le_bytes())
            }
            DeviceFormat::BF16 => unreachable!("only BF16 becomes BF16"),
            DeviceFormat::Q4_0 => pack_blocks::<BlockQ4_0, 1, 32>(bytes, 8, |at, block, quants| {
                write(planes[0], at, &pack_low(&quants[0]));
                write(planes[1], at, &block.d.0);
                bound_by(block.d.0, 8.0);
            }),
            DeviceFormat::Q8_0 => pack_blocks::<BlockQ8_0, 1, 32>(bytes, 0, |at, block, quants| {
                write(planes[0], at, &quants[0]);
                write(planes[1], at, &block.d.0);
                bound_by(block.d.0, 128.0);
            }),
            DeviceFormat::Q4_K => pack_blocks::<BlockQ4_K, 8, 256>(bytes, 0, |at, block, quants| {
                quants.iter().enumerate().for_each(|(g, q)| write(planes[0], 8 * at + g, &pack_low(q)));
                write(planes[1], at, &pack_header(block.d.0, block.dmin.0, block.scales));
                // A value is at most d * 63 * 15 + dmin * 63: bounded by twice the larger term.
                bound_by(block.d.0, 2.0 * 63.0 * 15.0);
                bound_by(block.dmin.0, 2.0 * 63.0);
            }),
            DeviceFormat::Q5_K => pack_blocks::<BlockQ5_K, 8, 256>(bytes, 0, |at, block, quants| {
                for (g, q) in quants.iter().enumerate() {
                    write(planes[0], 8 * at + g, &pack_low(q));
                    write(planes[2], 8 * at + g, &pack_high::<4, 1>(q));
                }
                write(planes[1], at, &pack_header(block.d.0, block.dmin.0, block.scales));
                bound_by(block.d.0, 2.0 * 63.0 * 31.0);
                bound_by(block.dmin.0, 2.0 * 63.0);
            }),
            DeviceFormat::Q6_K => pack_blocks::<BlockQ6_K, 8, 256>(bytes, 32, |at, block, quants| {
                for (g, q) in quants.iter().enumerate() {
                    write(planes[0], 8 * at + g, &pack_low(q));
                    write(planes[1], 8 * at + g, &pack_high::<8, 2>(q));
                }
                write(planes[2], at, &block.scales.map(|scale| scale as u8));
                write(planes[3], at, &block.d.0);
                bound_by(block.d.0, 128.0 * 32.0);
            }),
            DeviceFormat::MXFP4 => {
                for (at, block) in BlockMXFP4::slice(bytes).iter().enumerate() {
                    write(planes[0], at, &pack_low(&nibbles(&block.qs)));
                    write(planes[1], at, &[block.e]);
                    bound_by_f32(BlockMXFP4::scale(block.e), 12.0);
                }
            }
            DeviceFormat::IQ3_XXS => pack_grid::<BlockIQ3_XXS>(bytes, &mut planes, bound_by),
            DeviceFormat::IQ3_S => pack_grid::<BlockIQ3_S>(bytes, &mut planes, bound_by),
            DeviceFormat::IQ2_XXS => pack_grid::<BlockIQ2_XXS>(bytes, &mut planes, bound_by),
            DeviceFormat::IQ2_XS => pack_grid::<BlockIQ2_XS>(bytes, &mut planes, bound_by),
            DeviceFormat::IQ2_S => pack_grid::<BlockIQ2_S>(bytes, &mut planes, bound_by),
            DeviceFormat::IQ1_S => pack_grid::<BlockIQ1_S>(bytes, &mut planes, bound_by),
            DeviceFormat::IQ1_M => pack_grid::<BlockIQ1_M>(bytes, &mut planes, bound_by),
            DeviceFormat::TQ1_0 => pack_blocks::<BlockTQ1_0, 8, 256>(bytes, 1, |at, block, quants| {
                pack_ternary(&mut planes, at, block.d, &quants);
                bound_by(block.d.0, 2.0);
            }),
            DeviceFormat::TQ2_0 => pack_blocks::<BlockTQ2_0, 8, 256>(bytes, 1, |at, block, quants| {
                pack_ternary(&mut planes, at, block.d, &quants);
                bound_by(block.d.0, 2.0);
            }),
        }
        bound
    }

    /// Copies unquantised rows, each padded to whole chunks.
    fn copy(&self, bytes: &[u8], plane: &mut [u8]) {
        let row = plane.len() / self.rows;
        let from = bytes.len() / self.rows;
        for (to, from) in plane.chunks_exact_mut(row).zip(bytes.chunks_exact(from)) {
            to[..from.len()].copy_from_slice(from);
        }
    }

    /// Dequantises rows and converts the values.
    fn convert<const N: usize>(
        &self,
        format: Format,
        bytes: &[u8],
        cols: usize,
        plane: &mut [u8],
        as_bytes: impl Fn(f32) -> [u8; N],
    ) {
        let mut values = vec![0.0; cols];
        let row = self.chunks * CHUNK * N;
        for (to, from) in plane.chunks_exact_mut(row).zip(bytes.chunks_exact(bytes.len() / self.rows)) {
            format.dequantize(from, &mut values);
            for (to, &value) in to.as_chunks_mut::<N>().0.iter_mut().zip(&values) {
                *to = as_bytes(value);
            }
        }
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
    zero: i16,
    mut pack: impl FnMut(usize, &B, [[u8; 32]; G]),
) {
    for (at, block) in B::slice(bytes).iter().enumerate() {
        pack(at, block, block.quants().map(|group| group.map(|q| (i16::from(q) + zero) as u8)));
    }
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
        for (g, codes) in block.codes().iter().enumerate() {
            let chunk = 8 * at + g;
            if is_nibbles {
                let in_order = codes.map(|code| if code < 8 { code + 8 } else { 15 - code });
                write(planes[0], chunk, &pack_low(&in_order));
            } else {
                write(planes[0], chunk, &pack_high::<8, 2>(&codes.map(|code| (code & 3) << 4)));
                write(planes[1], chunk, &pack_high::<4, 1>(&codes.map(|code| (code >> 2) << 4)));
            }
            write(planes[last - 1], chunk, &[scales[2 * g] | scales[2 * g + 1] << 4]);
        }
        write(planes[last], at, &block.d().0);
        bound_by(block.d().0, largest);
    }
}

/// Packs a block of ternary values, given plus 1.
fn pack_ternary(planes: &mut [&mut [u8]], at: usize, d: F16Le, quants: &[[u8; 32]; 8]) {
    for (g, q) in quants.iter().enumerate() {
        write(planes[0], 8 * at + g, &pack_high::<8, 2>(&q.map(|q| q << 4)));
    }
    write(planes[1], at, &d.0);
}

/// The nibbles of 16 bytes: first all low ones, then all high ones.
fn nibbles(bytes: &[u8; 16]) -> [u8; 32] {
    std::array::from_fn(|i| bytes[i % 16] >> (i / 16 * 4) & 15)
}

/// Writes the element at index `at`.
fn write<const N: usize>(plane: &mut [u8], at: usize, element: &[u8; N]) {
    plane[at * N..][..N].copy_from_slice(element);
}

/// Packs the low 4 bits of 32 quants. A word holds 8 of them: the first four in the low nibbles of its bytes, the
/// other four in the high nibbles.
fn pack_low(quants: &[u8; 32]) -> [u8; 16] {
    std::array::from_fn(|i| {
        let first = i / 4 * 8 + i % 4;
        quants[first] & 15 | (quants[first + 4] & 15) << 4
    })
}

/// Packs the bits above the low 4 of 32 quants, `BITS` per quant. Byte `j` of a word holds the bits of quants `j`, `j
/// + 4`, `j + 8` and so on.
fn pack_high<const N: usize, const BITS: usize>(quants: &[u8; 32]) -> [u8; N] {
    let mut bytes = [0; N];
    for (i, q) in quants.iter().enumerate() {
        let (four, per_word) = (i / 4, 8 / BITS);
        let word = four / per_word;
        bytes[4 * word + i % 4] |= (q >> 4) << (four % per_word * BITS);
    }
    bytes
}

/// The scale header of a 256-value block, as one vector: d, dmin, then 12 bytes of packed scales and minimums.
fn pack_header(d: [u8; 2], dmin: [u8; 2], scales: [u8; 12]) -> [u8; 16] {
    let mut head = [0; 16];
    head[..2].copy_from_slice(&d);
    head[2..4].copy_from_slice(&dmin);
    head[4..].copy_from_slice(&scales);
    head
}
