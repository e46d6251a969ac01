//! The kernels, by instruction set, and the table that chooses them.
//!
//! Whatever the instruction set, an element of a result is summed over K in one order that does not
//! depend on how many rows a step has, where a tile begins or how many threads run.

mod activations;
#[cfg(target_arch = "x86_64")]
mod avx2;
mod scalar;

use half::f16;
use quant::*;

use crate::pool::Tile;
pub(crate) use activations::{Q8, quantize};

/// An instruction set that kernels exist for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Isa {
    /// Plain Rust, for every processor.
    Scalar,
    /// AVX2 with FMA and F16C: x86-64 processors since 2013.
    Avx2,
}

impl Isa {
    /// All of them, plain Rust first.
    pub const ALL: [Isa; 2] = [Isa::Scalar, Isa::Avx2];

    /// The best one this processor has.
    pub fn detect() -> Isa {
        if Isa::Avx2.is_available() { Isa::Avx2 } else { Isa::Scalar }
    }

    /// Whether this processor has it.
    pub fn is_available(self) -> bool {
        match self {
            Isa::Scalar => true,
            #[cfg(target_arch = "x86_64")]
            Isa::Avx2 => {
                is_x86_feature_detected!("avx2")
                    && is_x86_feature_detected!("fma")
                    && is_x86_feature_detected!("f16c")
            }
            #[cfg(not(target_arch = "x86_64"))]
            Isa::Avx2 => false,
        }
    }

    /// Its name, such as `avx2`.
    pub fn name(self) -> &'static str {
        match self {
            Isa::Scalar => "scalar",
            Isa::Avx2 => "avx2",
        }
    }
}

/// Features of this processor that kernels are or may be written for.
pub(crate) fn features() -> impl Iterator<Item = &'static str> {
    #[cfg(target_arch = "x86_64")]
    let found = [
        ("avx2", is_x86_feature_detected!("avx2")),
        ("fma", is_x86_feature_detected!("fma")),
        ("f16c", is_x86_feature_detected!("f16c")),
        ("avx512f", is_x86_feature_detected!("avx512f")),
        ("avx512vnni", is_x86_feature_detected!("avx512vnni")),
    ];
    #[cfg(not(target_arch = "x86_64"))]
    let found: [(&str, bool); 0] = [];
    found.into_iter().filter(|(_, has)| *has).map(|(name, _)| name)
}

/// A matrix that a linear kernel reads: rows of `stride` elements.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Input<'a, T> {
    /// Row after row.
    pub(crate) data: &'a [T],
    /// Elements of `data` a row.
    pub(crate) stride: usize,
}

impl<'a, T> Input<'a, T> {
    /// One row.
    pub(crate) fn row(&self, row: usize) -> &'a [T] {
        &self.data[row * self.stride..][..self.stride]
    }
}

/// Computes a tile of `x` times the transpose of a weight, whose bytes are given whole.
pub(crate) type LinearKernel<T> = fn(&[u8], Input<'_, T>, &mut Tile<'_, f32>);

/// A linear kernel, by the activations it takes.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Linear {
    /// f32.
    Float(LinearKernel<f32>),
    /// 8 bits.
    Quantized(LinearKernel<Q8>),
}

/// Attention over keys and values of type `T`, those of one head in consecutive positions.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Attend<T> {
    /// `scores[j] = scale * q . keys[j]`, arguments in that order.
    pub(crate) scores: fn(&[f32], &[T], f32, &mut [f32]),
    /// `mean += sum_j weights[j] * values[j]`, arguments in that order.
    pub(crate) mix: fn(&[f32], &[T], &mut [f32]),
}

/// The linear kernels of a module, by format.
macro_rules! linear_table {
    ($isa:ident, $format:expr) => {
        match $format {
            Format::F32 => Linear::Float($isa::linear_float::<F32Le>),
            Format::F16 => Linear::Float($isa::linear_float::<F16Le>),
            Format::BF16 => Linear::Float($isa::linear_float::<Bf16Le>),
            Format::Q4_0 => Linear::Quantized($isa::linear_quantized::<BlockQ4_0, 32, 1>),
            Format::Q4_1 => Linear::Quantized($isa::linear_quantized::<BlockQ4_1, 32, 1>),
            Format::Q5_0 => Linear::Quantized($isa::linear_quantized::<BlockQ5_0, 32, 1>),
            Format::Q5_1 => Linear::Quantized($isa::linear_quantized::<BlockQ5_1, 32, 1>),
            Format::Q8_0 => Linear::Quantized($isa::linear_quantized::<BlockQ8_0, 32, 1>),
            Format::Q2_K => Linear::Quantized($isa::linear_quantized::<BlockQ2_K, 256, 8>),
            Format::Q3_K => Linear::Quantized($isa::linear_quantized::<BlockQ3_K, 256, 8>),
            Format::Q4_K => Linear::Quantized($isa::linear_quantized::<BlockQ4_K, 256, 8>),
            Format::Q5_K => Linear::Quantized($isa::linear_quantized::<BlockQ5_K, 256, 8>),
            Format::Q6_K => Linear::Quantized($isa::linear_quantized::<BlockQ6_K, 256, 8>),
            Format::IQ4_NL => Linear::Quantized($isa::linear_quantized::<BlockIQ4_NL, 32, 1>),
            Format::IQ4_XS => Linear::Quantized($isa::linear_quantized::<BlockIQ4_XS, 256, 8>),
        }
    };
}

