//! The reference backend as a device.

use std::sync::Arc;

use backend::{Backend, Device, DeviceInfo, DeviceKind, Driver, Error, OpenOptions, host_memory};

use crate::{Reference, describe};

/// The driver of the reference backend, which is always available.
#[derive(Clone, Copy, Debug, Default)]
pub struct ReferenceDriver;

impl Driver for ReferenceDriver {
    fn backends(&self) -> &'static [&'static str] {
        &["reference"]
    }

    fn is_host(&self) -> bool {
        true
    }

    fn find(&self) -> Vec<Arc<dyn Device>> {
        vec![Arc::new(ReferenceDevice)]
    }
}

struct ReferenceDevice;

impl Device for ReferenceDevice {
    fn info(&self) -> DeviceInfo {
        DeviceInfo {
            backend: "reference",
            name: describe().device,
            kind: DeviceKind::Reference,
            address: None,
            memory: host_memory(),
            instruction_sets: Vec::new(),
        }
    }

    fn facts(&self, _: &OpenOptions) -> Vec<(&'static str, String)> {
        describe().facts
    }

    fn open(&self, options: &OpenOptions) -> Result<Box<dyn Backend>, Error> {
        Ok(Box::new(Reference { memory_limit: options.memory, member: None }))
    }
}
