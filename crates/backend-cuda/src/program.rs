//! A program on a card: launches are built once; a step uploads its inputs and replays a recorded graph. Two steps can be in
//! progress, so that the card computes the next one while the host reads the outputs of the one before.

use std::sync::Arc;

use backend::{Error, Outputs, Pending, Program, Step, Ticket, Transfer};
use graph::{Index, Op};
use passes::{Cost, StepShape, Variant, chosen_words, tiles};

use crate::compile::Blueprint;
use crate::driver::{Buffer, Device, Event, Launch, PLACES, Pinned, Recording, TENSOR_MAP_BYTES, lock};
use crate::launch::{BufferId, F32, Grid, LaunchPlan, Work};
use crate::model::Model;
use crate::occupancy::Block;

/// Recorded graphs that a program holds: steps alternate between few shapes, and between the places of steps in progress.
const MAX_RECORDINGS: usize = 8 * PLACES;

/// Steps of more rows do not launch kernels before the one before has ended: early blocks would crowd the multiprocessors
/// that are free first.
const MAX_DEPENDENT_ROWS: usize = 128;

pub(crate) struct CudaProgram {
    model: Arc<Model>,
    /// Its launch plans have moved to `work`.
    blueprint: Blueprint,
    work: Vec<Work<Built>>,
    buffers: Vec<Buffer>,
    /// Input rows that the device reads, and values that it writes. A step that uses them is the only one in progress.
    rows: Vec<Pinned>,
    staging: Pinned,
    chosen: Vec<u32>,
    bytes: u64,
    pending: Pending<PLACES>,
    places: [Place; PLACES],
    /// Shapes of the last submitted step, and of the last one that was waited for.
    shape: StepShape,
    read: StepShape,
    timer: Option<(Timer, Step)>,
    /// Graphs by place and shape, the last used at the end.
    recordings: Vec<(usize, StepShape, Recording)>,
}

/// The buffers of a step in progress ([`Pending::place_of`]).
struct Place {
    /// Step inputs that the device copies, and the end of the copy.
    inputs: Pinned,
    copied: Event,
    shape: StepShape,
    /// The end of what computes, and that of the copy of chosen tokens or candidates.
    computed: Event,
    chosen: Pinned,
    ended: Event,
}

struct Built {
    launch: Launch,
    grid: Grid,
    cost: Cost,
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
        let bytes = blueprint.bytes();
        let mut buffers = Vec::new();
        for plan in &blueprint.buffers {
            let buffer = device.buffer(plan.purpose, plan.bytes)?;
            if !plan.words.is_empty() {
                device.write(&buffer, 0, bytemuck::cast_slice(&plan.words))?;
            }
            buffers.push(buffer);
        }
        let place = || {
            let inputs = device.pinned(blueprint.inputs.words.len())?;
            let chosen =
                device.pinned(blueprint.bound.bucket().outputs * chosen_words(Transfer::Candidates))?;
            let [copied, computed, ended] = [device.mark()?, device.mark()?, device.mark()?];
            Ok::<_, Error>(Place { inputs, copied, shape: StepShape::default(), computed, chosen, ended })
        };
        let places = [place()?, place()?];
        let of_places = [0, 1].map(|place| OfPlace {
            inputs: buffers[blueprint.uploaded[place]].address(),
            chosen: buffers[blueprint.chosen[place]].address(),
            before: buffers[blueprint.chosen[(place + PLACES - 1) % PLACES]].address(),
        });
        let build = |plan| build(&model, &buffers, &of_places, plan);
        let (mut work, mut rows) = (Vec::new(), Vec::new());
        for next in std::mem::take(&mut blueprint.work) {
            work.push(match next {
                Work::Dispatch { rows, variants } => {
                    let variants = variants.into_iter().map(|variant| variant.build(build));
                    Work::Dispatch { rows, variants: variants.collect::<Result<_, Error>>()? }
                }
                Work::Input { buffer, col, cols, stride } => {
                    rows.push(device.pinned(blueprint.buffers[buffer].bytes as usize / 4)?);
                    Work::Input { buffer, col, cols, stride }
                }
                Work::Readback(index) => Work::Readback(index),
                Work::AllReduce { rows, buffer, cols } => Work::AllReduce { rows, buffer, cols },
            });
        }
        let staging = device.pinned(blueprint.staged)?;
        device.wait()?;
        lock(&model.state).activations += bytes;
        Ok(CudaProgram {
            model,
            blueprint,
            work,
            buffers,
            rows,
            staging,
            chosen: Vec::new(),
            bytes,
            pending: Pending::default(),
            places,
            shape: StepShape::default(),
            read: StepShape::default(),
            timer: None,
            recordings: Vec::new(),
        })
    }
}

/// Addresses of what steps of a place have for themselves.
struct OfPlace {
    inputs: u64,
    chosen: u64,
    before: u64,
}

