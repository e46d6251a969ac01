//! Device discovery: each backend crate has a [`Driver`], which finds its [`Device`]s. A program builds one [`Registry`] of its
//! drivers; no other code names a concrete backend.

use std::num::NonZero;
use std::sync::{Arc, OnceLock};

use crate::{Backend, Error};

/// The kind of a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[expect(missing_docs, reason = "the names say it")]
pub enum DeviceKind {
    Cpu,
    /// A GPU with its own memory, or of unknown type.
    DiscreteGpu,
    /// A GPU that shares host memory.
    IntegratedGpu,
    /// A software implementation of a GPU, which runs on the CPU.
    SoftwareGpu,
    Reference,
}

/// Memory of a device in bytes, as far as the driver reports it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DeviceMemory {
    /// Total; for an integrated GPU, the part of host memory it may use.
    pub total: Option<u64>,
    /// Available to this process.
    pub free: Option<u64>,
}

/// Properties and current memory of a device.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names say it")]
pub struct DeviceInfo {
    /// Such as `cpu` or `vulkan`.
    pub backend: &'static str,
    /// Such as a CPU model.
    pub name: String,
    pub kind: DeviceKind,
    /// Hardware address, such as a PCI address, to recognise a device that two drivers find; `None` if unknown.
    pub address: Option<String>,
    /// Device memory; the host's for the CPU.
    pub memory: DeviceMemory,
    /// Instruction sets with kernels, from the most basic to the best; empty if there is no choice.
    pub instruction_sets: Vec<&'static str>,
}

/// Options to open a device; inapplicable ones are ignored.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OpenOptions {
    /// CPU threads; by default [`free_threads`](crate::free_threads).
    pub threads: Option<NonZero<usize>>,
    /// One of [`DeviceInfo::instruction_sets`]; by default the best.
    pub instruction_set: Option<&'static str>,
    /// Whether weights are used from the mapped file, without repacking.
    pub leave_weights_in_file: bool,
    /// Whether activations stay f32 instead of being quantised.
    pub f32_activations: bool,
    /// Memory limit in bytes; exceeding it is [`Error::OutOfMemory`], on the CPU [`Error::OverBudget`]. By default the
    /// memory that is available when the model is loaded.
    pub memory: Option<u64>,
    /// Whether kernels are timed, if the device supports it; slower.
    pub timed: bool,
}

/// A device of this machine.
pub trait Device: Send + Sync {
    /// Properties; free memory is queried on every call.
    fn info(&self) -> DeviceInfo;

    /// Properties to print about the device with these options, even if it cannot be opened.
    fn facts(&self, options: &OpenOptions) -> Vec<(&'static str, String)>;

    /// Whether, opened with these options, it rounds activations to 8 bits.
    fn quantizes_activations(&self, options: &OpenOptions) -> bool {
        let _ = options;
        false
    }

    /// Opens the device, if it supports the options.
    fn open(&self, options: &OpenOptions) -> Result<Box<dyn Backend>, Error>;
}

/// Finds the devices of one or more backends.
pub trait Driver: Send + Sync {
    /// The names of the backends.
    fn backends(&self) -> &'static [&'static str];

    /// Whether the devices are the host CPU, which has no device memory, and runs the layers that are not offloaded.
    fn is_host(&self) -> bool {
        false
    }

    /// Whether a device is likely to exist; unlike [`Driver::find`], this must be fast.
    fn is_likely(&self) -> bool {
        true
    }

    /// The requirement of the devices, if not any version of the driver will do.
    fn needs(&self) -> Option<&'static str> {
        None
    }

    /// Finds the devices, in order of preference.
    fn find(&self) -> Vec<Arc<dyn Device>>;
}

type Devices = Vec<Arc<dyn Device>>;

/// The devices of all drivers of a program. A driver is queried on first use, and once.
pub struct Registry {
    drivers: Vec<(Box<dyn Driver>, OnceLock<Devices>)>,
}

impl Registry {
    /// `drivers` in the order of their devices.
    pub fn new(drivers: Vec<Box<dyn Driver>>) -> Registry {
        Registry { drivers: drivers.into_iter().map(|driver| (driver, OnceLock::new())).collect() }
    }

