//! The scheduler against a model of everything around it: random traffic, a simulated KV cache, and a
//! simulated language model whose next token depends on every token the cache gives for the sequence.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use backend::PAGE;
use engine::scheduler::{Admitted, Event, Limits, Plan, Refusal, RequestId, Scheduler, SequenceId};

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

/// The token a sequence goes on with.
fn next_token(tokens: impl Iterator<Item = u32>) -> u32 {
    tokens.fold(7u32, |hash, token| hash.wrapping_mul(31).wrapping_add(token + 1)) >> 7 & 3
}

/// What a request looks like from outside.
struct Job {
    sequence: Option<SequenceId>,
    tokens: Vec<u32>,
    /// Tokens it ends at.
    goal: usize,
    cached: usize,
    running: bool,
    /// Steps until it must have ended.
    patience: usize,
}

/// Scheduler, device and users.
struct World {
    scheduler: Scheduler,
    limits: Limits,
    random: Random,
    /// The token at each position of each page.
    store: Vec<Option<u32>>,
    alive: BTreeMap<RequestId, Job>,
    /// What each sequence's last request ended with.
    histories: BTreeMap<SequenceId, Vec<u32>>,
    /// The sequences on which a request has ended since they were last forgotten.
    keepable: BTreeSet<SequenceId>,
    events: Vec<Event>,
    submitted: u64,
    ended: u64,
    preempted: usize,
    reused: usize,
}

impl World {
    fn new(trace: u64) -> World {
        let mut random = Random(trace);
        let pages = 1 + random.below(6);
        let most_rows = if random.chance(50) { 8 } else { 80 };
        let limits = Limits {
            n_ctx: 2 + random.below(150),
            sequences: 1 + random.below(4),
            n_batch: 1 + random.below(most_rows),
            pages,
        };
        let scheduler = Scheduler::new(limits);
        let limits = scheduler.limits();
        World {
            scheduler,
            limits,
            random,
            store: vec![None; pages * PAGE],
            alive: BTreeMap::new(),
            histories: BTreeMap::new(),
            keepable: BTreeSet::new(),
            events: Vec::new(),
            submitted: 0,
            ended: 0,
            preempted: 0,
            reused: 0,
        }
    }

    fn submit(&mut self) {
        let n_ctx = self.limits.n_ctx;
        let random = &mut self.random;
        let sequence = random.chance(60).then(|| SequenceId(random.below(3) as u64));
        let mut tokens = match sequence.and_then(|sequence| self.histories.get(&sequence)) {
            Some(history) if random.chance(80) => history.clone(),
            _ => Vec::new(),
        };
        if random.chance(30) {
            tokens.truncate(random.below(tokens.len() + 1));
        }
        let longest = if random.chance(30) { n_ctx + 2 } else { 12 };
        tokens.extend((0..random.below(longest)).map(|_| random.below(4) as u32));
        let goal = (tokens.len() + 1 + random.below(40)).min(n_ctx);

        match self.scheduler.admits(tokens.len()) {
            Ok(()) => assert!(!tokens.is_empty() && tokens.len() < n_ctx),
            Err(Refusal::Empty) => return assert!(tokens.is_empty()),
            Err(refusal) => {
                return assert_eq!(
                    (tokens.len() >= n_ctx, refusal),
                    (true, Refusal::TooLong { tokens: tokens.len(), n_ctx })
                );
            }
        }
        let id = RequestId(self.submitted);
        self.submitted += 1;
        self.events.push(Event::Submit { id, tokens: tokens.clone(), sequence });
        // The oldest running request goes on at every step, so one ends every `n_ctx` steps. At most
        // all older ones, and as many younger as ran while it waited for its sequence, end before it.
        let patience = (self.alive.len() + self.limits.sequences + 1) * n_ctx;
        self.alive.insert(id, Job { sequence, tokens, goal, cached: 0, running: false, patience });
    }

