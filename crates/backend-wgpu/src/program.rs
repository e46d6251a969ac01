//! A compiled graph: pipelines, bound buffers and sizes, which a step only encodes.

use std::sync::{Arc, Mutex};

use backend::{Bound, Error, KvLayout, PAGE, Program, Step};
use bytemuck::Pod;
use graph::{Rope, Rows, ValueId};

use crate::State;
use crate::device::{Buffer, Device, lock};
use crate::plan::Place;
use crate::policy::{self, FLASH_ROWS};
use crate::timer::Timer;
use crate::weights::Matrix;

/// Words at the beginning of what a step uploads: rows; rows wanted; parts of attention and positions of one. Tokens
/// follow.
pub(crate) const HEAD: usize = 4;

/// Rows of a step whose positions several workgroups may share.
const SPLIT_ROWS: usize = 8;

/// Workgroups that share the positions of a row, at most.
const SPLITS: usize = 64;

/// Positions that a workgroup takes before others help it.
const SPLIT: usize = 128;

/// Positions that attention takes at a time.
const BLOCK: usize = 128;

/// Bytes of what workgroups find that share the positions of rows of so many heads.
pub(crate) fn bytes_of_parts(kv: KvLayout, rows: usize, heads: usize) -> u64 {
    let splits = (kv.pages * PAGE).div_ceil(SPLIT).clamp(1, SPLITS);
    (rows.min(SPLIT_ROWS) * heads * splits * (kv.v_dim + 2) * size_of::<f32>()) as u64
}

/// What lies beside the columns of a value: nobody's numbers.
pub(crate) const BESIDE: f32 = f32::from_bits(0x7fc5_7ead);

/// A compiled graph.
pub(crate) struct GpuProgram {
    pub(crate) device: Arc<Device>,
    pub(crate) state: Arc<Mutex<State>>,
    pub(crate) bound: Bound,
    pub(crate) matrices: Vec<Arc<Matrix>>,
    pub(crate) work: Vec<Work>,
    pub(crate) inputs: Inputs,
    pub(crate) kept: Vec<Kept>,
    pub(crate) staging: Buffer,
    pub(crate) bytes: u64,
    /// Commands of a step like the last one.
    pub(crate) ahead: Option<(StepShape, wgpu::CommandBuffer)>,
    #[cfg(test)]
    pub(crate) watched: crate::guard::Watched,
}

/// Something to be encoded.
pub(crate) enum Work {
    /// The first of these that is for such a step.
    Dispatch { rows: Rows, variants: Vec<Variant> },
    /// The rows that come with the step are written to where they are read: before everything else. `rows` is as long
    /// as the buffer, so that steps allocate none.
    Input { buffer: Buffer, col: usize, cols: usize, stride: usize, rows: Vec<f32> },
    /// A value is copied to where it can be read.
    Keep(usize),
}

/// A way to compute what a pass makes.
#[derive(Clone)]
pub(crate) struct Variant {
    /// Rows that it is for, at most.
    pub(crate) up_to: usize,
    /// Whether it is for steps whose attention is split.
    pub(crate) is_split: bool,
    /// Whether it is for steps of one row a sequence.
    pub(crate) is_alone: bool,
    /// Whether it is for steps of tiles of rows.
    pub(crate) is_tiled: bool,
    /// Weights whose numbers have to be numbers of f16.
    pub(crate) narrow: Vec<Arc<Matrix>>,
    pub(crate) launches: Vec<Launch>,
}

/// A kernel with its buffers.
#[derive(Clone)]
pub(crate) struct Launch {
    pub(crate) pipeline: wgpu::ComputePipeline,
    pub(crate) group: wgpu::BindGroup,
    pub(crate) grid: Grid,
    pub(crate) cost: Cost,
}

/// How many workgroups there are.
#[derive(Clone, Copy)]
pub(crate) struct Grid {
    pub(crate) groups: usize,
    /// What there are so many for each of.
    pub(crate) each: Each,
}

/// What workgroups share among them.
#[derive(Clone, Copy)]
pub(crate) enum Each {
    /// As many rows.
    Rows(usize),
    /// A row, and a part of the positions.
    Part,
    /// A tile of rows that attention is computed in.
    Tile,
}

/// What a launch is and what it has to do, at least.
#[derive(Clone, Default)]
pub(crate) struct Cost {
    pub(crate) what: String,
    pub(crate) bytes: u64,
    /// For each row.
    pub(crate) row_bytes: u64,
    pub(crate) row_multiply_adds: u64,
    /// For each position of each sequence.
    pub(crate) position_bytes: u64,
    /// For each position of each row.
    pub(crate) pair_multiply_adds: u64,
}

/// A value that can be read by name after a step.
pub(crate) struct Kept {
    pub(crate) id: ValueId,
    /// The buffer that holds it when it has been made, and its numbers a row.
    pub(crate) buffer: Buffer,
    pub(crate) place: Place,
    pub(crate) stride: usize,
    /// Where it goes in the staging buffer, in numbers.
    pub(crate) at: usize,
    pub(crate) numbers: Vec<f32>,
}

