//! Kernels: WGSL templates, rendered for formats, sizes and fused operations.

#[cfg(test)]
mod tests;

use std::sync::LazyLock;

use gpu::Operation;
use minijinja::value::Serde;
use minijinja::{Environment, Value};
use quant::Format;
use serde::Serialize;

use crate::policy::GemvTiles;

/// The formats of weights that kernels read.
pub(crate) const FORMATS: [Format; 18] = {
    use Format::*;
    [
        F32, F16, BF16, Q4_0, Q8_0, Q4_K, Q5_K, Q6_K, MXFP4, IQ3_XXS, IQ3_S, IQ2_XXS, IQ2_XS, IQ2_S, IQ1_S,
        IQ1_M, TQ1_0, TQ2_0,
    ]
};

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Access {
    Constant,
    Read,
    Write,
}

/// A kernel with its template parameters; the headers of the WGSL files document them.
#[derive(Clone, Debug, Serialize)]
#[serde(untagged)]
pub(crate) enum Kernel {
    Embed { format: &'static str },
    Rows(Rows),
    Gemv(Gemv),
    Gemm(Gemm),
    F16Rows { norm: bool },
    GemmCoop(GemmCoop),
    Rope(Rope),
    Attention(Attention),
    Flash(Flash),
    Combine { v_dim: usize, sinks: bool },
    Conv { taps: usize, biased: bool },
    LinearAttention(LinearAttention),
    Route(Route),
    Groups { experts: usize, used: usize, tile: usize },
    Mix { addend: bool },
    ArgMax { ahead: usize },
}

#[derive(Clone, Debug, Serialize)]
pub(crate) struct Rows {
    pub(crate) operation: &'static str,
    reads_b: bool,
    /// An activation, or none.
    act: &'static str,
    limited: bool,
}

impl Rows {
    pub(crate) fn new(operation: Operation, reads_b: bool, act: &'static str, limited: bool) -> Rows {
        let operation = match (operation, reads_b) {
            (Operation::RmsNorm, false) => "rms_norm",
            (Operation::RmsNorm, true) => "weighted_rms_norm",
            (Operation::LayerNorm, false) => "layer_norm",
            (Operation::LayerNorm, true) => "weighted_layer_norm",
            (Operation::L2Norm, false) => "l2_norm",
            (Operation::L2Norm, true) => "weighted_l2_norm",
            (Operation::Add, _) => "add",
            (Operation::Mul, _) => "mul",
            (Operation::Gate, _) => "gate",
            (Operation::GateOfRow, _) => "gate_of_row",
            (Operation::Act, _) => "act",
            (Operation::Scale, _) => "scale",
            (Operation::ScaleRows, _) => "scale_rows",
            (Operation::Softcap, _) => "softcap",
            (Operation::Slice, _) => "slice",
            (Operation::Join, _) => "join",
            (Operation::OutputRows, _) => "output_rows",
            (Operation::FirstOfSequence, _) => "first_of_sequence",
            (Operation::MeanOfSequence, _) => "mean_of_sequence",
        };
        Rows { operation, reads_b, act, limited }
    }
}

/// Options that all matmul kernels share; `gemv.wgsl` documents them.
#[derive(Clone, Debug, Default, Serialize)]
pub(crate) struct Matmul {
    pub(crate) parts: Vec<&'static str>,
    pub(crate) norm: bool,
    pub(crate) glu: bool,
    /// Activation of a GLU or of the outputs, by the name of `graph::Activation`, or none; and whether gate and up are
    /// limited.
    pub(crate) act: &'static str,
    pub(crate) limited: bool,
    pub(crate) addend: bool,
    pub(crate) ragged: bool,
}

#[derive(Clone, Debug, Serialize)]
pub(crate) struct Gemv {
    #[serde(flatten)]
    pub(crate) matmul: Matmul,
    #[serde(flatten)]
    pub(crate) tiles: GemvTiles,
    #[serde(flatten)]
    pub(crate) matrices: Matrices,
}

#[derive(Clone, Debug, Serialize)]
pub(crate) struct Gemm {
    #[serde(flatten)]
    pub(crate) matmul: Matmul,
    #[serde(flatten)]
    pub(crate) matrices: Matrices,
}

/// Options for weights of several matrices; `gemv.wgsl` documents them.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub(crate) struct Matrices {
    /// `in` (gate and up) or `out` (down) for experts, otherwise empty.
    pub(crate) experts: &'static str,
    pub(crate) weighs_inputs: bool,
    pub(crate) biases: bool,
    pub(crate) scales: bool,
    pub(crate) heads: bool,
    pub(crate) scalars: bool,
}

#[derive(Clone, Debug, Serialize)]
pub(crate) struct GemmCoop {
    #[serde(flatten)]
    pub(crate) matmul: Matmul,
    /// Activation rows and output columns per workgroup.
    pub(crate) tile: usize,
    /// Rows and columns of a cooperative matrix.
    pub(crate) size: usize,
    /// Whether cooperative matrices are loaded from arrays of vectors; Metal needs scalars.
    pub(crate) vectors: bool,
}

