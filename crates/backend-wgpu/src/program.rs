//! A compiled graph: pipelines, bound buffers and sizes, which a step only encodes.

use std::sync::{Arc, Mutex};

use backend::{Bound, Error, Program, Step};
use bytemuck::Pod;
use graph::{Rope, Rows, ValueId};

use crate::State;
use crate::device::{Device, lock};
use crate::plan::Place;
use crate::weights::Matrix;

/// Words at the beginning of what a step uploads: rows; rows wanted; where positions, tables, wanted rows and pages
/// begin; splits of attention and positions of one. Tokens follow.
pub(crate) const HEAD: usize = 8;

/// Rows of a step whose positions several workgroups may share.
pub(crate) const SPLIT_ROWS: usize = 8;

/// Workgroups that share the positions of a row, at most.
pub(crate) const SPLITS: usize = 16;

/// Positions that a workgroup takes before others help it.
const SPLIT: usize = 512;

/// Positions that attention takes at a time.
const BLOCK: usize = 128;

/// A compiled graph.
pub(crate) struct GpuProgram {
    pub(crate) device: Arc<Device>,
    pub(crate) state: Arc<Mutex<State>>,
    pub(crate) bound: Bound,
    pub(crate) matrices: Vec<Arc<Matrix>>,
    pub(crate) work: Vec<Work>,
    pub(crate) inputs: Inputs,
    pub(crate) kept: Vec<Kept>,
    pub(crate) staging: wgpu::Buffer,
    pub(crate) bytes: u64,
}

/// Something to be encoded.
pub(crate) enum Work {
    /// The first of these that takes as many rows as there are.
    Dispatch { rows: Rows, when: When, variants: Vec<Variant> },
    /// The rows that come with the step are written to where they are read: before everything else.
    Input { buffer: wgpu::Buffer, cols: usize, stride: usize },
    /// A value is copied to where it can be read.
    Keep(usize),
}

/// Whether a dispatch is for steps whose attention is split.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum When {
    Always,
    Whole,
    /// As many times as there are splits.
    Split,
    Combine,
}

/// A kernel with its buffers.
pub(crate) struct Variant {
    /// Rows that it is for, at most.
    pub(crate) up_to: usize,
    pub(crate) pipeline: wgpu::ComputePipeline,
    pub(crate) group: wgpu::BindGroup,
    /// Workgroups for a tile of rows, and rows of a tile.
    pub(crate) groups: u32,
    pub(crate) tile: u32,
}

/// A value that can be read by name after a step.
pub(crate) struct Kept {
    pub(crate) id: ValueId,
    /// The buffer that holds it when it has been made, and its numbers a row.
    pub(crate) buffer: wgpu::Buffer,
    pub(crate) place: Place,
    pub(crate) stride: usize,
    /// Where it goes in the staging buffer, in numbers.
    pub(crate) at: usize,
    pub(crate) numbers: Vec<f32>,
}

/// What changes from step to step, here and on the device.
pub(crate) struct Inputs {
    pub(crate) words: Vec<u32>,
    pub(crate) buffer: wgpu::Buffer,
    pub(crate) angles: Vec<Angles>,
    /// Where positions, tables, wanted rows and pages begin.
    pub(crate) at: [usize; 4],
}

/// Sines and cosines of one kind of rotation.
pub(crate) struct Angles {
    pub(crate) rope: Rope,
    /// Angle of each pair at position 1.
    pub(crate) frequencies: Vec<f64>,
    /// Where they begin in the inputs.
    pub(crate) at: usize,
}

impl Inputs {
    /// Writes what `step` says; returns how many words there are.
    fn fill(&mut self, step: &Step) -> Result<usize, Error> {
        let [positions, tables, wanted, pages] = self.at;
        let most = step.spans().iter().map(|span| span.past + span.len).max().unwrap_or(0);
        let splits =
            if step.tokens().len() <= SPLIT_ROWS { most.div_ceil(SPLIT).clamp(1, SPLITS) } else { 1 };
        let part = most.div_ceil(splits).next_multiple_of(BLOCK);
        let splits = most.div_ceil(part).max(1);
        let head = [step.tokens().len(), step.wanted().len(), positions, tables, wanted, pages, splits, part];
        for (word, number) in self.words.iter_mut().zip(head) {
            *word = number as u32;
        }
        self.words[HEAD..][..step.tokens().len()].copy_from_slice(step.tokens());
        self.words[wanted..][..step.wanted().len()].copy_from_slice(step.wanted());
        let (mut row, mut page) = (0, 0);
        for span in step.spans() {
            let room = self.words.len() - pages - page;
            if span.pages.len() > room {
                return Err(Error::Step(format!("{} pages, room for {room} more", span.pages.len())));
            }
            self.words[pages + page..][..span.pages.len()].copy_from_slice(&span.pages);
            for position in span.positions() {
                self.words[positions + row] = position as u32;
                self.words[tables + row] = page as u32;
                row += 1;
            }
            page += span.pages.len();
        }
        for angles in &self.angles {
            let pairs = angles.frequencies.len();
            let turns = self.words[angles.at..].chunks_exact_mut(2 * pairs.max(1));
            for (turns, (_, position)) in turns.zip(step.rows()) {
                for (turn, frequency) in turns.as_chunks_mut::<2>().0.iter_mut().zip(&angles.frequencies) {
                    let (sine, cosine) = (position as f64 * frequency).sin_cos();
                    *turn = [(cosine as f32).to_bits(), (sine as f32).to_bits()];
                }
            }
        }
        Ok(pages + page)
    }
}

