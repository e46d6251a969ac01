//! Whole models, random ones in every format and the demo model, on the CPU backend: against the reference backend,
//! and that against llama.cpp's error on the same file and tokens (`tools/oracle`).

use backend::{Backend, KvFormat};
use backend_cpu::{Cpu, Isa};
use backend_reference::Reference;
use testkit::conformance::random::nmse;
use testkit::whole::{Whole, kl, top1};
use testkit::{Case, goldens};

fn cpu(threads: usize, isa: Isa) -> Box<Cpu> {
    Box::new(Cpu::with_isa(threads.try_into().ok(), isa).expect("a detected instruction set"))
}

/// What a run is judged by: error of the logits, mean KL, and at which positions the top token is the
/// reference's.
struct Distance {
    nmse: f64,
    mean_kl: f64,
    agrees: Vec<bool>,
    llama_cpp_agrees: Vec<bool>,
}

/// The logits of all positions of the golden sequences.
fn logits(case: &Case, backend: Box<dyn Backend>) -> Vec<f32> {
    let mut model = Whole::new(case.file(), backend, KvFormat::F16, goldens::POSITIONS, goldens::POSITIONS);
    case.tokens().iter().flat_map(|tokens| model.logits(tokens, goldens::POSITIONS)).collect()
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

/// How much less often than llama.cpp's our top token is the reference's, in standard errors of the
/// difference over the same positions.
fn worse_by(distance: &Distance) -> f64 {
    let pairs = distance.llama_cpp_agrees.iter().zip(&distance.agrees);
    let differences: Vec<f64> = pairs.map(|(&theirs, &ours)| f64::from(theirs) - f64::from(ours)).collect();
    let n = differences.len() as f64;
    let mean = differences.iter().sum::<f64>() / n;
    let variance = differences.iter().map(|d| (d - mean).powi(2)).sum::<f64>() / (n - 1.0);
    if mean <= 0.0 { 0.0 } else { mean / (variance / n).sqrt() }
}

/// 4,096 positions of every model, with every kernel set of this processor.
#[test]
fn no_further_from_exact_than_llama_cpp() {
    let mut wrong = Vec::new();
    for case in testkit::cases() {
        let truth = logits(&case, Box::new(Reference::new()));
        for isa in Isa::ALL.into_iter().filter(|isa| isa.is_available()) {
            let found = distance(&case.name, &truth, &logits(&case, cpu(2, isa)));
            if !is_close(&format!("{} {}", case.name, isa.name()), &case, &found) {
                wrong.push(case.name.clone() + " " + isa.name());
            }
        }
    }
    assert!(wrong.is_empty(), "beyond the limits: {wrong:?}");
}

/// Whether a run is within the limits; prints what it is judged by.
fn is_close(label: &str, case: &Case, found: &Distance) -> bool {
    if case.is_float {
        println!("{label}: NMSE {:.2e}", found.nmse);
        return found.nmse <= 1e-5;
    }
    let theirs = goldens::llama_cpp_kl(&case.name);
    let ratio = found.mean_kl / (theirs.iter().map(|&kl| f64::from(kl)).sum::<f64>() / theirs.len() as f64);
    let worse = worse_by(found);
    println!(
        "{label}: NMSE {:.2e}, mean KL {:.3e}, {ratio:.3} times llama.cpp's; top-1 worse by {worse:.2} standard errors",
        found.nmse, found.mean_kl
    );
    ratio <= 1.1 && worse <= 2.0
}
