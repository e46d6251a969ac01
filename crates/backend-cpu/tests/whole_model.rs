//! Whole models, random ones in every format and the demo model, on the CPU backend: against the reference backend,
//! and that against llama.cpp's error on the same file and tokens (`tools/oracle`).

use backend_cpu::{Cpu, Isa};
use backend_reference::Reference;
use testkit::{goldens, judge};

/// 4,096 positions of every model, with every kernel set of this processor.
#[test]
fn no_further_from_exact_than_llama_cpp() {
    let mut wrong = Vec::new();
    for case in testkit::cases() {
        let truth = judge::logits(&case, Box::new(Reference::new()), goldens::POSITIONS);
        for isa in Isa::ALL.into_iter().filter(|isa| isa.is_available()) {
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
