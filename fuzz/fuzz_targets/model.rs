//! Any bytes as a model: an error, or the logits of two steps on the CPU and the reference backend. Try
//! findings again in `crates/backend-cpu/tests/any_model.rs`.
//!
//!     cargo run -p rustorch-testkit --example malformed fuzz/corpus/model
//!     cargo +nightly fuzz run model -- -max_len=262144 -max_total_time=120
#![no_main]

use backend_cpu::Cpu;
use backend_reference::Reference;
use libfuzzer_sys::fuzz_target;
use testkit::any_model::two_steps;

/// Bytes that a model may take, besides the file.
const MEMORY: u64 = 64 << 20;

fuzz_target!(|data: &[u8]| {
    let cpu = Cpu::new(1.try_into().ok()).with_memory_limit(MEMORY);
    let on_cpu = two_steps(data.to_vec(), Box::new(cpu));
    let on_reference = two_steps(data.to_vec(), Box::new(Reference::new().with_memory_limit(MEMORY)));
    for error in [on_cpu, on_reference].into_iter().filter_map(Result::err) {
        assert!(!error.is_empty());
    }
});
