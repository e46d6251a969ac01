//! The driver that lists this machine's cards.

use std::sync::Arc;

use backend::{Backend, DeviceInfo, DeviceKind, DeviceMemory, Error, OpenOptions, readable_size};
use quant::Format;

use crate::Cuda;
use crate::driver::{Card, cards};

/// Lists the cards that the CUDA driver reports.
#[derive(Clone, Copy, Debug, Default)]
pub struct CudaDriver;

impl backend::Driver for CudaDriver {
    fn backends(&self) -> &'static [&'static str] {
        &["cuda"]
    }

    fn needs(&self) -> Option<&'static str> {
        Some("an NVIDIA card of compute capability 8.0 or later, and NVIDIA's driver 580 or later")
    }

    fn is_likely(&self) -> bool {
        // Initialising the driver is slow. On Linux it creates device files; those under `dxg` are WSL's.
        !cfg!(target_os = "linux")
            || ["/dev/nvidiactl", "/dev/dxg"].iter().any(|file| std::path::Path::new(file).exists())
    }

    fn find(&self) -> Vec<Arc<dyn backend::Device>> {
        cards().into_iter().map(|card| Arc::new(card) as Arc<dyn backend::Device>).collect()
    }
}

impl backend::Device for Card {
    fn info(&self) -> DeviceInfo {
        DeviceInfo {
            backend: "cuda",
            name: self.name.clone(),
            kind: DeviceKind::DiscreteGpu,
            address: Some(self.address.clone()),
            memory: DeviceMemory { total: Some(self.total_memory), free: self.free_memory() },
            instruction_sets: Vec::new(),
        }
    }

    fn facts(&self, options: &OpenOptions) -> Vec<(&'static str, String)> {
        let (major, minor) = self.capability;
        let free = self.free_memory().map_or_else(|| "unknown".to_owned(), readable_size);
        let mut facts = vec![
            ("kind", "discrete".to_owned()),
            ("driver", format!("CUDA {}.{}", self.api / 1000, self.api % 1000 / 10)),
            ("compute capability", format!("{major}.{minor}")),
            ("memory", format!("{} total, {free} free", readable_size(self.total_memory))),
            ("weights", Format::ALL.map(Format::name).join(", ")),
        ];
        if let Err(error) = Cuda::with(self, options) {
            facts.push(("cannot be opened", error.to_string()));
        }
        facts
    }

    fn quantizes_activations(&self, options: &OpenOptions) -> bool {
        !options.f32_activations
    }

    fn open(&self, options: &OpenOptions) -> Result<Box<dyn Backend>, Error> {
        Ok(Box::new(Cuda::with(self, options)?))
    }
}
