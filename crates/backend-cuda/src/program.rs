//! A program on a card: launches are built once; a step uploads its inputs and replays a recorded graph. Two steps can be in
//! flight, so that the card computes the next one while the host reads the outputs of the one before.

use std::sync::Arc;

use backend::{Error, Outputs, Pending, Program, Step, Ticket, Transfer, lock};
use gpu::{BufferId, Cost, F32, Grid, StepShape, Variant, Work, chosen_words};
use graph::{Index, Op};

use crate::arguments::Pointer;
use crate::compile::Blueprint;
use crate::driver::{
    Buffer, Device, Event, How, IN_FLIGHT, Launch, Pinned, Queue, Recording, Staging, TENSOR_MAP_BYTES,
};
use crate::launch::{LaunchPlan, blocks, cluster};
use crate::model::Model;
use crate::occupancy::Block;

/// Recorded graphs that a program holds: steps alternate between few shapes, and between the buffers of steps in flight.
const MAX_RECORDINGS: usize = 8 * IN_FLIGHT;

/// Steps of more rows do not launch kernels before the one before has ended: early blocks would crowd the multiprocessors
/// that are free first.
const MAX_DEPENDENT_ROWS: usize = 128;

pub(crate) struct CudaProgram {
    built: Built,
    /// Input rows, and values that are read back. A step that has such rows or values is the only one in flight.
    rows: Vec<Pinned>,
    staging: Staging,
    chosen: Vec<u32>,
    bytes: u64,
    pending: Pending<IN_FLIGHT>,
    in_flight: [InFlight; IN_FLIGHT],
    /// Shapes of the last submitted step, and of the last one that was waited for.
    shape: StepShape,
    read: StepShape,
    timer: Option<(Timer, Step)>,
    /// Graphs by step in flight and shape, the last used at the end.
    recordings: Vec<(usize, StepShape, Recording)>,
}

struct Built {
    model: Arc<Model>,
    /// Its launch plans have moved to `work`.
    blueprint: Blueprint,
    work: Vec<Work<BuiltLaunch>>,
    buffers: Vec<Buffer>,
}

struct BuiltLaunch {
    launch: Launch,
    grid: Grid,
    cost: Cost,
}

/// The buffers of a step in flight ([`Pending::buffer`]).
struct InFlight {
    inputs: Pinned,
    shape: StepShape,
    /// The end of what computes.
    computed: Event,
    /// Chosen tokens or candidates, which are copied last.
    chosen: Pinned,
}

/// Events around each launch, with its cost and rows.
struct Timer {
    start: Event,
    launches: Vec<(Event, Cost, usize)>,
}

impl CudaProgram {
    /// Allocates the buffers of `blueprint`, and builds its launches.
    pub(crate) fn new(model: Arc<Model>, mut blueprint: Blueprint) -> Result<CudaProgram, Error> {
        let device = &model.device;
        let (bytes, common) = (blueprint.bytes(), &blueprint.common);
        let mut buffers = Vec::new();
        for plan in &common.buffers {
            let buffer = device.buffer(plan.purpose, plan.bytes)?;
            if !plan.words.is_empty() {
                device.write(&buffer, 0, bytemuck::cast_slice(&plan.words))?;
            }
            buffers.push(buffer);
        }
        let chosen_words = common.bound.bucket().outputs * chosen_words(Transfer::Candidates);
        let in_flight = || {
            let inputs = Pinned::new(device, common.inputs.words.len())?;
            let chosen = Pinned::new(device, chosen_words)?;
            Ok::<_, Error>(InFlight { inputs, shape: StepShape::default(), computed: device.mark()?, chosen })
        };
        let in_flight = [in_flight()?, in_flight()?];
        let staging = Staging::new(device, common.staged)?;
        let (mut work, mut rows) = (Vec::new(), Vec::new());
        for next in std::mem::take(&mut blueprint.common.work) {
            if let Work::Input(input) = &next {
                let bytes = blueprint.common.buffers[input.buffer].bytes;
                rows.push(Pinned::new(device, bytes as usize / F32)?);
            }
            work.push(next.build(|plan| build(&model, &buffers, &blueprint, plan))?);
        }
        device.wait()?;
        lock(&model.state).activations += bytes;
        Ok(CudaProgram {
            built: Built { model, blueprint, work, buffers },
            rows,
            staging,
            chosen: Vec::new(),
            bytes,
            pending: Pending::default(),
            in_flight,
            shape: StepShape::default(),
            read: StepShape::default(),
            timer: None,
            recordings: Vec::new(),
        })
    }
}

