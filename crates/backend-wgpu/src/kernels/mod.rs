//! Kernels: WGSL templates, rendered for formats, sizes and fused operations.

#[cfg(test)]
mod tests;

use std::sync::LazyLock;

use minijinja::value::Serde;
use minijinja::{Environment, Value};
use serde::Serialize;

use crate::policy::GemvTiles;

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
    Rows { operation: &'static str, act: &'static str, reads_b: bool },
    Gemv(Gemv),
    Gemm(Matmul),
    F16Rows { norm: bool },
    GemmCoop(GemmCoop),
    Rope(Rope),
    Attention(Attention),
    Flash { k_dim: usize, v_dim: usize, kv_f32: bool, windowed: bool, capped: bool, coop: bool },
    Combine { v_dim: usize },
    Route { experts: usize, used: usize, softmax: bool },
    ArgMax { ahead: usize },
}

/// Options that all matmul kernels share; `gemv.wgsl` documents them.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Matmul {
    /// The format of each weight.
    pub(crate) parts: Vec<&'static str>,
    pub(crate) norm: bool,
    pub(crate) glu: bool,
    /// Activation of a GLU, by the name of `graph::Activation`.
    pub(crate) act: &'static str,
    pub(crate) addend: bool,
    pub(crate) ragged: bool,
}

#[derive(Clone, Debug, Serialize)]
pub(crate) struct Gemv {
    #[serde(flatten)]
    pub(crate) matmul: Matmul,
    #[serde(flatten)]
    pub(crate) tiles: GemvTiles,
    /// `in` (gate and up) or `out` (down) for experts, otherwise empty.
    pub(crate) experts: &'static str,
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
    pub(crate) windowed: bool,
    pub(crate) capped: bool,
    /// `interleaved` or `halves`.
    pub(crate) pairing: &'static str,
}

const FILES: [(&str, &str); 15] = [
    ("arg_max.wgsl", include_str!("arg_max.wgsl")),
    ("attention.wgsl", include_str!("attention.wgsl")),
    ("combine.wgsl", include_str!("combine.wgsl")),
    ("embed.wgsl", include_str!("embed.wgsl")),
    ("f16_rows.wgsl", include_str!("f16_rows.wgsl")),
    ("flash.wgsl", include_str!("flash.wgsl")),
    ("flash_coop.wgsl", include_str!("flash_coop.wgsl")),
    ("formats.wgsl", include_str!("formats.wgsl")),
    ("gemv.wgsl", include_str!("gemv.wgsl")),
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
            Kernel::Rows { .. } => "rows.wgsl",
            Kernel::Gemv(_) => "gemv.wgsl",
            Kernel::Gemm(_) => "gemm.wgsl",
            Kernel::F16Rows { .. } => "f16_rows.wgsl",
            Kernel::GemmCoop(_) => "gemm_coop.wgsl",
            Kernel::Rope(_) => "rope.wgsl",
            Kernel::Attention(_) => "attention.wgsl",
            Kernel::Flash { coop: false, .. } => "flash.wgsl",
            Kernel::Flash { .. } => "flash_coop.wgsl",
            Kernel::Combine { .. } => "combine.wgsl",
            Kernel::Route { .. } => "route.wgsl",
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
        let own = match self {
            Kernel::Embed { .. } | Kernel::Combine { .. } | Kernel::ArgMax { .. } => vec![Write, Read],
            Kernel::Route { softmax: false, .. } => vec![Write, Read],
            Kernel::Route { .. } => vec![Write, Read, Write],
            Kernel::Rows { reads_b, .. } => [vec![Write, Read], vec![Read; usize::from(*reads_b)]].concat(),
            Kernel::Gemv(gemv) => {
                [matmul(&gemv.matmul), vec![Read; usize::from(!gemv.experts.is_empty())]].concat()
            }
            Kernel::Gemm(parts) => matmul(parts),
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
            Kernel::Attention(Attention { fresh: true, .. }) => vec![Read, Write, Write, Write],
            Kernel::Attention(_) | Kernel::Flash { .. } => vec![Read, Write, Read, Read],
        };
        [vec![Access::Constant, Read], own].concat()
    }
}
