//! Kernels: WGSL, of which each use fills in its formats and sizes.

#[cfg(test)]
mod tests;

use std::sync::LazyLock;

use minijinja::value::Serde;
use minijinja::{Environment, Value};
use serde::Serialize;

/// How a kernel uses a buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Access {
    /// A few words, the same for all threads.
    Constant,
    Read,
    Write,
}

/// A kernel with all that is to be known before it is compiled. The headers of the files say what each is.
#[derive(Clone, Debug)]
pub(crate) enum Kernel {
    Embed(Embed),
    Rows(Rows),
    Linear(Linear),
    Matmul(Products),
    F16Rows(F16Rows),
    Tiles(Tiles),
    Rope(Rope),
    Attention(Attention),
    Flash(Flash),
    Combine(Combine),
    Route(Route),
    ArgMax(ArgMax),
}

#[derive(Clone, Debug, Serialize)]
pub(crate) struct Embed {
    pub(crate) format: &'static str,
}

#[derive(Clone, Debug, Serialize)]
pub(crate) struct Rows {
    /// An arm of `rows.wgsl`.
    pub(crate) operation: &'static str,
    /// Whether it reads two values.
    pub(crate) reads_b: bool,
    /// Of a gate, as `graph::Activation` calls it.
    pub(crate) act: &'static str,
}

/// What all products have.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Products {
    /// The format of each weight.
    pub(crate) parts: Vec<&'static str>,
    pub(crate) norm: bool,
    pub(crate) glu: bool,
    /// What gates go through, as `graph::Activation` calls it.
    pub(crate) act: &'static str,
    pub(crate) rest: bool,
    pub(crate) ragged: bool,
}

#[derive(Clone, Debug, Serialize)]
pub(crate) struct Linear {
    #[serde(flatten)]
    pub(crate) products: Products,
    pub(crate) columns: usize,
    pub(crate) outputs: usize,
    pub(crate) lanes: usize,
    pub(crate) subgroups: bool,
    pub(crate) threads: usize,
    /// `in` or `out` where rows choose among experts, else empty.
    pub(crate) experts: &'static str,
}

#[derive(Clone, Debug, Serialize)]
pub(crate) struct F16Rows {
    pub(crate) norm: bool,
}

#[derive(Clone, Debug, Serialize)]
pub(crate) struct Tiles {
    #[serde(flatten)]
    pub(crate) products: Products,
    /// Rows and outputs of a workgroup.
    pub(crate) tile: usize,
    /// Rows and columns that the device multiplies at once.
    pub(crate) size: usize,
    /// Whether workgroup memory is read by vectors.
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
    /// Times 128 threads that share the columns of keys.
    pub(crate) teams: usize,
    pub(crate) k_dim: usize,
    pub(crate) v_dim: usize,
    pub(crate) kv_f32: bool,
    pub(crate) split: bool,
    pub(crate) rope: bool,
    pub(crate) fresh: bool,
    pub(crate) windowed: bool,
    /// `interleaved` or `halves`.
    pub(crate) pairing: &'static str,
}

#[derive(Clone, Debug, Serialize)]
pub(crate) struct Flash {
    pub(crate) k_dim: usize,
    pub(crate) v_dim: usize,
    pub(crate) kv_f32: bool,
    pub(crate) windowed: bool,
    /// Whether the device's matrix units multiply.
    pub(crate) units: bool,
}

#[derive(Clone, Debug, Serialize)]
pub(crate) struct Combine {
    pub(crate) v_dim: usize,
}

#[derive(Clone, Debug, Serialize)]
pub(crate) struct Route {
    pub(crate) experts: usize,
    /// Of a row, at most.
    pub(crate) used: usize,
    pub(crate) softmax: bool,
}

#[derive(Clone, Debug, Serialize)]
pub(crate) struct ArgMax {
    /// Vectors that a thread has on their way.
    pub(crate) ahead: usize,
}

/// Each file, by name.
const FILES: [(&str, &str); 15] = [
    ("arg_max.wgsl", include_str!("arg_max.wgsl")),
    ("attention.wgsl", include_str!("attention.wgsl")),
    ("combine.wgsl", include_str!("combine.wgsl")),
    ("embed.wgsl", include_str!("embed.wgsl")),
    ("f16_rows.wgsl", include_str!("f16_rows.wgsl")),
    ("flash.wgsl", include_str!("flash.wgsl")),
    ("flash_units.wgsl", include_str!("flash_units.wgsl")),
    ("formats.wgsl", include_str!("formats.wgsl")),
    ("linear.wgsl", include_str!("linear.wgsl")),
    ("matmul.wgsl", include_str!("matmul.wgsl")),
    ("parts.wgsl", include_str!("parts.wgsl")),
    ("rope.wgsl", include_str!("rope.wgsl")),
    ("route.wgsl", include_str!("route.wgsl")),
    ("rows.wgsl", include_str!("rows.wgsl")),
    ("tiles.wgsl", include_str!("tiles.wgsl")),
];

