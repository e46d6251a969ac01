//! The kernel table of each instruction set.
//!
//! A result is summed over K in one order, which depends neither on the batch size, nor on the tiling, nor on the number
//! of threads.

mod elementwise;
mod route;
#[cfg(all(test, unix))]
mod tests;

use std::marker::PhantomData;

use backend::Step;
use graph::{Activation, Glu, Map, NormKind, Pairing};
use half::f16;
use quant::*;

use crate::attention::Attend;
use crate::kv::{Kv, Packed as PackedKv, Store, Write};
use crate::lanes::scalar::Scalar;
use crate::lanes::{self, LANES, Lanes, WithSimd};
use crate::memory::Line;
#[cfg(test)]
use crate::memory::Lines;
use crate::packed::activations::{Activations, Form, PackRows};
use crate::packed::floats::{self, Float};
use crate::packed::gemv::Multiply;
use crate::packed::layout::Layout;
use crate::packed::{self, Packed, scaled};
use crate::pool::{Pool, Tile};
use crate::recurrent::{Convolve, LinearHead};
pub(crate) use route::{Ranking, route};

/// An instruction set with kernels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Isa {
    /// Portable scalar code.
    Scalar,
    /// AVX2 with FMA and F16C: x86-64 processors since 2013.
    Avx2,
    /// AVX-512 F, BW, VL and VNNI: Intel since 2019, AMD since 2022.
    Avx512,
}

impl Isa {
    /// All instruction sets, slowest first.
    pub const ALL: [Isa; 3] = [Isa::Scalar, Isa::Avx2, Isa::Avx512];

    /// The fastest instruction set that this CPU supports.
    pub fn detect() -> Isa {
        let best = Isa::ALL.into_iter().rfind(|isa| isa.is_available());
        best.unwrap_or(Isa::Scalar)
    }

    /// Whether this CPU supports it.
    pub fn is_available(self) -> bool {
        match self {
            Isa::Scalar => true,
            #[cfg(target_arch = "x86_64")]
            Isa::Avx2 => lanes::avx2::Avx2::detect().is_some(),
            #[cfg(target_arch = "x86_64")]
            Isa::Avx512 => lanes::avx512::Avx512::detect().is_some(),
            #[cfg(not(target_arch = "x86_64"))]
            Isa::Avx2 | Isa::Avx512 => false,
        }
    }

    /// Finds an instruction set by [`Isa::name`].
    pub fn named(name: &str) -> Option<Isa> {
        Isa::ALL.into_iter().find(|isa| isa.name() == name)
    }

    /// The name, such as `avx2`.
    pub fn name(self) -> &'static str {
        match self {
            Isa::Scalar => "scalar",
            Isa::Avx2 => "avx2",
            Isa::Avx512 => "avx512",
        }
    }
}

/// Features of this CPU that matter to kernels.
pub(crate) fn features() -> impl Iterator<Item = &'static str> {
    #[cfg(target_arch = "x86_64")]
    let found = [
        ("avx2", is_x86_feature_detected!("avx2")),
        ("fma", is_x86_feature_detected!("fma")),
        ("f16c", is_x86_feature_detected!("f16c")),
        ("avx512f", is_x86_feature_detected!("avx512f")),
        ("avx512bw", is_x86_feature_detected!("avx512bw")),
        ("avx512vl", is_x86_feature_detected!("avx512vl")),
        ("avx512vnni", is_x86_feature_detected!("avx512vnni")),
    ];
    #[cfg(not(target_arch = "x86_64"))]
    let found: [(&str, bool); 0] = [];
    found.into_iter().filter(|(_, has)| *has).map(|(name, _)| name)
}

/// Packs a weight: its bytes, its shape `[count, rows, cols]` and as many lines as [`Linear::lines`] says.
type PackWeight = fn(&mut Pool, &[u8], [usize; 3], &mut [Line]);

/// GEMV and GEMM with weights of a format.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Linear {
    /// The activation layout it needs.
    pub(crate) form: Form,
    /// Cache lines of a packed strip, by columns.
    pub(crate) strip: fn(usize) -> usize,
    pub(crate) pack: PackWeight,
    /// Computes a tile of `x * weight^T`: whole strips, except for the last.
    pub(crate) multiply: fn(&Packed, Activations<'_>, &mut Tile<'_, f32>),
}

impl Linear {
    /// Cache lines of a packed weight of shape `[count, rows, cols]`.
    pub(crate) fn lines(&self, [count, rows, cols]: [usize; 3]) -> usize {
        let matrix = rows.div_ceil(LANES).saturating_mul((self.strip)(cols));
        count.saturating_mul(matrix)
    }

    /// A weight of shape `[count, rows, cols]`, packed into memory of its own.
    #[cfg(test)]
    pub(crate) fn packed(
        &self,
        pool: &mut Pool,
        bytes: &[u8],
        shape: [usize; 3],
    ) -> std::io::Result<Vec<Packed>> {
        let mut lines = Lines::large(self.lines(shape))?;
        (self.pack)(pool, bytes, shape, &mut lines.all_mut()[..self.lines(shape)]);
        Ok(Packed::all(&lines.into(), 0, (self.strip)(shape[2]), shape))
    }
}