/// The kernels of one instruction set.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Kernels {
    isa: Isa,
    pub(crate) attend_f16: Attend<f16>,
    pub(crate) attend_f32: Attend<f32>,
}

/// A weight that is one floating-point number.
pub(crate) trait Float: Block<1> {
    fn wide(self) -> f32;
}

impl Float for F32Le {
    fn wide(self) -> f32 {
        self.to_f32()
    }
}

impl Float for F16Le {
    fn wide(self) -> f32 {
        self.to_f32()
    }
}

impl Float for Bf16Le {
    fn wide(self) -> f32 {
        self.to_f32()
    }
}

impl Kernels {
    /// The kernels of `isa`, if this processor has it.
    pub(crate) fn new(isa: Isa) -> Option<Kernels> {
        isa.is_available().then_some(match isa {
            #[cfg(target_arch = "x86_64")]
            Isa::Avx2 => Kernels {
                isa,
                attend_f16: Attend { scores: avx2::scores_f16, mix: avx2::mix_f16 },
                attend_f32: Attend { scores: avx2::scores_f32, mix: avx2::mix_f32 },
            },
            _ => Kernels {
                isa,
                attend_f16: Attend { scores: scalar::scores_f16, mix: scalar::mix_f16 },
                attend_f32: Attend { scores: scalar::scores_f32, mix: scalar::mix_f32 },
            },
        })
    }

    pub(crate) fn isa(&self) -> Isa {
        self.isa
    }

    /// The kernel for weights of `format`.
    pub(crate) fn linear(&self, format: Format) -> Linear {
        match self.isa {
            #[cfg(target_arch = "x86_64")]
            Isa::Avx2 => linear_table!(avx2, format),
            _ => linear_table!(scalar, format),
        }
    }
}

#[cfg(all(test, target_arch = "x86_64"))]
mod tests {
    use super::*;
    use crate::pool::Pool;

    /// `rows` rows of activations times 7 rows of weights.
    fn products(kernels: &Kernels, format: Format, weights: &[u8], x: &[f32], rows: usize) -> Vec<f32> {
        let mut out = vec![0.0; rows * 7];
        let cols = x.len() / rows;
        Pool::new(1).tiles(&mut out, 7, (rows, 7), |mut tile| match kernels.linear(format) {
            Linear::Float(kernel) => kernel(weights, Input { data: x, stride: cols }, &mut tile),
            Linear::Quantized(kernel) => {
                let mut q8 = vec![Q8::default(); x.len() / 32];
                quantize(x, &mut q8);
                kernel(weights, Input { data: &q8, stride: cols / 32 }, &mut tile);
            }
        });
        out
    }

    /// On the same 8-bit activations the vector kernel differs from the scalar one by rounding alone.
    #[test]
    fn vector_kernels_agree_with_the_scalar_ones() {
        let (Some(scalar), Some(avx2)) = (Kernels::new(Isa::Scalar), Kernels::new(Isa::Avx2)) else {
            eprintln!("skipped: this processor has no AVX2");
            return;
        };
        let square = |x: f32| f64::from(x) * f64::from(x);
        for format in Format::ALL {
            for rows in [1, 6] {
                let weights = testkit::random_matrix(format, 7 * 768, 0.1, 5);
                let x: Vec<f32> =
                    (0..rows * 768).map(|i| ((i * 7919 + 13) % 1009) as f32 / 504.0 - 1.0).collect();
                let expected = products(&scalar, format, &weights, &x, rows);
                let found = products(&avx2, format, &weights, &x, rows);
                let error: f64 = expected.iter().zip(&found).map(|(a, b)| square(a - b)).sum();
                let nmse = error / expected.iter().map(|&a| square(a)).sum::<f64>();
                assert!(nmse < 1e-10, "{format}, {rows} rows: NMSE {nmse:e}");
            }
        }
    }
}
