//! Whole models on the device there is: a real one, or Mesa's that computes on the processor. Single operations are
//! tested inside the crate, where devices can be made less than they are.
//!
//! Without any the tests say so and pass, unless `RUSTORCH_REQUIRE_GPU` is set.

mod exact;
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
