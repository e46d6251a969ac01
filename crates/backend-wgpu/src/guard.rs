//! Kernels that are watched, for tests: changed so that each index goes through a function that notes what is too large.

use std::sync::Mutex;

use crate::kernels::Kernel;
use crate::lock::lock;

/// Columns beside values; a multiple of 4.
pub(crate) const MARGIN: usize = 4;

/// What kernels note indices with.
const CHECKS: &str = "
@group(1) @binding(0) var<storage, read_write> notes: array<atomic<u32>, 1>;
var<private> beyond: u32;
";

/// What is watched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Watch {
    Writes,
    /// Indices, too: kernels take twenty times as long to compile.
    Indices,
}

/// Notes of indices that are too large.
pub(crate) struct Guard {
    watch: Watch,
    pub(crate) layout: wgpu::BindGroupLayout,
    pub(crate) group: wgpu::BindGroup,
    /// Kernel and array by number from 1: one whose index was too large.
    pub(crate) notes: wgpu::Buffer,
    /// Kernels and arrays by number.
    arrays: Mutex<Vec<String>>,
}

impl Guard {
    pub(crate) fn new(device: &wgpu::Device, watch: Watch) -> Guard {
        let layout = device.create_bind_group_layout(&wgpu::BindGroupLayoutDescriptor {
            label: Some("notes"),
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
        let notes = device.create_buffer(&wgpu::BufferDescriptor {
            label: Some("notes"),
            size: 16,
            usage: wgpu::BufferUsages::STORAGE | wgpu::BufferUsages::COPY_SRC | wgpu::BufferUsages::COPY_DST,
            mapped_at_creation: false,
        });
        let group = device.create_bind_group(&wgpu::BindGroupDescriptor {
            label: Some("notes"),
            layout: &layout,
            entries: &[wgpu::BindGroupEntry { binding: 0, resource: notes.as_entire_binding() }],
        });
        Guard { watch, layout, group, notes, arrays: Mutex::default() }
    }

    /// `source` with a check of each index into a buffer or into workgroup memory, if these are watched.
    pub(crate) fn instrument(&self, kernel: &Kernel, source: &str) -> String {
        if self.watch == Watch::Writes {
            return source.to_owned();
        }
        let mut arrays = lock(&self.arrays);
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
                "workgroup" => elements.rsplit(", ").next().expect("a length").to_owned() + "u",
                _ => format!("arrayLength(&{name})"),
            };
            arrays.push(format!("`{name}` of {kernel:?}"));
            let number = arrays.len();
            checks += &format!(
                "fn at_{name}(i: u32) -> u32 {{ beyond = select(beyond, {number}u, i >= {len}); return i; }}\n"
            );
            names.push(name);
        }
        // What began the kernel is called by what begins it now, which notes what was found.
        let (before, main) = source.split_once("@compute").expect("a kernel begins somewhere");
        let (size, main) = main.split_once("fn main(").expect("a kernel is called `main`");
        let (params, body) = main.split_once(") {").expect("a kernel has a body");
        let plain = without_attributes(params);
        let given: Vec<&str> = plain.iter().filter_map(|param| param.split(':').next()).collect();
        format!(
            "{before}fn inner({}) {{{body}\n{CHECKS}{checks}\n@compute{size}fn main({params}) {{\n    inner({});\n    \
             if beyond != 0u {{\n        atomicStore(&notes[0], beyond);\n    }}\n}}\n",
            plain.join(", "),
            given.join(", "),
            before = checked(before, &names),
            body = checked(body, &names),
        )
    }

    /// The array and the kernel that kernels note by this number.
    pub(crate) fn array(&self, number: u32) -> String {
        lock(&self.arrays)[number as usize - 1].clone()
    }
}

/// The parameters of a function that nothing calls from outside.
fn without_attributes(params: &str) -> Vec<String> {
    let params = params.split(",\n").flat_map(|line| line.split(", @")).map(str::trim);
    let name = |param: &str| {
        param.rsplit_once(") ").map_or(param, |(_, name)| name).trim_end_matches(',').to_owned()
    };
    params.filter(|param| !param.is_empty()).map(name).collect()
}

/// `code` in which each index into one of the arrays `names` goes through that array's check.
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

/// Where the bracket closes that `code` begins with.
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
    panic!("a bracket that never closes: {code}");
}
