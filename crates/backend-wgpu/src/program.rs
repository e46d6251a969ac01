//! A program on the device: pipelines and bind groups are created once; a step only encodes and submits.

use std::sync::Arc;

use backend::{BoundProgram, Error, Outputs, Pending, Program, Step, Ticket, Transfer, lock};
use bytemuck::Pod;
use gpu::{BufferId, Cost, Each, F32, Grid, Readback, StepShape, Variant, Work};

use crate::compile::{Blueprint, CANARY, LaunchPlan};
use crate::device::{Buffer, Device, allocated_size};
use crate::model::Model;
use crate::timer::Timer;

pub(crate) struct GpuProgram {
    model: Arc<Model>,
    /// Without its launch plans: `work` has them, with pipelines and bind groups.
    blueprint: Blueprint,
    work: Vec<Work<Launch>>,
    buffers: Vec<Buffer>,
    /// Buffers of full size for input rows, so that steps do not allocate.
    rows: Vec<Vec<f32>>,
    chosen: Vec<u32>,
    bytes: u64,
    pending: Pending,
    /// Shape of the last submitted step.
    shape: StepShape,
    timer: Option<(Timer, Step)>,
    /// Shape that `commands` were recorded for.
    commands_shape: StepShape,
    commands: Option<wgpu::CommandBuffer>,
    #[cfg(test)]
    sanitizer: crate::tests::sanitizer::Sanitizer,
}

struct Launch {
    pipeline: wgpu::ComputePipeline,
    group: wgpu::BindGroup,
    grid: Grid,
    cost: Cost,
    /// Held so that its memory stays counted.
    _params: Buffer,
}

impl GpuProgram {
    /// Allocates the buffers of `blueprint`, and builds its pipelines.
    pub(crate) fn new(model: Arc<Model>, mut blueprint: Blueprint) -> Result<GpuProgram, Error> {
        let device = &*model.device;
        let bytes = blueprint.bytes();
        let mut buffers = Vec::new();
        for plan in &blueprint.common.buffers {
            let buffer = device.buffer(plan.purpose, plan.bytes)?;
            if !plan.words.is_empty() {
                device.queue.write_buffer(&buffer, 0, bytemuck::cast_slice(&plan.words));
            }
            buffers.push(buffer);
        }
        #[cfg(test)]
        let sanitizer = crate::tests::sanitizer::Sanitizer::new(&blueprint, &buffers, &model);
        let (mut work, mut rows) = (Vec::new(), Vec::new());
        for next in std::mem::take(&mut blueprint.common.work) {
            if let Work::Input(input) = &next {
                let bytes = allocated_size(blueprint.common.buffers[input.buffer].bytes);
                rows.push(vec![CANARY; bytes as usize / F32]);
            }
            let inputs = &buffers[blueprint.uploaded];
            work.push(next.build(|plan| build_launch(&model, &buffers, inputs, plan))?);
        }
        device.check()?;
        lock(&model.state).activations += bytes;
        Ok(GpuProgram {
            model,
            blueprint,
            work,
            buffers,
            rows,
            chosen: Vec::new(),
            bytes,
            pending: Pending::default(),
            shape: StepShape::default(),
            timer: None,
            commands_shape: StepShape::default(),
            commands: None,
            #[cfg(test)]
            sanitizer,
        })
    }
}

fn build_launch(model: &Model, own: &[Buffer], inputs: &Buffer, plan: LaunchPlan) -> Result<Launch, Error> {
    let LaunchPlan { kernel, params, buffers, grid, cost } = plan;
    let device = &*model.device;
    let params = device.params(&params)?;
    let bound = buffers.iter().map(|&id| match id {
        BufferId::Own(index) => &own[index],
        BufferId::Weight(weight, shard) => {
            &model.matrices[weight.index()].as_ref().expect("weights of matmuls are matrices").buffers[shard]
        }
        BufferId::Store(store, which) => &model.stores[store.index()][which],
        BufferId::State(id) => model.states[id.index()].as_ref().expect("recurrent operations have states"),
    });
    let all = [&params, inputs].into_iter().chain(bound);
    let entries = (0..).zip(all).map(|(binding, buffer)| {
        let resource = buffer.as_entire_binding();
        wgpu::BindGroupEntry { binding, resource }
    });
    let entries: Vec<_> = entries.collect();
    let (pipeline, layout) = device.pipeline(&kernel, entries.len());
    let group = device.device.create_bind_group(&wgpu::BindGroupDescriptor {
        label: Some(kernel.file()),
        layout: &layout,
        entries: &entries,
    });
    Ok(Launch { pipeline, group, grid, cost, _params: params })
}

