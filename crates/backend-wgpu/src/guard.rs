//! Steps that are watched, for tests: whatever a kernel writes that is not its own, does not write that is, or reads
//! beyond a buffer's end, is a panic that names it.
//!
//! Before a step all that it may write is filled with one pattern, a NaN; each value has columns of it on both sides.
//! Afterwards the pattern must be gone where values are and still there everywhere else. Kernels are changed so that
//! each index goes through a function that notes what is too large.

use std::sync::Mutex;

use backend::{Bound, PAGE, Step};
use graph::Rows;

use crate::compile::Scratch;
use crate::device::{Buffer, Device, lock};
use crate::kernels::Kernel;
use crate::kv::Kv;
use crate::plan::{Pass, Plan};
use crate::program::{BESIDE, StepShape};

/// Columns beside values; a multiple of 4.
pub(crate) const MARGIN: usize = 4;

/// What every word of a buffer holds that nobody has written: a NaN whose low bits are the buffer's, as what is computed
/// from a NaN has its bits.
const fn unwritten(buffer: usize) -> u32 {
    BESIDE.to_bits() + buffer as u32
}

/// The numbers of what is no slot; both halves of the words of the cache and of f16 are NaNs.
const SCRATCH: usize = 0x100;
const STORE: usize = 0x101;

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
    notes: wgpu::Buffer,
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

    /// Whether all indices so far were within their arrays.
    fn check(&self, device: &Device) {
        if let number @ 1.. = read(device, &[&self.notes])[0][0] {
            device.queue.write_buffer(&self.notes, 0, &[0; 16]);
            panic!("an index is beyond the end of {}", lock(&self.arrays)[number as usize - 1]);
        }
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

/// The words of each buffer.
fn read(device: &Device, buffers: &[&wgpu::Buffer]) -> Vec<Vec<u32>> {
    let size = buffers.iter().map(|buffer| buffer.size()).sum::<u64>().max(16);
    let staging = device.device.create_buffer(&wgpu::BufferDescriptor {
        label: Some("watched"),
        size,
        usage: wgpu::BufferUsages::MAP_READ | wgpu::BufferUsages::COPY_DST,
        mapped_at_creation: false,
    });
    let mut encoder = device.device.create_command_encoder(&Default::default());
    let mut at = 0;
    for buffer in buffers {
        encoder.copy_buffer_to_buffer(buffer, 0, &staging, at, buffer.size());
        at += buffer.size();
    }
    device.queue.submit([encoder.finish()]);
    staging.slice(..).map_async(wgpu::MapMode::Read, |result| result.expect("memory that can be read"));
    device.wait().expect("a device that works");
    let view = staging.slice(..).get_mapped_range().expect("it has been mapped");
    let mut words: &[u32] = bytemuck::cast_slice(&view);
    let own = |buffer: &&wgpu::Buffer| {
        let (own, rest) = words.split_at((buffer.size() / 4) as usize);
        words = rest;
        own.to_vec()
    };
    buffers.iter().map(own).collect()
}

/// Fills a buffer with what nobody has written, where steps are watched.
fn poison(device: &Device, buffer: &wgpu::Buffer, number: usize) {
    if device.guard.is_some() {
        let words = vec![unwritten(number); (buffer.size() / 4) as usize];
        device.queue.write_buffer(buffer, 0, bytemuck::cast_slice(&words));
    }
}

/// The same for keys or values of a new cache.
pub(crate) fn poison_store(device: &Device, store: &wgpu::Buffer) {
    poison(device, store, STORE);
}

/// Of a buffer that passes use in turn, as many words are there as the pass of a step has that uses most.
fn check_scratch(device: &Device, buffer: &wgpu::Buffer, what: &str, own: usize) {
    for (at, &word) in read(device, &[buffer])[0].iter().enumerate() {
        let is_written = word != unwritten(SCRATCH);
        assert_eq!(is_written, at < own, "word {at} of {what}, of which {own} are used");
    }
}

/// What a program may write, and where.
pub(crate) struct Watched {
    plan: Plan,
    slots: Vec<Buffer>,
    scratch: Scratch,
    /// Of the cache: layers, K/V heads, and for keys and for values elements of a head and words of an element.
    layers: Vec<[Buffer; 2]>,
    kv_heads: usize,
    elements: [usize; 2],
    words: usize,
    v_dim: usize,
}

impl Watched {
    pub(crate) fn new(plan: &Plan, slots: &[Buffer], scratch: &Scratch, kv: Option<&Kv>) -> Watched {
        let layout = kv.map(|kv| kv.layout);
        let elements = |dim: usize| dim.div_ceil(2);
        Watched {
            plan: plan.clone(),
            slots: slots.to_vec(),
            scratch: scratch.clone(),
            layers: kv.map_or(Vec::new(), |kv| kv.layers.clone()),
            kv_heads: layout.map_or(0, |layout| layout.kv_heads),
            elements: layout.map_or([0; 2], |layout| [elements(layout.k_dim), elements(layout.v_dim)]),
            words: if kv.is_some_and(Kv::is_wide) { 2 } else { 1 },
            v_dim: layout.map_or(0, |layout| layout.v_dim),
        }
    }

    /// Keys and values of all layers.
    fn stores(&self) -> Vec<&wgpu::Buffer> {
        self.layers.iter().flatten().map(|store| &**store).collect()
    }

    /// Fills everything but the cache with what nobody has written; the cache as it is.
    pub(crate) fn before(&self, device: &Device) -> Vec<Vec<u32>> {
        if device.guard.is_none() {
            return Vec::new();
        }
        self.slots.iter().enumerate().for_each(|(number, slot)| poison(device, slot, number));
        self.scratch.buffers().for_each(|buffer| poison(device, buffer, SCRATCH));
        read(device, &self.stores())
    }

    /// # Panics
    /// When anything was written that was not to be, or not written that was.
    pub(crate) fn after(
        &self,
        device: &Device,
        bound: &Bound,
        step: &Step,
        shape: StepShape,
        [narrow_rows, narrow_numbers]: [usize; 2],
        before: &[Vec<u32>],
    ) {
        let Some(guard) = &device.guard else { return };
        guard.check(device);
        let slots: Vec<&wgpu::Buffer> = self.slots.iter().map(|slot| &**slot).collect();
        for (slot, words) in read(device, &slots).into_iter().enumerate() {
            self.check_values(bound, step, slot, &words);
        }
        let attends = || self.plan.passes.iter().filter_map(Pass::attention);
        if let Some(parts) = &self.scratch.parts {
            let heads = attends().map(|attend| attend.heads).max().unwrap_or(0);
            let splits = if shape.splits > 1 { shape.splits } else { 0 };
            let own = shape.rows * heads * splits * (self.v_dim + 2);
            check_scratch(device, parts, "parts of attention", own);
        }
        if let Some(turned) = &self.scratch.turned {
            let turns = attends().filter(|attend| shape.tiles > 0 && attend.q_rope.is_some());
            let cols = turns.map(|attend| bound.value(attend.q).cols).max().unwrap_or(0);
            check_scratch(device, turned, "turned queries", shape.rows * cols);
        }
        if let Some([numbers, scales]) = &self.scratch.narrow {
            // Two numbers to a word.
            check_scratch(device, numbers, "rows for matrix units", narrow_numbers / 2);
            check_scratch(device, scales, "scales of such rows", narrow_rows);
        }
        let stored: Vec<usize> = attends().map(|attend| attend.layer).collect();
        for (i, after) in read(device, &self.stores()).into_iter().enumerate() {
            let (layer, which) = (i / 2, i % 2);
            let what = format!("{} of layer {layer}", ["keys", "values"][which]);
            let mut expected = before[i].clone();
            if stored.contains(&layer) {
                for word in self.own_words(step, which) {
                    assert_ne!(after[word], unwritten(STORE), "{what}: word {word} was not written");
                    expected[word] = after[word];
                }
            }
            let wrong = expected.iter().zip(&after).position(|(expected, after)| expected != after);
            assert_eq!(wrong, None, "{what}: this word was written");
        }
    }

    /// Of a slot, all numbers of its values are there, and nothing else.
    fn check_values(&self, bound: &Bound, step: &Step, slot: usize, words: &[u32]) {
        let stride = self.plan.slots[slot].cols;
        let rows = match self.plan.slots[slot].rows {
            Rows::Step => step.tokens().len(),
            Rows::Wanted => step.wanted().len(),
        };
        // By column, whose it is, and whether it only fills up a vector: that may be zeros.
        let mut owners = vec![None; stride];
        let made = self.plan.passes.iter().flat_map(Pass::makes);
        for id in made.filter(|&id| self.plan.place(id).slot == slot) {
            let (first, cols) = (self.plan.place(id).col, bound.value(id).cols);
            for col in 0..cols.next_multiple_of(4) {
                owners[first + col] = Some((id, col, col >= cols));
            }
        }
        for (row, numbers) in words.chunks(stride).enumerate() {
            for (col, (&word, owner)) in numbers.iter().zip(&owners).enumerate() {
                match owner {
                    Some((id, col, false)) if row < rows => {
                        let name = &bound.value(*id).name;
                        assert_ne!(
                            word,
                            unwritten(slot),
                            "`{name}`: row {row}, column {col} was not written"
                        );
                    }
                    Some((_, _, true)) if row < rows && word == 0 => {}
                    _ if word == unwritten(slot) => {}
                    _ => {
                        let names = owners.iter().flatten().map(|(id, ..)| &bound.value(*id).name);
                        let mut names: Vec<&String> = names.collect();
                        names.dedup();
                        panic!(
                            "{} was written beside {names:?}: row {row} of {rows}, column {col} of {stride}",
                            f32::from_bits(word)
                        );
                    }
                }
            }
        }
    }

    /// Words of a layer's keys (0) or values (1) that the rows of a step are stored in.
    fn own_words(&self, step: &Step, which: usize) -> impl Iterator<Item = usize> {
        let elements = self.elements[which];
        let heads = self.kv_heads;
        let of_row = move |(page, place): (usize, usize)| {
            (0..heads * elements).map(move |i| {
                let (head, element) = (i / elements, i % elements);
                let first = (page * heads + head) * elements * PAGE;
                first + if which == 0 { element * PAGE + place } else { place * elements + element }
            })
        };
        let words = self.words;
        step.rows()
            .map(|(span, position)| span.slot(position))
            .flat_map(of_row)
            .flat_map(move |element| words * element..words * (element + 1))
            .collect::<Vec<_>>()
            .into_iter()
    }
}
