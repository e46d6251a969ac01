//! The backend with sanitized steps, with lower device limits, and with failing devices.

mod faults;
pub(crate) mod guard;
mod limits;
mod sanitized;
pub(crate) mod sanitizer;

use std::sync::{Arc, OnceLock};

use backend::Backend;
use backend_reference::Reference;

use crate::device::{Adapter, Device, Settings};
use crate::{Gpu, adapters};

/// The device to test on. None is a failure if `RUSTORCH_REQUIRE_GPU` is set.
fn adapter() -> Option<Adapter> {
    let found = adapters().into_iter().next();
    if found.is_none() {
        assert!(std::env::var_os("RUSTORCH_REQUIRE_GPU").is_none(), "no Vulkan or Metal device");
        eprintln!("skipped: no Vulkan or Metal device");
    }
    found
}

/// A device shared by tests, so that each kernel is compiled once.
type Shared = OnceLock<Option<Arc<Device>>>;

fn shared(device: &Shared, settings: impl Fn() -> Settings) -> Option<Gpu> {
    let open = || Some(Arc::new(Device::open(&adapter()?, &settings()).expect("a device that opens")));
    device.get_or_init(open).clone().map(Gpu::on)
}

/// The backend under test. Without a device it is the reference, so that tests pass.
fn candidate(device: &Shared, settings: impl Fn() -> Settings) -> Box<dyn Backend> {
    match shared(device, settings) {
        Some(gpu) => Box::new(gpu),
        None => Box::new(Reference::new()),
    }
}