/// Finds the kernel of a launch, and writes its arguments.
fn build(
    model: &Model,
    own: &[Buffer],
    blueprint: &Blueprint,
    plan: LaunchPlan,
) -> Result<BuiltLaunch, Error> {
    let LaunchPlan { kernel, args, grid, threads, shared, shared_per_warp, cluster, cost } = plan;
    let Blueprint { uploaded, chosen, .. } = blueprint;
    let find = |pointer, number: usize| {
        let buffer = match pointer {
            Pointer::Null => return None,
            Pointer::Inputs => &own[uploaded[number]],
            Pointer::Chosen => &own[chosen[number]],
            Pointer::ChosenBefore => &own[chosen[(number + IN_FLIGHT - 1) % IN_FLIGHT]],
            Pointer::TensorMaps(store) => {
                let at = store.index() * 2 * TENSOR_MAP_BYTES;
                return Some((&model.tensor_maps, at as u64));
            }
            Pointer::Buffer(BufferId::Own(index)) => &own[index],
            Pointer::Buffer(BufferId::Weight(weight, _)) => {
                let matrix = model.matrices[weight.index()].as_ref();
                &matrix.expect("weights of matmuls are matrices").buffer
            }
            Pointer::Buffer(BufferId::Store(store, which)) => &model.stores[store.index()][which],
            Pointer::Buffer(BufferId::State(id)) => {
                model.states[id.index()].as_ref().expect("recurrent operations have states")
            }
        };
        Some((buffer, 0))
    };
    let kernel = model.device.kernel(&kernel)?;
    let forms = match shared_per_warp {
        0 => [Block { threads, shared: shared as u32 }; 2],
        per_warp => model.device.limits.forms(kernel.needs, shared, per_warp),
    };
    let cluster = cluster.size(|size| model.device.active_clusters(kernel, forms[0], size)) as u32;
    Ok(BuiltLaunch { launch: Launch::new(kernel, &*args, forms, cluster, find), grid, cost })
}

impl Program for CudaProgram {
    fn submit(&mut self, step: &Step) -> Result<Ticket, Error> {
        let on_device = if self.shape.transfer.are_tokens() { self.shape.outputs } else { 0 };
        self.built.blueprint.common.bound.check_after(step, on_device)?;
        step.check_features("cuda", &[])?;
        self.built.model.upload(|_| {})?;
        let number = self.pending.next_buffer();
        // A step that follows none has the card's other buffers for itself, too.
        let is_alone = !step.is_ahead();
        let mut before = self.in_flight.iter().enumerate().filter(|(other, _)| is_alone || *other == number);
        before.try_for_each(|(_, before)| before.chosen.wait())?;
        let Blueprint { common, uploaded, chosen, chooses } = &mut self.built.blueprint;
        let transfer = if *chooses { common.inputs.transfer(step) } else { Transfer::Logits };
        let mut shape = StepShape::new(step, transfer);
        let words = common.inputs.fill(step, &mut shape)?;
        let is_repeated = shape == self.shape;
        let (to, from) =
            (self.built.buffers[uploaded[number]].clone(), self.built.buffers[chosen[number]].clone());
        let own = &mut self.in_flight[number];
        own.inputs.words_mut()?[..words].copy_from_slice(&common.inputs.words[..words]);
        own.shape.clone_from(&shape);
        self.shape = shape;
        let uploaded = own.inputs.upload_beside(&to, words);
        let queued = uploaded.and_then(|()| self.start(step, number, is_repeated));
        // Also if it failed: the next step in these buffers waits for what is queued.
        let InFlight { chosen, computed, .. } = &mut self.in_flight[number];
        chosen.download_beside(&from, self.shape.chosen(), computed).and(queued)?;
        Ok(self.pending.begin(step))
    }

    fn can_follow(&self) -> bool {
        let gpu::Blueprint { bound, readbacks, .. } = &self.built.blueprint.common;
        let reads_nothing = readbacks.iter().all(|readback| readback.rows(bound, &self.shape) == 0);
        // Only `embed` can take tokens that are on the card.
        let takes = |op: &Op| matches!(op, Op::Embed { index: Index::Token, .. });
        let has_tokens = bound.graph().values().any(|(_, value)| takes(&value.op));
        self.shape.transfer.are_tokens() && has_tokens && reads_nothing && !self.built.model.device.is_timed
    }

    fn wait(&mut self, ticket: Ticket) -> Result<Outputs<'_>, Error> {
        let CudaProgram { built, chosen, pending, in_flight, read, timer, staging, .. } = self;
        let gpu::Blueprint { bound, readbacks, .. } = &mut built.blueprint.common;
        let own = &in_flight[pending.buffer(&ticket)];
        let output_rows = pending.end(ticket)?;
        let chosen_words = own.chosen.words()?;
        read.clone_from(&own.shape);
        chosen.clear();
        chosen.extend(&chosen_words[..read.chosen()]);
        let is_read = readbacks.iter().any(|readback| readback.rows(bound, read) > 0);
        let staged = if is_read { bytemuck::cast_slice(staging.words()?) } else { &[] };
        readbacks.iter_mut().for_each(|readback| readback.take(bound, read, staged));
        if let Some((timer, step)) = timer.take() {
            timer.add(&built.model, &step)?;
        }
        Ok(gpu::outputs(readbacks, bound, read, output_rows, chosen))
    }

    fn read(&self, name: &str) -> Result<&[f32], Error> {
        let gpu::Blueprint { bound, readbacks, .. } = &self.built.blueprint.common;
        gpu::read(readbacks, bound, &self.read, name)
    }
}

