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

testkit::whole_models!(with_gpu, [#[ignore = "takes minutes on software Vulkan"]]);

/// Cooperative matrices round to f16.
#[test]
fn families_are_exact_over_300_tokens() {
    let Some(adapter) = adapter() else { return };
    let limit = if adapter.is_software() { 1e-9 } else { 1e-5 };
    accelerators::families_are_exact_over_300_tokens(&|| gpu(&adapter), limit);
}
