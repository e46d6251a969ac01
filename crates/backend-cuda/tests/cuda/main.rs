//! The conformance suite and whole models on this machine's card.
//!
//! Without a card the tests are skipped, unless `RUSTORCH_REQUIRE_CUDA` is set.

mod faults;
mod sampling;
mod shards;
mod whole_model;

use backend::{Backend, OpenOptions};
use backend_cuda::{Card, Cuda, cards};
use backend_reference::Reference;

/// The card to test on.
fn card() -> Option<Card> {
    let found = cards().into_iter().next();
    if found.is_none() {
        assert!(std::env::var_os("RUSTORCH_REQUIRE_CUDA").is_none(), "no card with a CUDA driver");
        eprintln!("skipped: no card with a CUDA driver");
    }
    found
}

fn cuda(card: &Card) -> Box<dyn Backend> {
    Box::new(Cuda::new(card).expect("a card that opens"))
}

fn reference() -> Box<dyn Backend> {
    Box::new(Reference::new())
}

testkit::conformance!(
    match card() {
        Some(card) => move || cuda(&card),
        None => return,
    },
    reference
);

/// Kernels for f32 activations: without 8-bit and f16 activations.
mod f32_activations {
    use super::{Backend, Card, Cuda, OpenOptions, card, reference};

    fn exact(card: &Card) -> Box<dyn Backend> {
        let options = OpenOptions { f32_activations: true, ..OpenOptions::default() };
        Box::new(Cuda::with(card, &options).expect("a card that opens"))
    }

    testkit::conformance!(
        match card() {
            Some(card) => move || exact(&card),
            None => return,
        },
        reference
    );
}
