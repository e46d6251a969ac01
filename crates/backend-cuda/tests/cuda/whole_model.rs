//! Whole models; quantised ones have one test per kind of format, so that the reference and the card run in parallel.

use testkit::accelerators;
use testkit::conformance::Make;

use super::{card, cuda, reference};

/// Runs a test with the card, if there is one, and the reference.
fn with_card(test: fn(Make<'_>, Make<'_>)) {
    let Some(card) = card() else { return };
    test(&|| cuda(&card), &reference);
}

testkit::whole_models!(with_card, []);

#[test]
fn candidates_are_those_of_the_logits() {
    with_card(accelerators::candidates_are_those_of_the_logits);
}

#[test]
fn drawn_tokens_are_those_of_the_logits() {
    with_card(accelerators::drawn_tokens_are_those_of_the_logits);
}

/// Tensor cores round to f16.
#[test]
fn families_are_exact_over_300_tokens() {
    let Some(card) = card() else { return };
    accelerators::families_are_exact_over_300_tokens(&|| cuda(&card), 1e-5);
}
