//! The scheduler against a model of everything around it: random traffic, simulated stores of several
//! groups and slots, and a simulated language model whose next token depends on every token that the stores give for
//! the sequence.

use std::collections::{BTreeMap, HashMap, HashSet};

use backend::{BlockTable, KV_BLOCK, KvFormat, KvLayout, SLOTS};
use graph::{Builder, Graph, Group, Mask, Store};

use crate::queue::Admission;

use super::{Active, Admitted, Chunk, Event, Limits, Plan, Refusal, RequestId, Scheduler};

mod outputs;
mod sharing;
mod windows;
mod world;

use world::trace;

impl Scheduler {
    /// Whether no request is running or waiting.
    fn is_idle(&self) -> bool {
        self.running.is_empty() && self.waiting.is_empty()
    }

    /// The next step, without a limit of prefill rows.
    fn plan(&mut self, events: impl IntoIterator<Item = Event>) -> Plan {
        self.step(events, |_| usize::MAX)
    }

    /// Blocks per group that no request uses.
    fn available_blocks(&self) -> impl Iterator<Item = usize> {
        self.blocks.groups.iter().map(|(_, pool)| pool.available())
    }

    /// Blocks and slots that are cached for later requests.
    fn idle(&self) -> usize {
        self.blocks.groups.iter().map(|(_, pool)| pool.idle()).sum::<usize>() + self.blocks.slots.idle()
    }

    /// Block tables of running requests, in no particular order.
    fn block_tables(&self) -> impl Iterator<Item = &[BlockTable]> {
        self.running.values().map(|request| &*request.cache.tables)
    }
}

/// SplitMix64, so that a trace is named by its number.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn below(&mut self, n: usize) -> usize {
        (self.next() % n as u64) as usize
    }

    fn chance(&mut self, percent: usize) -> bool {
        self.below(100) < percent
    }
}

/// The token a sequence continues with.
fn next_token(tokens: impl Iterator<Item = u32>) -> u32 {
    tokens.fold(7u32, |hash, token| hash.wrapping_mul(31).wrapping_add(token + 1)) >> 7 & 3
}

/// A graph whose stores have these masks, and nothing else.
fn graph(masks: &[Mask]) -> Graph {
    let mut g = Builder::new();
    let table = g.weight("table", 4, 4);
    let x = g.embed("embd", table);
    for &mask in masks {
        g.store(Store { heads: 1, k_dim: 256, v_dim: 256, mask });
    }
    let x = g.output_rows("outputs", x);
    g.finish(x)
}

/// A scheduler over one group without a window.
fn scheduler(limits: Limits) -> Scheduler {
    Scheduler::new(limits, &[(Group { mask: Mask::Causal }, limits.blocks)], 0, [0; 16])
}

/// Limits of steps in which only the last rows are output rows.
fn limits(n_ctx: usize, sequences: usize, n_batch: usize, blocks: usize) -> Limits {
    Limits { n_ctx, sequences, n_batch, blocks, logit_rows: n_batch }
}

/// A request for text.
fn submit(id: u64, tokens: Vec<u32>) -> Event {
    Event::Submit {
        id: RequestId(id),
        tokens,
        salt: Vec::new(),
        adapter: None,
        admission: Admission::default(),
        outputs_from: None,
    }
}

#[test]
fn random_traffic_keeps_every_invariant() {
    let mut totals = [0; 6];
    for number in 0..100_000 {
        let outcome = std::panic::catch_unwind(|| trace(number)).unwrap_or_else(|panic| {
            eprintln!("in trace {number}");
            std::panic::resume_unwind(panic)
        });
        for (total, trace_count) in totals.iter_mut().zip(outcome) {
            *total += trace_count;
        }
    }
    let [requests, preempted, reused, asked, accepted, rejected] = totals;
    println!("{requests} requests, {preempted} preemptions, {reused} tokens reused, {asked} rows asked for");
    println!("{accepted} drafted tokens accepted, {rejected} rejected");
    assert!(accepted > 100_000 && rejected > 100_000, "the traces draft little: {totals:?}");
    assert!(
        requests > 300_000 && preempted > 10_000 && reused > 100_000 && asked > 100_000,
        "the traces test little: {totals:?}"
    );
}