impl Program for GpuProgram {
    fn submit(&mut self, step: &Step) -> Result<Ticket, Error> {
        let Blueprint { common, uploaded, tokens, .. } = &mut self.blueprint;
        common.bound.check(step)?;
        step.check_features(self.model.device.describe().name, &[])?;
        let model = self.model.clone();
        let device = &*model.device;
        device.check()?;
        model.upload(|_| {})?;
        let transfer = match step.transfer_undrawn() {
            Transfer::Tokens if tokens.is_some() => Transfer::Tokens,
            _ => Transfer::Logits,
        };
        self.shape = StepShape::new(step, transfer);
        let words = common.inputs.fill(step, &mut self.shape)?;
        device.queue.write_buffer(&self.buffers[*uploaded], 0, bytes(&common.inputs.words[..words]));
        #[cfg(test)]
        self.sanitizer.before(device, step);
        self.upload_input(step);
        let mut timer = Timer::new(device)?;
        let commands = match self.commands.take() {
            Some(commands) if self.commands_shape == self.shape && timer.is_none() => commands,
            _ => self.encode(timer.as_mut()),
        };
        self.timer = timer.map(|timer| (timer, step.clone()));
        device.queue.submit([commands]);
        Ok(self.pending.begin(step))
    }

    fn wait(&mut self, ticket: Ticket) -> Result<Outputs<'_>, Error> {
        if self.timer.is_none() && self.commands.is_none() {
            // The next step probably has the same shape: encode it while the device is busy.
            self.commands = Some(self.encode(None));
            self.commands_shape.clone_from(&self.shape);
        }
        #[cfg(test)]
        {
            let f16_rows = self.f16_rows();
            self.sanitizer.after(&self.model.device, &self.blueprint.common.bound, &self.shape, f16_rows);
        }
        let GpuProgram { model, blueprint, chosen, pending, shape, timer, .. } = self;
        let Blueprint { common: gpu::Blueprint { bound, readbacks, .. }, staging, .. } = blueprint;
        let output_rows = pending.end(ticket)?;
        fetch(&model.device, &self.buffers[*staging], bound, shape, readbacks, chosen)?;
        if let Some((timer, step)) = timer.take() {
            timer.add(&model.device, &step, &mut lock(&model.state))?;
        }
        Ok(gpu::outputs(readbacks, bound, shape, output_rows, chosen))
    }

    fn read(&self, name: &str) -> Result<&[f32], Error> {
        let gpu::Blueprint { bound, readbacks, .. } = &self.blueprint.common;
        gpu::read(readbacks, bound, &self.shape, name)
    }
}

impl GpuProgram {
    fn upload_input(&mut self, step: &Step) {
        let inputs = self.work.iter().filter_map(|work| match work {
            Work::Input(input) => Some(input),
            Work::Dispatch { .. } | Work::Readback(_) | Work::AllReduce { .. } => None,
        });
        for (input, rows) in inputs.zip(&mut self.rows) {
            input.copy(step.hidden(), rows);
            let used = rows.len().min(step.rows().len() * input.stride);
            self.model.device.queue.write_buffer(&self.buffers[input.buffer], 0, bytes(&rows[..used]));
        }
    }

