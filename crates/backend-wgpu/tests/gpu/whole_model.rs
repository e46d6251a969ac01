//! Whole models in every format.

use backend::{Backend, KvFormat};
use backend_cpu::Cpu;
use backend_reference::Reference;
use engine::Split;
use testkit::conformance::random::nmse;
use testkit::whole::Whole;
use testkit::{goldens, judge};

use super::{adapter, gpu};

/// 4,096 positions of every model.
#[test]
fn no_further_from_exact_than_llama_cpp() {
    let Some(adapter) = adapter() else { return };
    let mut wrong = Vec::new();
    for case in testkit::cases() {
        let truth = judge::logits(&case, Box::new(Reference::new()), goldens::POSITIONS);
        let found = judge::logits(&case, gpu(&adapter), goldens::POSITIONS);
        if !judge::is_close(&case.name, &case, &truth, &found) {
            wrong.push(case.name);
        }
    }
    assert!(wrong.is_empty(), "beyond the limits: {wrong:?}");
}

/// With the first layers on the CPU, and in steps of one row, a few and many.
#[test]
fn parts_of_a_model_on_two_backends_are_the_whole() {
    let Some(adapter) = adapter() else { return };
    for case in testkit::cases().into_iter().filter(|case| case.is_float) {
        let tokens = &case.tokens()[0];
        let logits = |backend: Box<dyn Backend>, rows| {
            Whole::new(case.file(), backend, KvFormat::F16, tokens.len(), rows).logits(tokens, rows)
        };
        let truth = logits(Box::new(Reference::new()), tokens.len());
        for rows in [1, 7, 100] {
            let split = Split::new(Box::new(Cpu::new(1.try_into().ok())), gpu(&adapter), 1);
            let error = nmse(&truth, &logits(Box::new(split), rows));
            assert!(error <= 1e-5, "{}, a layer on the CPU, {rows} rows: NMSE {error:e}", case.name);
            let error = nmse(&truth, &logits(gpu(&adapter), rows));
            assert!(error <= 1e-5, "{}, {rows} rows: NMSE {error:e}", case.name);
        }
    }
}