#[test]
fn prompts_are_chunked_and_never_delay_decoding() {
    let mut scheduler = scheduler(limits(256, 2, 10, 16));
    let submit = |id: u64, tokens: usize| submit(id, vec![id as u32; tokens]);
    let rows = |plan: &Plan| {
        plan.chunks.iter().map(|c| (c.id.0, c.sequence.n_past, c.sequence.len, c.is_last)).collect::<Vec<_>>()
    };
    assert_eq!(
        rows(&scheduler.plan([submit(0, 4), submit(1, 20), submit(2, 1)])),
        [(0, 0, 4, true), (1, 0, 6, false)]
    );
    let token = |id| Event::Token { id: RequestId(id), token: 1 };
    assert_eq!(rows(&scheduler.plan([token(0)])), [(0, 4, 1, true), (1, 6, 9, false)]);
    assert_eq!(rows(&scheduler.plan([token(0)])), [(0, 5, 1, true), (1, 15, 5, true)]);
    let end = Event::End { id: RequestId(0), intact: true };
    assert_eq!(rows(&scheduler.plan([end, token(1)])), [(1, 20, 1, true), (2, 0, 1, true)]);
}

#[test]
fn the_context_is_never_larger_than_the_blocks() {
    let scheduler = scheduler(limits(1000, 4, 2, 3));
    assert_eq!(scheduler.limits().n_ctx, 3 * KV_BLOCK);
    assert_eq!(scheduler.limits().n_batch, 4);
    assert_eq!(scheduler.admits(95, 1), Ok(()));
    assert_eq!(scheduler.admits(96, 1), Err(Refusal::TooLong { tokens: 96, n_ctx: 96 }));
}

#[test]
fn few_requests_pass_one_that_waits_for_blocks() {
    let mut scheduler = scheduler(limits(128, 2, 512, 4));
    let submit = |id: u64, tokens| submit(id, vec![id as u32; tokens]);
    let ids = |plan: Plan| plan.chunks.iter().map(|chunk| chunk.id.0).collect::<Vec<_>>();
    let (token, end) =
        (Event::Token { id: RequestId(0), token: 1 }, |id| Event::End { id: RequestId(id), intact: true });
    assert_eq!(ids(scheduler.plan([submit(0, 5), submit(1, 100), submit(2, 5)])), [0, 2]);
    for id in 3..18 {
        assert_eq!(ids(scheduler.plan([token.clone(), end(id - 1), submit(id, 5)])), [0, id]);
    }
    assert_eq!(ids(scheduler.plan([token.clone(), end(17), submit(18, 5)])), [0], "16 have passed");
    assert_eq!(ids(scheduler.plan([end(0)])), [1]);
}

#[test]
fn short_prompts_come_first_but_long_ones_go_on() {
    let mut scheduler = scheduler(limits(256, 8, 20, 64));
    let submit = |id: u64, tokens| submit(id, vec![id as u32; tokens]);
    let rows = |plan: Plan| plan.chunks.iter().map(|c| (c.id.0, c.sequence.len)).collect::<Vec<_>>();
    assert_eq!(rows(scheduler.plan([submit(0, 100)])), [(0, 20)]);
    assert_eq!(rows(scheduler.plan([submit(1, 30), submit(2, 10)])), [(1, 10), (2, 10)]);
    let mut order = Vec::new();
    for id in 3..20 {
        let ends = (1..id).map(|id| Event::End { id: RequestId(id), intact: true }).filter(|_| id > 3);
        order.extend(rows(scheduler.plan(ends.chain([submit(id, 20)]))).into_iter().map(|(id, _)| id));
    }
    // The first prompt has 80 rows left, so at most 80 rows of other prompts are computed before it.
    assert_eq!(order[..6], [1, 4, 0, 0, 0, 0]);
}

#[test]
fn prompts_have_few_rows_while_others_decode() {
    let mut scheduler = scheduler(limits(256, 8, 100, 64));
    let submit = |id: u64, tokens| submit(id, vec![id as u32; tokens]);
    let rows = |plan: Plan| plan.chunks.iter().map(|c| (c.id.0, c.sequence.len)).collect::<Vec<_>>();
    // The requests are those after the events.
    let seven = |decoding, prompts| {
        move |active| {
            assert_eq!(active, Active { decoding, prompts });
            7
        }
    };
    assert_eq!(rows(scheduler.step([submit(0, 90)], seven(0, 1))), [(0, 90)], "nobody decodes");
    let token = Event::Token { id: RequestId(0), token: 1 };
    assert_eq!(rows(scheduler.step([token.clone(), submit(1, 90)], seven(1, 1))), [(0, 1), (1, 7)]);
    assert_eq!(rows(scheduler.step([token, submit(2, 5)], seven(1, 2))), [(0, 1), (1, 2), (2, 5)]);
}

