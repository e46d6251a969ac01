//! Models of quantised weights, as far from exact as llama.cpp at most: a test for each kind of format, so that the
//! reference and the device compute side by side.

use backend_reference::Reference;
use testkit::{Case, goldens, judge};

use super::{adapter, gpu};

/// 4,096 positions of every model whose name is among these.
fn no_further_than_llama_cpp(is_among: impl Fn(&str) -> bool) {
    let Some(adapter) = adapter() else { return };
    let mut wrong = Vec::new();
    let cases: Vec<Case> =
        testkit::cases().into_iter().filter(|case| !case.is_float && is_among(&case.name)).collect();
    assert!(!cases.is_empty());
    for case in cases {
        let truth = judge::logits(&case, Box::new(Reference::new()), goldens::POSITIONS);
        let found = judge::logits(&case, gpu(&adapter), goldens::POSITIONS);
        if !judge::is_close(&case.name, &case, &truth, &found) {
            wrong.push(case.name);
        }
    }
    assert!(wrong.is_empty(), "beyond the limits: {wrong:?}");
}

/// What is kept in blocks of 32 or 256 on the device.
fn is_kept(name: &str) -> bool {
    ["Q4_0", "Q8_0", "Q4_K", "Q5_K", "Q6_K"].contains(&name)
}

#[test]
fn formats_that_kernels_read() {
    no_further_than_llama_cpp(is_kept);
}

#[test]
fn formats_that_become_f16() {
    no_further_than_llama_cpp(|name| !is_kept(name) && !name.contains('-'));
}

#[test]
fn biases_and_the_demo_model() {
    no_further_than_llama_cpp(|name| name.contains('-'));
}
