//! Model files of odd sizes and with mistakes, on the CPU and the reference backend: an error or logits.

use std::panic::catch_unwind;

use backend::Backend;
use backend_cpu::Cpu;
use backend_reference::Reference;
use testkit::any_model::{odd_model, two_steps};

/// Bytes that a model may take, besides the file.
const MEMORY: u64 = 64 << 20;

/// Files, of which each takes some ten milliseconds.
const FILES: u64 = 400;

type MakeBackend = fn() -> Box<dyn Backend>;

#[test]
fn odd_models_give_an_error_or_numbers() {
    let backends: [(&str, MakeBackend); 3] = [
        ("cpu", || Box::new(Cpu::new(2.try_into().ok()).with_memory_limit(MEMORY))),
        ("cpu without repacking", || Box::new(Cpu::new(None).without_repacking().with_memory_limit(MEMORY))),
        ("reference", || Box::new(Reference::new().with_memory_limit(MEMORY))),
    ];
    let (mut ran, mut refused) = (0, 0);
    for number in 0..FILES {
        let bytes = odd_model(number);
        for (name, make) in backends {
            let bytes = bytes.clone();
            match catch_unwind(|| two_steps(bytes, make())) {
                Ok(Ok(_)) => ran += 1,
                Ok(Err(error)) => {
                    assert!(!error.is_empty());
                    refused += 1;
                }
                Err(_) => panic!("{name} panicked at file {number}"),
            }
        }
    }
    assert!(ran > FILES && refused > FILES, "{ran} ran, {refused} were refused: too few of one kind");
}
