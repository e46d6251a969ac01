//! A pipeline computes the same as the undivided model on the reference backend.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use backend::{
    Backend, BlockTable, Bucket, Description, Error, KV_BLOCK, KvFormat, KvLayout, LoadedModel, Memory,
    Outputs, Program, Row, Sequence, Step, Taps, Ticket, Weight, Weights,
};
use backend_reference::Reference;
use graph::{Graph, Mask};
use runner::Pipeline;

use crate::common::{COLS, Kv, LAYERS, VOCAB, WINDOW, dense, model};

fn windowed() -> (Graph, HashMap<String, Weight>) {
    model(&[
        Kv::Own(Mask::Window(WINDOW)),
        Kv::Own(Mask::Causal),
        Kv::Own(Mask::Window(WINDOW)),
        Kv::Own(Mask::Chunk(KV_BLOCK + 1)),
        Kv::Own(Mask::Causal),
    ])
}

fn reference(_: usize) -> Box<dyn Backend> {
    Box::new(Reference::new())
}

fn pipeline(layers: &[usize], stage: impl Fn(usize) -> Box<dyn Backend>) -> Box<Pipeline> {
    let stages = layers.iter().enumerate().map(|(number, layers)| (stage(number), *layers));
    Box::new(Pipeline::new(stages.collect()))
}

/// Runs three steps (prompts of two sequences, the rest of one of them, one token of each) and collects their outputs
/// and tapped values.
fn run(
    backend: Box<dyn Backend>,
    graph: &Graph,
    weights: &HashMap<String, Weight>,
    taps: Taps<'_>,
    read: &[&str],
) -> Vec<Vec<f32>> {
    let kv_layout = KvLayout::uniform(graph, 6, KvFormat::F32);
    let mut loaded = backend.load(graph, weights, &kv_layout).expect("a good model");
    let bucket = Bucket { rows: 64, outputs: 3 };
    let mut program = loaded.compile(bucket, taps).expect("a good graph");
    let mut given = Vec::new();
    for [(past_a, rows_a), (past_b, rows_b)] in [[(0, 40), (0, 3)], [(40, 30), (3, 0)], [(70, 1), (3, 1)]] {
        // A window frees blocks that no row sees any more; other groups keep theirs.
        let tables = |past: usize, blocks: [u32; 3]| {
            let tables = graph.groups().iter().map(|group| {
                let first = group.mask.first_visible(past) / KV_BLOCK;
                BlockTable { first, blocks: blocks[first..].to_vec() }
            });
            tables.collect::<Arc<[BlockTable]>>()
        };
        let parts = [(past_a, rows_a, [4, 0, 2]), (past_b, rows_b, [1, 3, 5])];
        let sequences = parts.iter().filter(|(_, rows, _)| *rows > 0).map(|&(n_past, len, blocks)| {
            Sequence { n_past, len, tables: tables(n_past, blocks), ..Sequence::default() }
        });
        let rows = rows_a + rows_b;
        let tokens = (0..rows).map(|row| ((row * 5 + past_a) % VOCAB) as u32);
        let last = rows as u32 - 1;
        let outputs = match last {
            0 => vec![0],
            last => vec![0, last],
        };
        let step = Step::new(Row::logits(tokens, outputs), sequences.collect()).expect("a good step");
        let outputs = program.run(&step).expect("it fits");
        given.push(outputs.values().to_vec());
        given.push(outputs.token(0).map(|token| token as f32).into_iter().collect());
        given.extend(read.iter().map(|name| program.read(name).expect("it was tapped").to_vec()));
    }
    given
}

#[test]
fn a_pipeline_matches_the_undivided_model() {
    for (graph, weights) in [dense(), windowed()] {
        let names: Vec<&str> = graph.values().map(|(_, value)| &*value.name).collect();
        let whole = run(reference(0), &graph, &weights, Taps::All, &names);
        for layers in [vec![5], vec![2, 1, 2], vec![1, 4], vec![1, 1, 1, 1, 1]] {
            assert_eq!(
                run(pipeline(&layers, reference), &graph, &weights, Taps::All, &names),
                whole,
                "{layers:?}"
            );
            // One value of each stage, the first and the last value, and a stage boundary.
            let some = ["embd", "q-0", "l_out-1", "v-2", "attended-3", "logits"];
            let expected = run(reference(0), &graph, &weights, Taps::Names(&some), &some);
            let found = run(pipeline(&layers, reference), &graph, &weights, Taps::Names(&some), &some);
            assert_eq!(found, expected, "{layers:?}");
        }
    }
}