/// Norms a group: kind, `y`, `x`, weight if any, eps; see [`elementwise::norm`].
type NormGroup = fn(NormKind, &mut [f32], &[f32], Option<&[f32]>, f32);

/// Applies RoPE to a row: `y`, `x`, head dimension, pairing, cos/sin table; see [`elementwise::rope`].
type RopeRow = fn(&mut [f32], &[f32], usize, Pairing, &[[f32; 2]]);

/// Packs activation rows: `x`, rows, rows per tile, layout, destination.
type Pack = fn(&[f32], usize, usize, Form, &mut [u32]);

#[derive(Clone, Copy, Debug)]
pub(crate) struct Kernels {
    pub(crate) isa: Isa,
    linear: fn(Format) -> Linear,
    /// Activation rows per GEMM tile.
    pub(crate) tile: usize,
    pub(crate) pack: Pack,
    pub(crate) norm: NormGroup,
    /// Function, `y`, `x`: see [`elementwise::map`].
    pub(crate) map: fn(Map, &mut [f32], &[f32]),
    /// Function, `y`, gate, up: see [`elementwise::gate`].
    pub(crate) gate: fn(Glu, &mut [f32], &[f32], &[f32]),
    pub(crate) rope: RopeRow,
    /// Writes K and V: store, its group, K, V, step; see [`Write`].
    pub(crate) write_kv: fn(&mut Kv, usize, &[f32], &[f32], &Step),
    pub(crate) convolve: fn(Convolve<'_, '_, '_>),
    pub(crate) linear_head: fn(LinearHead<'_, '_, '_>),
    pub(crate) attend_f16: fn(Attend<'_, '_, Store<f16>>),
    pub(crate) attend_f32: fn(Attend<'_, '_, Store<f32>>),
    pub(crate) attend_packed: fn(Attend<'_, '_, PackedKv>),
}

impl Kernels {
    pub(crate) fn new(isa: Isa) -> Option<Kernels> {
        isa.is_available().then(|| match isa {
            #[cfg(target_arch = "x86_64")]
            Isa::Avx512 => Kernels::over::<lanes::avx512::Avx512>(isa),
            #[cfg(target_arch = "x86_64")]
            Isa::Avx2 => Kernels::over::<lanes::avx2::Avx2>(isa),
            _ => Kernels::over::<Scalar>(isa),
        })
    }

    fn over<L: Lanes>(isa: Isa) -> Kernels {
        Kernels {
            isa,
            linear: linear::<L>,
            tile: L::TILE,
            pack: |x, rows, tile, form, words| lanes::<L>().run(PackRows { x, rows, tile, form, words }),
            norm: |kind, y, x, weight, eps| lanes::<L>().run(Norm { kind, y, x, weight, eps }),
            map: |map, y, x| lanes::<L>().run(MapValues { map, y, x }),
            gate: |glu, y, gate, up| lanes::<L>().run(Gate { glu, y, gate, up }),
            rope: |y, x, head_dim, pairing, cos_sin| {
                lanes::<L>().run(Rope { y, x, head_dim, pairing, cos_sin });
            },
            write_kv: |store, group, k, v, step| lanes::<L>().run(Write { store, group, k, v, step }),
            convolve: |work| lanes::<L>().run(work),
            linear_head: |work| lanes::<L>().run(work),
            attend_f16: |work| lanes::<L>().run(work),
            attend_f32: |work| lanes::<L>().run(work),
            attend_packed: |work| lanes::<L>().run(work),
        }
    }

    pub(crate) fn linear(&self, format: Format) -> Linear {
        (self.linear)(format)
    }
}

fn linear<L: Lanes>(format: Format) -> Linear {
    match format {
        Format::F32 => floating::<L, F32Le>(),
        Format::F16 => floating::<L, F16Le>(),
        Format::BF16 => floating::<L, Bf16Le>(),
        Format::Q4_0 => quantized::<L, BlockQ4_0, 1>(),
        Format::Q4_1 => quantized::<L, BlockQ4_1, 1>(),
        Format::Q5_0 => quantized::<L, BlockQ5_0, 1>(),
        Format::Q5_1 => quantized::<L, BlockQ5_1, 1>(),
        Format::Q8_0 => quantized::<L, BlockQ8_0, 1>(),
        Format::Q2_K => quantized::<L, BlockQ2_K, 8>(),
        Format::Q3_K => quantized::<L, BlockQ3_K, 8>(),
        Format::Q4_K => quantized::<L, BlockQ4_K, 8>(),
        Format::Q5_K => quantized::<L, BlockQ5_K, 8>(),
        Format::Q6_K => quantized::<L, BlockQ6_K, 8>(),
        Format::IQ4_NL => quantized::<L, BlockIQ4_NL, 1>(),
        Format::IQ4_XS => quantized::<L, BlockIQ4_XS, 8>(),
        Format::MXFP4 => quantized::<L, BlockMXFP4, 1>(),
        Format::NVFP4 => quantized::<L, BlockNVFP4, 2>(),
        Format::IQ3_XXS => quantized::<L, BlockIQ3_XXS, 8>(),
        Format::IQ3_S => quantized::<L, BlockIQ3_S, 8>(),
        Format::IQ2_XXS => quantized::<L, BlockIQ2_XXS, 8>(),
        Format::IQ2_XS => quantized::<L, BlockIQ2_XS, 8>(),
        Format::IQ2_S => quantized::<L, BlockIQ2_S, 8>(),
        Format::IQ1_S => quantized::<L, BlockIQ1_S, 8>(),
        Format::IQ1_M => quantized::<L, BlockIQ1_M, 8>(),
        Format::TQ1_0 => quantized::<L, BlockTQ1_0, 8>(),
        Format::TQ2_0 => quantized::<L, BlockTQ2_0, 8>(),
    }
}

fn quantized<L: Lanes, B: Layout<G>, const G: usize>() -> Linear {
    Linear {
        form: Form::Q8(scaled::<B, G>()),
        strip: packed::strip_lines::<B, G>,
        pack: |pool, bytes, shape, to| packed::pack::<L, B, G>(lanes(), pool, bytes, shape, to),
        multiply: |weight, x, tile| {
            lanes::<L>().run(Multiply::<B, G> { weight, x, tile, format: PhantomData })
        },
    }
}

fn floating<L: Lanes, F: Float>() -> Linear {
    Linear {
        form: Form::F32,
        strip: floats::row_lines::<F>,
        pack: |pool, bytes, shape, to| floats::pack::<L, F>(lanes(), pool, bytes, shape, to),
        multiply: |weight, x, tile| {
            lanes::<L>().run(floats::Multiply::<F> { weight, x, tile, format: PhantomData });
        },
    }
}

/// The proof token of `L`. Kernels over `L` are reachable only through a table that detected it.
fn lanes<L: Lanes>() -> L {
    L::detect().expect("`Kernels::new` has detected the instruction set")
}

struct Norm<'a> {
    kind: NormKind,
    y: &'a mut [f32],
    x: &'a [f32],
    weight: Option<&'a [f32]>,
    eps: f32,
}

impl WithSimd for Norm<'_> {
    #[inline(always)]
    fn with_simd<L: Lanes>(self, _: L) {
        let Norm { kind, y, x, weight, eps } = self;
        match kind {
            NormKind::Rms => elementwise::norm(y, x, 0.0, weight, eps),
            NormKind::Layer => elementwise::norm(y, x, elementwise::mean(x), weight, eps),
            NormKind::L2 => elementwise::l2_norm(y, x, weight, eps),
        }
    }
}