    fn end(&mut self, id: RequestId) {
        let job = self.alive.remove(&id).expect("a request ends once");
        if let Some(sequence) = job.sequence {
            self.histories.insert(sequence, job.tokens);
            self.keepable.insert(sequence);
        }
        self.events.push(Event::End { id, intact: self.random.chance(90) });
        self.ended += 1;
    }

    /// Users arrive, leave and lose patience.
    fn traffic(&mut self, arrivals: bool) {
        while arrivals && self.random.chance(15) {
            self.submit();
        }
        if self.random.chance(2)
            && let Some(&id) = self.alive.keys().nth(self.random.below(self.alive.len().max(1)))
        {
            self.end(id);
        }
        if self.random.chance(1) {
            let forgotten = SequenceId(self.random.below(3) as u64);
            self.events.push(Event::Forget(forgotten));
            self.keepable.remove(&forgotten);
            for job in self.alive.values_mut() {
                job.sequence.take_if(|sequence| *sequence == forgotten);
            }
        }
    }

    fn step(&mut self) {
        let plan = self.scheduler.step(self.events.drain(..));
        self.check_pages();
        self.check_plan(&plan);
        self.run(&plan);
    }

    /// Every page is free, or in one page table, once.
    fn check_pages(&self) {
        let used: Vec<u32> = self.scheduler.page_tables().flatten().copied().collect();
        let distinct: HashSet<u32> = used.iter().copied().collect();
        assert_eq!(distinct.len(), used.len(), "a page is shared");
        assert!(used.iter().all(|&page| (page as usize) < self.limits.pages));
        assert_eq!(used.len() + self.scheduler.free_pages(), self.limits.pages, "a page leaked");
        let kept = (0..3).map(SequenceId).filter(|&sequence| self.scheduler.kept(sequence) > 0);
        for sequence in kept {
            assert!(self.keepable.contains(&sequence), "a forgotten sequence is kept");
        }
    }

    fn check_plan(&mut self, plan: &Plan) {
        let rows: usize = plan.chunks.iter().map(|chunk| chunk.tokens.len()).sum();
        assert!(rows <= self.limits.n_batch, "{rows} rows");
        assert!(plan.chunks.len() <= self.limits.sequences);
        assert!(plan.chunks.is_sorted_by_key(|chunk| !chunk.is_decode()), "decode comes first");
        if !plan.preempted.is_empty() {
            let kept: usize = (0..3).map(|sequence| self.scheduler.kept(SequenceId(sequence))).sum();
            assert_eq!(kept, 0, "a request was preempted before an idle sequence");
        }
        self.preempted += plan.preempted.len();
        for id in &plan.preempted {
            let job = self.alive.get_mut(id).expect("preempted requests are alive");
            (job.cached, job.running) = (0, false);
        }
        for Admitted { id, reused, .. } in &plan.admitted {
            let job = self.alive.get_mut(id).expect("admitted requests are alive");
            assert!(*reused < job.tokens.len());
            assert!(*reused == 0 || job.sequence.is_some());
            (job.cached, job.running) = (*reused, true);
            self.reused += reused;
        }
        let running = || self.alive.iter().filter(|(_, job)| job.running);
        let latest = running().map(|(id, _)| id).max();
        assert!(plan.preempted.iter().all(|id| Some(id) > latest), "only the latest are preempted");
        let sequences: Vec<SequenceId> = running().filter_map(|(_, job)| job.sequence).collect();
        let distinct: HashSet<&SequenceId> = sequences.iter().collect();
        assert_eq!(distinct.len(), sequences.len(), "two requests run on a sequence");
        let oldest = running().next().map(|(id, _)| id);
        assert!(oldest.is_some() || self.alive.is_empty(), "requests wait and none runs");
        assert!(
            oldest.is_none_or(|oldest| plan.chunks.iter().any(|chunk| chunk.id == *oldest)),
            "the oldest stalls"
        );
        for job in self.alive.values_mut() {
            assert!(job.patience > 0, "a request starves");
            job.patience -= 1;
        }
    }

