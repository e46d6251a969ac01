//! Whole models; quantised ones have one test per kind of format, so that the reference and the card run in parallel.

use testkit::accelerators;
use testkit::conformance::Make;

use super::{card, cuda, reference};

/// Runs a test with the card, if there is one, and the reference.
fn with_card(test: fn(Make<'_>, Make<'_>)) {
    let Some(card) = card() else { return };
    test(&|| cuda(&card), &reference);
}

#[test]
fn floats_are_within_the_limit() {
    with_card(accelerators::floats_are_within_the_limit);
}

#[test]
fn floats_are_within_the_limit_at_every_golden_position() {
    with_card(accelerators::floats_are_within_the_limit_at_every_golden_position);
}

#[test]
fn a_model_split_over_two_backends_equals_the_whole() {
    with_card(accelerators::a_model_split_over_two_backends_equals_the_whole);
}

#[test]
fn batched_sequences_equal_single_ones() {
    with_card(accelerators::batched_sequences_equal_single_ones);
}

#[test]
fn greedy_text_equals_the_reference() {
    with_card(accelerators::greedy_text_equals_the_reference);
}

#[test]
fn candidates_are_those_of_the_logits() {
    with_card(accelerators::candidates_are_those_of_the_logits);
}

#[test]
fn drawn_tokens_are_those_of_the_logits() {
    with_card(accelerators::drawn_tokens_are_those_of_the_logits);
}

#[test]
fn one_format_of_each_kind() {
    with_card(accelerators::one_format_of_each_kind);
}

#[test]
fn formats_of_equal_steps() {
    with_card(accelerators::formats_of_equal_steps);
}

#[test]
fn formats_of_tables() {
    with_card(accelerators::formats_of_tables);
}

#[test]
fn biases_and_the_demo_model() {
    with_card(accelerators::biases_and_the_demo_model);
}

/// Tensor cores round to f16.
#[test]
fn families_are_exact_over_300_tokens() {
    let Some(card) = card() else { return };
    accelerators::families_are_exact_over_300_tokens(&|| cuda(&card), 1e-5);
}
