//! One model, several callers.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use rustorch::{Error, Result, Tokens};

use crate::{demo, options};

/// A hook that counts its calls: the tokens that were computed.
fn counting(count: &Arc<AtomicUsize>) -> impl FnMut(&[u32], &mut [f32]) + Clone + Send + 'static {
    let count = count.clone();
    move |_, _| {
        count.fetch_add(1, Ordering::Relaxed);
    }
}

/// Waiting for one text computes the others along.
#[test]
fn a_batch_shares_its_steps() {
    let model = options().demo().expect("the demo model");
    let count = Arc::new(AtomicUsize::new(0));
    let batch = model.batch(["One", "Two", "Six", "Ten", "Red", "Sun", "Cat", "Dog"]);
    let mut texts: Vec<Tokens> = batch.max_tokens(10).sampler(counting(&count)).into_iter().collect();
    for step in 1..5 {
        texts[0].next().expect("a token").expect("a token");
        assert_eq!(count.load(Ordering::Relaxed), 8 * step, "a token of each");
    }
    texts[7].next().expect("a token").expect("a token");
    assert_eq!(count.load(Ordering::Relaxed), 8 * 4, "which is there already");
}

#[test]
fn a_dropped_text_is_not_computed_and_frees_its_place() {
    let model = options().sequences(1).demo().expect("the demo model");
    let count = Arc::new(AtomicUsize::new(0));
    let mut dropped = model.generate("One").sampler(counting(&count)).into_iter();
    dropped.next().expect("a token").expect("a token");
    let mut next = model.generate("Two").max_tokens(3).into_iter();
    drop(dropped);
    next.next().expect("a token").expect("a token");
    assert_eq!(
        count.load(Ordering::Relaxed),
        1,
        "with one place, the next text waits for the end of the first"
    );
    drop(model.generate("Three").sampler(counting(&count)).into_iter());
    assert_eq!(next.collect::<Result<Vec<_>>>().expect("a text").len(), 2);
    assert_eq!(count.load(Ordering::Relaxed), 1);
}

/// Whoever holds a model last may be a hook, which is dropped on the engine's thread.
#[test]
fn a_hook_may_own_the_model() {
    let model = options().demo().expect("the demo model");
    let (own, (sender, receiver)) = (model.clone(), std::sync::mpsc::channel());
    let hook = move |_: &[u32], _: &mut [f32]| {
        let _ = sender.send(own.limits().is_some());
    };
    let mut text = model.generate("One").sampler(hook).into_iter();
    text.next().expect("a token").expect("a token");
    drop(model);
    drop(text);
    assert!(receiver.iter().all(|knows_limits| knows_limits), "the channel ends with the hook");
}

#[test]
fn threads_get_the_texts_of_one() {
    let model = demo();
    let prompts = ["One", "The cat", "1 + 1 =", "Paris"];
    let text = |prompt| model.generate(prompt).seed(9).max_tokens(30).text().expect("a text");
    let expected = prompts.map(text);
    let found = thread::scope(|scope| {
        prompts.map(|prompt| scope.spawn(move || text(prompt))).map(|thread| thread.join().expect("no panic"))
    });
    assert_eq!(found, expected);
}

#[test]
fn a_hook_that_panics_loses_the_model_and_nothing_hangs() {
    let model = options().demo().expect("the demo model");
    let mut other = model.generate("Two").into_iter();
    other.next().expect("a token").expect("a token");
    let panicking = || model.generate("One").sampler(|_, _| panic!("a bug in a hook")).text();
    assert!(matches!(panicking(), Err(Error::Panicked)));
    for lost in [other.next().expect("an error").map(|_| ()), model.generate("Two").text().map(|_| ())] {
        assert!(matches!(lost, Err(Error::Panicked)), "{lost:?}");
    }
    assert!(matches!(model.chat().say("Hello").text(), Err(Error::Panicked)));
}
