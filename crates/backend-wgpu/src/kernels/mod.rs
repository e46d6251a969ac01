//! Kernels: WGSL, of which each use fills in its formats and sizes.

use std::sync::LazyLock;

use minijinja::{Environment, Value};

/// How a kernel uses a buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Access {
    /// A few numbers, the same for all threads.
    Constant,
    Read,
    Write,
}

/// A kernel with all that is to be known before it is compiled.
#[derive(Clone, Debug)]
pub(crate) struct Kernel {
    pub(crate) template: &'static str,
    pub(crate) context: Value,
    pub(crate) bindings: Vec<Access>,
}

/// Each file, by name.
const FILES: [(&str, &str); 9] = [
    ("attention", include_str!("attention.wgsl")),
    ("combine", include_str!("combine.wgsl")),
    ("embed", include_str!("embed.wgsl")),
    ("formats.wgsl", include_str!("formats.wgsl")),
    ("linear", include_str!("linear.wgsl")),
    ("matmul", include_str!("matmul.wgsl")),
    ("parts.wgsl", include_str!("parts.wgsl")),
    ("rotate", include_str!("rotate.wgsl")),
    ("rows", include_str!("rows.wgsl")),
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
    /// Its WGSL.
    pub(crate) fn source(&self) -> String {
        let template = TEMPLATES.get_template(self.template).expect("kernels name templates there are");
        template.render(&self.context).unwrap_or_else(|error| panic!("{}: {error:#}", self.template))
    }
}
