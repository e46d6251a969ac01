//! Times each launch of a step with device timestamps.

use backend::{Error, Step};
use gpu::{Cost, Purpose, State};

use crate::device::{Buffer, Device};

/// Timestamps per step: the size limit of a query set.
const MAX_TIMESTAMPS: u32 = wgpu::QUERY_SET_MAX_QUERIES;

pub(crate) struct Timer {
    queries: wgpu::QuerySet,
    resolved: Buffer,
    staging: Buffer,
    written: u32,
    /// Index of the end timestamp, cost and rows of each launch; it starts at the timestamp before.
    launches: Vec<(u32, Cost, usize)>,
}

impl Timer {
    /// `None` if timing is off or unsupported.
    pub(crate) fn new(device: &Device) -> Result<Option<Timer>, Error> {
        if !device.is_timed {
            return Ok(None);
        }
        let queries = device.device.create_query_set(&wgpu::QuerySetDescriptor {
            label: Some("times"),
            ty: wgpu::QueryType::Timestamp,
            count: MAX_TIMESTAMPS,
        });
        let bytes = u64::from(MAX_TIMESTAMPS) * size_of::<u64>() as u64;
        let resolved = device.buffer(Purpose::Times, bytes)?;
        let usage = wgpu::BufferUsages::MAP_READ | wgpu::BufferUsages::COPY_DST;
        let staging = device.buffer_with(Purpose::Times, bytes, usage)?;
        Ok(Some(Timer { queries, resolved, staging, written: 0, launches: Vec::new() }))
    }

    /// Takes a timestamp at the start of a pass.
    pub(crate) fn begin(&mut self, pass: &mut wgpu::ComputePass<'_>) {
        if self.written < MAX_TIMESTAMPS {
            pass.write_timestamp(&self.queries, self.written);
            self.written += 1;
        }
    }

    /// Takes a timestamp after a launch.
    pub(crate) fn end(&mut self, pass: &mut wgpu::ComputePass<'_>, cost: &Cost, rows: usize) {
        if self.written < MAX_TIMESTAMPS {
            pass.write_timestamp(&self.queries, self.written);
            self.launches.push((self.written, cost.clone(), rows));
            self.written += 1;
        }
    }

    pub(crate) fn resolve(&self, encoder: &mut wgpu::CommandEncoder) {
        encoder.resolve_query_set(&self.queries, 0..self.written, &self.resolved, 0);
        encoder.copy_buffer_to_buffer(&self.resolved, 0, &self.staging, 0, self.resolved.size());
    }

    /// Waits for the step and adds its times to those of `state`.
    pub(crate) fn add(self, device: &Device, step: &Step, state: &mut State) -> Result<(), Error> {
        let bytes = u64::from(self.written) * size_of::<u64>() as u64;
        let times: Vec<u64> = device.read(&self.staging, bytes, bytemuck::pod_collect_to_vec)?;
        let period = f64::from(device.queue.get_timestamp_period()) * 1e-9;
        for (at, cost, rows) in self.launches {
            let (bytes, multiply_adds) = cost.of(step, rows);
            let ticks = times[at as usize].saturating_sub(times[at as usize - 1]);
            state.add_timing(cost.what, ticks as f64 * period, (bytes, multiply_adds));
        }
        Ok(())
    }
}
