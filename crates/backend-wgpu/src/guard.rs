//! Steps that are watched, for tests: whatever a kernel writes that is not its own, does not write that is, or reads
//! beyond a buffer's end, is a panic that names it.
//!
//! Before a step all that it may write is filled with one pattern, a NaN; each value has columns of it on both sides.
//! Afterwards the pattern must be gone where values are and still there everywhere else. Kernels are changed so that
//! each index goes through a function that notes what is too large.

use std::sync::Mutex;

use backend::{Bound, PAGE, Step, StoreLayout};
use graph::Rows;

use crate::compile::{BESIDE, Blueprint, Scratch};
use crate::device::{Buffer, Device, lock};
use crate::kernels::Kernel;
use crate::launch::StepShape;
use crate::model::{Model, is_kv_f32};
use crate::plan::{Attend, Experts, Pass, Plan};

/// Columns beside values; a multiple of 4.
pub(crate) const MARGIN: usize = 4;

/// What every word of a buffer holds that nobody has written: a NaN whose low bits are the buffer's, as what is computed
/// from a NaN has its bits.
const fn unwritten(buffer: usize) -> u32 {
    BESIDE.to_bits() + buffer as u32
}

/// The numbers of what is no slot; both halves of the words of stores and of f16 are NaNs.
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

/// The same for keys or values of a new store.
pub(crate) fn poison_store(device: &Device, store: &wgpu::Buffer) {
    poison(device, store, STORE);
}

/// What a program may write, and where.
pub(crate) struct Watched {
    plan: Plan,
    scratch: Scratch,
    /// All of the program; those of the plan's slots first.
    buffers: Vec<Buffer>,
    layouts: Vec<StoreLayout>,
    /// By store, keys and values.
    stores: Vec<[Buffer; 2]>,
    /// The step that was submitted last, and what stores held before.
    submitted: Option<(Step, Vec<Vec<u32>>)>,
}

impl Watched {
    pub(crate) fn new(blueprint: &Blueprint, buffers: &[Buffer], model: &Model) -> Watched {
        Watched {
            plan: blueprint.plan.clone(),
            scratch: blueprint.scratch.clone(),
            buffers: buffers.to_vec(),
            layouts: model.plan.bound.stores().to_vec(),
            stores: model.stores.clone(),
            submitted: None,
        }
    }

    /// The buffers that passes use in turn.
    fn of_scratch(&self) -> impl Iterator<Item = usize> {
        let Scratch { parts, roped, f16_rows, f16_scales, hidden, tokens, ref lists } = self.scratch;
        let single = [parts, roped, f16_rows, f16_scales, hidden, tokens].into_iter().flatten();
        single.chain(lists.iter().copied())
    }

    /// Keys and values of all stores.
    fn stores(&self) -> Vec<&wgpu::Buffer> {
        self.stores.iter().flatten().map(|store| &**store).collect()
    }

    /// Fills everything but the stores with what nobody has written.
    pub(crate) fn before(&mut self, device: &Device, step: &Step) {
        if device.guard.is_none() {
            return;
        }
        let slots = self.buffers.iter().take(self.plan.slots.len()).enumerate();
        slots.for_each(|(number, slot)| poison(device, slot, number));
        self.of_scratch().for_each(|number| poison(device, &self.buffers[number], SCRATCH));
        self.submitted = Some((step.clone(), read(device, &self.stores())));
    }

    /// # Panics
    /// When anything was written that was not to be, or not written that was.
    pub(crate) fn after(&mut self, device: &Device, bound: &Bound, shape: &StepShape, f16_rows: [usize; 2]) {
        let Some(guard) = &device.guard else { return };
        let Some((step, before)) = self.submitted.take() else { return };
        guard.check(device);
        let slots: Vec<&wgpu::Buffer> =
            self.buffers.iter().take(self.plan.slots.len()).map(|slot| &**slot).collect();
        for (slot, words) in read(device, &slots).into_iter().enumerate() {
            self.check_values(bound, &step, slot, &words);
        }
        self.check_scratch(device, bound, shape, f16_rows);
        let attends = self.plan.passes.iter().filter_map(|pass| match pass {
            Pass::Attend(attend) => Some(attend),
            _ => None,
        });
        let written: Vec<usize> =
            attends.filter(|attend| attend.kv.is_some()).map(|attend| attend.store.index()).collect();
        for (i, after) in read(device, &self.stores()).into_iter().enumerate() {
            let (store, which) = (i / 2, i % 2);
            let what = format!("{} of store {store}", ["keys", "values"][which]);
            let mut expected = before[i].clone();
            if written.contains(&store) {
                let group = bound.graph().group_of(graph::StoreId::from_index(store));
                for word in own_words(&self.layouts[store], &step, group, which) {
                    assert_ne!(after[word], unwritten(STORE), "{what}: word {word} was not written");
                    expected[word] = after[word];
                }
            }
            let wrong = expected.iter().zip(&after).position(|(expected, after)| expected != after);
            assert_eq!(wrong, None, "{what}: this word was written");
        }
    }

