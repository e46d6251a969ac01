//! The suite every backend mounts, for each instruction set.

use backend::Backend;
use backend_cpu::{Cpu, Isa};
use backend_reference::Reference;

/// Two threads, so that tiles meet; without the instruction set, the kernels that every processor has.
fn cpu(isa: Isa) -> Box<dyn Backend> {
    match Cpu::with_isa(2.try_into().ok(), isa) {
        Some(cpu) => Box::new(cpu),
        None => {
            eprintln!("skipped: this processor has no {}", isa.name());
            Box::new(Cpu::new(None))
        }
    }
}

mod scalar {
    use super::*;
    testkit::conformance!(cpu(Isa::Scalar), Box::new(Reference::new()));
}

mod avx2 {
    use super::*;
    testkit::conformance!(cpu(Isa::Avx2), Box::new(Reference::new()));
}