#[test]
fn only_tapped_values_can_be_read() {
    let (graph, weights) = dense();
    let kv_layout = KvLayout::uniform(&graph, 1, KvFormat::F32);
    let backend = pipeline(&[2, 1, 2], reference);
    let mut loaded = backend.load(&graph, &weights, &kv_layout).expect("a good model");
    let bucket = Bucket { rows: 1, outputs: 1 };
    let program = loaded.compile(bucket, Taps::Names(&["q-2"])).expect("a good graph");
    let why = |name: &str| program.read(name).expect_err("it was not tapped").to_string();
    assert!(why("q-4").contains("was not tapped"), "{}", why("q-4"));
    assert!(why("q-5").contains("is not in the graph"), "{}", why("q-5"));
    let error = loaded.compile(bucket, Taps::Names(&["q-2", "nobody"])).err().expect("it is not there");
    assert!(error.to_string().contains("`nobody` is not in the graph"), "{error}");
}

/// Layer 3 reads the keys and values of layer 1, so they must be in the same stage.
#[test]
fn layers_that_share_a_store_stay_together() {
    let own = Kv::Own(Mask::Causal);
    let (graph, weights) = model(&[own, own, own, Kv::Of(1), own]);
    let kv_layout = KvLayout::uniform(&graph, 6, KvFormat::F32);
    for layers in [vec![2, 3], vec![1, 2, 2]] {
        let expected = Error::Cut {
            layers: 5,
            at: layers[..layers.len() - 1].iter().sum(),
            why: "later layers read values or K/V of earlier layers",
        };
        let backend = pipeline(&layers, reference);
        let bucket = Bucket { rows: 1, outputs: 1 };
        let needed = backend.requirements(&graph, &weights, &kv_layout, &[bucket], Taps::None);
        assert_eq!(needed.expect_err("it cannot be cut there"), expected);
        assert_eq!(backend.load(&graph, &weights, &kv_layout).err(), Some(expected));
    }
    let whole = run(reference(0), &graph, &weights, Taps::None, &[]);
    assert_eq!(run(pipeline(&[1, 3, 1], reference), &graph, &weights, Taps::None, &[]), whole);
}

#[test]
fn stages_must_cover_all_layers() {
    let (graph, weights) = dense();
    let kv_layout = KvLayout::uniform(&graph, 6, KvFormat::F32);
    for layers in [vec![], vec![4], vec![2, 4], vec![0, 5], vec![2, 0, 3], vec![5, 0], vec![usize::MAX, 6]] {
        let loaded = pipeline(&layers, reference).load(&graph, &weights, &kv_layout);
        let error = loaded.err().unwrap_or_else(|| panic!("{layers:?} do not cover the layers"));
        assert!(matches!(error, Error::Cut { layers: LAYERS, .. }), "{layers:?}: {error}");
    }
}

#[test]
fn memory_is_the_sum_of_all_stages() {
    let (graph, weights) = windowed();
    let kv_layout = KvLayout { n_ctx: 96, blocks: vec![3, 6, 4], slots: 0, format: KvFormat::F32 };
    let buckets = [Bucket { rows: 1, outputs: 1 }, Bucket { rows: 64, outputs: 1 }];
    let backend = pipeline(&[2, 1, 2], reference);
    let needed =
        backend.requirements(&graph, &weights, &kv_layout, &buckets, Taps::All).expect("a good model");
    let mut loaded = backend.load(&graph, &weights, &kv_layout).expect("a good model");
    let _programs = buckets.map(|bucket| loaded.compile(bucket, Taps::All).expect("a good model"));
    assert_eq!(loaded.memory(), needed);
    // Per position: keys and values of 2 heads of 4 f32 values. Groups are in the order of their first store.
    let kv = |blocks: usize| (blocks * KV_BLOCK * 2 * 8 * 4) as u64;
    let of_layer = (4 * COLS * COLS * 4) as u64;
    let table = (VOCAB * COLS * 4) as u64;
    let stages: Vec<Memory> = loaded.stages().into_iter().map(|(_, memory)| memory).collect();
    assert_eq!(stages.iter().map(|stage| stage.activations).sum::<u64>(), needed.activations);
    let stages: Vec<Memory> = stages.into_iter().map(|stage| Memory { activations: 0, ..stage }).collect();
    let memory = |weights_mapped, kv| Memory { weights_mapped, kv, ..Memory::default() };
    let expected = [
        memory(table + 2 * of_layer, kv(3) + kv(6)),
        memory(of_layer, kv(3)),
        memory(2 * of_layer + table, kv(4) + kv(6)),
    ];
    assert_eq!(stages, expected);
    assert_eq!(needed.kv, kv(3 + 6 + 3 + 4 + 6));
    let device = loaded.describe().device;
    assert_eq!(device, "CPU for 2 layers, then CPU for 1 layers, then CPU");
}

/// Calls received by the programs of a stage.
#[derive(Default)]
struct StageCalls {
    buckets: Vec<Bucket>,
    outputs: Vec<usize>,
    /// Tensors that the stage reports as copied.
    copies: Vec<&'static str>,
}

