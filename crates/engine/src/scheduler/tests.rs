//! The scheduler against a model of everything around it: random traffic, simulated stores of several
//! groups and slots, and a simulated language model whose next token depends on every token that the stores give for
//! the sequence.

use std::collections::{BTreeMap, HashMap, HashSet};

use backend::{BlockTable, KvFormat, KvLayout, PAGE, SLOTS};
use graph::{Builder, Graph, Group, Mask, Store};

use crate::queue::Place;

use super::{Admitted, Chunk, Event, Limits, Plan, Refusal, RequestId, Scheduler};

mod outputs;
mod sharing;
mod slots;
mod windows;

impl Scheduler {
    /// Whether no request is running or waiting.
    fn is_idle(&self) -> bool {
        self.running.is_empty() && self.waiting.is_empty()
    }

    /// The next step, without a limit of prefill rows.
    fn plan(&mut self, events: impl IntoIterator<Item = Event>) -> Plan {
        self.step(events, usize::MAX)
    }

    /// Pages per group that no request uses.
    fn available_pages(&self) -> impl Iterator<Item = usize> {
        self.blocks.groups.iter().map(|(_, pool)| pool.available())
    }

    /// Pages and slots that are cached for later requests.
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
    Scheduler::new(limits, &[(Group { mask: Mask::Causal }, limits.pages)], 0, [0; 16])
}

/// Limits of steps in which only the last rows are output rows.
fn limits(n_ctx: usize, sequences: usize, n_batch: usize, pages: usize) -> Limits {
    Limits { n_ctx, sequences, n_batch, pages, logit_rows: n_batch }
}

/// A request for text.
fn submit(id: u64, tokens: Vec<u32>) -> Event {
    Event::Submit { id: RequestId(id), tokens, salt: Vec::new(), place: Place::default(), outputs_from: None }
}

/// What a request looks like from outside.
struct Job {
    salt: u8,
    tokens: Vec<u32>,
    /// Tokens of its prompt.
    prompt: usize,
    /// The first requested row of the prompt that was not an output row yet.
    asked_from: usize,
    /// Tokens it ends at.
    goal: usize,
    cached: usize,
    running: bool,
    /// What it ran in the last step.
    last: Option<Chunk>,
    /// Steps until it must have ended.
    patience: usize,
}