    /// Encodes a step of the current shape. The commands do not depend on tokens or positions.
    fn encode(&self, mut timer: Option<&mut Timer>) -> wgpu::CommandBuffer {
        let Blueprint { common: gpu::Blueprint { bound, readbacks, .. }, tokens, staging, .. } =
            &self.blueprint;
        let (device, shape, staging) = (&*self.model.device, &self.shape, &self.buffers[*staging]);
        let mut encoder = device.device.create_command_encoder(&Default::default());
        let mut work = self.work.iter().peekable();
        while let Some(next) = work.peek() {
            if let Work::Readback(index) = next {
                let readback = &readbacks[*index];
                let buffer = &self.buffers[readback.slot];
                let values = readback.rows(bound, shape) * readback.stride;
                let bytes = ((values * F32) as u64).min(buffer.size());
                if bytes > 0 {
                    encoder.copy_buffer_to_buffer(buffer, 0, staging, (readback.at * F32) as u64, bytes);
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
                for launch in &self.variant(variants, rows).launches {
                    dispatch(device, &mut pass, launch, rows, shape);
                    if let Some(timer) = &mut timer {
                        timer.end(&mut pass, &launch.cost, rows);
                    }
                }
            }
        }
        if let Some(tokens) = tokens.filter(|_| shape.transfer == Transfer::Tokens) {
            let bytes = (shape.chosen() * size_of::<u32>()) as u64;
            encoder.copy_buffer_to_buffer(&self.buffers[tokens], 0, staging, 0, bytes);
        }
        if let Some(timer) = timer {
            timer.resolve(&mut encoder);
        }
        encoder.finish()
    }

    fn variant<'a>(&self, variants: &'a [Variant<Launch>], rows: usize) -> &'a Variant<Launch> {
        Variant::choose(variants, rows, &self.shape, |weight| self.model.fits_f16(weight))
    }

    /// Rows that the last step converted to f16, and the size of its largest conversion in values.
    #[cfg(test)]
    fn f16_rows(&self) -> [usize; 2] {
        let (mut most, mut values) = (0, 0);
        for work in &self.work {
            let Work::Dispatch { rows, variants } = work else { continue };
            let rows = self.shape.rows(*rows);
            if rows == 0 {
                continue;
            }
            if let Some(&weight) = self.variant(variants, rows).when.f16_weights.first() {
                most = most.max(rows);
                values = values.max(rows * self.model.plan.matrix(weight).cols);
            }
        }
        [most, values]
    }
}

fn dispatch(
    device: &Device,
    pass: &mut wgpu::ComputePass<'_>,
    launch: &Launch,
    rows: usize,
    shape: &StepShape,
) {
    pass.set_pipeline(&launch.pipeline);
    pass.set_bind_group(0, &launch.group, &[]);
    #[cfg(test)]
    if let Some(guard) = &device.guard {
        pass.set_bind_group(1, &guard.group, &[]);
    }
    let Grid { groups, each } = launch.grid;
    let most = device.limits.max_compute_workgroups_per_dimension as usize;
    let across = [groups.min(most), groups.div_ceil(most)];
    let [units, splits] = launch.grid.units(rows, shape);
    let [x, y] = if let Each::Part(_) = each { [groups, splits] } else { across };
    let z = units;
    pass.dispatch_workgroups(x as u32, y as u32, z as u32);
}

/// Waits for the step, then copies values and chosen tokens out of the staging buffer.
fn fetch(
    device: &Device,
    staging: &Buffer,
    bound: &BoundProgram,
    shape: &StepShape,
    readbacks: &mut [Readback],
    chosen: &mut Vec<u32>,
) -> Result<(), Error> {
    chosen.clear();
    let tokens = shape.chosen();
    let end = |readback: &Readback| match readback.rows(bound, shape) {
        0 => 0,
        rows => readback.at + rows * readback.stride,
    };
    let last = readbacks.iter().map(end).fold(tokens, usize::max);
    if last == 0 {
        readbacks.iter_mut().for_each(|readback| readback.take(bound, shape, &[]));
        return device.wait();
    }
    device.read(staging, (last * F32) as u64, |bytes| {
        let all: &[f32] = bytemuck::cast_slice(bytes);
        chosen.extend(all[..tokens].iter().map(|token| token.to_bits()));
        readbacks.iter_mut().for_each(|readback| readback.take(bound, shape, all));
    })
}

impl Drop for GpuProgram {
    fn drop(&mut self) {
        lock(&self.model.state).activations -= self.bytes;
    }
}

fn bytes<T: Pod>(words: &[T]) -> &[u8] {
    bytemuck::cast_slice(words)
}
