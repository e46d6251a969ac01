//! Every kernel of the table, of every instruction set: within its buffers, and beside plain Rust.

mod agree;
mod borders;
mod calls;

use super::{Isa, Kernels};

/// The kernels of `isa`. `None`, said, where this processor lacks them; where that is AVX2 and
/// `RUSTORCH_REQUIRE_AVX2` is set it is a failure.
fn kernels(isa: Isa) -> Option<Kernels> {
    let kernels = Kernels::new(isa);
    if kernels.is_none() {
        let is_required = isa == Isa::Avx2 && std::env::var_os("RUSTORCH_REQUIRE_AVX2").is_some();
        assert!(!is_required, "this processor has no {}", isa.name());
        eprintln!("skipped: this processor has no {}", isa.name());
    }
    kernels
}
