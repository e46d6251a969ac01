//! The suite every backend mounts, for each instruction set.

use backend::Backend;
use backend_cpu::{Cpu, Isa};
use backend_reference::Reference;

/// Two threads, so that work is split. On a CPU without the instruction set, the tests run scalar code and say so; a missing
/// AVX2 fails if `RUSTORCH_REQUIRE_AVX2` is set.
fn cpu(isa: Isa) -> Box<dyn Backend> {
    if let Some(cpu) = Cpu::with_isa(2.try_into().ok(), isa) {
        return Box::new(cpu);
    }
    let is_required = isa == Isa::Avx2 && std::env::var_os("RUSTORCH_REQUIRE_AVX2").is_some();
    assert!(!is_required, "this CPU has no {}", isa.name());
    eprintln!("skipped: this CPU has no {}", isa.name());
    Box::new(Cpu::new(None))
}

fn reference() -> Box<dyn Backend> {
    Box::new(Reference::new())
}

mod scalar {
    use super::*;
    testkit::conformance!(|| cpu(Isa::Scalar), reference);
}

mod avx2 {
    use super::*;
    testkit::conformance!(|| cpu(Isa::Avx2), reference);
}

mod avx512 {
    use super::*;
    testkit::conformance!(|| cpu(Isa::Avx512), reference);
}
