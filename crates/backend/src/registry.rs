//! Finding devices: what there is to compute with, how much memory it has, and how it is opened.
//!
//! A crate that implements a backend has a [`Driver`], which finds its [`Device`]s. A program makes one [`Registry`] of
//! the drivers that it was built with, and is in nothing else bound to one of them.

use std::num::NonZero;
use std::sync::{Arc, OnceLock};

use crate::{Backend, Error};

/// What kind of device it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum DeviceKind {
    /// The processor, which runs the program as well.
    Cpu,
    /// A graphics processor with memory of its own, or one of which nobody knows.
    DiscreteGpu,
    /// A graphics processor that shares the processor's memory.
    IntegratedGpu,
    /// A program that stands in for a graphics processor: the processor computes.
    SoftwareGpu,
    /// A backend to compare with, slow by design.
    Reference,
}

/// Bytes of a device's memory, as far as its driver says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DeviceMemory {
    /// All of it; of a device that shares the processor's memory, the part that it may use.
    pub total: Option<u64>,
    /// What this program may still take.
    pub free: Option<u64>,
}

/// What a device is, and what it has now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeviceInfo {
    /// The backend that computes on it, such as `cpu` or `vulkan`.
    pub backend: &'static str,
    /// The device, such as a processor's name.
    pub name: String,
    /// What kind it is.
    pub kind: DeviceKind,
    /// Its place in the machine, such as a PCI address: two drivers may find the same device. None where the driver does
    /// not say.
    pub address: Option<String>,
    /// Memory of its own; unknown for the processor.
    pub memory: DeviceMemory,
    /// The instruction sets that it has kernels for, the plainest first, the best last; none of a device without a choice.
    pub instruction_sets: Vec<&'static str>,
}

/// How a device is opened. What a device has no use for is ignored.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OpenOptions {
    /// Threads of the processor; as many as the system says are useful when none are given.
    pub threads: Option<NonZero<usize>>,
    /// One of [`DeviceInfo::instruction_sets`]; the best when none is given.
    pub instruction_set: Option<&'static str>,
    /// Whether weights are used in the file's map, without a copy.
    pub leave_weights_in_file: bool,
    /// Whether activations stay f32 where kernels would round them.
    pub f32_activations: bool,
    /// Bytes that may be taken of the device's memory; beyond them is [`Error::OutOfMemory`].
    pub memory: Option<u64>,
    /// Whether it times what it does, where it has a clock: slower for it.
    pub timed: bool,
}

/// A device of this machine.
pub trait Device: Send + Sync {
    /// What it is. Free memory is asked for each time.
    fn info(&self) -> DeviceInfo;

    /// What there is to print about it when it is opened so, also where it cannot be opened.
    fn facts(&self, options: &OpenOptions) -> Vec<(&'static str, String)>;

    /// Opens it.
    ///
    /// # Errors
    /// When the driver refuses, or the device has not what the options name.
    fn open(&self, options: &OpenOptions) -> Result<Box<dyn Backend>, Error>;
}

/// What finds the devices of one or more backends.
pub trait Driver: Send + Sync {
    /// The names of its backends.
    fn backends(&self) -> &'static [&'static str];

    /// Whether its devices are the processor that runs the program, so that they have no memory of their own and compute
    /// what layers no other device has.
    fn is_host(&self) -> bool {
        false
    }

    /// Whether there may be a device, as far as can be said without asking for one. Asking may take time.
    fn is_likely(&self) -> bool {
        true
    }

    /// The devices there are, the one to prefer first.
    fn find(&self) -> Vec<Arc<dyn Device>>;
}

/// The devices that the drivers of a program find. A driver is asked when somebody wants one of its devices, and once.
pub struct Registry {
    drivers: Vec<(Box<dyn Driver>, Found)>,
}

/// The devices of a driver, once it was asked.
type Found = OnceLock<Vec<Arc<dyn Device>>>;

impl Registry {
    /// What these drivers find, in their order.
    pub fn new(drivers: Vec<Box<dyn Driver>>) -> Registry {
        Registry { drivers: drivers.into_iter().map(|driver| (driver, OnceLock::new())).collect() }
    }

    /// The names of the backends that the program has.
    pub fn backends(&self) -> impl Iterator<Item = &'static str> {
        self.drivers.iter().flat_map(|(driver, _)| driver.backends()).copied()
    }

    /// Whether `name` is a backend of the processor that runs the program.
    pub fn is_host(&self, name: &str) -> bool {
        self.drivers.iter().any(|(driver, _)| driver.is_host() && driver.backends().contains(&name))
    }

    /// All devices.
    pub fn devices(&self) -> Vec<Arc<dyn Device>> {
        self.found(|_| true)
    }

    /// Those of drivers that are likely to have any.
    pub fn likely(&self) -> Vec<Arc<dyn Device>> {
        self.found(|driver| driver.is_likely())
    }

    /// The devices of backend `name`. No other driver is asked.
    pub fn of(&self, name: &str) -> Vec<Arc<dyn Device>> {
        let mut found = self.found(|driver| driver.backends().contains(&name));
        found.retain(|device| device.info().backend == name);
        found
    }

    fn found(&self, is_asked: impl Fn(&dyn Driver) -> bool) -> Vec<Arc<dyn Device>> {
        let asked = self.drivers.iter().filter(|(driver, _)| is_asked(&**driver));
        asked.flat_map(|(driver, found)| found.get_or_init(|| driver.find())).cloned().collect()
    }
}

impl std::fmt::Debug for Registry {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.backends()).finish()
    }
}

/// Bytes for people, such as `1.2 MiB`.
pub fn readable_size(bytes: u64) -> String {
    let units = ["KiB", "MiB", "GiB", "TiB", "PiB"];
    match bytes {
        1 => "1 byte".to_owned(),
        ..1024 => format!("{bytes} bytes"),
        _ => {
            let power = (1..units.len()).take_while(|&power| bytes >> (10 * power) >= 1024).count() + 1;
            format!("{:.1} {}", bytes as f64 / (1u64 << (10 * power)) as f64, units[power - 1])
        }
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

    /// Has a device of each of its backends, and counts how often it is asked for them.
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
    fn drivers_are_asked_when_needed_and_once() {
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

    #[test]
    fn sizes_are_read_at_a_glance() {
        let sizes = [0, 1, 1023, 1024, 1_500_000, (1 << 20) - 1, 1 << 50, u64::MAX].map(readable_size);
        let expected =
            ["0 bytes", "1 byte", "1023 bytes", "1.0 KiB", "1.4 MiB", "1024.0 KiB", "1.0 PiB", "16384.0 PiB"];
        assert_eq!(sizes, expected);
    }
}
