//! A tensor of a checkpoint as it is stored.

use std::sync::Arc;

use bytes::Bytes;
use half::{bf16, f16};
use quant::E4M3;

/// A stored tensor: its elements in row-major order.
#[derive(Debug)]
pub(crate) struct Source {
    pub(crate) name: String,
    /// Slowest dimension first, as the checkpoint has it.
    pub(crate) shape: Vec<usize>,
    pub(crate) data: Bytes,
    pub(crate) elements: Elements,
}

/// How the elements of a [`Source`] are stored, little-endian.
#[derive(Clone, Debug)]
pub(crate) enum Elements {
    F32,
    F16,
    Bf16,
    F64,
    U8,
    I32,
    I64,
    /// 8-bit floats times the scales of their blocks.
    F8(F8, Option<Scales>),
    /// Each element is a block of 32 values: 16 bytes, value 2i in the low half of byte i, and a power of two in `scales`.
    /// <https://www.opencompute.org/documents/ocp-microscaling-formats-mx-v1-0-spec-final-pdf>
    Mxfp4 {
        scales: Bytes,
    },
}

/// The two 8-bit floats of <https://arxiv.org/abs/2209.05433>.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum F8 {
    /// 4 bits of exponent, 3 of mantissa, no infinities.
    E4M3,
    /// 5 bits of exponent, 2 of mantissa: the upper half of an F16.
    E5M2,
}

#[derive(Clone, Debug)]
pub(crate) struct Scales {
    pub(crate) scales: Arc<[f32]>,
    /// Blocks along each dimension of the tensor.
    pub(crate) blocks: Vec<usize>,
    /// Elements of a block along each dimension; the last block may have fewer.
    pub(crate) block: Vec<usize>,
}

impl Elements {
    /// Bytes of an element in [`Source::data`].
    pub(crate) fn size(&self) -> usize {
        match self {
            Elements::U8 | Elements::F8(..) => 1,
            Elements::F16 | Elements::Bf16 => 2,
            Elements::F32 | Elements::I32 => 4,
            Elements::F64 | Elements::I64 => 8,
            Elements::Mxfp4 { .. } => 16,
        }
    }
}

impl Source {
    pub(crate) fn len(&self) -> usize {
        self.shape.iter().product()
    }

    /// Appends `len` values from element `start` on.
    ///
    /// # Panics
    /// If the elements are blocks of MXFP4, which [`Source::read_blocks`] reads.
    pub(crate) fn read(&self, start: usize, len: usize, out: &mut Vec<f32>) {
        let size = self.elements.size();
        let bytes = &self.data[start * size..][..len * size];
        match &self.elements {
            Elements::F32 => out.extend(words(bytes).map(f32::from_le_bytes)),
            Elements::F16 => out.extend(words(bytes).map(|word| f16::from_le_bytes(word).to_f32())),
            Elements::Bf16 => out.extend(words(bytes).map(|word| bf16::from_le_bytes(word).to_f32())),
            Elements::F64 => out.extend(words(bytes).map(|word| f64::from_le_bytes(word) as f32)),
            Elements::U8 => out.extend(bytes.iter().map(|&byte| f32::from(byte))),
            Elements::I32 => out.extend(words(bytes).map(|word| i32::from_le_bytes(word) as f32)),
            Elements::I64 => out.extend(words(bytes).map(|word| i64::from_le_bytes(word) as f32)),
            Elements::F8(float, None) => out.extend(bytes.iter().map(|&byte| float.value(byte))),
            Elements::F8(float, Some(scales)) => {
                let scaled = bytes
                    .iter()
                    .enumerate()
                    .map(|(i, &byte)| float.value(byte) * scales.of(start + i, &self.shape));
                out.extend(scaled);
            }
            Elements::Mxfp4 { .. } => unreachable!("blocks are read as blocks"),
        }
    }

    /// Appends blocks `start..start + len` in ggml's layout: the exponent, then 16 bytes with values i and i + 16.
    ///
    /// # Panics
    /// If the elements are no blocks.
    pub(crate) fn read_blocks(&self, start: usize, len: usize, out: &mut Vec<u8>) {
        let Elements::Mxfp4 { scales } = &self.elements else { unreachable!("values are read as values") };
        for block in start..start + len {
            let pairs = &self.data[block * 16..][..16];
            let value = |i: usize| (pairs[i / 2] >> (i % 2 * 4)) & 15;
            out.push(scales[block]);
            out.extend((0..16).map(|i| value(i) | value(i + 16) << 4));
        }
    }
}

impl F8 {
    fn value(self, byte: u8) -> f32 {
        match self {
            F8::E4M3 => E4M3(byte).to_f32(),
            F8::E5M2 => f16::from_le_bytes([0, byte]).to_f32(),
        }
    }
}

impl Scales {
    fn of(&self, mut index: usize, shape: &[usize]) -> f32 {
        let (mut block, mut step) = (0, 1);
        for axis in (0..shape.len()).rev() {
            block += index % shape[axis] / self.block[axis] * step;
            index /= shape[axis];
            step *= self.blocks[axis];
        }
        self.scales[block]
    }
}

fn words<const N: usize>(bytes: &[u8]) -> impl Iterator<Item = [u8; N]> {
    bytes.as_chunks::<N>().0.iter().copied()
}
