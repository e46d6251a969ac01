//! Models that two cards compute together. Without two cards and NCCL the tests are skipped, unless `RUSTORCH_REQUIRE_NCCL` is
//! set.

use std::cell::Cell;

use backend::{Backend, Error, KvFormat, Member, OpenOptions};
use backend_cuda::{Card, Cuda, cards};
use testkit::conformance::random::nmse;
use testkit::shards::{errors, group};
use testkit::whole::Whole;

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
    let alone = Member::of_group(1).into_iter().try_for_each(|member| open(&found[0], false).join(member));
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

/// Prefill in steps that end inside pages, then single rows, whose launches and sums are replayed from a recorded graph.
#[test]
fn recorded_steps_of_two_cards_equal_those_of_one() {
    let Some(cards) = two_cards() else { return };
    let cases = testkit::cases().into_iter();
    for case in cases
        .filter(|case| ["F32", "F32-qwen2", "Q4_K", "Q8_0-gemma3", "Q4_K-qwen3moe"].contains(&&*case.name))
    {
        for f32_activations in [true, false] {
            let tokens = &case.tokens()[0][..60];
            let logits = |backend: Box<dyn Backend>, rows| {
                Whole::new(case.file(), backend, KvFormat::F32, tokens.len(), rows).logits(tokens, rows)
            };
            let exact = logits(open(&cards[0], true), 60);
            for rows in [60, 7, 1] {
                let alone = nmse(&exact, &logits(open(&cards[0], f32_activations), rows));
                let found = nmse(&exact, &logits(group(&in_turn(&cards, f32_activations), 2), rows));
                println!("{}, {rows} rows, f32 {f32_activations}: {alone:.2e} alone, {found:.2e}", case.name);
            }
        }
    }
}