#[derive(Clone, Debug, Serialize)]
pub(crate) struct Rope {
    pub(crate) rope: bool,
    pub(crate) store: bool,
    pub(crate) keys_rope: bool,
    /// Whether values come from another buffer than keys.
    pub(crate) separate: bool,
    pub(crate) kv_f32: bool,
    /// `interleaved` or `halves`.
    pub(crate) pairing: &'static str,
}

#[derive(Clone, Debug, Serialize)]
pub(crate) struct Attention {
    pub(crate) heads: usize,
    /// Teams of 128 threads, which split the columns of keys.
    pub(crate) teams: usize,
    pub(crate) k_dim: usize,
    pub(crate) v_dim: usize,
    pub(crate) kv_f32: bool,
    pub(crate) split: bool,
    pub(crate) rope: bool,
    pub(crate) fresh: bool,
    pub(crate) masked: bool,
    pub(crate) capped: bool,
    pub(crate) alibi: bool,
    pub(crate) sinks: bool,
    /// `interleaved` or `halves`.
    pub(crate) pairing: &'static str,
}

#[derive(Clone, Debug, Serialize)]
pub(crate) struct Flash {
    pub(crate) k_dim: usize,
    pub(crate) v_dim: usize,
    pub(crate) kv_f32: bool,
    pub(crate) masked: bool,
    pub(crate) capped: bool,
    pub(crate) sinks: bool,
    /// Whether it uses cooperative matrices.
    pub(crate) coop: bool,
}

#[derive(Clone, Debug, Serialize)]
pub(crate) struct LinearAttention {
    pub(crate) k_dim: usize,
    pub(crate) v_dim: usize,
    pub(crate) delta: bool,
    pub(crate) tiled: bool,
    /// Vectors of factors of values.
    pub(crate) skips: usize,
}

#[derive(Clone, Debug, Default, Serialize)]
pub(crate) struct Route {
    pub(crate) experts: usize,
    pub(crate) used: usize,
    /// `chosen_softmax`, `softmax` or `sigmoid`; empty for given routing weights.
    pub(crate) gating: &'static str,
    pub(crate) biased: bool,
    pub(crate) renormalises: bool,
    /// Groups of experts, and how many of them are used; 0 without groups.
    pub(crate) groups: usize,
    pub(crate) used_groups: usize,
}

macro_rules! files {
    ($($name:literal)*) => { &[$(($name, include_str!($name))),*] };
}
const FILES: &[(&str, &str)] = files! {
    "arg_max.wgsl" "attention.wgsl" "combine.wgsl" "common.wgsl" "conv.wgsl" "embed.wgsl" "f16_rows.wgsl" "flash.wgsl"
    "flash_coop.wgsl" "formats.wgsl" "gemm.wgsl" "gemm_coop.wgsl" "gemv.wgsl" "groups.wgsl" "linear_attention.wgsl" "mix.wgsl"
    "rope.wgsl" "route.wgsl" "rows.wgsl"
};

static TEMPLATES: LazyLock<Environment<'static>> = LazyLock::new(|| {
    let mut templates = Environment::new();
    templates.set_undefined_behavior(minijinja::UndefinedBehavior::Strict);
    for &(name, source) in FILES {
        templates.add_template(name, source).expect("templates parse");
    }
    templates
});

impl Kernel {
    pub(crate) fn file(&self) -> &'static str {
        match self {
            Kernel::Embed { .. } => "embed.wgsl",
            Kernel::Rows(_) => "rows.wgsl",
            Kernel::Gemv(_) => "gemv.wgsl",
            Kernel::Gemm(_) => "gemm.wgsl",
            Kernel::F16Rows { .. } => "f16_rows.wgsl",
            Kernel::GemmCoop(_) => "gemm_coop.wgsl",
            Kernel::Rope(_) => "rope.wgsl",
            Kernel::Attention(_) => "attention.wgsl",
            Kernel::Flash(Flash { coop: false, .. }) => "flash.wgsl",
            Kernel::Flash(_) => "flash_coop.wgsl",
            Kernel::Combine { .. } => "combine.wgsl",
            Kernel::Conv { .. } => "conv.wgsl",
            Kernel::LinearAttention(_) => "linear_attention.wgsl",
            Kernel::Route(_) => "route.wgsl",
            Kernel::Groups { .. } => "groups.wgsl",
            Kernel::Mix { .. } => "mix.wgsl",
            Kernel::ArgMax { .. } => "arg_max.wgsl",
        }
    }

    pub(crate) fn source(&self) -> String {
        let template = TEMPLATES.get_template(self.file()).expect("every kernel has a template");
        template.render(Value::from(Serde(self))).unwrap_or_else(|error| panic!("{}: {error:#}", self.file()))
    }
}

/// How the kernel of this source accesses its buffers, in binding order: parameters, step inputs, then its own.
pub(crate) fn bindings(source: &str) -> Vec<Access> {
    let declarations = source.lines().filter_map(|line| line.strip_prefix("@group(0) @binding("));
    let access = |declaration: &str| {
        if declaration.contains("var<uniform>") {
            Access::Constant
        } else if declaration.contains("var<storage, read>") {
            Access::Read
        } else {
            Access::Write
        }
    };
    declarations.map(access).collect()
}
