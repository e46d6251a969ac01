//! Sequences with windows or states, scheduled together on few blocks, against each sequence alone with all its blocks: the numbers
//! come from the reference backend both times, so every token must be the same.

use std::collections::BTreeMap;
use std::sync::Arc;

use backend::{BlockTable, Bucket, KV_BLOCK, KvFormat, KvLayout, Output, Row, Sequence, Step, arg_max};
use backend_reference::Reference;
use gguf::{Gguf, Metadata, Tensor};
use graph::{Activation, Builder, Graph, LinearHeads, Mask, NormKind, Op, Store};
use quant::Format;
use runner::ModelRunner;

use crate::queue::Admission;
use crate::scheduler::{Event, Limits, Plan, RequestId, Scheduler};

const WIDTH: usize = 32;
const VOCAB: usize = 40;
const WINDOWS: [Mask; 4] = [Mask::Window(40), Mask::Causal, Mask::Window(7), Mask::Chunk(40)];

/// Layers of attention with these masks.
fn graph() -> Graph {
    let mut g = Builder::new();
    let table = g.weight("table", VOCAB, WIDTH);
    let norm = g.weight("norm", 1, WIDTH);
    let mut x = g.embed("embd", table);
    for (layer, mask) in WINDOWS.into_iter().enumerate() {
        let y = g.rms_norm(("norm", layer), x, norm, 1e-5);
        let [q, k, v] = ["q", "k", "v"].map(|name| {
            let weight = g.weight(format!("{name}{layer}"), WIDTH, WIDTH);
            g.linear((name, layer), y, weight)
        });
        let store = g.store(Store { heads: 2, k_dim: 16, v_dim: 16, mask });
        let a = g.attention(("a", layer), q, Some([k, v]), store, 2, 1.0);
        x = g.add(("out", layer), a, x);
        g.end_layer(x);
    }
    let x = g.output_rows("outputs", x);
    let x = g.rms_norm("last", x, norm, 1e-5);
    let logits = g.linear("logits", x, table);
    g.finish(logits)
}

/// Layers of a convolution, linear attention and attention.
fn recurrent() -> Graph {
    let mut g = Builder::new();
    let table = g.weight("table", VOCAB, WIDTH);
    let norm = g.weight("norm", 1, WIDTH);
    let mut x = g.embed("embd", table);
    for layer in 0..2 {
        let y = g.rms_norm(("norm", layer), x, norm, 1e-5);
        let taps = g.weight(format!("taps{layer}"), WIDTH, 4);
        let y = g.conv(("conv", layer), y, taps, None);
        let [q, k, v] = ["q", "k", "v"].map(|name| {
            let weight = g.weight(format!("{name}{layer}"), WIDTH, WIDTH);
            g.linear((name, layer), y, weight)
        });
        let k = g.norm(("k_norm", layer), k, NormKind::L2, 16, None, 1e-5);
        let [decay, beta] =
            [("decay", Activation::Softplus), ("beta", Activation::Sigmoid)].map(|(name, act)| {
                let weight = g.weight(format!("{name}{layer}"), 2, WIDTH);
                let y = g.linear((if act == Activation::Sigmoid { "b" } else { "d" }, layer), y, weight);
                g.act((name, layer), y, act)
            });
        let decay = g.scale(("log_decay", layer), decay, -0.2);
        let heads = LinearHeads { heads: 2, k_heads: 2, is_tiled: false, scale: 1.0, is_delta: layer == 0 };
        let a = g.op(("mixed", layer), Op::LinearAttention { q, k, v, decay, beta, skip: None, heads });
        x = g.add(("sum", layer), a, x);
        let store = g.store(Store { heads: 2, k_dim: 16, v_dim: 16, mask: Mask::Causal });
        let a = g.attention(("a", layer), x, Some([x, x]), store, 2, 0.1);
        x = g.add(("out", layer), a, x);
        g.end_layer(x);
    }
    let x = g.output_rows("outputs", x);
    let x = g.rms_norm("last", x, norm, 1e-5);
    let logits = g.linear("logits", x, table);
    g.finish(logits)
}

