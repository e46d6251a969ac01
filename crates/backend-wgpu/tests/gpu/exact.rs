//! Models of quantised weights, as far from exact as llama.cpp at most: a test for each kind of format, so that the
//! reference and the device compute side by side. Models of every family in F32, beside exact values.

use backend::KvFormat;
use backend_reference::Reference;
use testkit::{Case, families, goldens, judge};

use super::{adapter, gpu};

/// What every run of the tests computes: blocks of 256 that kernels read, a format that is converted, biases.
const ALWAYS: [&str; 3] = ["Q4_K", "Q4_1", "Q8_0-qwen2"];

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

/// What has blocks of 32 or 256 on the device, too.
fn has_kernels(name: &str) -> bool {
    ["Q4_0", "Q8_0", "Q4_K", "Q5_K", "Q6_K"].contains(&name)
}

#[test]
fn a_format_of_each_kind() {
    no_further_than_llama_cpp(|name| ALWAYS.contains(&name));
}

#[test]
#[ignore = "takes minutes on software Vulkan"]
fn formats_that_kernels_read() {
    no_further_than_llama_cpp(|name| has_kernels(name) && !ALWAYS.contains(&name));
}

#[test]
#[ignore = "takes minutes on software Vulkan"]
fn formats_that_become_f16() {
    no_further_than_llama_cpp(|name| !has_kernels(name) && !name.contains('-') && !ALWAYS.contains(&name));
}

#[test]
#[ignore = "takes minutes on software Vulkan"]
fn biases_and_the_demo_model() {
    no_further_than_llama_cpp(|name| name.contains('-') && !ALWAYS.contains(&name));
}

/// 300 tokens at once, and in steps of 37, which end within pages and windows. Matrix units round activations to f16.
#[test]
fn families_are_exact_over_300_tokens() {
    let Some(adapter) = adapter() else { return };
    let limit = if adapter.is_software() { 1e-9 } else { 1e-5 };
    for rows in [300, 37] {
        for (name, error) in families::errors(|| gpu(&adapter), KvFormat::F32, rows) {
            println!("{name}, {rows} rows: NMSE {error:.2e}");
            assert!(error <= limit, "{name}, {rows} rows: NMSE {error:e}");
        }
    }
}
