//! What requests find in the cache of others.

use backend::KV_BLOCK;
use graph::{Group, Mask};

use super::{limits, scheduler, submit};
use crate::queue::Admission;
use crate::scheduler::{Event, Limits, Plan, RequestId, Scheduler};

/// A scheduler with room for everything, and its first request run to its first token.
fn after(prompt: &[u32]) -> Scheduler {
    let mut scheduler = scheduler(limits(256, 2, 512, 16));
    let plan = scheduler.plan([submit(0, prompt.to_vec())]);
    assert_eq!(plan.chunks.len(), 1);
    scheduler
}

fn end(id: u64) -> Event {
    Event::End { id: RequestId(id), intact: true }
}

fn token(id: u64, token: u32) -> Event {
    Event::Token { id: RequestId(id), token }
}

/// How much of `prompt` a second request finds in the cache after the first.
fn reused(scheduler: &mut Scheduler, prompt: &[u32]) -> usize {
    let plan = scheduler.plan([end(0), submit(1, prompt.to_vec())]);
    assert_eq!(plan.chunks[0].sequence.n_past, plan.admitted[0].reused);
    plan.admitted[0].reused
}

#[test]
fn a_prompt_begins_with_what_is_cached() {
    let first: Vec<u32> = (0..40).collect();
    let longer: Vec<u32> = (0..50).collect();
    let even: Vec<u32> = (0..64).collect();
    assert_eq!(reused(&mut after(&first), &longer), 40, "all that was run");
    assert_eq!(reused(&mut after(&first), &first), 32, "one token must run: full blocks are left");
    assert_eq!(reused(&mut after(&longer), &first), 32);
    assert_eq!(reused(&mut after(&even), &even), 32);
    assert_eq!(reused(&mut after(&even), &[&even[..], &[7]].concat()), 64);
    let mut edited = longer.clone();
    edited[20] = 99;
    assert_eq!(reused(&mut after(&first), &edited), 0);
    edited[20] = 20;
    edited[39] = 99;
    assert_eq!(reused(&mut after(&first), &edited), 32);
    assert_eq!(reused(&mut after(&first), &[7, 8]), 0);
}

#[test]
fn the_last_sampled_token_is_not_in_the_cache() {
    let mut scheduler = after(&[1, 2, 3]);
    scheduler.plan([token(0, 4)]);
    scheduler.plan([token(0, 5), end(0)]);
    let plan = scheduler.plan([submit(1, vec![1, 2, 3, 4, 5, 6])]);
    assert_eq!(plan.admitted[0].reused, 4);
}

/// A block that is partly filled has one writer.
#[test]
fn only_one_request_continues_a_block() {
    let mut scheduler = after(&[1, 2, 3]);
    let plan = scheduler.plan([end(0), submit(1, vec![1, 2, 3, 4]), submit(2, vec![1, 2, 3, 5])]);
    assert_eq!(plan.admitted.iter().map(|admitted| admitted.reused).collect::<Vec<_>>(), [3, 0]);
}

#[test]
fn salts_share_nothing() {
    let mut scheduler = scheduler(limits(256, 2, 512, 16));
    let submit = |id, salt: &[u8]| Event::Submit {
        id: RequestId(id),
        tokens: vec![1; 100],
        salt: salt.to_vec(),
        adapter: None,
        admission: Admission::default(),
        outputs_from: None,
    };
    let reused = |plan: Plan| plan.admitted[0].reused;
    assert_eq!(reused(scheduler.plan([submit(0, b"a")])), 0);
    assert_eq!(reused(scheduler.plan([end(0), submit(1, b"b")])), 0);
    assert_eq!(reused(scheduler.plan([end(1), submit(2, b"a")])), 96);
    assert_eq!(reused(scheduler.plan([end(2), submit(3, b"b")])), 96);
    assert_eq!(reused(scheduler.plan([end(3), Event::Clear, submit(4, b"b")])), 0);
}

