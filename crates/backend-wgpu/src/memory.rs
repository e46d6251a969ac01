//! Memory of a device, as far as its driver says.

use quant::Format;

use crate::device::Adapter;
use crate::formats::DeviceFormat;

/// Bytes of a device's memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Room {
    /// All of it; of a device that shares the processor's memory, the part that it may use.
    pub total: Option<u64>,
    /// What this program may still take.
    pub free: Option<u64>,
}

/// The names of the formats that kernels read; weights of others become F16, or F32 where that has not all numbers.
pub fn formats() -> Vec<&'static str> {
    let is_itself =
        |format: &&Format| **format == Format::F16 || DeviceFormat::of(**format) != DeviceFormat::F16;
    Format::ALL.iter().filter(is_itself).map(|format| format.name()).collect()
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