/// Scheduler, device and users.
struct World {
    scheduler: Scheduler,
    limits: Limits,
    random: Random,
    groups: Vec<(Group, usize)>,
    /// The most pages of a group that one sequence may have.
    most_pages: Vec<usize>,
    /// Whether groups with a window have the pages that all their windows need.
    has_all_windows: bool,
    /// The token at each position of each page, by group.
    stores: Vec<Vec<Option<u32>>>,
    /// The tokens up to the state in each slot; no slots for a model without state.
    slots: Vec<Vec<u32>>,
    alive: BTreeMap<RequestId, Job>,
    /// What the last request of each salt had.
    histories: BTreeMap<u8, Vec<u32>>,
    events: Vec<Event>,
    submitted: u64,
    ended: u64,
    preempted: usize,
    reused: usize,
    /// Rows of prompts whose logits were requested and returned.
    asked: usize,
    /// Drafted tokens that were accepted, and those that were not.
    accepted: usize,
    rejected: usize,
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
            logit_rows: 1 + random.below(most_rows),
        };
        let mut windows = vec![Mask::Causal];
        windows.extend((0..random.below(3)).map(|_| match random.below(3) {
            0 => Mask::Chunk(1 + random.below(90)),
            _ => Mask::Window(1 + random.below(90)),
        }));
        if random.chance(10) {
            windows.remove(0);
        }
        let graph = graph(&windows);
        let limits = Scheduler::new(limits, &[], 0, [0; 16]).limits();
        let layout = |sequences| {
            let Limits { n_ctx, n_batch, .. } = limits;
            KvLayout::new(&graph, n_ctx, sequences, n_batch, KvFormat::F16).pages
        };
        let has_all_windows = random.chance(50);
        let of_group = |(group, needed): (&Group, usize)| match group.mask.span() {
            None => (*group, pages),
            Some(_) if has_all_windows => (*group, needed),
            Some(_) => (*group, needed.min(pages)),
        };
        let groups: Vec<(Group, usize)> =
            graph.groups().iter().zip(layout(limits.sequences)).map(of_group).collect();
        let slots = if random.chance(50) { SLOTS * limits.sequences } else { 0 };
        World {
            scheduler: Scheduler::new(limits, &groups, slots, [0; 16]),
            slots: vec![Vec::new(); slots],
            limits,
            random,
            stores: groups.iter().map(|(_, pages)| vec![None; pages * PAGE]).collect(),
            most_pages: layout(1),
            has_all_windows,
            groups,
            alive: BTreeMap::new(),
            histories: BTreeMap::new(),
            events: Vec::new(),
            submitted: 0,
            ended: 0,
            preempted: 0,
            reused: 0,
            asked: 0,
            accepted: 0,
            rejected: 0,
        }
    }

    fn submit(&mut self) {
        let n_ctx = self.limits.n_ctx;
        let random = &mut self.random;
        let salt = random.below(2) as u8;
        let mut tokens = match self.histories.get(&salt) {
            Some(history) if random.chance(80) => history.clone(),
            _ => Vec::new(),
        };
        if random.chance(30) {
            tokens.truncate(random.below(tokens.len() + 1));
        }
        let longest = if random.chance(30) { n_ctx + 2 } else { 12 };
        tokens.extend((0..random.below(longest)).map(|_| random.below(4) as u32));
        let outputs_from = random.chance(20).then(|| random.below(tokens.len().max(1)));
        let generated = if outputs_from.is_some() && random.chance(50) { 0 } else { 1 };
        let goal = (tokens.len() + generated * (1 + random.below(40))).min(n_ctx);

        match self.scheduler.admits(tokens.len(), generated) {
            Ok(()) => assert!(!tokens.is_empty() && tokens.len() + generated <= n_ctx),
            Err(Refusal::Empty) => return assert!(tokens.is_empty()),
            Err(refusal) => {
                return assert_eq!(
                    (tokens.len() + generated > n_ctx, refusal),
                    (true, Refusal::TooLong { tokens: tokens.len(), n_ctx })
                );
            }
        }
        let id = RequestId(self.submitted);
        self.submitted += 1;
        let place = Place { client: random.below(3) as u64, ..Place::default() };
        self.events.push(Event::Submit { id, tokens: tokens.clone(), salt: vec![salt], place, outputs_from });
        self.histories.insert(salt, tokens.clone());
        // The oldest running request decodes at every step, and a prompt is passed by at most as many rows as it has. All
        // older requests may end before a new one, and some younger ones.
        let patience = 2 * (self.alive.len() + self.limits.sequences + 1) * n_ctx;
        let (prompt, asked_from) = (tokens.len(), outputs_from.unwrap_or(tokens.len()));
        let (running, last) = (false, None);
        let job = Job { salt, tokens, prompt, asked_from, goal, cached: 0, running, last, patience };
        self.alive.insert(id, job);
    }

    fn end(&mut self, id: RequestId) {
        let job = self.alive.remove(&id).expect("a request ends once");
        self.histories.insert(job.salt, job.tokens);
        let intact = self.random.chance(90);
        self.events.push(Event::End { id, intact });
        if let Some(chunk) = job.last.filter(|_| !intact) {
            self.write(&chunk, |_, _| None, |_| vec![u32::MAX]);
        }
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
            self.events.push(Event::Clear);
        }
    }

    fn step(&mut self) {
        let prompt_rows = if self.random.chance(50) { usize::MAX } else { 1 + self.random.below(20) };
        let mut plan = self.scheduler.step(self.events.drain(..), prompt_rows);
        self.draft(&mut plan);
        self.check_pages();
        self.check_plan(&plan);
        self.run(&plan);
    }

    /// Adds drafts to what decodes, right up to some token.
    fn draft(&mut self, plan: &mut Plan) {
        if !self.slots.is_empty() || self.random.chance(40) {
            return;
        }
        for chunk in plan.chunks.iter_mut().filter(|chunk| chunk.is_decode()) {
            let (most, right) = (self.random.below(PAGE), self.random.below(PAGE));
            let mut tokens = self.alive[&chunk.id].tokens.clone();
            let generated = tokens.len();
            for number in 0..most {
                let token = next_token(tokens.iter().copied());
                tokens.push(if number == right { token ^ 1 } else { token });
            }
            if let Some(draft) = self.scheduler.draft(chunk.id, &tokens[generated..]) {
                chunk.append(draft);
            }
            assert!(
                generated + chunk.drafted < self.limits.n_ctx.max(generated + 1),
                "a draft exceeds the context"
            );
        }
    }

    /// Every page of a group is in a block table or available; and no table is longer than it may be.
    fn check_pages(&self) {
        let available: Vec<usize> = self.scheduler.available_pages().collect();
        for (number, &(_, pages)) in self.groups.iter().enumerate() {
            let tables: Vec<&BlockTable> =
                self.scheduler.block_tables().map(|tables| &tables[number]).collect();
            let used: HashSet<u32> = tables.iter().flat_map(|table| table.pages.iter().copied()).collect();
            assert!(used.iter().all(|&page| (page as usize) < pages));
            assert_eq!(used.len() + available[number], pages, "a page of group {number} leaked");
            let longest = tables.iter().map(|table| table.pages.len()).max().unwrap_or(0);
            assert!(longest <= self.most_pages[number], "{longest} pages of group {number}");
        }
        self.check_slots();
    }

    /// No page that a chunk writes is in the table of another request.
    fn check_writes(&self, plan: &Plan) {
        for number in 0..self.groups.len() {
            let mut users: HashMap<u32, usize> = HashMap::new();
            for tables in self.scheduler.block_tables() {
                tables[number].pages.iter().for_each(|&page| *users.entry(page).or_default() += 1);
            }
            for chunk in &plan.chunks {
                for position in chunk.n_past..chunk.n_past + chunk.tokens.len() {
                    let page = chunk.tables[number].slot(position).0 as u32;
                    assert_eq!(users[&page], 1, "a shared page of group {number} is written");
                }
            }
        }
    }

    fn check_plan(&mut self, plan: &Plan) {
        let rows: usize = plan.chunks.iter().map(|chunk| chunk.tokens.len() - chunk.drafted).sum();
        assert!(rows <= self.limits.n_batch, "{rows} rows");
        assert!(plan.chunks.len() <= self.limits.sequences);
        let outputs: usize = plan.chunks.iter().map(|chunk| chunk.outputs - chunk.drafted).sum();
        assert!(outputs <= self.limits.sequences || rows <= self.limits.logit_rows, "{outputs} of {rows}");
        assert!(plan.chunks.is_sorted_by_key(|chunk| !chunk.is_decode()), "decode comes first");
        if !plan.preempted.is_empty() {
            let is_unbounded = |(group, _): &(Group, usize)| group.mask.span().is_none();
            assert!(self.groups.iter().any(is_unbounded) || !self.has_all_windows, "windows have room");
        }
        self.preempted += plan.preempted.len();
        for id in &plan.preempted {
            let job = self.alive.get_mut(id).expect("preempted requests are alive");
            (job.cached, job.running) = (0, false);
        }
        for Admitted { id, reused, .. } in &plan.admitted {
            let job = self.alive.get_mut(id).expect("admitted requests are alive");
            assert!(*reused < job.tokens.len());
            (job.cached, job.running) = (*reused, true);
            self.reused += reused;
        }
        let running = || self.alive.iter().filter(|(_, job)| job.running);
        let latest = running().map(|(id, _)| id).max();
        assert!(plan.preempted.iter().all(|id| Some(id) > latest), "only the latest are preempted");
        assert!(running().next().is_some() || self.alive.is_empty(), "requests wait and none runs");
        assert!(!plan.chunks.is_empty() || self.alive.is_empty(), "nothing runs");
        for job in self.alive.values_mut() {
            assert!(job.patience > 0, "a request starves");
            job.patience -= 1;
        }
    }

    /// Writes for each row of `chunk` what `token` gives, and to slots what `state` gives for the position.
    fn write(
        &mut self,
        chunk: &Chunk,
        token: impl Fn(usize, &Chunk) -> Option<u32>,
        state: impl Fn(usize) -> Vec<u32>,
    ) {
        for (table, store) in chunk.tables.iter().zip(&mut self.stores) {
            for i in 0..chunk.tokens.len() {
                store[slot(table, chunk.n_past + i)] = token(i, chunk);
            }
        }
        if !self.slots.is_empty() {
            if let Some((rows, slot)) = chunk.slots.checkpoint {
                self.slots[slot as usize] = state(chunk.n_past + rows);
            }
            self.slots[chunk.slots.write as usize] = state(chunk.n_past + chunk.tokens.len());
        }
    }

    /// Runs the plan on the simulated device and samples.
    fn run(&mut self, plan: &Plan) {
        self.check_writes(plan);
        self.check_states(plan);
        self.alive.values_mut().for_each(|job| job.last = None);
        if self.random.chance(2) {
            // The step is interrupted.
            for chunk in &plan.chunks {
                self.events.push(Event::Rewind { id: chunk.id, n_past: chunk.n_past });
            }
            return;
        }
        let mut seen = HashSet::new();
        for chunk in &plan.chunks {
            assert!(seen.insert(chunk.id), "one chunk a request");
            let job = self.alive.get_mut(&chunk.id).expect("only requests that have not ended run");
            assert_eq!(chunk.n_past, job.cached, "position of the next token");
            job.cached += chunk.tokens.len() - chunk.drafted;
            let (generated, draft) = chunk.tokens.split_at(job.cached - chunk.n_past);
            assert_eq!(generated, &job.tokens[chunk.n_past..job.cached]);
            assert!(!generated.is_empty());
            assert_eq!(chunk.is_last, job.cached == job.tokens.len());
            let asked = job.asked_from.max(chunk.n_past)..job.cached.min(job.prompt);
            assert!(chunk.n_past <= job.asked_from, "a row that is asked for was skipped");
            let outputs = asked.len().max(usize::from(chunk.is_last));
            assert_eq!(chunk.outputs, outputs + chunk.drafted, "{asked:?}");
            self.asked += asked.len();
            job.asked_from =
                if job.cached < job.prompt { job.asked_from.max(job.cached) } else { usize::MAX };

            job.last = Some(chunk.clone());
            let mut tokens = job.tokens.clone();
            if chunk.is_last {
                tokens.extend(draft);
            }
            self.write(chunk, |i, chunk| Some(chunk.tokens[i]), |end| tokens[..end].to_vec());
            for ((table, &(group, _)), store) in chunk.tables.iter().zip(&self.groups).zip(&self.stores) {
                let first = group.mask.first_visible(chunk.n_past);
                let end = chunk.n_past + chunk.tokens.len();
                let seen: Vec<u32> = (first..end).map_while(|at| store[slot(table, at)]).collect();
                assert_eq!(seen, tokens[first..end], "the stores hold what the rows see");
            }
            let job = self.alive.get_mut(&chunk.id).expect("it was there");
            if job.prompt == job.goal || !chunk.is_last {
                continue;
            }
            let mut draft = draft.iter();
            loop {
                let token = next_token(job.tokens.iter().copied());
                job.tokens.push(token);
                self.events.push(Event::Token { id: chunk.id, token });
                if job.tokens.len() == job.goal || draft.next() != Some(&token) {
                    break;
                }
                job.cached += 1;
                self.accepted += 1;
            }
            self.rejected += draft.len();
        }
        let done = |job: &Job| job.tokens.len() >= job.goal && job.cached >= job.prompt;
        let done: Vec<RequestId> =
            self.alive.iter().filter(|(_, job)| done(job)).map(|(&id, _)| id).collect();
        for id in done {
            self.end(id);
        }
    }
}

