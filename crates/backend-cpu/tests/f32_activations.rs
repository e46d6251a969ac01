//! f32 activations: whole models in every quantised format match the reference up to f32 rounding.

use backend::{Backend, KvFormat};
use backend_cpu::{Cpu, Isa};
use backend_reference::Reference;
use testkit::conformance::random::nmse;
use testkit::whole::Whole;

/// Number of tokens.
const POSITIONS: usize = 49;

#[test]
fn nothing_is_lost_but_the_rounding_of_f32() {
    for case in testkit::cases().into_iter().filter(|case| !case.is_float) {
        let (file, tokens) = (case.file(), &case.tokens()[0][..POSITIONS]);
        let logits = |backend: Box<dyn Backend>, rows| {
            Whole::new(file.clone(), backend, KvFormat::F32, POSITIONS, rows).logits(tokens, rows)
        };
        let truth = logits(Box::new(Reference::new()), POSITIONS);
        for isa in Isa::ALL.into_iter().filter(|isa| isa.is_available()) {
            let cpu = || Cpu::with_isa(2.try_into().ok(), isa).expect("a detected instruction set");
            let few = logits(Box::new(cpu().with_f32_activations()), 1);
            let many = logits(Box::new(cpu().with_f32_activations()), 40);
            let error = nmse(&truth, &many);
            assert!(error <= 1e-9, "{} {}: NMSE {error:e}", case.name, isa.name());
            let is_same = few.iter().zip(&many).all(|(a, b)| a.to_bits() == b.to_bits());
            assert!(is_same, "{} {}: other bits by the row", case.name, isa.name());
        }
    }
}
