//! A sanitizer for tests: panics when a kernel writes outside its output, leaves part of it unwritten, or indexes
//! beyond a buffer's end.
//!
//! Before a step, everything that it may write is filled with a NaN pattern, including guard columns on both sides of
//! each value. After the step the pattern must be gone inside the values and intact everywhere else. Out-of-bounds
//! indices are recorded by instrumented kernels (`guard.rs`).

use std::collections::HashMap;

use backend::{BoundProgram, KV_BLOCK, Step, StoreLayout};
use gpu::{Attend, Experts, Pass, Plan, Scratch, StepShape};

use crate::compile::{Blueprint, CANARY};
use crate::device::{Buffer, Device};
use crate::model::{Model, is_kv_f32};
use crate::tests::guard::Guard;

/// The pattern of unwritten words in `buffer`. The low bits differ by buffer, since a NaN that is computed from
/// another one keeps its payload.
const fn unwritten(buffer: usize) -> u32 {
    CANARY.to_bits() + buffer as u32
}

/// Patterns of buffers that are no slots. Both halves of the word are NaNs, as the KV cache and scratch may hold
/// f16.
const SCRATCH: usize = 0x100;
const STORE: usize = 0x101;

/// Reads back whole buffers.
fn read(device: &Device, buffers: &[&wgpu::Buffer]) -> Vec<Vec<u32>> {
    let size = buffers.iter().map(|buffer| buffer.size()).sum::<u64>().max(16);
    let staging = device.device.create_buffer(&wgpu::BufferDescriptor {
        label: Some("sanitizer"),
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
    staging.slice(..).map_async(wgpu::MapMode::Read, |result| result.expect("a mapped buffer"));
    device.wait().expect("a working device");
    let view = staging.slice(..).get_mapped_range().expect("a mapped buffer");
    let mut words: &[u32] = bytemuck::cast_slice(&view);
    let own = |buffer: &&wgpu::Buffer| {
        let (own, rest) = words.split_at((buffer.size() / 4) as usize);
        words = rest;
        own.to_vec()
    };
    buffers.iter().map(own).collect()
}

/// Fills a buffer with the unwritten pattern, if steps are sanitized.
fn poison(device: &Device, buffer: &wgpu::Buffer, index: usize) {
    if device.guard.is_some() {
        let words = vec![unwritten(index); (buffer.size() / 4) as usize];
        device.queue.write_buffer(buffer, 0, bytemuck::cast_slice(&words));
    }
}

/// Poisons the KV cache of a new model.
pub(crate) fn poison_stores(model: &Model) {
    model
        .stores
        .iter()
        .flatten()
        .chain(model.states.iter().flatten())
        .for_each(|store| poison(&model.device, store, STORE));
}

/// # Panics
/// When an index was out of bounds since the last check.
fn check_indices(device: &Device, guard: &Guard) {
    if let index @ 1.. = read(device, &[&guard.report])[0][0] {
        device.queue.write_buffer(&guard.report, 0, &[0; 16]);
        panic!("index out of bounds: {}", guard.array(index));
    }
}

/// The buffers that a program may write.
pub(crate) struct Sanitizer {
    plan: Plan,
    scratch: HashMap<Scratch, usize>,
    lists: Vec<usize>,
    tokens: Option<usize>,
    /// All buffers of the program, slots first.
    buffers: Vec<Buffer>,
    layouts: Vec<StoreLayout>,
    /// By store: keys and values.
    stores: Vec<[Buffer; 2]>,
    /// By value: the slots of recurrent operations.
    states: Vec<Option<Buffer>>,
    /// The last submitted step, and the KV cache before it.
    submitted: Option<(Step, Vec<Vec<u32>>)>,
}

impl Sanitizer {
    pub(crate) fn new(blueprint: &Blueprint, buffers: &[Buffer], model: &Model) -> Sanitizer {
        Sanitizer {
            plan: blueprint.common.plan.clone(),
            scratch: blueprint.common.scratch.clone(),
            lists: blueprint.common.lists.clone(),
            tokens: blueprint.tokens,
            buffers: buffers.to_vec(),
            layouts: model.plan.bound.stores().to_vec(),
            stores: model.stores.clone(),
            states: model.states.clone(),
            submitted: None,
        }
    }

    /// Indices of the scratch buffers.
    fn scratch_buffers(&self) -> impl Iterator<Item = usize> {
        self.scratch.values().chain(&self.lists).chain(&self.tokens).copied()
    }

    /// Keys and values of all stores, then all states.
    fn stores(&self) -> Vec<&wgpu::Buffer> {
        self.stores.iter().flatten().chain(self.states.iter().flatten()).map(|store| &**store).collect()
    }

    /// Poisons everything but the KV cache.
    pub(crate) fn before(&mut self, device: &Device, step: &Step) {
        if device.guard.is_none() {
            return;
        }
        let slots = self.buffers.iter().take(self.plan.slots.len()).enumerate();
        slots.for_each(|(index, slot)| poison(device, slot, index));
        self.scratch_buffers().for_each(|index| poison(device, &self.buffers[index], SCRATCH));
        self.submitted = Some((step.clone(), read(device, &self.stores())));
    }

    /// # Panics
    /// When the step wrote outside its outputs or left some unwritten.
    pub(crate) fn after(
        &mut self,
        device: &Device,
        bound: &BoundProgram,
        shape: &StepShape,
        f16_rows: [usize; 2],
    ) {
        let Some(guard) = &device.guard else { return };
        let Some((step, before)) = self.submitted.take() else { return };
        check_indices(device, guard);
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
        let (n_stores, mut after) = (2 * self.stores.len(), read(device, &self.stores()));
        let states = after.split_off(n_stores);
        let recurrent = bound.graph().values().filter(|(id, _)| self.states[id.index()].is_some());
        for (((id, value), before), after) in recurrent.zip(&before[n_stores..]).zip(&states) {
            let values = bound.graph().state_len(id);
            if values > 0 {
                check_state(&value.name, values, &step, before, after);
            }
        }
        for (i, after) in after.into_iter().enumerate() {
            let (store, which) = (i / 2, i % 2);
            let what = format!("{} of store {store}", ["keys", "values"][which]);
            let mut expected = before[i].clone();
            if written.contains(&store) {
                let (id, _) = bound.graph().stores().nth(store).expect("a store of the graph");
                let group = bound.graph().store_group(id);
                for word in written_words(&self.layouts[store], &step, group, which) {
                    assert_ne!(after[word], unwritten(STORE), "{what}: word {word} was not written");
                    expected[word] = after[word];
                }
            }
            let wrong = expected.iter().zip(&after).position(|(expected, after)| expected != after);
            assert_eq!(wrong, None, "{what}: unexpected write at word");
        }
    }

    /// Scratch buffers are written exactly as far as the most demanding pass of the step needs.
    fn check_scratch(
        &self,
        device: &Device,
        bound: &BoundProgram,
        shape: &StepShape,
        [rows, values]: [usize; 2],
    ) {
        let scratch = |which| self.scratch.get(&which).copied();
        let attends = || {
            self.plan.passes.iter().filter_map(|pass| match pass {
                Pass::Attend(attend) => Some(attend),
                _ => None,
            })
        };
        let parts_words = |attend: &Attend| {
            let splits = shape.splits[bound.graph().store_group(attend.store)];
            let v_dim = bound.graph().store(attend.store).v_dim;
            if splits > 1 { shape.rows * attend.heads * splits * (v_dim + 2) } else { 0 }
        };
        let roped = attends().filter(|attend| shape.tiles > 0 && attend.q_rope.is_some());
        let roped = roped.map(|attend| shape.rows * bound.value(attend.q).cols).max().unwrap_or(0);
        let whole = [
            (
                scratch(Scratch::Parts),
                "partial results of attention",
                attends().map(parts_words).max().unwrap_or(0),
            ),
            (scratch(Scratch::Roped), "roped queries", roped),
            // Two f16 values per word.
            (scratch(Scratch::F16Rows), "f16 activation rows", values / 2),
            (scratch(Scratch::F16Scales), "scales of f16 rows", rows),
            (self.tokens, "tokens", shape.chosen()),
        ];
        for (buffer, what, own) in whole {
            let Some(buffer) = buffer else { continue };
            for (at, &word) in read(device, &[&self.buffers[buffer]])[0].iter().enumerate() {
                let is_written = word != unwritten(SCRATCH);
                assert_eq!(is_written, at < own, "word {at} of {what}, of which {own} are used");
            }
        }
        // Rows may use fewer experts than the buffer is sized for.
        let within = |buffer: usize, what: &str, own: usize| {
            let words = read(device, &[&self.buffers[buffer]]).remove(0);
            let last = words.iter().rposition(|&word| word != unwritten(SCRATCH));
            assert!(last.is_none_or(|last| last < own), "word {last:?} of {what}, of which {own} are used");
        };
        // Rows of each pass with experts, one per row and expert.
        let expert_rows = |cols: fn(&BoundProgram, &Experts) -> usize| {
            let rows = self.plan.passes.iter().filter_map(move |pass| match pass {
                Pass::Experts(experts) => {
                    let rows = shape.rows(bound.value(experts.y).rows) * self.plan.lists[experts.list].used;
                    Some(rows * cols(bound, experts))
                }
                _ => None,
            });
            rows.max().unwrap_or(0)
        };
        if let Some(buffer) = scratch(Scratch::Hidden) {
            let own =
                expert_rows(|bound, experts| bound.graph().weight(experts.down).cols.next_multiple_of(32));
            within(buffer, "hidden rows of experts", own);
        }
        if let Some(buffer) = scratch(Scratch::Downs) {
            let own = expert_rows(|bound, experts| bound.value(experts.y).cols);
            within(buffer, "outputs of experts", own);
        }
        for (&buffer, list) in self.lists.iter().zip(&self.plan.lists) {
            within(buffer, "a list of experts", shape.rows(list.rows) * list.words());
        }
    }

    /// The values of a slot are written in full, and nothing else is.
    fn check_values(&self, bound: &BoundProgram, step: &Step, slot: usize, words: &[u32]) {
        let stride = self.plan.slots[slot].cols;
        let rows = step.count(self.plan.slots[slot].rows);
        // By column: the value it belongs to, and whether it only pads a vector and may be zero.
        let mut owners = vec![None; stride];
        let made = self.plan.passes.iter().flat_map(Pass::makes);
        for id in made.filter(|&id| self.plan.location(id).slot == slot) {
            let (first, cols) = (self.plan.location(id).col, bound.value(id).cols);
            for col in 0..cols.next_multiple_of(4) {
                owners[first + col] = Some((id, col, col >= cols));
            }
        }
        for (row, row_words) in words.chunks(stride).enumerate() {
            for (col, (&word, owner)) in row_words.iter().zip(&owners).enumerate() {
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
                            "{} was written outside of {names:?}: row {row} of {rows}, column {col} of {stride}",
                            f32::from_bits(word)
                        );
                    }
                }
            }
        }
    }
}

