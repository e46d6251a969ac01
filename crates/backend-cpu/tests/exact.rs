//! Whole models with floating-point weights and K/V in f32 against an independent exact forward pass
//! (`tools/oracle/exact.py`).

use backend::KvFormat;
use backend_cpu::{Cpu, Isa};
use testkit::conformance::random::nmse;
use testkit::goldens;
use testkit::whole::{Whole, family_errors};

/// Number of golden sequences to run.
const SEQUENCES: usize = 2;

#[test]
fn float_models_lose_nothing_but_the_rounding_of_f32() {
    for case in testkit::cases().into_iter().filter(|case| case.is_float) {
        let name = &case.name;
        for isa in Isa::ALL.into_iter().filter(|isa| isa.is_available()) {
            let cpu = Cpu::with_isa(2.try_into().ok(), isa).expect("a detected instruction set");
            let rows = goldens::POSITIONS;
            let mut model = Whole::new(case.file(), Box::new(cpu), KvFormat::F32, rows, rows);
            let sequences = case.tokens().into_iter().take(SEQUENCES).enumerate();
            let found: Vec<f32> = sequences.flat_map(|(i, tokens)| model.columns(i, &tokens, rows)).collect();
            let exact = goldens::exact_logits(name);
            let error = nmse(exact[..SEQUENCES * rows].as_flattened(), &found);
            println!("{name} {}: NMSE {error:.2e}", isa.name());
            assert!(error <= 1e-9, "{name} {}: NMSE {error:e}", isa.name());
        }
    }
}

/// 300 tokens in one step, and in steps of 37, which end inside blocks and windows.
#[test]
fn families_are_exact_over_300_tokens() {
    for isa in Isa::ALL.into_iter().filter(|isa| isa.is_available()) {
        let cpu =
            || Box::new(Cpu::with_isa(2.try_into().ok(), isa).expect("a detected instruction set")) as _;
        for rows in [300, 37] {
            for (name, error) in family_errors(cpu, KvFormat::F32, rows) {
                println!("{name} {}, {rows} rows: NMSE {error:.2e}", isa.name());
                assert!(error <= 1e-9, "{name} {}, {rows} rows: NMSE {error:e}", isa.name());
            }
        }
    }
}
