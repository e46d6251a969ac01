//! Memory of a device: what there is, and what a model takes.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

use backend::{Bound, Bucket, Error, KvLayout, Plain, Taps, Weight};
use bytes::Bytes;
use graph::{Graph, Op, Rows, WeightId};
use quant::Format;

use crate::compile::words_of_inputs;
use crate::device::Adapter;
use crate::formats::{Kept, Layout};
use crate::plan::{Pass, Plan, Slot};
use crate::program::bytes_of_parts;
use crate::weights::Matrix;

/// What the kernels of a pass are told takes fewer bytes: there are a dozen or fewer to choose from, with some hundred
/// each. A weight that lies in several buffers has as many for each of them, and few weights are so large: what other
/// passes leave over is more.
const SIZES: usize = 2 << 10;

/// Bytes of a device's memory, as far as its driver says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Room {
    /// All of it; of a device that shares the processor's memory, the part that it may use.
    pub total: Option<u64>,
    /// What this program may still take.
    pub free: Option<u64>,
}

/// Bytes that a graph takes on a device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Needs {
    /// Tables, weights of linear layers, and for each bucket norms and biases, as the device has them.
    pub weights: u64,
    /// Keys and values.
    pub kv: u64,
    /// Values of steps of all buckets, and what kernels are told.
    pub activations: u64,
}

impl Needs {
    /// What `graph` takes at most when its weights have these formats, its K/V cache so many pages, and it is compiled for
    /// `buckets` with these values to be read. Of a format without kernels, a matrix with numbers beyond F16 takes twice
    /// what is counted.
    ///
    /// # Errors
    /// When the graph contradicts itself.
    pub fn of(
        graph: &Graph,
        format_of: &dyn Fn(&str) -> Option<Format>,
        kv: Option<KvLayout>,
        buckets: &[Bucket],
        taps: Taps<'_>,
    ) -> Result<Needs, Error> {
        let mut weights = HashMap::new();
        for (_, weight) in graph.weights() {
            let format = format_of(&weight.name).unwrap_or(Format::F32);
            // Shapes and formats say it all; nobody reads the numbers, of which few are too large for F16.
            let (rows, cols, bytes) = (weight.rows, weight.cols, Bytes::new());
            weights.insert(weight.name.clone(), Weight { format, rows, cols, bytes });
        }
        let matrices: HashSet<WeightId> = graph.values().filter_map(|(_, value)| matrix(&value.op)).collect();
        let bytes_of = |(id, weight): (WeightId, &graph::Weight)| {
            let Weight { format, rows, cols, .. } = weights[&weight.name];
            let (kept, times) =
                if matrices.contains(&id) { (Kept::of(format), 1) } else { (Kept::F32, buckets.len()) };
            Layout::new(kept, rows, cols).bytes() as u64 * times as u64
        };
        let bytes = graph.weights().map(bytes_of).fold(0, u64::saturating_add);
        let mut activations = 0_u64;
        for &bucket in buckets {
            let bound = Bound::new(graph, &weights, kv, bucket, taps)?;
            activations = activations.saturating_add(values(&bound, kv));
        }
        Ok(Needs { weights: bytes, kv: kv.map_or(0, |kv| kv.bytes()), activations })
    }

    /// All of it.
    pub fn total(&self) -> u64 {
        self.weights.saturating_add(self.kv).saturating_add(self.activations)
    }
}

/// The table or weight of a linear layer.
fn matrix(op: &Op) -> Option<WeightId> {
    match *op {
        Op::Embed { table: id } | Op::Linear { weight: id, .. } => Some(id),
        _ => None,
    }
}

/// What the buffers of a compiled graph take: values, those that can be read once more, where they are read, inputs,
/// what attention and matrix units need beside, and sizes.
fn values(bound: &Bound, kv: Option<KvLayout>) -> u64 {
    let plan = Plan::new(bound, 0);
    let bucket = bound.bucket();
    let bytes = |slot: &Slot| {
        let rows = match slot.rows {
            Rows::Step => bucket.rows,
            Rows::Wanted => bucket.wanted,
        };
        (rows.max(1) * slot.cols * size_of::<f32>()) as u64
    };
    let made = plan.passes.iter().flat_map(Pass::makes).filter(|&id| bound.is_kept(id));
    let results = made.map(|id| bytes(&plan.slots[plan.place(id).slot]));
    let slots = plan.slots.iter().map(bytes).chain(results).fold(0, u64::saturating_add);
    let (mut parts, mut turned, mut narrow) = (0, 0, 0);
    for pass in &plan.passes {
        if let Some(attend) = pass.attention() {
            parts = parts.max(kv.map_or(0, |kv| bytes_of_parts(kv, bucket.rows, attend.heads)));
            turned = turned.max((bucket.rows * bound.value(attend.q).cols * size_of::<f32>()) as u64);
        }
        // As if every device had matrix units.
        if let Pass::Linear { x, .. } = pass {
            let row = bound.value(*x).cols * size_of::<half::f16>() + size_of::<f32>();
            narrow = narrow.max((bucket.rows * row) as u64);
        }
    }
    let rest = (words_of_inputs(bound, kv) * size_of::<u32>() + plan.passes.len() * SIZES) as u64;
    [parts, turned, narrow, rest].into_iter().fold(slots, u64::saturating_add)
}

