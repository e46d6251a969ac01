//! Every kernel of every instruction set: memory bounds, and agreement with scalar code.

mod agree;
mod borders;
mod calls;

use super::{Isa, Kernels};

/// The kernels of `isa`; prints a note and returns `None` if this CPU lacks it. A missing AVX2 fails if
/// `RUSTORCH_REQUIRE_AVX2` is set.
fn kernels(isa: Isa) -> Option<Kernels> {
    let kernels = Kernels::new(isa);
    if kernels.is_none() {
        let is_required = isa == Isa::Avx2 && std::env::var_os("RUSTORCH_REQUIRE_AVX2").is_some();
        assert!(!is_required, "this CPU has no {}", isa.name());
        eprintln!("skipped: this CPU has no {}", isa.name());
    }
    kernels
}
