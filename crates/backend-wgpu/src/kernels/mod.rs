//! Kernels: WGSL templates, rendered for formats, sizes and fused operations.

#[cfg(test)]
mod tests;

use std::sync::LazyLock;

use minijinja::value::Serde;
use minijinja::{Environment, Value};
use quant::Format;
use serde::Serialize;

use crate::policy::GemvTiles;

/// The formats of weights that kernels read.
pub(crate) const FORMATS: [Format; 18] = [
    Format::F32,
    Format::F16,
    Format::BF16,
    Format::Q4_0,
    Format::Q8_0,
    Format::Q4_K,
    Format::Q5_K,
    Format::Q6_K,
    Format::MXFP4,
    Format::IQ3_XXS,
    Format::IQ3_S,
    Format::IQ2_XXS,
    Format::IQ2_XS,
    Format::IQ2_S,
    Format::IQ1_S,
    Format::IQ1_M,
    Format::TQ1_0,
    Format::TQ2_0,
];

/// How a kernel accesses a buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Access {
    /// A uniform buffer.
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

/// The operations of `rows.wgsl`, and whether each reads `b`.
pub(crate) const ROW_OPERATIONS: [(&str, bool); 19] = [
    ("rms_norm", false),
    ("layer_norm", false),
    ("l2_norm", false),
    ("weighted_l2_norm", true),
    ("weighted_rms_norm", true),
    ("weighted_layer_norm", true),
    ("add", true),
    ("mul", true),
    ("gate", true),
    ("gate_of_row", true),
    ("act", false),
    ("scale", false),
    ("scale_rows", false),
    ("softcap", false),
    ("slice", false),
    ("join", true),
    ("output_rows", false),
    ("first_of_sequence", false),
    ("mean_of_sequence", false),
];

#[derive(Clone, Debug, Serialize)]
pub(crate) struct Rows {
    operation: &'static str,
    reads_b: bool,
    /// An activation, or none.
    act: &'static str,
    limited: bool,
}

impl Rows {
    /// # Panics
    /// If the template has no such operation.
    pub(crate) fn new(operation: &'static str, act: &'static str, limited: bool) -> Rows {
        let entry = ROW_OPERATIONS.iter().find(|(name, _)| *name == operation);
        let &(_, reads_b) = entry.expect("an operation of the template");
        Rows { operation, reads_b, act, limited }
    }

    pub(crate) fn operation(&self) -> &'static str {
        self.operation
    }
}

/// Options that all matmul kernels share; `gemv.wgsl` documents them.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Matmul {
    /// The format of each weight.
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

#[derive(Clone, Debug, Serialize)]
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

const FILES: [(&str, &str); 19] = [
    ("arg_max.wgsl", include_str!("arg_max.wgsl")),
    ("attention.wgsl", include_str!("attention.wgsl")),
    ("combine.wgsl", include_str!("combine.wgsl")),
    ("conv.wgsl", include_str!("conv.wgsl")),
    ("linear_attention.wgsl", include_str!("linear_attention.wgsl")),
    ("embed.wgsl", include_str!("embed.wgsl")),
    ("f16_rows.wgsl", include_str!("f16_rows.wgsl")),
    ("flash.wgsl", include_str!("flash.wgsl")),
    ("flash_coop.wgsl", include_str!("flash_coop.wgsl")),
    ("formats.wgsl", include_str!("formats.wgsl")),
    ("gemv.wgsl", include_str!("gemv.wgsl")),
    ("groups.wgsl", include_str!("groups.wgsl")),
    ("mix.wgsl", include_str!("mix.wgsl")),
    ("gemm.wgsl", include_str!("gemm.wgsl")),
    ("common.wgsl", include_str!("common.wgsl")),
    ("rope.wgsl", include_str!("rope.wgsl")),
    ("route.wgsl", include_str!("route.wgsl")),
    ("rows.wgsl", include_str!("rows.wgsl")),
    ("gemm_coop.wgsl", include_str!("gemm_coop.wgsl")),
];

static TEMPLATES: LazyLock<Environment<'static>> = LazyLock::new(|| {
    let mut templates = Environment::new();
    templates.set_undefined_behavior(minijinja::UndefinedBehavior::Strict);
    for (name, source) in FILES {
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

    /// Its buffers in binding order: parameters, step inputs, then its own.
    pub(crate) fn bindings(&self) -> Vec<Access> {
        use Access::{Read, Write};
        let matmul = |matmul: &Matmul| {
            let reads = matmul.parts.len() + usize::from(matmul.norm) + usize::from(matmul.addend);
            [vec![Read, Write], vec![Read; reads]].concat()
        };
        let experts = |matrices: &Matrices| {
            let has_vectors = matrices.biases || matrices.scales;
            vec![Read; usize::from(!matrices.experts.is_empty()) + usize::from(has_vectors)]
        };
        let own = match self {
            Kernel::Embed { .. } | Kernel::ArgMax { .. } | Kernel::Groups { .. } => vec![Write, Read],
            Kernel::Combine { sinks, .. } => [vec![Write, Read], vec![Read; usize::from(*sinks)]].concat(),
            Kernel::Conv { biased, .. } => {
                [vec![Write, Read, Write, Read], vec![Read; usize::from(*biased)]].concat()
            }
            Kernel::LinearAttention(_) => vec![Write, Read, Read, Read, Read, Read, Write],
            Kernel::Mix { addend } => [vec![Write, Read, Read], vec![Read; usize::from(*addend)]].concat(),
            Kernel::Route(Route { gating: "", .. }) => vec![Write, Read],
            Kernel::Route(route) => {
                [vec![Write, Read, Write], vec![Read; usize::from(route.biased)]].concat()
            }
            Kernel::Rows(rows) => [vec![Write, Read], vec![Read; usize::from(rows.reads_b)]].concat(),
            Kernel::Gemv(gemv) => [matmul(&gemv.matmul), experts(&gemv.matrices)].concat(),
            Kernel::Gemm(gemm) => [matmul(&gemm.matmul), experts(&gemm.matrices)].concat(),
            Kernel::F16Rows { norm } => [vec![Read, Write, Write], vec![Read; usize::from(*norm)]].concat(),
            Kernel::GemmCoop(GemmCoop { matmul: Matmul { parts, addend, .. }, .. }) => {
                [vec![Read, Write, Read], vec![Read; parts.len() + usize::from(*addend)]].concat()
            }
            Kernel::Rope(rope) => {
                let mut own = vec![Read];
                own.extend(rope.rope.then_some(Write));
                own.extend(rope.store.then_some([Write, Write]).into_iter().flatten());
                own.extend((rope.store && rope.separate).then_some(Read));
                own
            }
            Kernel::Attention(Attention { fresh, sinks, .. }) => {
                let cache = if *fresh { Write } else { Read };
                [vec![Read, Write, cache, cache], vec![Read; usize::from(*sinks)]].concat()
            }
            Kernel::Flash(flash) => {
                [vec![Read, Write, Read, Read], vec![Read; usize::from(flash.sinks)]].concat()
            }
        };
        [vec![Access::Constant, Read], own].concat()
    }
}