static TEMPLATES: LazyLock<Environment<'static>> = LazyLock::new(|| {
    let mut templates = Environment::new();
    templates.set_undefined_behavior(minijinja::UndefinedBehavior::Strict);
    for (name, source) in FILES {
        templates.add_template(name, source).expect("templates of this crate are whole");
    }
    templates
});

impl Kernel {
    /// The file it is in.
    pub(crate) fn file(&self) -> &'static str {
        match self {
            Kernel::Embed(_) => "embed.wgsl",
            Kernel::Rows(_) => "rows.wgsl",
            Kernel::Linear(_) => "linear.wgsl",
            Kernel::Matmul(_) => "matmul.wgsl",
            Kernel::F16Rows(_) => "f16_rows.wgsl",
            Kernel::Tiles(_) => "tiles.wgsl",
            Kernel::Rope(_) => "rope.wgsl",
            Kernel::Attention(_) => "attention.wgsl",
            Kernel::Flash(Flash { units: false, .. }) => "flash.wgsl",
            Kernel::Flash(_) => "flash_units.wgsl",
            Kernel::Combine(_) => "combine.wgsl",
            Kernel::Route(_) => "route.wgsl",
            Kernel::ArgMax(_) => "arg_max.wgsl",
        }
    }

    /// Its WGSL.
    pub(crate) fn source(&self) -> String {
        let context = match self {
            Kernel::Embed(context) => Value::from(Serde(context)),
            Kernel::Rows(context) => Value::from(Serde(context)),
            Kernel::Linear(context) => Value::from(Serde(context)),
            Kernel::Matmul(context) => Value::from(Serde(context)),
            Kernel::F16Rows(context) => Value::from(Serde(context)),
            Kernel::Tiles(context) => Value::from(Serde(context)),
            Kernel::Rope(context) => Value::from(Serde(context)),
            Kernel::Attention(context) => Value::from(Serde(context)),
            Kernel::Flash(context) => Value::from(Serde(context)),
            Kernel::Combine(context) => Value::from(Serde(context)),
            Kernel::Route(context) => Value::from(Serde(context)),
            Kernel::ArgMax(context) => Value::from(Serde(context)),
        };
        let template = TEMPLATES.get_template(self.file()).expect("kernels name templates there are");
        template.render(context).unwrap_or_else(|error| panic!("{}: {error:#}", self.file()))
    }

    /// Its buffers, in the order of their bindings: parameters and the step's inputs, then its own.
    pub(crate) fn bindings(&self) -> Vec<Access> {
        use Access::{Read, Write};
        let products = |products: &Products| {
            let reads = products.parts.len() + usize::from(products.norm) + usize::from(products.rest);
            [vec![Read, Write], vec![Read; reads]].concat()
        };
        let own = match self {
            Kernel::Embed(_) | Kernel::Combine(_) | Kernel::ArgMax(_) => vec![Write, Read],
            Kernel::Route(Route { softmax: false, .. }) => vec![Write, Read],
            Kernel::Route(_) => vec![Write, Read, Write],
            Kernel::Rows(rows) => [vec![Write, Read], vec![Read; usize::from(rows.reads_b)]].concat(),
            Kernel::Linear(linear) => {
                [products(&linear.products), vec![Read; usize::from(!linear.experts.is_empty())]].concat()
            }
            Kernel::Matmul(parts) => products(parts),
            Kernel::F16Rows(rows) => [vec![Read, Write, Write], vec![Read; usize::from(rows.norm)]].concat(),
            Kernel::Tiles(Tiles { products: Products { parts, rest, .. }, .. }) => {
                [vec![Read, Write, Read], vec![Read; parts.len() + usize::from(*rest)]].concat()
            }
            Kernel::Rope(rope) => {
                let mut own = vec![Read];
                own.extend(rope.rope.then_some(Write));
                own.extend(rope.store.then_some([Write, Write]).into_iter().flatten());
                own.extend((rope.store && rope.separate).then_some(Read));
                own
            }
            Kernel::Attention(Attention { fresh: true, .. }) => vec![Read, Write, Write, Write],
            Kernel::Attention(_) | Kernel::Flash(_) => vec![Read, Write, Read, Read],
        };
        [vec![Access::Constant, Read], own].concat()
    }
}
