//! Whole models on the CPU (random ones in every format and the demo model): their error against the reference backend must
//! not exceed llama.cpp's on the same file and tokens (`tools/oracle`).

use backend_cpu::{Cpu, Isa};
use backend_reference::Reference;
use testkit::{Case, goldens, judge};

/// Models of every test run: floats, blocks of 32 and 256, experts, windows, a trained model.
const ALWAYS: [&str; 7] = ["F16", "Q4_0", "Q8_0", "Q4_K", "Q4_K-qwen3moe", "Q8_0-gemma3", "demo-q6_k"];

/// Compares 4,096 positions of some models on these instruction sets.
fn no_further_than_llama_cpp(sets: &[Isa], is_among: impl Fn(&Case) -> bool) {
    let mut wrong = Vec::new();
    let cases: Vec<Case> = testkit::cases().into_iter().filter(is_among).collect();
    assert!(!cases.is_empty());
    for case in cases {
        let truth = judge::logits(&case, Box::new(Reference::new()), goldens::POSITIONS);
        for &isa in sets {
            let cpu = Cpu::with_isa(2.try_into().ok(), isa).expect("a detected instruction set");
            let found = judge::logits(&case, Box::new(cpu), goldens::POSITIONS);
            let label = format!("{} {}", case.name, isa.name());
            if !judge::is_close(&label, &case, &truth, &found) {
                wrong.push(label);
            }
        }
    }
    assert!(wrong.is_empty(), "beyond the limits: {wrong:?}");
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