/// Index of `position` in the simulated store of its group.
fn slot(table: &BlockTable, position: usize) -> usize {
    let (page, offset) = table.slot(position);
    page * PAGE + offset
}

/// Counts of a trace: requests, preemptions, reused tokens, requested rows, accepted and rejected drafted tokens.
fn trace(number: u64) -> [usize; 6] {
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
    let available: Vec<usize> = world.scheduler.available_pages().collect();
    assert!(available.iter().eq(world.groups.iter().map(|(_, pages)| pages)), "all pages come back");
    assert_eq!(world.scheduler.plan([Event::Clear]), Plan::default());
    assert_eq!(world.scheduler.idle(), 0);
    let World { preempted, reused, asked, accepted, rejected, .. } = world;
    [world.submitted as usize, preempted, reused, asked, accepted, rejected]
}

#[test]
fn random_traffic_keeps_every_invariant() {
    let mut totals = [0; 6];
    for number in 0..100_000 {
        let outcome = std::panic::catch_unwind(|| trace(number)).unwrap_or_else(|panic| {
            eprintln!("in trace {number}");
            std::panic::resume_unwind(panic)
        });
        for (total, of_trace) in totals.iter_mut().zip(outcome) {
            *total += of_trace;
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
        plan.chunks.iter().map(|c| (c.id.0, c.n_past, c.tokens.len(), c.is_last)).collect::<Vec<_>>()
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
fn the_context_is_never_larger_than_the_pages() {
    let scheduler = scheduler(limits(1000, 4, 2, 3));
    assert_eq!(scheduler.limits().n_ctx, 3 * PAGE);
    assert_eq!(scheduler.limits().n_batch, 4);
    assert_eq!(scheduler.admits(95, 1), Ok(()));
    assert_eq!(scheduler.admits(96, 1), Err(Refusal::TooLong { tokens: 96, n_ctx: 96 }));
}

#[test]
fn few_requests_pass_one_that_waits_for_pages() {
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
    let rows = |plan: Plan| plan.chunks.iter().map(|c| (c.id.0, c.tokens.len())).collect::<Vec<_>>();
    assert_eq!(rows(scheduler.plan([submit(0, 100)])), [(0, 20)]);
    assert_eq!(rows(scheduler.plan([submit(1, 30), submit(2, 10)])), [(1, 10), (2, 10)]);
    let mut order = Vec::new();
    for id in 3..20 {
        let ends = (1..id).map(|id| Event::End { id: RequestId(id), intact: true }).filter(|_| id > 3);
        order.extend(rows(scheduler.plan(ends.chain([submit(id, 20)]))).into_iter().map(|(id, _)| id));
    }
    // 80 rows are left of the first prompt: fewer of others pass it.
    assert_eq!(order[..6], [1, 4, 0, 0, 0, 0]);
}

#[test]
fn prompts_have_few_rows_while_others_decode() {
    let mut scheduler = scheduler(limits(256, 8, 100, 64));
    let submit = |id: u64, tokens| submit(id, vec![id as u32; tokens]);
    let rows = |plan: Plan| plan.chunks.iter().map(|c| (c.id.0, c.tokens.len())).collect::<Vec<_>>();
    assert_eq!(rows(scheduler.step([submit(0, 90)], 7)), [(0, 90)], "nobody decodes");
    let token = Event::Token { id: RequestId(0), token: 1 };
    assert_eq!(rows(scheduler.step([token.clone(), submit(1, 90)], 7)), [(0, 1), (1, 7)]);
    assert_eq!(rows(scheduler.step([token, submit(2, 5)], 7)), [(0, 1), (1, 2), (2, 5)]);
}

/// The positions that the tables of a request have room for after the prompt has been run and `generated` tokens.
fn positions_after(mut scheduler: Scheduler, prompt: usize, generated: usize) -> Vec<std::ops::Range<usize>> {
    let mut plan = scheduler.plan([submit(0, vec![1; prompt])]);
    let mut tokens = 0;
    loop {
        let chunk = &plan.chunks[0];
        if tokens == generated && chunk.is_last {
            return chunk.tables.iter().map(BlockTable::positions).collect();
        }
        let event = chunk.is_last.then_some(Event::Token { id: RequestId(0), token: 1 });
        tokens += usize::from(event.is_some());
        plan = scheduler.plan(event);
    }
}

#[test]
fn pages_that_fell_out_of_a_window_come_back() {
    let groups = [Mask::Causal, Mask::Window(40)].map(|mask| Group { mask });
    let positions = |generated| {
        let scheduler = Scheduler::new(limits(1000, 1, 64, 32), &groups.map(|group| (group, 32)), 0, [0; 16]);
        positions_after(scheduler, 100, generated)
    };
    // Row 64 sees positions from 25 on.
    assert_eq!(positions(0), [0..128, 0..128]);
    // Row 100 sees 61 ..= 100: page 1 has the first, page 0 is slack.
    assert_eq!(positions(1), [0..128, 0..128]);
    // Row 103 sees 64 ..= 103: page 2 has the first. It is tokens 1, 2, 3, 4 that rows 100 to 103 run.
    assert_eq!(positions(3), [0..128, 0..128]);
    assert_eq!(positions(4), [0..128, 32..128]);
    assert_eq!(positions(29), [0..160, 32..160]);
}

/// Gemma 3's 1B: 26 layers of one K/V head of 256, of which every sixth sees all positions and others the last 512.
#[test]
fn windows_take_a_fraction_of_the_memory() {
    let of_layer = |layer| if layer % 6 == 0 { Mask::Causal } else { Mask::Window(512) };
    let windows: Vec<Mask> = (1..=26).map(of_layer).collect();
    let bytes = |windows: &[Mask]| {
        let graph = graph(windows);
        KvLayout::new(&graph, 32768, 1, 512, KvFormat::F16).bytes(&graph)
    };
    // 2 * 256 values of 2 bytes a position and layer: 1 KiB.
    assert_eq!(bytes(&[Mask::Causal; 26]), 26 * 32768 * 1024);
    // 512 positions fill 16 pages and those of a step in as many; two more because either may begin within a page,
    // and one is slack.
    assert_eq!(bytes(&windows), (4 * 32768 + 22 * (16 + 16 + 3) * PAGE as u64) * 1024);

    // A sequence that fills the context never has more, and gives the rest back.
    let graph = graph(&windows);
    let layout = KvLayout::new(&graph, 32768, 1, 512, KvFormat::F16);
    let groups: Vec<(Group, usize)> = graph.groups().iter().copied().zip(layout.pages).collect();
    let mut scheduler = Scheduler::new(limits(32768, 1, 512, 1024), &groups, 0, [0; 16]);
    let mut plan = scheduler.plan([submit(0, vec![1; 32000])]);
    let (mut most, mut steps) = (HashMap::new(), 0);
    while scheduler.cached(RequestId(0)) < 32767 {
        assert!(plan.preempted.is_empty() && !plan.chunks.is_empty());
        for (group, table) in plan.chunks[0].tables.iter().enumerate() {
            let pages = most.entry(group).or_insert(0);
            *pages = table.pages.len().max(*pages);
        }
        let token = Event::Token { id: RequestId(0), token: 1 };
        plan = scheduler.plan(plan.chunks[0].is_last.then_some(token));
        steps += 1;
    }
    assert!(steps > 800 && most[&0] <= 35 && most[&1] == 1024, "{most:?}");
}