/// Evaluates an expression with type `A` for an activation.
macro_rules! with_activation {
    ($act:expr, $A:ident => $compute:expr) => {
        with_activation!($act, $A => $compute;
            Silu GeluTanh GeluSigmoid Sigmoid Softplus Relu ReluSquared Identity)
    };
    ($act:expr, $A:ident => $compute:expr; $($activation:ident)*) => {
        match $act {
            $(Activation::$activation => {
                type $A = elementwise::$activation;
                $compute
            })*
        }
    };
}

struct MapValues<'a> {
    map: Map,
    y: &'a mut [f32],
    x: &'a [f32],
}

impl WithSimd for MapValues<'_> {
    #[inline(always)]
    fn with_simd<L: Lanes>(self, lanes: L) {
        let MapValues { map, y, x } = self;
        match map {
            Map::Scale(factor) => elementwise::scale(y, x, factor),
            Map::Softcap(cap) => elementwise::softcap(lanes, y, x, cap),
            Map::Act(act) => with_activation!(act, A => elementwise::act::<L, A>(lanes, y, x)),
        }
    }
}

struct Gate<'a> {
    glu: Glu,
    y: &'a mut [f32],
    gate: &'a [f32],
    up: &'a [f32],
}

impl WithSimd for Gate<'_> {
    #[inline(always)]
    fn with_simd<L: Lanes>(self, lanes: L) {
        let Gate { glu: Glu { act, limit }, y, gate, up } = self;
        with_activation!(act, A => elementwise::gate::<L, A>(lanes, y, gate, up, limit));
    }
}

struct Rope<'a> {
    y: &'a mut [f32],
    x: &'a [f32],
    head_dim: usize,
    pairing: Pairing,
    cos_sin: &'a [[f32; 2]],
}

impl WithSimd for Rope<'_> {
    #[inline(always)]
    fn with_simd<L: Lanes>(self, _: L) {
        elementwise::rope(self.y, self.x, self.head_dim, self.pairing, self.cos_sin);
    }
}
