//! Total and free device memory, as reported by the driver.

use backend::DeviceMemory;

use crate::device::Adapter;

impl Adapter {
    pub(crate) fn memory(&self) -> DeviceMemory {
        ask(&self.adapter).unwrap_or_default()
    }
}

/// The largest device-local heap, according to Vulkan.
#[cfg(not(target_vendor = "apple"))]
#[expect(unsafe_code, reason = "wgpu does not report memory")]
fn ask(adapter: &wgpu::Adapter) -> Option<DeviceMemory> {
    use ash::{ext, vk};

    // SAFETY: the handle is only queried for properties.
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
    // SAFETY: `device` belongs to `instance`, and both outlive the call. Both support Vulkan 1.1, which has this
    // function. The chained struct belongs to an extension that the device supports.
    unsafe { raw.get_physical_device_memory_properties2(device, &mut properties) };
    let memory = properties.memory_properties;
    let heaps = memory.memory_heaps.iter().take(memory.memory_heap_count as usize).enumerate();
    let own = heaps.filter(|(_, heap)| heap.flags.contains(vk::MemoryHeapFlags::DEVICE_LOCAL));
    let (index, heap) = own.max_by_key(|(_, heap)| heap.size)?;
    let free = budget.heap_budget[index].saturating_sub(budget.heap_usage[index]);
    Some(DeviceMemory { total: Some(heap.size), free: has_budget.then_some(free) })
}

/// Metal's recommended working set.
#[cfg(target_vendor = "apple")]
#[expect(unsafe_code, reason = "wgpu does not report memory")]
fn ask(adapter: &wgpu::Adapter) -> Option<DeviceMemory> {
    use objc2_metal::MTLDevice;

    // SAFETY: the handle is only queried for properties.
    let adapter = unsafe { adapter.as_hal::<wgpu::hal::api::Metal>() }?;
    let device = adapter.raw_device();
    let total = device.recommendedMaxWorkingSetSize();
    let free = total.saturating_sub(device.currentAllocatedSize() as u64);
    Some(DeviceMemory { total: Some(total), free: Some(free) })
}
