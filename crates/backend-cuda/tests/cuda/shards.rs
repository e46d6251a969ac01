//! Models that two cards compute together. Without two cards and NCCL the tests are skipped, unless `RUSTORCH_REQUIRE_NCCL` is
//! set.

use std::cell::Cell;

use backend::{Backend, Error, Member, OpenOptions};
use backend_cuda::{Card, Cuda, cards};
use backend_reference::Reference;
use testkit::conformance::random::nmse;
use testkit::goldens;
use testkit::shards::{errors, group, logits, quantized};

/// Two cards that can sum.
fn two_cards() -> Option<[Card; 2]> {
    let skipped = |why: &str| {
        assert!(std::env::var_os("RUSTORCH_REQUIRE_NCCL").is_none(), "{why}");
        eprintln!("skipped: {why}");
        None
    };
    let Ok(found) = <[Card; 2]>::try_from(cards().into_iter().take(2).collect::<Vec<_>>()) else {
        return skipped("there are no two cards");
    };
    // A group of one card needs the library, too.
    let alone = Member::group(1).into_iter().try_for_each(|member| open(&found[0], false).join(member));
    match alone {
        Err(Error::Group { why, .. }) => skipped(&why),
        joined => {
            joined.expect("a group of one card");
            Some(found)
        }
    }
}

fn open(card: &Card, f32_activations: bool) -> Box<dyn Backend> {
    let options = OpenOptions { f32_activations, ..OpenOptions::default() };
    Box::new(Cuda::with(card, &options).expect("a card that opens"))
}

/// Opens the two cards in turn.
fn in_turn<'a>(cards: &'a [Card; 2], f32_activations: bool) -> impl Fn() -> Box<dyn Backend> + 'a {
    let next = Cell::new(0);
    move || open(&cards[next.replace(1 - next.get())], f32_activations)
}

/// Tensor cores round to f16.
#[test]
fn families_are_exact_on_two_cards() {
    let Some(cards) = two_cards() else { return };
    let mut split = 0;
    for (name, result) in errors(&in_turn(&cards, false), 2, 300) {
        if let Ok(error) = result {
            println!("{name}: NMSE {error:.2e}");
            assert!(error <= 1e-5, "{name}: NMSE {error:e}");
            split += 1;
        }
    }
    assert!(split >= 30, "only {split} models are split");
}

/// Prefill in steps that end inside blocks, then single rows, whose launches and sums are replayed from a recorded graph.
#[test]
fn quantized_models_are_as_exact_as_on_one_card() {
    let Some(cards) = two_cards() else { return };
    let tokens = &goldens::long_tokens()[..40];
    let names = ["Q4_K", "Q8_0", "IQ4_XS", "Q4_K-qwen3moe", "Q5_K-qwen2"];
    for (name, spec) in quantized().into_iter().filter(|(name, _)| names.contains(&&**name)) {
        let exact = logits(&spec, Box::new(Reference::new()), tokens, 40);
        for (f32_activations, rows) in [(true, 40), (true, 1), (false, 40), (false, 7), (false, 1)] {
            let alone = nmse(&exact, &logits(&spec, open(&cards[0], f32_activations), tokens, rows));
            let two = group(&in_turn(&cards, f32_activations), 2);
            let found = nmse(&exact, &logits(&spec, two, tokens, rows));
            println!(
                "{name}, {rows} rows, f32 activations: {f32_activations}: NMSE {found:.2e}, alone {alone:.2e}"
            );
            // 8-bit activations round at other places after a sum.
            let limit = if f32_activations { 1e-9 } else { 2.0 * alone + 1e-5 };
            assert!(found <= limit, "{name}, {rows} rows: NMSE {found:e}, alone {alone:e}");
        }
    }
}

/// Each group has a communicator of its own, and none keeps what another has summed.
#[test]
fn groups_compute_the_same_each_time() {
    let Some(cards) = two_cards() else { return };
    let (_, spec) = quantized().swap_remove(0);
    let tokens = &goldens::long_tokens()[..20];
    let first = logits(&spec, group(&in_turn(&cards, false), 2), tokens, 1);
    for _ in 0..3 {
        let again = logits(&spec, group(&in_turn(&cards, false), 2), tokens, 1);
        let error = nmse(&first, &again);
        assert!(error <= 1e-10, "NMSE {error:e}");
    }
}
