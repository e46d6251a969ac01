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
    /// A few numbers, the same for all threads.
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
    Narrow(Narrow),
    Tiles(Tiles),
    Rotate(Rotate),
    Attention(Attention),
    Flash(Flash),
    Combine(Combine),
}

#[derive(Clone, Debug, Serialize)]
pub(crate) struct Embed {
    pub(crate) format: &'static str,
}

#[derive(Clone, Debug, Serialize)]
pub(crate) struct Rows {
    /// `rms_norm`, `add`, `swiglu` or `take`.
    pub(crate) operation: &'static str,
}

/// What all products have.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Products {
    /// The format of each weight.
    pub(crate) parts: Vec<&'static str>,
    pub(crate) norm: bool,
    pub(crate) glu: bool,
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
}

#[derive(Clone, Debug, Serialize)]
pub(crate) struct Narrow {
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
pub(crate) struct Rotate {
    pub(crate) turn: bool,
    pub(crate) store: bool,
    pub(crate) keys_turn: bool,
    /// Whether values come from another buffer than keys.
    pub(crate) separate: bool,
    pub(crate) wide: bool,
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
    pub(crate) wide: bool,
    pub(crate) split: bool,
    pub(crate) turn: bool,
    pub(crate) fresh: bool,
    /// `interleaved` or `halves`.
    pub(crate) pairing: &'static str,
}

#[derive(Clone, Debug, Serialize)]
pub(crate) struct Flash {
    pub(crate) k_dim: usize,
    pub(crate) v_dim: usize,
    pub(crate) wide: bool,
    /// Whether the device's matrix units multiply.
    pub(crate) units: bool,
}

#[derive(Clone, Debug, Serialize)]
pub(crate) struct Combine {
    pub(crate) v_dim: usize,
}

/// Each file, by name.
const FILES: [(&str, &str); 13] = [
    ("attention.wgsl", include_str!("attention.wgsl")),
    ("combine.wgsl", include_str!("combine.wgsl")),
    ("embed.wgsl", include_str!("embed.wgsl")),
    ("flash.wgsl", include_str!("flash.wgsl")),
    ("flash_units.wgsl", include_str!("flash_units.wgsl")),
    ("formats.wgsl", include_str!("formats.wgsl")),
    ("linear.wgsl", include_str!("linear.wgsl")),
    ("matmul.wgsl", include_str!("matmul.wgsl")),
    ("narrow.wgsl", include_str!("narrow.wgsl")),
    ("parts.wgsl", include_str!("parts.wgsl")),
    ("rotate.wgsl", include_str!("rotate.wgsl")),
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
            Kernel::Narrow(_) => "narrow.wgsl",
            Kernel::Tiles(_) => "tiles.wgsl",
            Kernel::Rotate(_) => "rotate.wgsl",
            Kernel::Attention(_) => "attention.wgsl",
            Kernel::Flash(Flash { units: false, .. }) => "flash.wgsl",
            Kernel::Flash(_) => "flash_units.wgsl",
            Kernel::Combine(_) => "combine.wgsl",
        }
    }

    /// Its WGSL.
    pub(crate) fn source(&self) -> String {
        let context = match self {
            Kernel::Embed(context) => Value::from(Serde(context)),
            Kernel::Rows(context) => Value::from(Serde(context)),
            Kernel::Linear(context) => Value::from(Serde(context)),
            Kernel::Matmul(context) => Value::from(Serde(context)),
            Kernel::Narrow(context) => Value::from(Serde(context)),
            Kernel::Tiles(context) => Value::from(Serde(context)),
            Kernel::Rotate(context) => Value::from(Serde(context)),
            Kernel::Attention(context) => Value::from(Serde(context)),
            Kernel::Flash(context) => Value::from(Serde(context)),
            Kernel::Combine(context) => Value::from(Serde(context)),
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
            Kernel::Embed(_) | Kernel::Combine(_) => vec![Write, Read],
            Kernel::Rows(Rows { operation: "take" }) => vec![Write, Read],
            Kernel::Rows(_) => vec![Write, Read, Read],
            Kernel::Linear(linear) => products(&linear.products),
            Kernel::Matmul(parts) => products(parts),
            Kernel::Narrow(narrow) => {
                [vec![Read, Write, Write], vec![Read; usize::from(narrow.norm)]].concat()
            }
            Kernel::Tiles(Tiles { products: Products { parts, rest, .. }, .. }) => {
                [vec![Read, Write, Read], vec![Read; parts.len() + usize::from(*rest)]].concat()
            }
            Kernel::Rotate(rotate) => {
                let mut own = vec![Read];
                own.extend(rotate.turn.then_some(Write));
                own.extend(rotate.store.then_some([Write, Write]).into_iter().flatten());
                own.extend((rotate.store && rotate.separate).then_some(Read));
                own
            }
            Kernel::Attention(Attention { fresh: true, .. }) => vec![Read, Write, Write, Write],
            Kernel::Attention(_) | Kernel::Flash(_) => vec![Read, Write, Read, Read],
        };
        [vec![Access::Constant, Read], own].concat()
    }
}