impl CudaProgram {
    /// Queues a step, or replays one of its shape.
    fn start(&mut self, step: &Step, number: usize, is_repeated: bool) -> Result<(), Error> {
        self.upload_input(step)?;
        let CudaProgram { built, staging, shape, timer, recordings, .. } = self;
        let device = built.model.device.clone();
        let recorded = |(of, known, _): &(usize, StepShape, _)| *of == number && known == shape;
        if device.is_timed {
            let mut events = Timer { start: device.event()?, launches: Vec::new() };
            events.start.record()?;
            built.queue(&mut device.queue()?, shape, number, staging, Some(&mut events))?;
            *timer = Some((events, step.clone()));
        } else if let Some(index) = recordings.iter().position(recorded) {
            let last = recordings.remove(index);
            device.queue()?.replay(&last.2, staging)?;
            recordings.push(last);
        } else if is_repeated {
            // The second step of a shape in a row: more will follow.
            let recording = device.record(|queue| built.queue(queue, shape, number, staging, None))?;
            device.queue()?.replay(&recording, staging)?;
            if recordings.len() == MAX_RECORDINGS {
                recordings.remove(0);
            }
            recordings.push((number, shape.clone(), recording));
        } else {
            built.queue(&mut device.queue()?, shape, number, staging, None)?;
        }
        Ok(())
    }

    fn upload_input(&mut self, step: &Step) -> Result<(), Error> {
        let inputs = self.built.work.iter().filter_map(|work| match work {
            Work::Input(input) => Some(input),
            Work::Dispatch { .. } | Work::Readback(_) | Work::AllReduce { .. } => None,
        });
        for (input, rows) in inputs.zip(&mut self.rows) {
            let values: &mut [f32] = bytemuck::cast_slice_mut(rows.words_mut()?);
            input.copy(step.hidden(), values);
            let used = values.len().min(step.rows().len() * input.stride);
            rows.upload(&self.built.buffers[input.buffer], 0, used * F32)?;
        }
        Ok(())
    }
}

impl Built {
    /// Queues a step of this shape. What is queued does not depend on tokens or positions.
    fn queue(
        &self,
        queue: &mut Queue<'_>,
        shape: &StepShape,
        number: usize,
        staging: &mut Staging,
        mut timer: Option<&mut Timer>,
    ) -> Result<(), Error> {
        let gpu::Blueprint { bound, readbacks, .. } = &self.blueprint.common;
        let device = &self.model.device;
        // A launch after a copy or an event waits for it.
        let mut is_dependent = false;
        let mut form = 0;
        for work in &self.work {
            match work {
                Work::Input(_) => {}
                Work::Readback(index) => {
                    let readback = &readbacks[*index];
                    let words = readback.rows(bound, shape) * readback.stride;
                    if words > 0 {
                        queue.download(staging, readback.at, &self.buffers[readback.slot], words)?;
                        is_dependent = false;
                    }
                }
                Work::AllReduce { rows, buffer, cols } => {
                    let rows = shape.rows(*rows);
                    queue.all_reduce(&self.buffers[*buffer], rows * cols)?;
                    // It is no kernel of ours: the next one waits for its end.
                    is_dependent = false;
                    if let Some(timer) = timer.as_mut().filter(|_| rows > 0) {
                        timer.end(device, Cost::row("all_reduce", cols * F32 * 2), rows)?;
                    }
                }
                Work::Dispatch { rows, variants } => {
                    let rows = shape.rows(*rows);
                    if rows == 0 {
                        continue;
                    }
                    let fits_f16 = |weight| self.model.fits_f16(weight);
                    for built in &Variant::choose(variants, rows, shape, fits_f16).launches {
                        let grid = blocks(&built.grid, rows, shape);
                        let cluster = cluster(&built.grid, shape).unwrap_or(built.launch.cluster);
                        queue.launch(&built.launch, How { number, grid, cluster, form, is_dependent })?;
                        if built.launch.forms[0] != built.launch.forms[1] {
                            form = 1 - form;
                        }
                        is_dependent = timer.is_none() && shape.rows <= MAX_DEPENDENT_ROWS;
                        if let Some(timer) = &mut timer {
                            timer.end(device, built.cost.clone(), rows)?;
                        }
                    }
                }
            }
        }
        Ok(())
    }
}

impl Timer {
    /// Takes the time after a launch.
    fn end(&mut self, device: &Arc<Device>, cost: Cost, rows: usize) -> Result<(), Error> {
        let end = device.event()?;
        end.record()?;
        self.launches.push((end, cost, rows));
        Ok(())
    }

    fn add(self, model: &Model, step: &Step) -> Result<(), Error> {
        let mut start = &self.start;
        let mut state = lock(&model.state);
        for (end, cost, rows) in &self.launches {
            state.add_timing(cost.what.clone(), start.seconds_to(end)?, cost.of(step, *rows));
            start = end;
        }
        Ok(())
    }
}

impl Drop for CudaProgram {
    fn drop(&mut self) {
        lock(&self.built.model.state).activations -= self.bytes;
    }
}
