//! The reference backend as a device.

use std::sync::Arc;

use backend::{Backend, Device, DeviceInfo, DeviceKind, DeviceMemory, Driver, Error, OpenOptions};

use crate::Reference;

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
            name: Reference.describe().device,
            kind: DeviceKind::Reference,
            address: None,
            memory: DeviceMemory::default(),
            instruction_sets: Vec::new(),
        }
    }

    fn facts(&self, _: &OpenOptions) -> Vec<(&'static str, String)> {
        Reference.describe().facts
    }

    fn open(&self, _: &OpenOptions) -> Result<Box<dyn Backend>, Error> {
        Ok(Box::new(Reference))
    }
}
