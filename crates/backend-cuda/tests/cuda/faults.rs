//! Too little memory, and cards that are lost: an error each, never wrong values.

use std::process::Command;

use backend::{Error, MemoryKind, OpenOptions, Remedy, Taps};
use backend_cuda::{Card, Cuda};
use testkit::conformance::random::nmse;
use testkit::one_step::{BUCKET, compile, exact, run, small};

use super::{card, cuda, reference};

fn with_memory(card: &Card, memory: Option<u64>) -> Cuda {
    Cuda::with(card, &OpenOptions { memory, ..OpenOptions::default() }).expect("a card that opens")
}

/// For any limit, the model is either refused with a remedy or computed, and requirements do not depend on it.
#[test]
fn too_little_memory_is_an_error() {
    let Some(card) = card() else { return };
    let exact = exact(reference());
    let needed = |cuda: Cuda| {
        let backend: &dyn backend::Backend = &cuda;
        let memory = small(|graph, weights, kv_layout| {
            backend.requirements(graph, weights, kv_layout, &[BUCKET], Taps::None)
        });
        memory.expect("requirements ignore the limit")
    };
    let memory = needed(with_memory(&card, None));
    let all = memory.weights_on_device + memory.kv + memory.activations;
    let (mut refused, mut computed) = (Vec::new(), 0);
    for limit in (0..30).map(|i| i * all / 30).chain([all - 1, all]) {
        assert_eq!(needed(with_memory(&card, Some(limit))), memory);
        match compile(Box::new(with_memory(&card, Some(limit)))) {
            Ok((loaded, mut program)) => {
                assert_eq!(loaded.memory(), memory, "requirements equal use");
                let error = nmse(&exact, &run(&mut *program).expect("a good step"));
                assert!(error <= 1e-5, "limit {limit}: NMSE {error:e}");
                computed += 1;
            }
            Err(Error::OutOfMemory { what, bytes, memory: MemoryKind::Device, remedy }) => {
                assert!(bytes > 0 && remedy == Remedy::RaiseLimit, "{what}: {bytes}, {remedy}");
                refused.push(what);
            }
            Err(other) => panic!("limit {limit}: {other}"),
        }
    }
    refused.dedup();
    assert!(refused.len() > 2 && computed == 1, "refused: {refused:?}, {computed} computed");
}

/// Environment variables of the emulated driver.
const MEMORY: &str = "EMULATED_MEMORY";
const LAUNCHES: &str = "EMULATED_LAUNCHES";

/// Runs a test of this file in a process of its own, on an emulated card; a real one is not broken.
fn in_process(test: &str, setting: &str, value: u64) {
    let Some(card) = card() else { return };
    if !is_emulated(&card) {
        eprintln!("skipped: {setting} needs an emulated card");
        return;
    }
    let program = std::env::current_exe().expect("this program");
    let test = format!("faults::{test}");
    let mut command = Command::new(program);
    let output =
        command.args(["--exact", &test]).env(setting, value.to_string()).output().expect("a process");
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && text.contains("1 passed"), "{setting}={value}: {text}");
}

fn is_emulated(card: &Card) -> bool {
    use backend::Backend;
    Cuda::new(card).is_ok_and(|cuda| cuda.describe().device == "emulated card")
}

/// The card is lost after so many launches: in the first step, before a graph is recorded, and while it is replayed.
#[test]
fn a_lost_card_is_an_error() {
    for launches in [0, 1, 5, 20, 50, 100] {
        in_process("a_step_fails_once_the_card_is_lost", LAUNCHES, launches);
    }
}

#[test]
fn a_step_fails_once_the_card_is_lost() {
    if std::env::var_os(LAUNCHES).is_none() {
        return;
    }
    let card = card().expect("an emulated card");
    let exact = exact(reference());
    let (_loaded, mut program) = compile(cuda(&card)).expect("a good model");
    let steps: Vec<_> = (0..20).map(|_| run(&mut *program)).collect();
    let computed = steps.iter().take_while(|step| step.is_ok()).count();
    assert!(computed < steps.len(), "the card is lost");
    for step in &steps[..computed] {
        let error = nmse(&exact, step.as_ref().expect("a good step"));
        assert!(error <= 1e-5, "before it is lost: NMSE {error:e}");
    }
    for step in &steps[computed..] {
        let Err(Error::Device { device, why }) = step else { panic!("{step:?}") };
        assert!(device == "emulated card" && why.contains("CUDA_ERROR_UNKNOWN"), "{device}: {why}");
    }
    let again = compile(cuda(&card)).err();
    assert!(matches!(again, Some(Error::Device { .. })), "{again:?}");
}

/// The card has less memory than the model needs: another process may have the rest.
#[test]
fn memory_that_others_have_is_missing() {
    for bytes in [0, 1 << 10, 100 << 10] {
        in_process("a_model_does_not_fit", MEMORY, bytes);
    }
}

#[test]
fn a_model_does_not_fit() {
    if std::env::var_os(MEMORY).is_none() {
        return;
    }
    let card = card().expect("an emulated card");
    match compile(cuda(&card)).err() {
        Some(Error::OutOfMemory { what, bytes, memory: MemoryKind::Device, remedy }) => {
            assert!(bytes > 0 && remedy != Remedy::RaiseLimit, "{what}: {bytes}, {remedy}");
        }
        other => panic!("{other:?}"),
    }
}