/// Four requests with a common prefix of 100 tokens at once: three blocks of it are computed once, and used by all.
#[test]
fn a_common_prefix_is_computed_once() {
    let prompt = |id: u32| (0..100).chain([1000 + id; 10]).collect::<Vec<u32>>();
    let mut scheduler = scheduler(limits(256, 4, 512, 32));
    let rows = |plan: &Plan| {
        plan.chunks.iter().map(|c| (c.id.0, c.sequence.n_past, c.sequence.len)).collect::<Vec<_>>()
    };
    let plan = scheduler.plan((0..4).map(|id| submit(id.into(), prompt(id))));
    assert_eq!(rows(&plan), [(0, 0, 110)], "the others wait for its blocks");
    let plan = scheduler.plan([token(0, 1)]);
    assert_eq!(rows(&plan), [(0, 110, 1), (1, 96, 14), (2, 96, 14), (3, 96, 14)]);
    for chunk in &plan.chunks {
        assert_eq!(chunk.sequence.tables[0].blocks[..3], plan.chunks[0].sequence.tables[0].blocks[..3]);
    }
    // Who comes later finds the blocks while they are in use, and after.
    let plan = scheduler.plan([token(0, 1), token(1, 1), token(2, 1), end(3), submit(4, prompt(4))]);
    assert_eq!(rows(&plan)[3], (4, 96, 14));
    let plan = scheduler.plan([end(0), end(1), end(2), end(4), submit(5, prompt(5))]);
    assert_eq!(rows(&plan), [(5, 96, 14)]);
}

/// What a failed step wrote is not used, and who waits for it goes on.
#[test]
fn nobody_waits_for_what_never_comes() {
    let mut scheduler = scheduler(limits(256, 4, 64, 32));
    let prompt: Vec<u32> = (0..200).collect();
    let first = |plan: Plan| (plan.chunks[0].id.0, plan.chunks[0].sequence.n_past, plan.chunks.len());
    assert_eq!(first(scheduler.plan((0..3).map(|id| submit(id, prompt.clone())))), (0, 0, 1));
    assert_eq!(first(scheduler.plan([])), (0, 64, 1));
    assert_eq!(first(scheduler.plan([Event::End { id: RequestId(0), intact: false }])), (1, 64, 1));
    assert_eq!(first(scheduler.plan([end(1)])), (2, 128, 1));
}

#[test]
fn least_recently_used_blocks_are_dropped_first() {
    let mut scheduler = scheduler(limits(128, 1, 512, 4));
    let prompt = |first: u32| vec![first; 2 * KV_BLOCK + 1];
    let mut reused = |id: u64, first| {
        let plan = scheduler.plan([submit(id, prompt(first))]);
        scheduler.plan([end(id)]);
        plan.admitted[0].reused
    };
    // A prompt takes three of four blocks, of which two can be reused by the same prompt.
    assert_eq!(reused(0, 1), 0);
    assert_eq!(reused(1, 1), 64);
    assert_eq!(reused(2, 2), 0, "it leaves one block of the others: the first");
    assert_eq!(reused(3, 1), 32);
}

/// How much of `prompt` is reused after 200 tokens whose last 40 are in a window.
fn reused_with_window(blocks: usize, prompt: &[u32]) -> usize {
    let groups =
        [(Mask::Causal, 32), (Mask::Window(40), blocks)].map(|(mask, blocks)| (Group { mask }, blocks));
    let limits = Limits { n_ctx: 1000, sequences: 1, n_batch: 50, blocks: 32, logit_rows: 50 };
    let mut scheduler = Scheduler::new(limits, &groups, 0, [0; 16]);
    scheduler.plan([submit(0, (0..200).collect())]);
    (0..3).for_each(|_| drop(scheduler.plan([])));
    reused(&mut scheduler, prompt)
}

#[test]
fn a_prefix_is_reused_where_the_window_before_it_is_cached() {
    let longer: Vec<u32> = (0..300).collect();
    let mut edited = longer.clone();
    edited[180] = 9999;
    for blocks in [5, 32] {
        assert_eq!(reused_with_window(blocks, &longer), 200);
        assert_eq!(reused_with_window(blocks, &edited), 160);
    }
    // Row 64 sees positions from 25 on: blocks 0 and 1. They are cached if nothing else needed their place.
    assert_eq!(reused_with_window(32, &longer[..70]), 64);
    assert_eq!(reused_with_window(5, &longer[..70]), 0);
}
