//! Limits of a backend's error on whole models, relative to llama.cpp on the same file and tokens (`tools/oracle`).

use backend::{Backend, KvFormat};

use crate::conformance::Make;
use crate::conformance::random::nmse;
use crate::whole::{Whole, kl, top1};
use crate::{Case, goldens};

/// NMSE of the logits, mean KL, and the positions where the top token is the reference's.
struct Distance {
    nmse: f64,
    mean_kl: f64,
    agrees: Vec<bool>,
    llama_cpp_agrees: Vec<bool>,
}

/// The logits of all positions of the golden sequences, with prefill in steps of `rows`.
pub fn logits(case: &Case, backend: Box<dyn Backend>, rows: usize) -> Vec<f32> {
    first_logits(case, backend, rows, goldens::SEQUENCES)
}

/// The logits of all positions of the first `sequences` sequences.
pub fn first_logits(case: &Case, backend: Box<dyn Backend>, rows: usize, sequences: usize) -> Vec<f32> {
    let mut model = Whole::new(case.file(), backend, KvFormat::F16, goldens::POSITIONS, rows);
    case.tokens()[..sequences].iter().flat_map(|tokens| model.logits(tokens, rows)).collect()
}

fn distance(name: &str, truth: &[f32], found: &[f32]) -> Distance {
    let theirs = goldens::llama_cpp_top1(name);
    let n_vocab = truth.len() / theirs.len();
    let rows = || truth.chunks_exact(n_vocab).zip(found.chunks_exact(n_vocab));
    Distance {
        nmse: nmse(truth, found),
        mean_kl: rows().map(|(a, b)| kl(a, b)).sum::<f64>() / theirs.len() as f64,
        agrees: rows().map(|(a, b)| top1(a) == top1(b)).collect(),
        llama_cpp_agrees: rows().zip(&theirs).map(|((a, _), theirs)| top1(a) == *theirs).collect(),
    }
}

/// How much lower our top-1 agreement with the reference is than llama.cpp's, in paired standard errors.
fn worse_by(distance: &Distance) -> f64 {
    let pairs = distance.llama_cpp_agrees.iter().zip(&distance.agrees);
    let differences: Vec<f64> = pairs.map(|(&theirs, &ours)| f64::from(theirs) - f64::from(ours)).collect();
    let n = differences.len() as f64;
    let mean = differences.iter().sum::<f64>() / n;
    let variance = differences.iter().map(|d| (d - mean).powi(2)).sum::<f64>() / (n - 1.0);
    if mean <= 0.0 { 0.0 } else { mean / (variance / n).sqrt() }
}

/// Whether the logits `found` of all golden positions are within the limits around `truth`, the reference; prints the
/// measurements.
pub fn is_close(label: &str, case: &Case, truth: &[f32], found: &[f32]) -> bool {
    let found = distance(&case.name, truth, found);
    if case.is_float {
        println!("{label}: NMSE {:.2e}", found.nmse);
        return found.nmse <= 1e-5;
    }
    let theirs = goldens::llama_cpp_kl(&case.name);
    let ratio = found.mean_kl / (theirs.iter().map(|&kl| f64::from(kl)).sum::<f64>() / theirs.len() as f64);
    let worse = worse_by(&found);
    println!(
        "{label}: NMSE {:.2e}, mean KL {:.3e}, {ratio:.3} times llama.cpp's; top-1 worse by {worse:.2} standard errors",
        found.nmse, found.mean_kl
    );
    ratio <= 1.1 && worse <= 2.0
}

/// Asserts that the logits of each backend, with its label, are within the limits at all golden positions of some models.
pub fn assert_close(is_among: impl Fn(&Case) -> bool, reference: Make<'_>, backends: &[(&str, Make<'_>)]) {
    let mut wrong = Vec::new();
    let cases: Vec<Case> = crate::cases().into_iter().filter(is_among).collect();
    assert!(!cases.is_empty());
    for case in cases {
        let truth = logits(&case, reference(), goldens::POSITIONS);
        for (label, make) in backends {
            let label = format!("{} {label}", case.name);
            if !is_close(&label, &case, &truth, &logits(&case, make(), goldens::POSITIONS)) {
                wrong.push(label);
            }
        }
    }
    assert!(wrong.is_empty(), "beyond the limits: {wrong:?}");
}