/// Finds the kernel of a launch, and writes its arguments.
fn build(
    model: &Model,
    own: &[Buffer],
    places: &[OfPlace; PLACES],
    plan: LaunchPlan,
) -> Result<Built, Error> {
    let LaunchPlan { kernel, buffers, words, grid, threads, shared, shared_of_warp, cluster, cost } = plan;
    let address = |id: BufferId, place: &OfPlace| match id {
        BufferId::Own(index) => own[index].address(),
        BufferId::Inputs => place.inputs,
        BufferId::Chosen => place.chosen,
        BufferId::ChosenBefore => place.before,
        BufferId::Weight(weight) => {
            let matrix = model.matrices[weight.index()].as_ref();
            matrix.expect("weights of matmuls are matrices").buffer.address()
        }
        BufferId::Store(store, which) => model.stores[store.index()][which].address(),
        BufferId::TensorMaps(store) => {
            model.tensor_maps.address() + (store.index() * 2 * TENSOR_MAP_BYTES) as u64
        }
        BufferId::State(id) => {
            model.states[id.index()].as_ref().expect("recurrent operations have states").address()
        }
    };
    let args = places.each_ref().map(|place| {
        let addresses = buffers.iter().map(|id| id.map_or(0, |id| address(id, place)));
        let words = words
            .chunks(2)
            .map(|pair| u64::from(pair[0]) | u64::from(pair.get(1).copied().unwrap_or_default()) << 32);
        [place.inputs].into_iter().chain(addresses).chain(words).collect()
    });
    let kernel = model.device.kernel(&kernel)?;
    let forms = match shared_of_warp {
        0 => [Block { threads, shared: shared as u32 }; 2],
        of_warp => model.device.limits.forms(kernel.needs, shared, of_warp),
    };
    let cluster = cluster.size(|size| model.device.active_clusters(kernel, forms[0], size)) as u32;
    Ok(Built { launch: Launch { kernel, args, forms, cluster }, grid, cost })
}

impl Program for CudaProgram {
    fn submit(&mut self, step: &Step) -> Result<Ticket, Error> {
        let on_device = if self.shape.transfer.are_tokens() { self.shape.outputs } else { 0 };
        self.blueprint.bound.check_after(step, on_device)?;
        step.check_features("cuda", &[])?;
        let model = self.model.clone();
        model.upload(|_| {})?;
        let number = self.pending.next_place();
        // A step that follows none has the card's other buffers for itself, too.
        let is_alone = !step.is_ahead();
        let mut before = self.places.iter().enumerate().filter(|(place, _)| is_alone || *place == number);
        before.try_for_each(|(_, place)| place.ended.wait())?;
        let Blueprint { inputs, uploaded, chosen: of_places, chooses, .. } = &mut self.blueprint;
        let mut shape = StepShape {
            rows: step.rows().len(),
            outputs: step.outputs().len(),
            sequences: step.sequences().len(),
            tiles: tiles(step.sequences().iter().map(|sequence| sequence.len)),
            is_decode: step.sequences().iter().all(|sequence| sequence.len == 1),
            transfer: if *chooses { inputs.transfer(step) } else { Transfer::Logits },
            ..StepShape::default()
        };
        let words = inputs.fill(step, &mut shape)?;
        let is_repeated = shape == self.shape;
        let place = &mut self.places[number];
        place.inputs.words_mut()[..words].copy_from_slice(&inputs.words[..words]);
        place.shape.clone_from(&shape);
        self.shape = shape;
        let (to, chosen_buffer) = (&self.buffers[uploaded[number]], of_places[number]);
        let uploaded = model.device.upload_beside(to, &place.inputs, words, &place.copied);
        let queued = uploaded.and_then(|()| self.start(step, number, is_repeated));
        // Also if it failed: the next step in this place waits for what is queued.
        let Place { chosen, computed, ended, .. } = &self.places[number];
        let (from, count) = (&self.buffers[chosen_buffer], self.shape.chosen());
        model.device.download_beside(chosen, from, count, computed, ended).and(queued)?;
        Ok(self.pending.begin(step))
    }

    fn can_follow(&self) -> bool {
        let Blueprint { bound, readbacks, .. } = &self.blueprint;
        let reads_nothing = readbacks.iter().all(|readback| readback.rows(bound, &self.shape) == 0);
        // `embed` takes the tokens.
        let takes = |op: &Op| matches!(op, Op::Embed { index: Index::Token, .. });
        let has_tokens = bound.graph().values().any(|(_, value)| takes(&value.op));
        self.shape.transfer.are_tokens() && has_tokens && reads_nothing && !self.model.device.is_timed
    }

    fn wait(&mut self, ticket: Ticket) -> Result<Outputs<'_>, Error> {
        let CudaProgram { model, blueprint, chosen, pending, places, read, timer, staging, .. } = self;
        let Blueprint { bound, readbacks, .. } = blueprint;
        let place = &places[pending.place_of(&ticket)];
        let output_rows = pending.end(ticket)?;
        place.ended.wait()?;
        read.clone_from(&place.shape);
        chosen.clear();
        chosen.extend(&place.chosen.words()[..read.chosen()]);
        let staged = bytemuck::cast_slice(staging.words());
        readbacks.iter_mut().for_each(|readback| readback.take(bound, read, staged));
        if let Some((timer, step)) = timer.take() {
            timer.add(model, &step)?;
        }
        Ok(passes::outputs(readbacks, bound, read, output_rows, chosen))
    }

    fn read(&self, name: &str) -> Result<&[f32], Error> {
        let Blueprint { bound, readbacks, .. } = &self.blueprint;
        passes::read(readbacks, bound, &self.read, name)
    }
}