/// Random weights for `graph`.
fn file(graph: &Graph) -> Gguf {
    let tensor = |(number, (_, weight)): (usize, (_, &graph::Weight))| {
        let data = testkit::random_matrix(Format::F32, weight.rows * weight.cols, 0.3, number as u64);
        let shape = vec![weight.cols, weight.rows];
        Tensor { name: weight.tensor.clone(), format: Format::F32, shape, data: data.into() }
    };
    let tensors: Vec<Tensor> = graph.weights().enumerate().map(tensor).collect();
    let bytes = gguf::write(Vec::new(), &Metadata::default(), &tensors).expect("valid tensors");
    Gguf::from_bytes(bytes.into()).expect("a valid file")
}

/// The model with so many blocks of each group and slots, for steps of any rows.
fn runner(graph: &Graph, file: &Gguf, (blocks, slots): (Vec<usize>, usize), rows: usize) -> ModelRunner {
    let slots = if graph.state_values() > 0 { slots } else { 0 };
    let kv_layout = KvLayout { n_ctx: usize::MAX, blocks, slots, format: KvFormat::F32 };
    let bucket = Bucket { rows, outputs: rows };
    ModelRunner::new(file, graph, Box::new(Reference::new()), &kv_layout, &[bucket]).expect("room")
}

/// The most likely token after each of `tokens`.
fn alone(graph: &Graph, file: &Gguf, tokens: &[u32]) -> Vec<u32> {
    let blocks = tokens.len().div_ceil(KV_BLOCK);
    let groups = graph.groups().len();
    let mut runner = runner(graph, file, (vec![blocks; groups], 1), tokens.len());
    let tables: Arc<[BlockTable]> = vec![BlockTable::new(0..blocks as u32); groups].into();
    let sequence = Sequence { n_past: 0, len: tokens.len(), tables, ..Sequence::default() };
    let rows = Row::all(tokens.iter().copied(), &Output::Logits);
    let step = Step::new(rows, vec![sequence]).expect("a good step");
    runner.run(&step).expect("it fits").values().chunks_exact(VOCAB).filter_map(arg_max).collect()
}

/// A prompt, and the tokens that it is to be continued to.
struct Job {
    tokens: Vec<u32>,
    goal: usize,
    prompt: usize,
}

/// Runs `jobs` together; gives back their tokens, and how many were preempted and reused.
fn together(
    graph: &Graph,
    file: &Gguf,
    limits: Limits,
    blocks: Vec<usize>,
    jobs: &[Job],
) -> (Vec<Vec<u32>>, usize, usize) {
    let groups: Vec<_> = graph.groups().iter().copied().zip(blocks.iter().copied()).collect();
    let slots = KvLayout::new(graph, limits.n_ctx, limits.sequences, limits.n_batch, KvFormat::F32).slots;
    let mut scheduler = Scheduler::new(limits, &groups, slots, [0; 16]);
    let limits = scheduler.limits();
    let mut runner = runner(graph, file, (blocks, slots), limits.n_batch);
    let mut tokens: BTreeMap<RequestId, Vec<u32>> = BTreeMap::new();
    let (mut events, mut preempted, mut reused) = (Vec::new(), 0, 0);
    for (number, job) in jobs.iter().enumerate() {
        let id = RequestId(number as u64);
        tokens.insert(id, job.tokens[..job.prompt].to_vec());
        let tokens = job.tokens[..job.prompt].to_vec();
        events.push(Event::Submit {
            id,
            tokens,
            salt: Vec::new(),
            adapter: None,
            admission: Admission::default(),
            outputs_from: None,
        });
    }
    loop {
        let plan: Plan = scheduler.plan(events.drain(..));
        preempted += plan.preempted.len();
        reused += plan.admitted.iter().map(|admitted| admitted.reused).sum::<usize>();
        if plan.chunks.is_empty() {
            return (tokens.into_values().collect(), preempted, reused);
        }
        let (mut rows, mut sequences, mut last) = (vec![], vec![], vec![]);
        for chunk in plan.chunks {
            rows.extend(scheduler.rows(&chunk, |_| Output::Greedy));
            sequences.push(chunk.sequence);
            last.extend(chunk.is_last.then_some(chunk.id));
        }
        let step = Step::new(rows, sequences).expect("tables have what rows write");
        let outputs = runner.run(&step).expect("tables have what rows see");
        for (index, id) in last.into_iter().enumerate() {
            let token = outputs.token(index).expect("it was asked for");
            let (own, goal) = (tokens.get_mut(&id).expect("it runs"), jobs[id.0 as usize].goal);
            own.push(token);
            events.push(if own.len() < goal {
                Event::Token { id, token }
            } else {
                Event::End { id, intact: true }
            });
        }
    }
}

