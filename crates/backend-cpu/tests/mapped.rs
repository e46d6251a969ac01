//! Mapped and packed weights give the same bits, in every format, for GEMV and GEMM.

use backend::{Backend, KvFormat};
use backend_cpu::{Cpu, Isa};
use testkit::whole::Whole;

/// Rows of a step, and number of tokens: GEMV, GEMM of few rows, and GEMM of many.
const STEPS: [(usize, usize); 3] = [(1, 5), (8, 17), (40, 49)];

#[test]
fn logits_have_the_same_bits() {
    for case in testkit::cases() {
        let (file, tokens) = (case.file(), &case.tokens()[0]);
        for isa in Isa::ALL.into_iter().filter(|isa| isa.is_available()) {
            for (rows, positions) in STEPS {
                let logits = |is_mapped: bool| -> Vec<u32> {
                    let cpu = Cpu::with_isa(2.try_into().ok(), isa).expect("a detected instruction set");
                    let cpu = if is_mapped { cpu.without_repacking() } else { cpu };
                    let backend: Box<dyn Backend> = Box::new(cpu);
                    let mut model = Whole::new(file.clone(), backend, KvFormat::F16, positions, rows);
                    model.logits(&tokens[..positions], rows).into_iter().map(f32::to_bits).collect()
                };
                let (packed, mapped) = (logits(false), logits(true));
                assert!(packed == mapped, "{} {}, {rows} rows: other bits", case.name, isa.name());
            }
        }
    }
}