    /// Of buffers that passes use in turn, as many words are there as the pass of the step has that uses most.
    fn check_scratch(&self, device: &Device, bound: &Bound, shape: &StepShape, [rows, values]: [usize; 2]) {
        let attends = || {
            self.plan.passes.iter().filter_map(|pass| match pass {
                Pass::Attend(attend) => Some(attend),
                _ => None,
            })
        };
        let of_parts = |attend: &Attend| {
            let splits = shape.splits[bound.graph().group_of(attend.store)];
            let v_dim = bound.graph().store(attend.store).v_dim;
            if splits > 1 { shape.rows * attend.heads * splits * (v_dim + 2) } else { 0 }
        };
        let roped = attends().filter(|attend| shape.tiles > 0 && attend.q_rope.is_some());
        let roped = roped.map(|attend| shape.rows * bound.value(attend.q).cols).max().unwrap_or(0);
        let tokens = if shape.is_tokens_only { shape.outputs } else { 0 };
        let whole = [
            (self.scratch.parts, "parts of attention", attends().map(of_parts).max().unwrap_or(0)),
            (self.scratch.roped, "roped queries", roped),
            // Two values to a word.
            (self.scratch.f16_rows, "rows for matrix units", values / 2),
            (self.scratch.f16_scales, "scales of such rows", rows),
            (self.scratch.tokens, "tokens", tokens),
        ];
        for (buffer, what, own) in whole {
            let Some(buffer) = buffer else { continue };
            for (at, &word) in read(device, &[&self.buffers[buffer]])[0].iter().enumerate() {
                let is_written = word != unwritten(SCRATCH);
                assert_eq!(is_written, at < own, "word {at} of {what}, of which {own} are used");
            }
        }
        // Rows may use fewer experts than there is room for.
        let within = |buffer: usize, what: &str, own: usize| {
            let words = read(device, &[&self.buffers[buffer]]).remove(0);
            let last = words.iter().rposition(|&word| word != unwritten(SCRATCH));
            assert!(last.is_none_or(|last| last < own), "word {last:?} of {what}, of which {own} are used");
        };
        let hidden = self.plan.passes.iter().filter_map(|pass| match *pass {
            Pass::Experts(Experts { list, gate, y, .. }) => {
                let padded = bound.graph().weight(gate).rows.next_multiple_of(32);
                Some(shape.rows(bound.value(y).rows) * self.plan.lists[list].used * padded)
            }
            _ => None,
        });
        if let (Some(buffer), Some(own)) = (self.scratch.hidden, hidden.max()) {
            within(buffer, "rows of experts", own);
        }
        for (&buffer, list) in self.scratch.lists.iter().zip(&self.plan.lists) {
            within(buffer, "a list of experts", shape.rows(list.rows) * list.words());
        }
    }

    /// Of a slot, all that its values have are there, and nothing else.
    fn check_values(&self, bound: &Bound, step: &Step, slot: usize, words: &[u32]) {
        let stride = self.plan.slots[slot].cols;
        let rows = match self.plan.slots[slot].rows {
            Rows::Step => step.tokens().len(),
            Rows::Output => step.outputs().len(),
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
}

/// Words of a store's keys (0) or values (1) that the rows of a step are written to.
fn own_words(layout: &StoreLayout, step: &Step, group: usize, which: usize) -> Vec<usize> {
    let graph::Store { heads, k_dim, v_dim, .. } = layout.store;
    let elements = [k_dim, v_dim][which].div_ceil(2);
    let words = if is_kv_f32(layout) { 2 } else { 1 };
    let of_row = |(page, offset): (usize, usize)| {
        (0..heads * elements).map(move |i| {
            let (head, element) = (i / elements, i % elements);
            let first = (page * heads + head) * elements * PAGE;
            first + if which == 0 { element * PAGE + offset } else { offset * elements + element }
        })
    };
    let slots = step.rows().map(|(sequence, position)| sequence.tables[group].slot(position));
    slots.flat_map(of_row).flat_map(|element| words * element..words * (element + 1)).collect()
}