/// What changes from step to step, here and on the device.
pub(crate) struct Inputs {
    pub(crate) words: Vec<u32>,
    pub(crate) buffer: Buffer,
    pub(crate) angles: Vec<Angles>,
    /// Where positions, tables, wanted rows, tiles of rows and pages begin.
    pub(crate) at: [usize; 5],
}

/// Sines and cosines of one kind of rotation.
pub(crate) struct Angles {
    pub(crate) rope: Rope,
    /// Angle of each pair at position 1.
    pub(crate) frequencies: Vec<f64>,
    /// Where they begin in the inputs.
    pub(crate) at: usize,
}

/// What the commands of a step depend on.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct StepShape {
    pub(crate) rows: usize,
    pub(crate) wanted: usize,
    /// Parts of the positions that attention is shared in.
    pub(crate) splits: usize,
    /// Tiles of rows that attention is computed in; none when rows are too far apart.
    pub(crate) tiles: usize,
    /// Whether each sequence has one row.
    pub(crate) is_alone: bool,
}

impl StepShape {
    fn rows(self, rows: Rows) -> usize {
        match rows {
            Rows::Step => self.rows,
            Rows::Wanted => self.wanted,
        }
    }
}

impl Grid {
    /// Row by row.
    pub(crate) fn rows(groups: usize) -> Grid {
        Grid { groups, each: Each::Rows(1) }
    }
}

impl Cost {
    /// Bytes of each row alone.
    pub(crate) fn row(what: &str, bytes: usize) -> Cost {
        Cost { what: what.to_owned(), row_bytes: bytes as u64, ..Cost::default() }
    }
}

impl Default for Variant {
    fn default() -> Variant {
        Variant {
            up_to: usize::MAX,
            is_split: false,
            is_alone: false,
            is_tiled: false,
            narrow: Vec::new(),
            launches: Vec::new(),
        }
    }
}

impl Variant {
    /// What is for every step.
    pub(crate) fn always(launch: Launch) -> Variant {
        Variant { launches: vec![launch], ..Variant::default() }
    }

    fn is_for(&self, rows: usize, shape: StepShape) -> bool {
        rows <= self.up_to
            && (!self.is_split || shape.splits > 1)
            && (!self.is_alone || shape.is_alone)
            && (!self.is_tiled || shape.tiles > 0)
            && self.narrow.iter().all(|matrix| matrix.is_narrow())
    }
}

impl Inputs {
    /// Writes what `step` says; returns how many words there are.
    fn fill(&mut self, step: &Step, tiles: usize) -> Result<usize, Error> {
        let [positions, tables, wanted, tiles_at, pages] = self.at;
        let most = step.spans().iter().map(|span| span.past + span.len).max().unwrap_or(0);
        let splits =
            if step.tokens().len() <= SPLIT_ROWS { most.div_ceil(SPLIT).clamp(1, SPLITS) } else { 1 };
        let part = most.div_ceil(splits).next_multiple_of(BLOCK);
        let splits = most.div_ceil(part).max(1);
        let head = [step.tokens().len(), step.wanted().len(), splits, part];
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
        if tiles > 0 {
            let (mut row, mut words) = (0, self.words[tiles_at..][..2 * tiles].as_chunks_mut::<2>().0);
            for span in step.spans() {
                for done in (0..span.len).step_by(FLASH_ROWS) {
                    let rows = FLASH_ROWS.min(span.len - done);
                    words[0] = [(row + done) as u32, rows as u32];
                    words = &mut words[1..];
                }
                row += span.len;
            }
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
        let mut state = lock(&state);
        self.bound.check(step, state.kv.as_ref().map(|kv| kv.layout))?;
        self.device.check()?;
        for matrix in &self.matrices {
            matrix.upload(&self.device)?;
        }
        let tiles = policy::tiles(step.spans().iter().map(|span| span.len));
        let words = self.inputs.fill(step, tiles)?;
        self.device.queue.write_buffer(&self.inputs.buffer, 0, bytes(&self.inputs.words[..words]));
        #[cfg(test)]
        let before = self.watched.before(&self.device);
        self.upload_input(step);
        let shape = StepShape {
            rows: step.tokens().len(),
            wanted: step.wanted().len(),
            splits: self.inputs.words[2] as usize,
            tiles,
            is_alone: step.spans().iter().all(|span| span.len == 1),
        };
        let mut timer = Timer::new(&self.device)?;
        let commands = match self.ahead.take() {
            Some((ready, commands)) if ready == shape && timer.is_none() => commands,
            _ => self.encode(shape, timer.as_mut()),
        };
        self.device.queue.submit([commands]);
        if timer.is_none() {
            // The next step is likely to be like this one, and the device is busy.
            self.ahead = Some((shape, self.encode(shape, None)));
        }
        #[cfg(test)]
        self.watched.after(&self.device, &self.bound, step, shape, self.narrowed(shape), &before);
        self.fetch(shape)?;
        if let Some(timer) = timer {
            timer.add(&self.device, step, &mut state.timings)?;
        }
        Ok(())
    }

    fn output(&self) -> &[f32] {
        self.numbers(self.bound.output())
    }

    fn read(&self, name: &str) -> Result<&[f32], Error> {
        Ok(self.numbers(self.bound.readable(name)?))
    }
}

impl GpuProgram {
    /// Sends the rows that come with a step.
    fn upload_input(&mut self, step: &Step) {
        for work in &mut self.work {
            let Work::Input { buffer, col, cols, stride, rows } = work else { continue };
            // The last row has nothing beside it on the right.
            for (row, given) in rows.chunks_mut(*stride).zip(step.input().chunks_exact(*cols)) {
                row[*col..][..*cols].copy_from_slice(given);
            }
            let used = rows.len().min(step.tokens().len() * *stride);
            self.device.queue.write_buffer(buffer, 0, bytes(&rows[..used]));
        }
    }