impl Program for GpuProgram {
    fn run(&mut self, step: &Step) -> Result<(), Error> {
        let state = self.state.clone();
        let state = lock(&state);
        self.bound.check(step, state.kv.as_ref().map(|kv| kv.layout))?;
        self.device.check()?;
        for matrix in &self.matrices {
            matrix.upload(&self.device)?;
        }
        let words = self.inputs.fill(step)?;
        let is_split = self.inputs.words[6] > 1;
        self.device.queue.write_buffer(&self.inputs.buffer, 0, bytes(&self.inputs.words[..words]));
        let rows_of = |rows| match rows {
            Rows::Step => step.tokens().len(),
            Rows::Wanted => step.wanted().len(),
        };
        let mut encoder = self.device.device.create_command_encoder(&Default::default());
        let mut work = self.work.iter().peekable();
        while let Some(next) = work.peek() {
            if let Work::Input { buffer, cols, stride } = next {
                let mut rows = vec![0.0; step.tokens().len() * stride];
                for (row, given) in rows.chunks_exact_mut(*stride).zip(step.input().chunks_exact(*cols)) {
                    row[..*cols].copy_from_slice(given);
                }
                self.device.queue.write_buffer(buffer, 0, bytes(&rows));
                work.next();
                continue;
            }
            if let Work::Keep(kept) = next {
                let kept = &self.kept[*kept];
                let rows = rows_of(self.bound.value(kept.id).rows);
                let bytes = (rows * kept.stride * size_of::<f32>()) as u64;
                if bytes > 0 {
                    let to = (kept.at * size_of::<f32>()) as u64;
                    encoder.copy_buffer_to_buffer(&kept.buffer, 0, &self.staging, to, bytes);
                }
                work.next();
                continue;
            }
            let mut pass = encoder.begin_compute_pass(&Default::default());
            while let Some(Work::Dispatch { rows, when, variants }) =
                work.next_if(|work| matches!(work, Work::Dispatch { .. }))
            {
                let rows = rows_of(*rows);
                let is_wanted = match when {
                    When::Always => true,
                    When::Whole => !is_split,
                    When::Split | When::Combine => is_split,
                };
                if rows == 0 || !is_wanted {
                    continue;
                }
                let variant = variants.iter().find(|variant| rows <= variant.up_to);
                let variant = variant.expect("there is one for all rows of the bucket");
                pass.set_pipeline(&variant.pipeline);
                pass.set_bind_group(0, &variant.group, &[]);
                let across = self.device.limits.max_compute_workgroups_per_dimension;
                let (x, y) = match when {
                    When::Always => (variant.groups.min(across), variant.groups.div_ceil(across)),
                    When::Whole | When::Combine => (variant.groups, 1),
                    When::Split => (variant.groups, self.inputs.words[6]),
                };
                pass.dispatch_workgroups(x, y, (rows as u32).div_ceil(variant.tile));
            }
        }
        self.device.queue.submit([encoder.finish()]);
        self.fetch(rows_of)
    }

    fn output(&self) -> &[f32] {
        self.numbers(self.bound.output())
    }

    fn read(&self, name: &str) -> Result<&[f32], Error> {
        Ok(self.numbers(self.bound.readable(name)?))
    }
}

impl GpuProgram {
    /// Copies what is kept from the staging buffer.
    fn fetch(&mut self, rows_of: impl Fn(Rows) -> usize) -> Result<(), Error> {
        let last =
            self.kept.iter().map(|kept| kept.at + rows_of(self.bound.value(kept.id).rows) * kept.stride);
        let last = last.max().unwrap_or(0);
        if last == 0 {
            self.kept.iter_mut().for_each(|kept| kept.numbers.clear());
            return self.device.wait();
        }
        let slice = self.staging.slice(..(last * size_of::<f32>()) as u64);
        let mapped = Arc::new(Mutex::new(None));
        let note = mapped.clone();
        slice.map_async(wgpu::MapMode::Read, move |result| *lock(&note) = Some(result));
        self.device.wait()?;
        let failed = |why: String| Error::Device { device: self.device.info.name.clone(), why };
        match lock(&mapped).take() {
            Some(Ok(())) => {}
            Some(Err(error)) => return Err(failed(error.to_string())),
            None => return Err(failed("results did not arrive".into())),
        }
        {
            let view = slice.get_mapped_range().map_err(|error| failed(error.to_string()))?;
            let numbers: &[f32] = bytemuck::cast_slice(&view);
            for kept in &mut self.kept {
                let value = self.bound.value(kept.id);
                kept.numbers.clear();
                let rows = numbers[kept.at..].chunks_exact(kept.stride).take(rows_of(value.rows));
                rows.for_each(|row| kept.numbers.extend_from_slice(&row[kept.place.col..][..value.cols]));
            }
        }
        self.staging.unmap();
        self.device.check()
    }

    fn numbers(&self, id: ValueId) -> &[f32] {
        let kept = self.kept.iter().find(|kept| kept.id == id);
        &kept.expect("what can be read is kept").numbers
    }
}

impl Drop for GpuProgram {
    fn drop(&mut self) {
        lock(&self.state).activation_bytes -= self.bytes;
    }
}

fn bytes<T: Pod>(numbers: &[T]) -> &[u8] {
    bytemuck::cast_slice(numbers)
}