/// The positions that the tables of a request have room for after the prompt has been run and `generated` tokens.
fn positions_after(mut scheduler: Scheduler, prompt: usize, generated: usize) -> Vec<std::ops::Range<usize>> {
    let mut plan = scheduler.plan([submit(0, vec![1; prompt])]);
    let mut tokens = 0;
    loop {
        let chunk = &plan.chunks[0];
        if tokens == generated && chunk.is_last {
            return chunk.sequence.tables.iter().map(BlockTable::positions).collect();
        }
        let event = chunk.is_last.then_some(Event::Token { id: RequestId(0), token: 1 });
        tokens += usize::from(event.is_some());
        plan = scheduler.plan(event);
    }
}

#[test]
fn blocks_that_fell_out_of_a_window_come_back() {
    let groups = [Mask::Causal, Mask::Window(40)].map(|mask| Group { mask });
    let positions = |generated| {
        let scheduler = Scheduler::new(limits(1000, 1, 64, 32), &groups.map(|group| (group, 32)), 0, [0; 16]);
        positions_after(scheduler, 100, generated)
    };
    // Row 64 sees positions from 25 on.
    assert_eq!(positions(0), [0..128, 0..128]);
    // Row 100 sees 61 ..= 100: block 1 has the first, block 0 is slack.
    assert_eq!(positions(1), [0..128, 0..128]);
    // Row 103 sees 64 ..= 103: block 2 has the first. It is tokens 1, 2, 3, 4 that rows 100 to 103 run.
    assert_eq!(positions(3), [0..128, 0..128]);
    assert_eq!(positions(4), [0..128, 32..128]);
    assert_eq!(positions(29), [0..160, 32..160]);
}

/// Gemma 3's 1B: 26 layers of one K/V head of 256, of which every sixth sees all positions and others the last 512.
#[test]
fn windows_take_a_fraction_of_the_memory() {
    let layer_mask = |layer| if layer % 6 == 0 { Mask::Causal } else { Mask::Window(512) };
    let windows: Vec<Mask> = (1..=26).map(layer_mask).collect();
    let bytes = |windows: &[Mask]| {
        let graph = graph(windows);
        KvLayout::new(&graph, 32768, 1, 512, KvFormat::F16).bytes(&graph)
    };
    // 2 * 256 values of 2 bytes a position and layer: 1 KiB.
    assert_eq!(bytes(&[Mask::Causal; 26]), 26 * 32768 * 1024);
    // 512 positions fill 16 blocks and those of a step in as many; two more because either may begin within a block,
    // and one is slack.
    assert_eq!(bytes(&windows), (4 * 32768 + 22 * (16 + 16 + 3) * KV_BLOCK as u64) * 1024);

    // A sequence that fills the context never has more, and gives the rest back.
    let graph = graph(&windows);
    let layout = KvLayout::new(&graph, 32768, 1, 512, KvFormat::F16);
    let groups: Vec<(Group, usize)> = graph.groups().iter().copied().zip(layout.blocks).collect();
    let mut scheduler = Scheduler::new(limits(32768, 1, 512, 1024), &groups, 0, [0; 16]);
    let mut plan = scheduler.plan([submit(0, vec![1; 32000])]);
    let (mut most, mut steps) = (HashMap::new(), 0);
    while scheduler.cached(RequestId(0)) < 32767 {
        assert!(plan.preempted.is_empty() && !plan.chunks.is_empty());
        for (group, table) in plan.chunks[0].sequence.tables.iter().enumerate() {
            let blocks = most.entry(group).or_insert(0);
            *blocks = table.blocks.len().max(*blocks);
        }
        let token = Event::Token { id: RequestId(0), token: 1 };
        plan = scheduler.plan(plan.chunks[0].is_last.then_some(token));
        steps += 1;
    }
    assert!(steps > 800 && most[&0] <= 35 && most[&1] == 1024, "{most:?}");
}