/// The names of the formats that kernels read; weights of others become F16, or F32 where that has not all numbers.
pub fn formats() -> Vec<&'static str> {
    let is_itself = |format: &&Format| **format == Format::F16 || Kept::of(**format) != Kept::F16;
    Format::ALL.iter().filter(is_itself).map(|format| format.name()).collect()
}

/// Those of `matrices` that the device has in another format, by both formats.
pub(crate) fn plain<'a>(matrices: impl Iterator<Item = &'a Arc<Matrix>>) -> Vec<Plain> {
    let mut bytes = BTreeMap::new();
    for matrix in matrices {
        let (format, kept) = (matrix.weight().format, matrix.kept.format());
        if format != kept {
            *bytes.entry((format, kept)).or_insert(0) += matrix.bytes();
        }
    }
    bytes.into_iter().map(|((format, kept), bytes)| Plain { format, kept, bytes }).collect()
}

impl Adapter {
    /// The memory there is now.
    pub fn room(&self) -> Room {
        ask(&self.adapter).unwrap_or_default()
    }
}

/// What Vulkan says of the largest heap that is the device's own.
#[cfg(not(target_vendor = "apple"))]
#[expect(unsafe_code, reason = "wgpu does not ask")]
fn ask(adapter: &wgpu::Adapter) -> Option<Room> {
    use ash::{ext, vk};

    // SAFETY: what is borrowed is asked for properties, and neither changed nor destroyed.
    let adapter = unsafe { adapter.as_hal::<wgpu::hal::api::Vulkan>() }?;
    let (instance, about) = (adapter.shared_instance(), adapter.physical_device_capabilities());
    if instance.instance_api_version().min(about.properties().api_version) < vk::API_VERSION_1_1 {
        return None;
    }
    let has_budget = about.supports_extension(ext::memory_budget::NAME);
    let mut budget = vk::PhysicalDeviceMemoryBudgetPropertiesEXT::default();
    let mut properties = vk::PhysicalDeviceMemoryProperties2::default();
    if has_budget {
        properties = properties.push_next(&mut budget);
    }
    let (raw, device) = (instance.raw_instance(), adapter.raw_physical_device());
    // SAFETY: the device is the instance's, both live as long as `adapter`, and both have Vulkan 1.1, which has the
    // function; what is chained is of an extension that the device has.
    unsafe { raw.get_physical_device_memory_properties2(device, &mut properties) };
    let memory = properties.memory_properties;
    let heaps = memory.memory_heaps.iter().take(memory.memory_heap_count as usize).enumerate();
    let own = heaps.filter(|(_, heap)| heap.flags.contains(vk::MemoryHeapFlags::DEVICE_LOCAL));
    let (number, heap) = own.max_by_key(|(_, heap)| heap.size)?;
    let free = budget.heap_budget[number].saturating_sub(budget.heap_usage[number]);
    Some(Room { total: Some(heap.size), free: has_budget.then_some(free) })
}

/// What Metal recommends not to go beyond.
#[cfg(target_vendor = "apple")]
#[expect(unsafe_code, reason = "wgpu does not ask")]
fn ask(adapter: &wgpu::Adapter) -> Option<Room> {
    use objc2_metal::MTLDevice;

    // SAFETY: what is borrowed is asked for properties, and neither changed nor destroyed.
    let adapter = unsafe { adapter.as_hal::<wgpu::hal::api::Metal>() }?;
    let device = adapter.raw_device();
    let total = device.recommendedMaxWorkingSetSize();
    let free = total.saturating_sub(device.currentAllocatedSize() as u64);
    Some(Room { total: Some(total), free: Some(free) })
}