    /// Runs the plan on the simulated device and samples.
    fn run(&mut self, plan: &Plan) {
        let mut seen = HashSet::new();
        for chunk in &plan.chunks {
            assert!(seen.insert(chunk.id), "one chunk a request");
            let job = self.alive.get_mut(&chunk.id).expect("only requests that have not ended run");
            assert_eq!(chunk.past, job.cached, "position of the next token");
            job.cached += chunk.tokens.len();
            assert_eq!(chunk.tokens, job.tokens[chunk.past..job.cached]);
            assert!(!chunk.tokens.is_empty() && chunk.pages.len() * PAGE >= job.cached);
            assert_eq!(chunk.logits, job.cached == job.tokens.len());

            let slot = |position: usize| chunk.pages[position / PAGE] as usize * PAGE + position % PAGE;
            for (i, &token) in chunk.tokens.iter().enumerate() {
                self.store[slot(chunk.past + i)] = Some(token);
            }
            let cache: Vec<u32> = (0..job.cached).map_while(|position| self.store[slot(position)]).collect();
            assert_eq!(cache, job.tokens[..job.cached], "the cache holds the sequence");
            if chunk.logits {
                let token = next_token(cache.into_iter());
                job.tokens.push(token);
                if job.tokens.len() < job.goal {
                    self.events.push(Event::Token { id: chunk.id, token });
                }
            }
        }
        let done = |job: &Job| job.tokens.len() >= job.goal;
        let done: Vec<RequestId> =
            self.alive.iter().filter(|(_, job)| done(job)).map(|(&id, _)| id).collect();
        for id in done {
            self.end(id);
        }
    }
}

/// What a trace went through: requests, preemptions, tokens reused.
fn trace(number: u64) -> [usize; 3] {
    let mut world = World::new(number);
    for _ in 0..world.random.below(60) {
        world.traffic(true);
        world.step();
    }
    while !world.alive.is_empty() {
        world.step();
    }
    world.step();
    assert_eq!(world.submitted, world.ended);
    assert!(world.scheduler.is_idle());
    world.events.extend((0..3).map(|sequence| Event::Forget(SequenceId(sequence))));
    assert_eq!(world.scheduler.step(world.events.drain(..)), Plan::default());
    assert_eq!(world.scheduler.free_pages(), world.limits.pages);
    [world.submitted as usize, world.preempted, world.reused]
}

#[test]
fn random_traffic_keeps_every_invariant() {
    let mut totals = [0; 3];
    for number in 0..100_000 {
        let outcome = std::panic::catch_unwind(|| trace(number)).unwrap_or_else(|panic| {
            eprintln!("in trace {number}");
            std::panic::resume_unwind(panic)
        });
        for (total, of_trace) in totals.iter_mut().zip(outcome) {
            *total += of_trace;
        }
    }
    let [requests, preempted, reused] = totals;
    println!("{requests} requests, {preempted} preemptions, {reused} tokens reused");
    assert!(
        requests > 300_000 && preempted > 10_000 && reused > 100_000,
        "the traces test little: {totals:?}"
    );
}

/// A scheduler with room for everything, and its first request run to its first token.
fn with_chat(prompt: &[u32]) -> Scheduler {
    let mut scheduler = Scheduler::new(Limits { n_ctx: 256, sequences: 2, n_batch: 512, pages: 16 });
    let sequence = Some(SequenceId(0));
    let plan = scheduler.step([Event::Submit { id: RequestId(0), tokens: prompt.to_vec(), sequence }]);
    assert_eq!(plan.chunks.len(), 1);
    scheduler
}

/// How much of `prompt` a second turn finds in the cache.
fn reused(mut scheduler: Scheduler, prompt: &[u32]) -> usize {
    let second = Event::Submit { id: RequestId(1), tokens: prompt.to_vec(), sequence: Some(SequenceId(0)) };
    let plan = scheduler.step([Event::End { id: RequestId(0), intact: true }, second]);
    assert_eq!(plan.chunks[0].past, plan.admitted[0].reused);
    plan.admitted[0].reused
}

