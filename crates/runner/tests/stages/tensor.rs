//! Ranks compute the same as the undivided model on the reference backend.

use std::collections::HashMap;

use backend::{
    Backend, Bucket, Error, Interrupt, KvFormat, KvLayout, LoadedModel, Output, Outputs, Program, Row,
    Sequence, Step, Taps, Ticket, Weight,
};
use backend_reference::Reference;
use graph::Graph;
use runner::TensorParallel;
use testkit::wrapped;

use crate::common::{Kv, VOCAB, dense, model};

const BUCKET: Bucket = Bucket { rows: 8, outputs: 8 };

fn reference() -> Box<dyn Backend> {
    Box::new(Reference::new())
}

fn group(ranks: Vec<Box<dyn Backend>>) -> Box<dyn Backend> {
    Box::new(TensorParallel::new(ranks))
}

fn two() -> Box<dyn Backend> {
    group(vec![reference(), reference()])
}

fn load(backend: Box<dyn Backend>, graph: &Graph, weights: &HashMap<String, Weight>) -> Box<dyn LoadedModel> {
    backend.load(graph, weights, &KvLayout::uniform(graph, 1, KvFormat::F32)).expect("a good model")
}

fn step(n_past: usize, len: usize) -> Step {
    let tokens = (0..len).map(|row| ((n_past + row) * 5 % VOCAB) as u32);
    let rows = Row::all(tokens, &Output::Logits);
    Step::new(rows, vec![Sequence::uniform(n_past, len, 1, [0])]).expect("a good step")
}

fn close(found: &[f32], expected: &[f32]) {
    assert_eq!(found.len(), expected.len());
    for (found, expected) in found.iter().zip(expected) {
        assert!((found - expected).abs() <= 1e-5 * expected.abs().max(1.0), "{found}, expected {expected}");
    }
}

/// Outputs, values that all ranks have, and values of which each has some columns.
#[test]
fn ranks_compute_what_one_device_does() {
    let (graph, weights) = dense();
    let read = ["embd", "q-1", "attended-1", "l_out-2", "logits"];
    let mut whole = load(reference(), &graph, &weights);
    let mut whole = whole.compile(BUCKET, Taps::Names(&read)).expect("a good graph");
    let mut ranks = load(two(), &graph, &weights);
    let mut ranks = ranks.compile(BUCKET, Taps::Names(&read)).expect("a good graph");
    for step in [step(0, 7), step(7, 1), step(8, 8)] {
        let expected = whole.run(&step).expect("it fits").values().to_vec();
        close(ranks.run(&step).expect("it fits").values(), &expected);
        for name in read {
            close(ranks.read(name).expect("it was tapped"), whole.read(name).expect("it was tapped"));
        }
    }
    assert!(matches!(ranks.read("q-2"), Err(Error::Value { .. })), "it was not tapped");
}

/// The product behind attention is a summand of the layer's output, and a value of no rank.
#[test]
fn summands_are_not_read() {
    let (graph, weights) = dense();
    let mut loaded = load(two(), &graph, &weights);
    let mut program = loaded.compile(BUCKET, Taps::All).expect("a good graph");
    program.run(&step(0, 2)).expect("it fits");
    let error = program.read("y-0").expect_err("part of a sum").to_string();
    assert!(error.contains("`y-0` is not computed on several devices"), "{error}");
    let unknown = loaded.compile(BUCKET, Taps::Names(&["nothing"])).err();
    assert!(matches!(unknown, Some(Error::Value { .. })), "{unknown:?}");
}

/// The cache of each rank has its heads, and the dry run counts what is allocated.
#[test]
fn requirements_equal_use() {
    let (graph, weights) = dense();
    let kv_layout = KvLayout::uniform(&graph, 3, KvFormat::F32);
    let required = two().requirements(&graph, &weights, &kv_layout, &[BUCKET], Taps::None).expect("a model");
    let mut loaded = two().load(&graph, &weights, &kv_layout).expect("a good model");
    let _program = loaded.compile(BUCKET, Taps::None).expect("a good graph");
    assert_eq!(loaded.memory(), required);
    assert_eq!(required.kv, kv_layout.bytes(&graph), "the halves of the whole cache");
    let [first, second] = &loaded.stages()[..] else { panic!("two devices") };
    assert_eq!((first.1.kv, second.1.kv), (required.kv / 2, required.kv / 2));
    assert!(loaded.describe().device.contains(" and "), "both devices are named");
}

