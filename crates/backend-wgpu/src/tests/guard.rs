//! Bounds checks for tests: kernels are instrumented so that every index is checked and the array of one that is out
//! of bounds is recorded.

use std::sync::Mutex;

use crate::kernels::Kernel;

/// Guard columns on both sides of a value; a multiple of 4.
pub(crate) const MARGIN: usize = 4;

/// Declarations that instrumented kernels need.
const CHECKS: &str = "
@group(1) @binding(0) var<storage, read_write> report: array<atomic<u32>, 1>;
var<private> out_of_bounds: u32;
";

/// What tests check in every step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sanitize {
    Writes,
    /// Also bounds-check indices. Kernels take about twenty times as long to compile.
    Bounds,
}

/// Records out-of-bounds indices.
pub(crate) struct Guard {
    sanitize: Sanitize,
    pub(crate) layout: wgpu::BindGroupLayout,
    pub(crate) group: wgpu::BindGroup,
    /// Device buffer with the ID (from 1) of an array that was indexed out of bounds; 0 for none.
    pub(crate) report: wgpu::Buffer,
    /// Array and kernel by ID.
    arrays: Mutex<Vec<String>>,
}

impl Guard {
    pub(crate) fn new(device: &wgpu::Device, sanitize: Sanitize) -> Guard {
        let layout = device.create_bind_group_layout(&wgpu::BindGroupLayoutDescriptor {
            label: Some("report"),
            entries: &[wgpu::BindGroupLayoutEntry {
                binding: 0,
                visibility: wgpu::ShaderStages::COMPUTE,
                ty: wgpu::BindingType::Buffer {
                    ty: wgpu::BufferBindingType::Storage { read_only: false },
                    has_dynamic_offset: false,
                    min_binding_size: None,
                },
                count: None,
            }],
        });
        let report = device.create_buffer(&wgpu::BufferDescriptor {
            label: Some("report"),
            size: 16,
            usage: wgpu::BufferUsages::STORAGE | wgpu::BufferUsages::COPY_SRC | wgpu::BufferUsages::COPY_DST,
            mapped_at_creation: false,
        });
        let group = device.create_bind_group(&wgpu::BindGroupDescriptor {
            label: Some("report"),
            layout: &layout,
            entries: &[wgpu::BindGroupEntry { binding: 0, resource: report.as_entire_binding() }],
        });
        Guard { sanitize, layout, group, report, arrays: Mutex::default() }
    }

    /// Adds a bounds check to each index into a buffer or workgroup array, if bounds are checked.
    pub(crate) fn instrument(&self, kernel: &Kernel, source: &str) -> String {
        if self.sanitize == Sanitize::Writes {
            return source.to_owned();
        }
        let mut arrays = self.arrays.lock().expect("no kernel is half instrumented");
        let mut checks = String::new();
        let mut names = Vec::new();
        for line in source.lines() {
            let Some((space, rest)) = line.split_once("var<").and_then(|(_, rest)| rest.split_once("> "))
            else {
                continue;
            };
            let Some((name, elements)) = rest.split_once(": array<") else { continue };
            let elements = elements.trim_end().trim_end_matches(">;");
            let len = match space {
                "workgroup" => elements.rsplit(", ").next().expect("an array length").to_owned() + "u",
                _ => format!("arrayLength(&{name})"),
            };
            arrays.push(format!("`{name}` of {kernel:?}"));
            let index = arrays.len();
            checks += &format!(
                "fn at_{name}(i: u32) -> u32 {{ out_of_bounds = select(out_of_bounds, {index}u, i >= {len}); return i; }}\n"
            );
            names.push(name);
        }
        // The original entry point becomes `inner`. A new `main` calls it and then stores the recorded ID.
        let (before, main) = source.split_once("@compute").expect("an entry point");
        let (size, main) = main.split_once("fn main(").expect("an entry point named `main`");
        let (params, body) = main.split_once(") {").expect("a function body");
        let inner_params = without_attributes(params);
        let arguments: Vec<&str> = inner_params.iter().filter_map(|param| param.split(':').next()).collect();
        format!(
            "{before}fn inner({}) {{{body}\n{CHECKS}{checks}\n@compute{size}fn main({params}) {{\n    inner({});\n    \
             if out_of_bounds != 0u {{\n        atomicStore(&report[0], out_of_bounds);\n    }}\n}}\n",
            inner_params.join(", "),
            arguments.join(", "),
            before = checked(before, &names),
            body = checked(body, &names),
        )
    }

    /// The array and kernel with this ID.
    pub(crate) fn array(&self, index: u32) -> String {
        self.arrays.lock().expect("no kernel is half instrumented")[index as usize - 1].clone()
    }
}

/// Parameters without the attributes that only entry points may have.
fn without_attributes(params: &str) -> Vec<String> {
    let params = params.split(",\n").flat_map(|line| line.split(", @")).map(str::trim);
    let name = |param: &str| {
        param.rsplit_once(") ").map_or(param, |(_, name)| name).trim_end_matches(',').to_owned()
    };
    params.filter(|param| !param.is_empty()).map(name).collect()
}

/// `code` with every index into an array of `names` wrapped in its check.
fn checked(code: &str, names: &[&str]) -> String {
    let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let mut found = String::new();
    let mut rest = code;
    while let Some(open) = rest.find('[') {
        let close = open + matching(&rest[open..]);
        let before = &rest[..open];
        let name = &before[before.rfind(|c| !is_word(c)).map_or(0, |at| at + 1)..];
        let is_member = before[..before.len() - name.len()].ends_with('.');
        let index = checked(&rest[open + 1..close], names);
        found += before;
        match names.contains(&name) && !is_member {
            true => found += &format!("[at_{name}({index})]"),
            false => found += &format!("[{index}]"),
        }
        rest = &rest[close + 1..];
    }
    found + rest
}

/// Position of the bracket that closes the one at the start of `code`.
fn matching(code: &str) -> usize {
    let mut depth = 0;
    for (at, c) in code.char_indices() {
        match c {
            '[' => depth += 1,
            ']' if depth == 1 => return at,
            ']' => depth -= 1,
            _ => {}
        }
    }
    panic!("unbalanced bracket: {code}");
}