#[test]
fn a_chat_prefills_only_what_is_new() {
    let first: Vec<u32> = (0..40).collect();
    let longer: Vec<u32> = (0..50).collect();
    assert_eq!(reused(with_chat(&first), &longer), 40, "all that was run");
    assert_eq!(reused(with_chat(&first), &first), 39, "one token must run");
    assert_eq!(reused(with_chat(&longer), &first), 39, "a shorter prompt drops the tail");
    let mut edited = longer.clone();
    edited[20] = 99;
    assert_eq!(reused(with_chat(&first), &edited), 20, "the longest common beginning");
    assert_eq!(reused(with_chat(&first), &[7, 8]), 0);
}

#[test]
fn the_last_sampled_token_is_not_in_the_cache() {
    let mut scheduler = with_chat(&[1, 2, 3]);
    scheduler.step([Event::Token { id: RequestId(0), token: 4 }]);
    scheduler
        .step([Event::Token { id: RequestId(0), token: 5 }, Event::End { id: RequestId(0), intact: true }]);
    assert_eq!(scheduler.kept(SequenceId(0)), 4);
}

#[test]
fn prompts_are_chunked_and_never_delay_decoding() {
    let mut scheduler = Scheduler::new(Limits { n_ctx: 256, sequences: 2, n_batch: 10, pages: 16 });
    let submit =
        |id, tokens: usize| Event::Submit { id: RequestId(id), tokens: vec![1; tokens], sequence: None };
    let rows = |plan: &Plan| {
        plan.chunks.iter().map(|c| (c.id.0, c.past, c.tokens.len(), c.logits)).collect::<Vec<_>>()
    };
    assert_eq!(
        rows(&scheduler.step([submit(0, 4), submit(1, 20), submit(2, 1)])),
        [(0, 0, 4, true), (1, 0, 6, false)]
    );
    let token = |id| Event::Token { id: RequestId(id), token: 1 };
    assert_eq!(rows(&scheduler.step([token(0)])), [(0, 4, 1, true), (1, 6, 9, false)]);
    assert_eq!(rows(&scheduler.step([token(0)])), [(0, 5, 1, true), (1, 15, 5, true)]);
    let end = Event::End { id: RequestId(0), intact: true };
    assert_eq!(rows(&scheduler.step([end, token(1)])), [(1, 20, 1, true), (2, 0, 1, true)]);
}

#[test]
fn the_context_is_never_larger_than_the_pages() {
    let scheduler = Scheduler::new(Limits { n_ctx: 1000, sequences: 4, n_batch: 2, pages: 3 });
    assert_eq!(scheduler.limits().n_ctx, 3 * PAGE);
    assert_eq!(scheduler.limits().n_batch, 4);
    assert_eq!(scheduler.admits(95), Ok(()));
    assert_eq!(scheduler.admits(96), Err(Refusal::TooLong { tokens: 96, n_ctx: 96 }));
}

#[test]
fn nobody_passes_a_request_that_waits_for_pages() {
    let mut scheduler = Scheduler::new(Limits { n_ctx: 128, sequences: 4, n_batch: 512, pages: 4 });
    let submit = |id, tokens| Event::Submit { id: RequestId(id), tokens: vec![1; tokens], sequence: None };
    let ids = |plan: Plan| plan.chunks.iter().map(|chunk| chunk.id.0).collect::<Vec<_>>();
    assert_eq!(ids(scheduler.step([submit(0, 5), submit(1, 100), submit(2, 5)])), [0]);
    let token = Event::Token { id: RequestId(0), token: 1 };
    assert_eq!(ids(scheduler.step([token, submit(3, 5)])), [0]);
    assert_eq!(ids(scheduler.step([Event::End { id: RequestId(0), intact: true }])), [1]);
}
