//! Whole models on the CPU (random ones in every format and the demo model): their error against the reference backend must
//! not exceed llama.cpp's on the same file and tokens (`tools/oracle`).

use backend::Backend;
use backend_cpu::{Cpu, Isa};
use backend_reference::Reference;
use testkit::conformance::Make;
use testkit::{Case, judge};

/// Models of every test run: floats, blocks of 32 and 256, experts, windows, a trained model.
const ALWAYS: [&str; 7] = ["F16", "Q4_0", "Q8_0", "Q4_K", "Q4_K-qwen3moe", "Q8_0-gemma3", "demo-q6_k"];

/// Compares 4,096 positions of some models on these instruction sets.
fn no_further_than_llama_cpp(sets: &[Isa], is_among: impl Fn(&Case) -> bool) {
    let cpu = |isa| -> Box<dyn Backend> {
        Box::new(Cpu::with_isa(2.try_into().ok(), isa).expect("a detected instruction set"))
    };
    let makes: Vec<_> = sets.iter().map(|&isa| (isa.name(), move || cpu(isa))).collect();
    let backends: Vec<(&str, Make<'_>)> =
        makes.iter().map(|(name, make)| (*name, make as Make<'_>)).collect();
    judge::assert_close(is_among, &|| Box::new(Reference::new()), &backends);
}

/// On this CPU's best instruction set.
#[test]
fn no_further_from_exact_than_llama_cpp() {
    no_further_than_llama_cpp(&[Isa::detect()], |case| ALWAYS.contains(&&*case.name));
}

/// Every model on every instruction set of this CPU.
#[test]
#[ignore = "takes minutes"]
fn no_model_is_further_from_exact_than_llama_cpp() {
    let sets: Vec<Isa> = Isa::ALL.into_iter().filter(|isa| isa.is_available()).collect();
    no_further_than_llama_cpp(&sets, |_| true);
}
