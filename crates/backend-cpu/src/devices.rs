//! The CPU as a device.

use std::sync::Arc;

use backend::{Backend, Device, DeviceInfo, DeviceKind, Driver, Error, OpenOptions, host_memory};

use crate::{Cpu, Isa, Options, cpu_name};

/// Lists the CPU as a device.
#[derive(Clone, Copy, Debug, Default)]
pub struct CpuDriver;

impl Driver for CpuDriver {
    fn backends(&self) -> &'static [&'static str] {
        &["cpu"]
    }

    fn is_host(&self) -> bool {
        true
    }

    fn find(&self) -> Vec<Arc<dyn Device>> {
        vec![Arc::new(Processor)]
    }
}

struct Processor;

fn open(options: &OpenOptions) -> Result<Cpu, Error> {
    let fails = |set: &str| Error::Device {
        device: cpu_name(),
        why: format!("this CPU has no instruction set `{set}`, or there are no kernels for it"),
    };
    let isa = match options.instruction_set {
        Some(name) => Isa::named(name).ok_or_else(|| fails(name))?,
        None => Isa::detect(),
    };
    let cpu = Cpu::with_isa(options.threads, isa).ok_or_else(|| fails(isa.name()))?;
    let &OpenOptions { leave_weights_in_file, f32_activations, memory: memory_limit, .. } = options;
    Ok(Cpu {
        options: Options { is_repacking: !leave_weights_in_file, f32_activations },
        memory_limit,
        ..cpu
    })
}

impl Device for Processor {
    fn quantizes_activations(&self, options: &OpenOptions) -> bool {
        !options.f32_activations
    }

    fn info(&self) -> DeviceInfo {
        let sets = Isa::ALL.into_iter().filter(|isa| isa.is_available());
        DeviceInfo {
            backend: "cpu",
            name: cpu_name(),
            kind: DeviceKind::Cpu,
            address: None,
            memory: host_memory(),
            instruction_sets: sets.map(Isa::name).collect(),
        }
    }

    fn facts(&self, options: &OpenOptions) -> Vec<(&'static str, String)> {
        match open(options) {
            Ok(cpu) => cpu.describe().facts,
            Err(error) => vec![("cannot be opened", error.to_string())],
        }
    }

    fn open(&self, options: &OpenOptions) -> Result<Box<dyn Backend>, Error> {
        Ok(Box::new(open(options)?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_take_effect() {
        let [device] = &CpuDriver.find()[..] else { panic!("one processor") };
        let options = OpenOptions { threads: 3.try_into().ok(), ..OpenOptions::default() };
        let fact = |options: &OpenOptions, name: &str| {
            let facts = device.open(options).expect("it opens").describe().facts;
            assert_eq!(device.facts(options), facts);
            facts.into_iter().find(|(known, _)| *known == name).map(|(_, fact)| fact).unwrap_or_default()
        };
        assert_eq!(fact(&options, "threads"), "3");
        let sets = device.info().instruction_sets;
        assert_eq!(fact(&options, "kernels"), sets[sets.len() - 1]);
        let scalar = OpenOptions { instruction_set: Some("scalar"), ..options };
        assert_eq!((sets[0], &*fact(&scalar, "kernels")), ("scalar", "scalar"));
        let left = OpenOptions { leave_weights_in_file: true, ..options };
        assert_eq!(fact(&left, "copies of weights"), "none");
        let exact = OpenOptions { f32_activations: true, ..options };
        assert!(fact(&exact, "quantised weights").contains("f32 activations"));
        let unknown = OpenOptions { instruction_set: Some("abacus"), ..options };
        let error = device.open(&unknown).err().expect("no such kernels").to_string();
        assert!(error.contains("`abacus`"), "{error}");
    }
}
