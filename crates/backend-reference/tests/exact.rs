//! The reference backend against an independent exact forward pass (`tools/oracle/exact.py`).

use backend::KvFormat;
use backend_reference::Reference;
use testkit::conformance::random::nmse;
use testkit::goldens;
use testkit::whole::Whole;

/// Checks two logits per position, in columns that vary with the position, over `sequences` sequences of 256 positions.
fn are_exact(sequences: usize) {
    for case in testkit::cases() {
        let name = &case.name;
        let mut model =
            Whole::new(case.file(), Box::new(Reference::new()), KvFormat::F32, goldens::POSITIONS, 256);
        let tokens = case.tokens().into_iter().take(sequences).enumerate();
        let found: Vec<f32> = tokens.flat_map(|(i, tokens)| model.columns(i, &tokens, 256)).collect();
        let error =
            nmse(goldens::exact_logits(name)[..sequences * goldens::POSITIONS].as_flattened(), &found);
        println!("{name}: NMSE {error:.2e}");
        assert!(error <= 1e-9, "{name}: NMSE {error:e}");
    }
}

#[test]
fn logits_are_exact() {
    are_exact(2);
}

#[test]
#[ignore = "takes minutes"]
fn logits_are_exact_at_all_4096_positions() {
    are_exact(goldens::SEQUENCES);
}