    /// The commands of a step of this shape, whatever its tokens and positions.
    fn encode(&self, shape: StepShape, mut timer: Option<&mut Timer>) -> wgpu::CommandBuffer {
        let mut encoder = self.device.device.create_command_encoder(&Default::default());
        let mut work = self.work.iter().peekable();
        while let Some(next) = work.peek() {
            if let Work::Keep(kept) = next {
                let kept = &self.kept[*kept];
                let rows = shape.rows(self.bound.value(kept.id).rows);
                let bytes = ((rows * kept.stride * size_of::<f32>()) as u64).min(kept.buffer.size());
                if bytes > 0 {
                    let to = (kept.at * size_of::<f32>()) as u64;
                    encoder.copy_buffer_to_buffer(&kept.buffer, 0, &self.staging, to, bytes);
                }
            }
            if !matches!(next, Work::Dispatch { .. }) {
                work.next();
                continue;
            }
            let mut pass = encoder.begin_compute_pass(&Default::default());
            if let Some(timer) = &mut timer {
                timer.begin(&mut pass);
            }
            while let Some(Work::Dispatch { rows, variants }) =
                work.next_if(|work| matches!(work, Work::Dispatch { .. }))
            {
                let rows = shape.rows(*rows);
                if rows == 0 {
                    continue;
                }
                let variant = variants.iter().find(|variant| variant.is_for(rows, shape));
                let variant = variant.expect("there is one for all steps of the bucket");
                for launch in &variant.launches {
                    self.dispatch(&mut pass, launch, rows, shape);
                    if let Some(timer) = &mut timer {
                        timer.end(&mut pass, &launch.cost, rows);
                    }
                }
            }
        }
        if let Some(timer) = timer {
            timer.resolve(&mut encoder);
        }
        encoder.finish()
    }

    /// Rows that a step of this shape makes f16 for matrix units, and numbers of all rows of the longest of them.
    #[cfg(test)]
    fn narrowed(&self, shape: StepShape) -> [usize; 2] {
        let (mut most, mut numbers) = (0, 0);
        for work in &self.work {
            let Work::Dispatch { rows, variants } = work else { continue };
            let rows = shape.rows(*rows);
            let variant = variants.iter().find(|variant| variant.is_for(rows, shape));
            if let Some(matrix) = variant.and_then(|variant| variant.narrow.first()) {
                most = most.max(rows);
                numbers = numbers.max(rows * matrix.weight().cols);
            }
        }
        [most, numbers]
    }

    fn dispatch(&self, pass: &mut wgpu::ComputePass<'_>, launch: &Launch, rows: usize, shape: StepShape) {
        pass.set_pipeline(&launch.pipeline);
        pass.set_bind_group(0, &launch.group, &[]);
        #[cfg(test)]
        if let Some(guard) = &self.device.guard {
            pass.set_bind_group(1, &guard.group, &[]);
        }
        let Grid { groups, each } = launch.grid;
        let most = self.device.limits.max_compute_workgroups_per_dimension as usize;
        let across = [groups.min(most), groups.div_ceil(most)];
        let ([x, y], z) = match each {
            Each::Rows(tile) => (across, rows.div_ceil(tile)),
            Each::Part => ([groups, shape.splits], rows),
            Each::Tile => ([groups, 1], shape.tiles),
        };
        pass.dispatch_workgroups(x as u32, y as u32, z as u32);
    }

    /// Copies what is kept from the staging buffer.
    fn fetch(&mut self, shape: StepShape) -> Result<(), Error> {
        let rows_of = |rows| shape.rows(rows);
        let last =
            self.kept.iter().map(|kept| kept.at + rows_of(self.bound.value(kept.id).rows) * kept.stride);
        let last = last.max().unwrap_or(0);
        if last == 0 {
            self.kept.iter_mut().for_each(|kept| kept.numbers.clear());
            return self.device.wait();
        }
        let (bound, kept) = (&self.bound, &mut self.kept);
        self.device.read(&self.staging, (last * size_of::<f32>()) as u64, |bytes| {
            let numbers: &[f32] = bytemuck::cast_slice(bytes);
            for kept in kept {
                let value = bound.value(kept.id);
                kept.numbers.clear();
                let rows = numbers[kept.at..].chunks_exact(kept.stride).take(rows_of(value.rows));
                rows.for_each(|row| kept.numbers.extend_from_slice(&row[kept.place.col..][..value.cols]));
            }
        })
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
