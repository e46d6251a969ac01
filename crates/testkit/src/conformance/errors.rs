//! Invalid input that backends must refuse, with the right error.

use backend::{BlockTable, Bucket, Error, KvFormat, KvLayout, Remedy, Row, Sequence, Step, Taps, Weight};
use graph::{Mask, Store};
use quant::Format;

use super::Make;
use super::net::{Net, rows, sequence, store};

/// Weights of the wrong size, missing, or of the wrong shape.
pub fn weights_must_exist_and_match(make: Make<'_>) {
    let weight = |rows, cols, bytes| Weight::matrix(Format::Q8_0, rows, cols, vec![0; bytes].into());
    let error = |given: Option<Weight>| {
        let mut net = Net::default();
        let x = net.input("x", 1, &[0.0; 32]);
        let w = net.graph.weight("w", 2, 32);
        let y = net.graph.linear("y", x, w);
        net.weights.extend(given.map(|given| ("w".into(), given)));
        net.compile(y, make()).err()
    };
    assert!(matches!(error(Some(weight(2, 32, 67))), Some(Error::WeightBytes { .. })));
    assert_eq!(error(None), Some(Error::MissingWeight { name: "w".into() }));
    let other = Some(Error::WeightShape { name: "w".into(), found: [1, 3, 32], expected: [1, 2, 32] });
    assert_eq!(error(Some(weight(3, 32, 102))), other);
    assert_eq!(error(Some(weight(2, 32, 68))), None);
}

/// Too many rows, tokens outside the vocabulary, blocks out of range, and block tables without the blocks that rows see.
/// The program stays usable.
pub fn steps_must_fit(make: Make<'_>) {
    let mut net = Net::with_kv(2, KvFormat::F32);
    let x = net.input("x", 40, &[1.0; 40]);
    let y = net.attention("y", [x, x, x], store(1, 1, 1), 1, 1.0);
    let mut program = net.compile(y, make()).expect("a good graph");
    let step = |tokens: Vec<u32>, tables: Vec<BlockTable>| {
        let n_past = tables.first().map_or(0, |table| table.positions().start);
        let sequences =
            vec![Sequence { n_past, len: tokens.len(), tables: tables.into(), ..Sequence::default() }];
        Step::new(Row::logits(tokens, [0]), sequences).expect("a consistent step")
    };
    for (bad, why) in [
        (step(vec![0; 65], vec![BlockTable::new([0, 1, 2])]), "exceed"),
        (step(vec![40], vec![BlockTable::new([0])]), "vocabulary"),
        (step(vec![0], vec![BlockTable::new([2])]), "block 2"),
        (step(vec![0], vec![BlockTable::new([0, 1, 1])]), "3 blocks of group 0, expected at most 2"),
        (step(vec![0], vec![]), "0 block tables, expected 1"),
        (step(vec![0], vec![BlockTable::new([0]); 2]), "2 block tables, expected 1"),
        (step(vec![0], vec![BlockTable { first: 1, blocks: vec![0] }]), "see position 0"),
    ] {
        match program.run(&bad) {
            Err(Error::Step(message)) => assert!(message.contains(why), "{message}"),
            other => panic!("{why}: {other:?}"),
        }
    }
    program.run(&sequence(0, 40)).expect("a good step");
}

/// Only the output and tapped values can be read.
pub fn values_must_be_tapped(make: Make<'_>) {
    let mut net = Net::default();
    let a = net.input("a", 1, &[1.0, 2.0]);
    let b = net.graph.add("b", a, a);
    let c = net.graph.add("c", b, a);
    let d = net.graph.output_rows("d", c);
    let (_, mut loaded) = net.load(d, make()).expect("a good graph");
    let bucket = Bucket { rows: 4, outputs: 4 };
    let mut some = loaded.compile(bucket, Taps::Names(&["b"])).expect("a good graph");
    some.run(&rows(1)).expect("a good step");
    assert_eq!(some.read("b"), Ok(&[2.0, 4.0][..]));
    assert_eq!(some.read("d"), Ok(&[3.0, 6.0][..]));
    assert!(matches!(some.read("c"), Err(Error::Value { .. })));
    assert!(matches!(some.read("e"), Err(Error::Value { .. })));
    let mut all = loaded.compile(bucket, Taps::All).expect("a good graph");
    all.run(&rows(1)).expect("a good step");
    for (name, expected) in [("a", [1.0, 2.0]), ("b", [2.0, 4.0]), ("c", [3.0, 6.0])] {
        assert_eq!(all.read(name), Ok(&expected[..]));
    }
    assert!(matches!(loaded.compile(bucket, Taps::Names(&["e"])).err(), Some(Error::Value { .. })));
}

/// A layout with fewer groups than the graph is refused.
pub fn the_kv_layout_must_match_the_graph(make: Make<'_>) {
    let mut net = Net::default();
    let x = net.input("x", 1, &[1.0]);
    let y = net.attention("y", [x, x, x], store(1, 1, 1), 1, 1.0);
    let y = net.attention("z", [y, x, x], Store { mask: Mask::Window(3), ..store(1, 1, 1) }, 1, 1.0);
    let y = net.graph.output_rows("outputs", y);
    let graph = net.graph.finish(y);
    let kv_layout = KvLayout { n_ctx: 64, blocks: vec![2], slots: 0, format: KvFormat::F16 };
    let error = make().load(&graph, &net.weights, &kv_layout).err();
    assert_eq!(error, Some(Error::Stores { found: 1, expected: 2 }));
}

/// A KV store too large for the machine is refused; requirements report the exact size.
pub fn a_too_large_store_is_refused(make: Make<'_>) {
    for blocks in [1 << 50, usize::MAX] {
        let net = |blocks| {
            let mut net = Net::with_kv(blocks, KvFormat::F32);
            // Sizes that no device pads.
            let x = net.input("x", 1, &[1.0; 8]);
            let y = net.attention("y", [x, x, x], store(1, 8, 8), 1, 1.0);
            (net, y)
        };
        let (large, y) = net(blocks);
        match large.compile(y, make()).err() {
            Some(Error::OutOfMemory { remedy, .. } | Error::OverBudget { remedy, .. }) => {
                assert_eq!(remedy, Remedy::SmallerContext);
            }
            other => panic!("no machine has that much memory: {other:?}"),
        }
        let (mut small, y) = net(2);
        let y = small.graph.output_rows("outputs", y);
        let (weights, bucket) = (small.weights.clone(), Bucket { rows: 4, outputs: 4 });
        let (graph, mut loaded) = small.load(y, make()).expect("enough memory");
        loaded.compile(bucket, Taps::None).expect("enough memory");
        let kv_layout = KvLayout::uniform(&graph, 2, KvFormat::F32);
        let needed =
            make().requirements(&graph, &weights, &kv_layout, &[bucket], Taps::None).expect("a good graph");
        assert_eq!(needed.kv, kv_layout.bytes(&graph));
        assert_eq!(needed.kv, loaded.memory().kv);
    }
}
