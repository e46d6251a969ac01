//! Whole models; quantised ones have one test per kind of format, so that the reference and the device run in parallel.

use backend::Backend;
use backend_reference::Reference;
use testkit::accelerators;
use testkit::conformance::Make;

use super::{adapter, gpu};

/// Runs a test with the device, if there is one, and the reference.
fn with_gpu(test: fn(Make<'_>, Make<'_>)) {
    let Some(adapter) = adapter() else { return };
    let reference = || -> Box<dyn Backend> { Box::new(Reference::new()) };
    test(&|| gpu(&adapter), &reference);
}

#[test]
fn floats_are_within_the_limit() {
    with_gpu(accelerators::floats_are_within_the_limit);
}

#[test]
#[ignore = "takes minutes on software Vulkan"]
fn floats_are_within_the_limit_at_every_golden_position() {
    with_gpu(accelerators::floats_are_within_the_limit_at_every_golden_position);
}

#[test]
fn a_model_split_over_two_backends_equals_the_whole() {
    with_gpu(accelerators::a_model_split_over_two_backends_equals_the_whole);
}

#[test]
fn batched_sequences_equal_single_ones() {
    with_gpu(accelerators::batched_sequences_equal_single_ones);
}

#[test]
fn greedy_text_equals_the_reference() {
    with_gpu(accelerators::greedy_text_equals_the_reference);
}

#[test]
fn one_format_of_each_kind() {
    with_gpu(accelerators::one_format_of_each_kind);
}

#[test]
#[ignore = "takes minutes on software Vulkan"]
fn formats_of_equal_steps() {
    with_gpu(accelerators::formats_of_equal_steps);
}

#[test]
#[ignore = "takes minutes on software Vulkan"]
fn formats_of_tables() {
    with_gpu(accelerators::formats_of_tables);
}

#[test]
#[ignore = "takes minutes on software Vulkan"]
fn biases_and_the_demo_model() {
    with_gpu(accelerators::biases_and_the_demo_model);
}

/// Cooperative matrices round to f16.
#[test]
fn families_are_exact_over_300_tokens() {
    let Some(adapter) = adapter() else { return };
    let limit = if adapter.is_software() { 1e-9 } else { 1e-5 };
    accelerators::families_are_exact_over_300_tokens(&|| gpu(&adapter), limit);
}
