//! Whole models on this machine's device: a GPU, or Mesa's software Vulkan. Single operations are tested inside the
//! crate, where device limits can be lowered.
//!
//! Without a device the tests are skipped, unless `RUSTORCH_REQUIRE_GPU` is set.

mod whole_model;

use backend::Backend;
use backend_wgpu::{Adapter, Gpu};

/// The device to test on.
fn adapter() -> Option<Adapter> {
    let found = backend_wgpu::adapters().into_iter().next();
    if found.is_none() {
        assert!(std::env::var_os("RUSTORCH_REQUIRE_GPU").is_none(), "no Vulkan or Metal device");
        eprintln!("skipped: no Vulkan or Metal device");
    }
    found
}

fn gpu(adapter: &Adapter) -> Box<dyn Backend> {
    Box::new(Gpu::new(adapter).expect("a device that opens"))
}