impl CudaProgram {
    /// Queues a step, or replays one of its shape.
    fn start(&mut self, step: &Step, number: usize, is_repeated: bool) -> Result<(), Error> {
        let model = self.model.clone();
        self.upload_input(step)?;
        let recorded = |(place, shape, _): &(usize, StepShape, _)| *place == number && *shape == self.shape;
        if model.device.is_timed {
            let mut timer = Timer { start: model.device.event()?, launches: Vec::new() };
            timer.start.record()?;
            self.queue(number, Some(&mut timer))?;
            self.timer = Some((timer, step.clone()));
        } else if let Some(index) = self.recordings.iter().position(recorded) {
            let last = self.recordings.remove(index);
            model.device.replay(&last.2)?;
            self.recordings.push(last);
        } else if is_repeated {
            // The second step of a shape in a row: more will follow.
            let recording = model.device.record(|| self.queue(number, None))?;
            model.device.replay(&recording)?;
            if self.recordings.len() == MAX_RECORDINGS {
                self.recordings.remove(0);
            }
            self.recordings.push((number, self.shape.clone(), recording));
        } else {
            self.queue(number, None)?;
        }
        Ok(())
    }

    /// Uploads the input rows of a step.
    fn upload_input(&mut self, step: &Step) -> Result<(), Error> {
        let inputs = self.work.iter().filter_map(|work| match *work {
            Work::Input { buffer, col, cols, stride } => Some((buffer, col, cols, stride)),
            Work::Dispatch { .. } | Work::Readback(_) | Work::AllReduce { .. } => None,
        });
        for ((buffer, col, cols, stride), rows) in inputs.zip(&mut self.rows) {
            let words: &mut [f32] = bytemuck::cast_slice_mut(rows.words_mut());
            for (row, given) in words.chunks_mut(stride).zip(step.hidden().chunks_exact(cols)) {
                row[col..][..cols].copy_from_slice(given);
            }
            let used = words.len().min(step.rows().len() * stride);
            self.model.device.upload(&self.buffers[buffer], rows, used)?;
        }
        Ok(())
    }

    /// Queues a step of the current shape in a place. What is queued does not depend on tokens or positions.
    fn queue(&self, place: usize, mut timer: Option<&mut Timer>) -> Result<(), Error> {
        let Blueprint { bound, readbacks, .. } = &self.blueprint;
        let (device, shape): (&Arc<Device>, _) = (&self.model.device, &self.shape);
        // A launch after a copy or an event waits for it.
        let mut is_dependent = false;
        let mut form = 0;
        for work in &self.work {
            match work {
                Work::Input { .. } => {}
                Work::Readback(index) => {
                    let readback = &readbacks[*index];
                    let words = readback.rows(bound, shape) * readback.stride;
                    if words > 0 {
                        device.download(&self.staging, readback.at, &self.buffers[readback.slot], words)?;
                        is_dependent = false;
                    }
                }
                Work::AllReduce { rows, buffer, cols } => {
                    let rows = shape.rows(*rows);
                    device.all_reduce(&self.buffers[*buffer], rows * cols)?;
                    // It is no kernel of ours: the next one waits for its end.
                    is_dependent = false;
                    if let Some(timer) = timer.as_mut().filter(|_| rows > 0) {
                        let end = device.event()?;
                        end.record()?;
                        timer.launches.push((end, Cost::row("all_reduce", cols * F32 * 2), rows));
                    }
                }
                Work::Dispatch { rows, variants } => {
                    let rows = shape.rows(*rows);
                    if rows == 0 {
                        continue;
                    }
                    let fits_f16 = |weight| self.model.fits_f16(weight);
                    for built in &Variant::choose(variants, rows, shape, fits_f16).launches {
                        let grid = built.grid.blocks(rows, shape);
                        let cluster = built.grid.cluster(shape).unwrap_or(built.launch.cluster);
                        device.launch(&built.launch, place, grid, cluster, form, is_dependent)?;
                        if built.launch.forms[0] != built.launch.forms[1] {
                            form = 1 - form;
                        }
                        is_dependent = timer.is_none() && shape.rows <= MAX_DEPENDENT_ROWS;
                        if let Some(timer) = &mut timer {
                            let end = device.event()?;
                            end.record()?;
                            timer.launches.push((end, built.cost.clone(), rows));
                        }
                    }
                }
            }
        }
        Ok(())
    }
}

impl Timer {
    /// Adds the times of a finished step.
    fn add(self, model: &Model, step: &Step) -> Result<(), Error> {
        let mut start = &self.start;
        for (end, cost, rows) in &self.launches {
            model.add_timing(&cost.what, start.seconds_to(end)?, cost.of(step, *rows));
            start = end;
        }
        Ok(())
    }
}

impl Drop for CudaProgram {
    fn drop(&mut self) {
        lock(&self.model.state).activations -= self.bytes;
    }
}