    /// The names of all backends.
    pub fn backends(&self) -> impl Iterator<Item = &'static str> {
        self.drivers.iter().flat_map(|(driver, _)| driver.backends()).copied()
    }

    /// Whether `name` is a backend of the host CPU.
    pub fn is_host(&self, name: &str) -> bool {
        self.drivers.iter().any(|(driver, _)| driver.is_host() && driver.backends().contains(&name))
    }

    /// What the devices of backend `name` need to be found, beyond a driver of any version.
    pub fn needs(&self, name: &str) -> Option<&'static str> {
        self.drivers.iter().find(|(driver, _)| driver.backends().contains(&name))?.0.needs()
    }

    /// All devices.
    pub fn devices(&self) -> Vec<Arc<dyn Device>> {
        self.found(|_| true)
    }

    /// The devices of drivers that are likely to have any.
    pub fn likely(&self) -> Vec<Arc<dyn Device>> {
        self.found(|driver| driver.is_likely())
    }

    /// The devices of backend `name`; queries no other driver.
    pub fn of(&self, name: &str) -> Vec<Arc<dyn Device>> {
        let mut found = self.found(|driver| driver.backends().contains(&name));
        found.retain(|device| device.info().backend == name);
        found
    }

    fn found(&self, is_queried: impl Fn(&dyn Driver) -> bool) -> Vec<Arc<dyn Device>> {
        let queried = self.drivers.iter().filter(|(driver, _)| is_queried(&**driver));
        queried.flat_map(|(driver, found)| found.get_or_init(|| driver.find())).cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    struct Fake(&'static str);

    impl Device for Fake {
        fn info(&self) -> DeviceInfo {
            DeviceInfo {
                backend: self.0,
                name: format!("a {}", self.0),
                kind: DeviceKind::DiscreteGpu,
                address: None,
                memory: DeviceMemory::default(),
                instruction_sets: Vec::new(),
            }
        }

        fn facts(&self, _: &OpenOptions) -> Vec<(&'static str, String)> {
            Vec::new()
        }

        fn open(&self, _: &OpenOptions) -> Result<Box<dyn Backend>, Error> {
            Err(Error::Device { device: self.0.to_owned(), why: "it is made up".to_owned() })
        }
    }

    /// Has one device per backend, and counts the queries.
    struct Counting {
        backends: &'static [&'static str],
        is_likely: bool,
        asked: Arc<AtomicUsize>,
    }

    impl Driver for Counting {
        fn backends(&self) -> &'static [&'static str] {
            self.backends
        }

        fn is_likely(&self) -> bool {
            self.is_likely
        }

        fn find(&self) -> Vec<Arc<dyn Device>> {
            self.asked.fetch_add(1, Ordering::Relaxed);
            self.backends.iter().map(|name| Arc::new(Fake(name)) as Arc<dyn Device>).collect()
        }
    }

    #[test]
    fn drivers_are_queried_lazily_and_once() {
        let asked: [Arc<AtomicUsize>; 2] = Default::default();
        let driver = |index: usize, backends, is_likely| -> Box<dyn Driver> {
            Box::new(Counting { backends, is_likely, asked: asked[index].clone() })
        };
        let registry = Registry::new(vec![driver(0, &["cpu"], true), driver(1, &["vulkan", "metal"], false)]);
        let times = || asked.each_ref().map(|times| times.load(Ordering::Relaxed));
        let names = |devices: Vec<Arc<dyn Device>>| -> Vec<&str> {
            devices.iter().map(|device| device.info().backend).collect()
        };
        assert_eq!(registry.backends().collect::<Vec<_>>(), ["cpu", "vulkan", "metal"]);
        assert_eq!((names(registry.of("cpu")), names(registry.of("cuda"))), (vec!["cpu"], vec![]));
        assert_eq!(names(registry.likely()), ["cpu"]);
        assert_eq!(times(), [1, 0]);
        assert_eq!(names(registry.of("metal")), ["metal"]);
        assert_eq!(names(registry.devices()), ["cpu", "vulkan", "metal"]);
        assert_eq!(times(), [1, 1]);
    }
}
