//! What a backend must refuse, and how.

use backend::{Bucket, Error, KvFormat, KvLayout, Span, Step, Taps, Weight};
use quant::Format;

use super::Make;
use super::net::{Net, rows, store};

/// Bytes of another size, a weight that was not loaded, one of another shape.
pub fn weights_must_be_loaded_and_fit(make: Make<'_>) {
    let weight =
        |rows, cols, bytes| Weight { format: Format::Q8_0, rows, cols, bytes: vec![0; bytes].into() };
    let mut backend = make();
    assert!(matches!(backend.load("w", weight(2, 32, 67)), Err(Error::WeightBytes { .. })));
    assert!(matches!(backend.load("w", weight(2, 33, 68)), Err(Error::WeightBytes { .. })));

    let net = || {
        let mut net = Net::default();
        let x = net.input("x", 1, &[0.0; 32]);
        let w = net.graph.weight("w", 2, 32);
        let y = net.graph.linear("y", x, w);
        (net, y)
    };
    let (missing, y) = net();
    let error = missing.compile(y, make(), None).err();
    assert_eq!(error, Some(Error::MissingWeight { name: "w".into() }));
    let (mut other, y) = net();
    other.weights.push(("w".into(), weight(3, 32, 102)));
    let error = other.compile(y, make(), None).err();
    assert_eq!(error, Some(Error::WeightShape { name: "w".into(), found: (3, 32), expected: (2, 32) }));
}

/// Too many rows, a token outside the vocabulary, a page outside the store; the program lives on.
pub fn steps_must_fit(make: Make<'_>) {
    let mut net = Net::default();
    let x = net.input("x", 40, &[1.0; 40]);
    let y = net.graph.attention("y", [x, x, x], 1, 1, 1.0);
    let mut program = net.compile(y, make(), Some(store(1, 1, 1, 2, KvFormat::F32))).expect("a good graph");
    let step = |tokens: Vec<u32>, pages| {
        let spans = vec![Span { past: 0, len: tokens.len(), pages }];
        Step::new(tokens, spans, vec![0]).expect("a step that agrees with itself")
    };
    for (bad, why) in [
        (step(vec![0; 65], vec![0, 1, 2]), "room"),
        (step(vec![40], vec![0]), "vocabulary"),
        (step(vec![0], vec![2]), "page 2"),
    ] {
        match program.run(&bad) {
            Err(Error::Step(message)) => assert!(message.contains(why), "{message}"),
            other => panic!("{why}: {other:?}"),
        }
    }
    program.run(&rows(40)).expect("a good step");
}

/// Only the output and what was tapped can be read.
pub fn values_must_be_tapped(make: Make<'_>) {
    let mut net = Net::default();
    let a = net.input("a", 1, &[1.0, 2.0]);
    let b = net.graph.add("b", a, a);
    let c = net.graph.add("c", b, a);
    let d = net.graph.take_rows("d", c);
    let graph = net.graph.finish(d);
    let mut backend = make();
    for (name, weight) in net.weights {
        backend.load(&name, weight).expect("a good weight");
    }
    let bucket = Bucket { rows: 4, wanted: 4 };
    let mut some = backend.compile(&graph, bucket, Taps::Names(&["b"])).expect("a good graph");
    some.run(&rows(1)).expect("a good step");
    assert_eq!(some.read("b"), Ok(&[2.0, 4.0][..]));
    assert_eq!(some.read("d"), Ok(&[3.0, 6.0][..]));
    assert!(matches!(some.read("c"), Err(Error::Value { .. })));
    assert!(matches!(some.read("e"), Err(Error::Value { .. })));
    let mut all = backend.compile(&graph, bucket, Taps::All).expect("a good graph");
    all.run(&rows(1)).expect("a good step");
    for (name, expected) in [("a", [1.0, 2.0]), ("b", [2.0, 4.0]), ("c", [3.0, 6.0])] {
        assert_eq!(all.read(name), Ok(&expected[..]));
    }
    assert!(matches!(backend.compile(&graph, bucket, Taps::Names(&["e"])).err(), Some(Error::Value { .. })));
}

/// No store, or one of another shape.
pub fn attention_needs_a_store_that_fits(make: Make<'_>) {
    for kv in [None, Some(store(1, 2, 1, 2, KvFormat::F16)), Some(store(2, 1, 1, 2, KvFormat::F16))] {
        let mut net = Net::default();
        let x = net.input("x", 1, &[1.0]);
        let y = net.graph.attention("y", [x, x, x], 1, 1, 1.0);
        match net.compile(y, make(), kv).err() {
            Some(Error::Kv { value, location, .. }) => {
                assert_eq!(value, "y");
                assert!(location.contains("errors.rs"), "{location}");
            }
            other => panic!("{kv:?}: {other:?}"),
        }
    }
}

/// A store too large for the machine is refused, and a program does not run on another store than its own.
pub fn the_store_must_be_the_one_compiled_for(make: Make<'_>) {
    let mut net = Net::default();
    let x = net.input("x", 1, &[1.0]);
    let y = net.graph.attention("y", [x, x, x], 1, 1, 1.0);
    let y = net.graph.take_rows("wanted", y);
    let graph = net.graph.finish(y);
    let mut backend = make();
    for (name, weight) in net.weights {
        backend.load(&name, weight).expect("a good weight");
    }
    let small = store(1, 1, 1, 2, KvFormat::F16);
    backend.allocate_kv(small).expect("room for a small store");
    let bucket = Bucket { rows: 4, wanted: 4 };
    let mut program = backend.compile(&graph, bucket, Taps::None).expect("a good graph");
    program.run(&rows(1)).expect("a good step");
    for pages in [1 << 50, usize::MAX] {
        let error = backend.allocate_kv(KvLayout { pages, ..small }).expect_err("no machine has room for it");
        assert!(matches!(error, Error::OutOfMemory { .. }), "{error}");
    }
    backend.allocate_kv(KvLayout { pages: 1, ..small }).expect("room for a smaller one");
    assert!(matches!(program.run(&rows(1)), Err(Error::Step(_))));
    let mut program = backend.compile(&graph, bucket, Taps::None).expect("a good graph");
    program.run(&rows(1)).expect("a good step");
}