#[test]
fn windows_change_no_token() {
    // The third and fourth turn begin with full blocks of the second.
    no_token_changes(&graph(), 159 + 160 + 160);
}

/// The state after 159 tokens is the current one of the first turn. The third and fourth turn begin at the checkpoints of
/// the prompts of 130 and of 167 tokens.
#[test]
fn states_change_no_token() {
    no_token_changes(&recurrent(), 159 + 96 + 128);
}

/// Checks that jobs on `graph` have the same tokens alone, in one batch, and as messages of a chat that reuse `expected` tokens.
fn no_token_changes(graph: &Graph, expected: usize) {
    let file = file(graph);
    let prompt =
        |seed: u32, len: u32| (0..len).map(|i| (i * (seed + 3) + seed) % VOCAB as u32).collect::<Vec<_>>();
    // The expected answers: each token comes from a forward pass over the whole sequence, without cached positions.
    let jobs: Vec<Job> = [(0, 5), (1, 130), (2, 60), (3, 90)]
        .into_iter()
        .map(|(seed, len)| {
            let mut tokens = prompt(seed, len);
            let prompt = tokens.len();
            let goal = prompt + 70;
            while tokens.len() < goal {
                tokens.push(*alone(graph, &file, &tokens).last().expect("one a token"));
            }
            Job { tokens, goal, prompt }
        })
        .collect();
    let distinct: std::collections::BTreeSet<_> =
        jobs.iter().flat_map(|job| &job.tokens[job.prompt..]).collect();
    assert!(distinct.len() > 5, "the model always says the same");
    for (sequences, n_batch, most) in [(4, 512, 100), (4, 20, 100), (2, 64, 100), (3, 33, 8)] {
        let limits = Limits { n_ctx: 200, sequences, n_batch, blocks: most.min(28), logit_rows: n_batch };
        let needed = KvLayout::new(graph, 200, sequences, n_batch, KvFormat::F32);
        let blocks = needed.blocks.into_iter().map(|blocks| blocks.min(most)).collect();
        let (found, preempted, _) = together(graph, &file, limits, blocks, &jobs);
        assert_eq!(preempted > 0, most == 8, "{preempted} were preempted");
        for (found, job) in found.iter().zip(&jobs) {
            assert_eq!(found, &job.tokens, "{sequences} sequences, {n_batch} rows");
        }
    }
    // Turns of a chat, one after the other: each begins with the one before.
    let turn = |prompt, goal| Job { tokens: jobs[1].tokens.clone(), goal, prompt };
    let turns = [turn(130, 160), turn(160, 199), turn(167, 199), turn(166, 180)];
    let limits = Limits { n_ctx: 200, sequences: 1, n_batch: 50, blocks: 7, logit_rows: 50 };
    let blocks = KvLayout::new(graph, 200, 1, 50, KvFormat::F32).blocks;
    let turns_tokens = together(graph, &file, limits, blocks, &turns);
    for (found, turn) in turns_tokens.0.iter().zip(&turns) {
        assert_eq!(found, &jobs[1].tokens[..turn.goal]);
    }
    assert_eq!(turns_tokens.2, expected);
}
