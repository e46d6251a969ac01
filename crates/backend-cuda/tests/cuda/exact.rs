//! Quantised models must be as close to the exact logits as llama.cpp is: one test per kind of format, so that the
//! reference and the device run in parallel. F32 models of every family are compared with exact logits.

use backend::KvFormat;
use backend_reference::Reference;
use testkit::{Case, families, goldens, judge};

use super::{card, cuda};

/// Formats of every test run: one with 256-value blocks, one that is converted, one with biases.
const ALWAYS: [&str; 3] = ["Q4_K", "Q4_1", "Q8_0-qwen2"];

/// 4,096 positions of every quantised model that `is_among` selects.
fn as_close_as_llama_cpp(is_among: impl Fn(&str) -> bool) {
    let Some(card) = card() else { return };
    let mut wrong = Vec::new();
    let cases: Vec<Case> =
        testkit::cases().into_iter().filter(|case| !case.is_float && is_among(&case.name)).collect();
    assert!(!cases.is_empty());
    for case in cases {
        let truth = judge::logits(&case, Box::new(Reference::new()), goldens::POSITIONS);
        let found = judge::logits(&case, cuda(&card), goldens::POSITIONS);
        if !judge::is_close(&case.name, &case, &truth, &found) {
            wrong.push(case.name);
        }
    }
    assert!(wrong.is_empty(), "beyond the limit: {wrong:?}");
}

/// Whether kernels read the quantised format directly.
fn has_kernels(name: &str) -> bool {
    const OTHERS: [&str; 5] = ["Q4_0", "Q8_0", "Q4_K", "Q5_K", "Q6_K"];
    let prefixes = ["MXFP4", "IQ1_", "IQ2_", "IQ3_", "TQ"];
    OTHERS.contains(&name) || prefixes.iter().any(|prefix| name.starts_with(prefix))
}

#[test]
fn one_format_of_each_kind() {
    as_close_as_llama_cpp(|name| ALWAYS.contains(&name));
}

#[test]
fn formats_that_kernels_read() {
    as_close_as_llama_cpp(|name| has_kernels(name) && !ALWAYS.contains(&name));
}

#[test]
fn formats_that_become_f16() {
    as_close_as_llama_cpp(|name| !has_kernels(name) && !name.contains('-') && !ALWAYS.contains(&name));
}

#[test]
fn biases_and_the_demo_model() {
    as_close_as_llama_cpp(|name| name.contains('-') && !ALWAYS.contains(&name));
}

/// 300 tokens in one step, and in steps of 37, which end inside pages and windows. Cooperative matrices round to f16.
#[test]
fn families_are_exact_over_300_tokens() {
    let Some(card) = card() else { return };
    let limit = 1e-5;
    for rows in [300, 37] {
        for (name, error) in families::errors(|| cuda(&card), KvFormat::F32, rows) {
            println!("{name}, {rows} rows: NMSE {error:.2e}");
            assert!(error <= limit, "{name}, {rows} rows: NMSE {error:e}");
        }
    }
}