/// A reference backend that records its calls.
struct Spy(Arc<Mutex<StageCalls>>);

struct SpyModel(Box<dyn LoadedModel>, Arc<Mutex<StageCalls>>);

struct SpyProgram(Box<dyn Program>, Arc<Mutex<StageCalls>>);

impl Backend for Spy {
    fn describe(&self) -> Description {
        Reference::new().describe()
    }

    fn requirements(
        &self,
        graph: &Graph,
        weights: &dyn Weights,
        kv_layout: &KvLayout,
        buckets: &[Bucket],
        taps: Taps<'_>,
    ) -> Result<Memory, Error> {
        Reference::new().requirements(graph, weights, kv_layout, buckets, taps)
    }

    fn load(
        self: Box<Self>,
        graph: &Graph,
        weights: &dyn Weights,
        kv_layout: &KvLayout,
    ) -> Result<Box<dyn LoadedModel>, Error> {
        Ok(Box::new(SpyModel(Box::new(Reference::new()).load(graph, weights, kv_layout)?, self.0)))
    }
}

impl LoadedModel for SpyModel {
    fn describe(&self) -> Description {
        self.0.describe()
    }

    fn compile(&mut self, bucket: Bucket, taps: Taps<'_>) -> Result<Box<dyn Program>, Error> {
        self.1.lock().expect("no panic").buckets.push(bucket);
        Ok(Box::new(SpyProgram(self.0.compile(bucket, taps)?, self.1.clone())))
    }

    fn prepare(&mut self, copied: &mut dyn FnMut(&str)) -> Result<(), Error> {
        self.1.lock().expect("no panic").copies.iter().for_each(|name| copied(name));
        Ok(())
    }

    fn memory(&self) -> Memory {
        self.0.memory()
    }
}

impl Program for SpyProgram {
    fn submit(&mut self, step: &Step) -> Result<Ticket, Error> {
        self.1.lock().expect("no panic").outputs.push(step.outputs().len());
        self.0.submit(step)
    }

    fn wait(&mut self, ticket: Ticket) -> Result<Outputs<'_>, Error> {
        self.0.wait(ticket)
    }

    fn read(&self, name: &str) -> Result<&[f32], Error> {
        self.0.read(name)
    }
}

#[test]
fn only_the_last_stage_has_output_rows() {
    let (graph, weights) = dense();
    let calls: [Arc<Mutex<StageCalls>>; 3] = Default::default();
    let backend = pipeline(&[2, 1, 2], |stage| Box::new(Spy(calls[stage].clone())));
    let kv_layout = KvLayout::uniform(&graph, 1, KvFormat::F32);
    let mut loaded = backend.load(&graph, &weights, &kv_layout).expect("a good model");
    let mut program = loaded.compile(Bucket { rows: 4, outputs: 2 }, Taps::None).expect("a good graph");
    let step = |outputs| {
        let rows = Row::logits(vec![1, 2, 3], 0..outputs);
        Step::new(rows, vec![Sequence::uniform(0, 3, 1, [0])]).expect("a good step")
    };
    program.run(&step(2)).expect("it fits");
    // Refused before any stage runs, so no KV cache is written.
    assert!(matches!(program.submit(&step(3)), Err(Error::Step(_))));
    let outputs = |stage: usize| calls[stage].lock().expect("no panic").outputs.clone();
    assert_eq!([0, 1, 2].map(outputs), [vec![0], vec![0], vec![2]]);
    let buckets = |stage: usize| calls[stage].lock().expect("no panic").buckets.clone();
    let bucket = |outputs| vec![Bucket { rows: 4, outputs }];
    assert_eq!([0, 1, 2].map(buckets), [bucket(0), bucket(0), bucket(2)]);
}

/// The first stage uses the table as embeddings, the last as output matrix.
#[test]
fn a_tensor_is_released_after_all_its_stages_copied_it() {
    let (graph, weights) = dense();
    let copied = |copies: [&[&'static str]; 2]| {
        let calls = copies.map(|copies| {
            Arc::new(Mutex::new(StageCalls { copies: copies.to_vec(), ..StageCalls::default() }))
        });
        let backend = pipeline(&[2, 3], |stage| Box::new(Spy(calls[stage].clone())));
        let kv_layout = KvLayout::uniform(&graph, 1, KvFormat::F32);
        let mut loaded = backend.load(&graph, &weights, &kv_layout).expect("a good model");
        let mut copied = Vec::new();
        loaded.prepare(&mut |name| copied.push(name.to_owned())).expect("it fits");
        copied
    };
    assert_eq!(copied([&["table"], &["table"]]), ["table"]);
    assert_eq!(copied([&[], &["table"]]), [] as [&str; 0]);
    assert_eq!(copied([&["table"], &[]]), [] as [&str; 0]);
}