/// The slots that a step names are written in full, and no others.
fn check_state(name: &str, values: usize, step: &Step, before: &[u32], after: &[u32]) {
    let written: Vec<u32> = step.sequences().iter().flat_map(|sequence| sequence.slots.written()).collect();
    for (slot, (before, after)) in before.chunks(values).zip(after.chunks(values)).enumerate() {
        if written.contains(&(slot as u32)) {
            let missing = after.iter().position(|&word| word == unwritten(STORE));
            assert_eq!(missing, None, "state of `{name}`, slot {slot}: word was not written");
        } else {
            assert!(before == after, "state of `{name}`: slot {slot} was written");
        }
    }
}

/// Words of a store's keys (0) or values (1) that a step writes.
fn written_words(layout: &StoreLayout, step: &Step, group: usize, which: usize) -> Vec<usize> {
    let graph::Store { heads, k_dim, v_dim, .. } = layout.store;
    let elements = [k_dim, v_dim][which].div_ceil(2);
    let words = if is_kv_f32(layout) { 2 } else { 1 };
    let row_elements = |(block, offset): (usize, usize)| {
        (0..heads * elements).map(move |i| {
            let (head, element) = (i / elements, i % elements);
            let first = (block * heads + head) * elements * KV_BLOCK;
            first + if which == 0 { element * KV_BLOCK + offset } else { offset * elements + element }
        })
    };
    let slots = step.positions().map(|(sequence, position)| sequence.tables[group].slot(position));
    slots.flat_map(row_elements).flat_map(|element| words * element..words * (element + 1)).collect()
}
