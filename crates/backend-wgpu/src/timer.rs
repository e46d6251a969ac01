//! How long each launch of a step takes, by the device's clock.

use backend::{Error, Step, Timing};

use crate::device::{Buffer, Device, Purpose};
use crate::launch::Cost;

/// Times that a step can take: what wgpu allows in a query set.
const MOST: u32 = wgpu::QUERY_SET_MAX_QUERIES;

/// Takes the times of one step.
pub(crate) struct Timer {
    queries: wgpu::QuerySet,
    resolved: Buffer,
    staging: Buffer,
    taken: u32,
    /// Up to which time since the one before what was done, for so many rows.
    launches: Vec<(u32, Cost, usize)>,
}

impl Timer {
    /// None, when the device takes no times.
    pub(crate) fn new(device: &Device) -> Result<Option<Timer>, Error> {
        if !device.is_timed {
            return Ok(None);
        }
        let queries = device.device.create_query_set(&wgpu::QuerySetDescriptor {
            label: Some("times"),
            ty: wgpu::QueryType::Timestamp,
            count: MOST,
        });
        let bytes = u64::from(MOST) * size_of::<u64>() as u64;
        let usage = wgpu::BufferUsages::QUERY_RESOLVE | wgpu::BufferUsages::COPY_SRC;
        let resolved = device.buffer(Purpose::Times, bytes, usage)?;
        let usage = wgpu::BufferUsages::MAP_READ | wgpu::BufferUsages::COPY_DST;
        let staging = device.buffer(Purpose::Times, bytes, usage)?;
        Ok(Some(Timer { queries, resolved, staging, taken: 0, launches: Vec::new() }))
    }

    /// At the beginning of a pass.
    pub(crate) fn begin(&mut self, pass: &mut wgpu::ComputePass<'_>) {
        if self.taken < MOST {
            pass.write_timestamp(&self.queries, self.taken);
            self.taken += 1;
        }
    }

    /// After a launch.
    pub(crate) fn end(&mut self, pass: &mut wgpu::ComputePass<'_>, cost: &Cost, rows: usize) {
        if self.taken < MOST {
            pass.write_timestamp(&self.queries, self.taken);
            self.launches.push((self.taken, cost.clone(), rows));
            self.taken += 1;
        }
    }

    pub(crate) fn resolve(&self, encoder: &mut wgpu::CommandEncoder) {
        encoder.resolve_query_set(&self.queries, 0..self.taken, &self.resolved, 0);
        encoder.copy_buffer_to_buffer(&self.resolved, 0, &self.staging, 0, self.resolved.size());
    }

    /// Adds what was taken, when the step is done.
    pub(crate) fn add(self, device: &Device, step: &Step, timings: &mut Vec<Timing>) -> Result<(), Error> {
        let bytes = u64::from(self.taken) * size_of::<u64>() as u64;
        let times: Vec<u64> = device.read(&self.staging, bytes, bytemuck::pod_collect_to_vec)?;
        let period = f64::from(device.queue.get_timestamp_period()) * 1e-9;
        for (at, cost, rows) in self.launches {
            let (bytes, multiply_adds) = cost.of(step, rows);
            let what = cost.what;
            let ticks = times[at as usize].saturating_sub(times[at as usize - 1]);
            let known = timings.iter().position(|timing| timing.what == what);
            let timing = match known {
                Some(known) => &mut timings[known],
                None => {
                    timings.push(Timing { what, calls: 0, seconds: 0.0, bytes: 0, multiply_adds: 0 });
                    timings.last_mut().expect("one was pushed")
                }
            };
            timing.calls += 1;
            timing.seconds += ticks as f64 * period;
            timing.bytes += bytes;
            timing.multiply_adds += multiply_adds;
        }
        Ok(())
    }
}