#[test]
fn an_interrupted_step_can_be_repeated() {
    let (graph, weights) = dense();
    let mut whole = load(reference(), &graph, &weights);
    let expected = whole
        .compile(BUCKET, Taps::None)
        .expect("a good graph")
        .run(&step(0, 3))
        .expect("it fits")
        .values()
        .to_vec();
    let mut ranks = load(two(), &graph, &weights);
    let mut ranks = ranks.compile(BUCKET, Taps::None).expect("a good graph");
    for _ in 0..20 {
        let interrupt = Interrupt::default();
        interrupt.raise();
        let interrupted = ranks.run(&step(0, 3).with_interrupt(interrupt));
        assert_eq!(interrupted.err(), Some(Error::Interrupted));
        close(ranks.run(&step(0, 3)).expect("it fits").values(), &expected);
    }
    // A step that nobody waits for ends before the next one begins.
    let _ticket = ranks.submit(&step(0, 3)).expect("it fits");
    close(ranks.run(&step(0, 3)).expect("it fits").values(), &expected);
    let too_long = ranks.run(&step(0, 9));
    assert!(matches!(too_long, Err(Error::Step(_))), "{too_long:?}");
}

/// Fails in its first step, as a device that is lost.
struct BrokenProgram {
    panics: bool,
}

fn lost() -> Error {
    Error::Device { device: "the second".to_owned(), why: "lost".to_owned() }
}

impl Program for BrokenProgram {
    fn submit(&mut self, _: &Step) -> Result<Ticket, Error> {
        assert!(!self.panics, "it panics");
        Err(lost())
    }

    fn wait(&mut self, _: Ticket) -> Result<Outputs<'_>, Error> {
        Err(lost())
    }

    fn read(&self, _: &str) -> Result<&[f32], Error> {
        Err(lost())
    }
}

/// The other rank waits for the sum in vain: its step ends with the error.
#[test]
fn a_rank_that_fails_ends_the_step_of_the_others() {
    let (graph, weights) = dense();
    for (first_is_broken, panics) in [(true, false), (false, false), (false, true)] {
        let broken = wrapped(reference(), move |_| Box::new(BrokenProgram { panics }));
        let ranks = if first_is_broken { vec![broken, reference()] } else { vec![reference(), broken] };
        let mut loaded = load(group(ranks), &graph, &weights);
        let mut program = loaded.compile(BUCKET, Taps::None).expect("a good graph");
        let error = program.run(&step(0, 3)).expect_err("a rank fails");
        match panics {
            true => assert!(error.to_string().contains("panicked"), "{error}"),
            false => assert_eq!(error, lost()),
        }
    }
}

#[test]
fn what_cannot_be_split_is_refused() {
    let (graph, weights) = dense();
    let kv_layout = KvLayout::uniform(&graph, 1, KvFormat::F32);
    let four = || group((0..4).map(|_| reference()).collect());
    let refusals = [
        four().load(&graph, &weights, &kv_layout).err(),
        four().requirements(&graph, &weights, &kv_layout, &[BUCKET], Taps::None).err(),
    ];
    for refusal in refusals {
        let Some(Error::Shard(why)) = refusal else { panic!("{refusal:?}") };
        assert!(why.contains("`attended-0`") && why.contains("2 key and value heads over 4 ranks"), "{why}");
    }
    // Without a group, nobody adds the summands of the others.
    let shard = graph.shard(graph::Rank { rank: 0, ranks: 2 }, &|_| 1).expect("two heads");
    let alone = reference().load(&shard, &backend::Shares(&weights), &kv_layout).err();
    assert!(matches!(alone, Some(Error::Shard(_))), "{alone:?}");
    // Layers that read the store of another do so on each rank.
    let (graph, weights) = model(&[Kv::Own(graph::Mask::Causal), Kv::Of(0)]);
    let mut whole = load(reference(), &graph, &weights);
    let mut ranks = load(two(), &graph, &weights);
    let mut programs =
        [&mut whole, &mut ranks].map(|model| model.compile(BUCKET, Taps::None).expect("a graph"));
    let [expected, found] =
        programs.each_mut().map(|program| program.run(&step(0, 4)).expect("it fits").values().to_vec());
    close(&found, &expected);
}
