//! Random traffic on a scheduler, with a model of everything around it.

mod slots;

use super::*;

/// What a request looks like from outside.
struct Job {
    salt: u8,
    tokens: Vec<u32>,
    /// Tokens of its prompt.
    prompt: usize,
    /// The first requested row of the prompt that was not an output row yet.
    asked_from: usize,
    /// The number of tokens with which it ends.
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
    /// The most blocks of a group that one sequence may have.
    most_blocks: Vec<usize>,
    /// Whether groups with a window have the blocks that all their windows need.
    has_all_windows: bool,
    /// The token at each position of each block, by group.
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
        let blocks = 1 + random.below(6);
        let most_rows = if random.chance(50) { 8 } else { 80 };
        let limits = Limits {
            n_ctx: 2 + random.below(150),
            sequences: 1 + random.below(4),
            n_batch: 1 + random.below(most_rows),
            blocks,
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
            KvLayout::new(&graph, n_ctx, sequences, n_batch, KvFormat::F16).blocks
        };
        let has_all_windows = random.chance(50);
        let of_group = |(group, needed): (&Group, usize)| match group.mask.span() {
            None => (*group, blocks),
            Some(_) if has_all_windows => (*group, needed),
            Some(_) => (*group, needed.min(blocks)),
        };
        let groups: Vec<(Group, usize)> =
            graph.groups().iter().zip(layout(limits.sequences)).map(of_group).collect();
        let slots = if random.chance(50) { SLOTS * limits.sequences } else { 0 };
        World {
            scheduler: Scheduler::new(limits, &groups, slots, [0; 16]),
            slots: vec![Vec::new(); slots],
            limits,
            random,
            stores: groups.iter().map(|(_, blocks)| vec![None; blocks * KV_BLOCK]).collect(),
            most_blocks: layout(1),
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
        let admission = Admission { client: random.below(3) as u64, ..Admission::default() };
        self.events.push(Event::Submit {
            id,
            tokens: tokens.clone(),
            salt: vec![salt],
            adapter: None,
            admission,
            outputs_from,
        });
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
            self.write(&chunk, |_| None, |_| vec![u32::MAX]);
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
        let mut plan = self.scheduler.step(self.events.drain(..), |_| prompt_rows);
        self.draft(&mut plan);
        self.check_blocks();
        self.check_plan(&plan);
        self.run(&plan);
    }

    /// Adds drafts to what decodes, right up to some token.
    fn draft(&mut self, plan: &mut Plan) {
        if !self.slots.is_empty() || self.random.chance(40) {
            return;
        }
        for chunk in plan.chunks.iter_mut().filter(|chunk| chunk.is_decode()) {
            let (most, right) = (self.random.below(KV_BLOCK), self.random.below(KV_BLOCK));
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

    /// Every block of a group is in a block table or available; and no table is longer than it may be.
    fn check_blocks(&self) {
        let available: Vec<usize> = self.scheduler.available_blocks().collect();
        for (number, &(_, blocks)) in self.groups.iter().enumerate() {
            let tables: Vec<&BlockTable> =
                self.scheduler.block_tables().map(|tables| &tables[number]).collect();
            let used: HashSet<u32> = tables.iter().flat_map(|table| table.blocks.iter().copied()).collect();
            assert!(used.iter().all(|&block| (block as usize) < blocks));
            assert_eq!(used.len() + available[number], blocks, "a block of group {number} leaked");
            let longest = tables.iter().map(|table| table.blocks.len()).max().unwrap_or(0);
            assert!(longest <= self.most_blocks[number], "{longest} blocks of group {number}");
        }
        self.check_slots();
    }

    /// No block that a chunk writes is in the table of another request.
    fn check_writes(&self, plan: &Plan) {
        for number in 0..self.groups.len() {
            let mut users: HashMap<u32, usize> = HashMap::new();
            for tables in self.scheduler.block_tables() {
                tables[number].blocks.iter().for_each(|&block| *users.entry(block).or_default() += 1);
            }
            for chunk in &plan.chunks {
                for position in chunk.sequence.n_past..chunk.sequence.n_past + chunk.sequence.len {
                    let block = chunk.sequence.tables[number].slot(position).0 as u32;
                    assert_eq!(users[&block], 1, "a shared block of group {number} is written");
                }
            }
        }
    }

    fn check_plan(&mut self, plan: &Plan) {
        let rows: usize = plan.chunks.iter().map(|chunk| chunk.sequence.len - chunk.drafted).sum();
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
        token: impl Fn(usize) -> Option<u32>,
        state: impl Fn(usize) -> Vec<u32>,
    ) {
        for (table, store) in chunk.sequence.tables.iter().zip(&mut self.stores) {
            for i in 0..chunk.sequence.len {
                store[slot(table, chunk.sequence.n_past + i)] = token(i);
            }
        }
        if !self.slots.is_empty() {
            if let Some((rows, slot)) = chunk.sequence.slots.checkpoint {
                self.slots[slot as usize] = state(chunk.sequence.n_past + rows);
            }
            self.slots[chunk.sequence.slots.write as usize] =
                state(chunk.sequence.n_past + chunk.sequence.len);
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
                self.events.push(Event::Rewind { id: chunk.id, n_past: chunk.sequence.n_past });
            }
            return;
        }
        let mut seen = HashSet::new();
        for chunk in &plan.chunks {
            assert!(seen.insert(chunk.id), "one chunk a request");
            let job = self.alive.get_mut(&chunk.id).expect("only requests that have not ended run");
            assert_eq!(chunk.sequence.n_past, job.cached, "position of the next token");
            job.cached += chunk.sequence.len - chunk.drafted;
            let planned =
                self.scheduler.tokens(chunk.id).expect("it runs")[chunk.sequence.positions()].to_vec();
            let (generated, draft) = planned.split_at(job.cached - chunk.sequence.n_past);
            assert_eq!(generated, &job.tokens[chunk.sequence.n_past..job.cached]);
            assert!(!generated.is_empty());
            assert_eq!(chunk.is_last, job.cached == job.tokens.len());
            let asked = job.asked_from.max(chunk.sequence.n_past)..job.cached.min(job.prompt);
            assert!(chunk.sequence.n_past <= job.asked_from, "a row that is asked for was skipped");
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
            self.write(chunk, |i| Some(planned[i]), |end| tokens[..end].to_vec());
            for ((table, &(group, _)), store) in
                chunk.sequence.tables.iter().zip(&self.groups).zip(&self.stores)
            {
                let first = group.mask.first_visible(chunk.sequence.n_past);
                let end = chunk.sequence.n_past + chunk.sequence.len;
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
    let (block, offset) = table.slot(position);
    block * KV_BLOCK + offset
}

/// Counts of a trace: requests, preemptions, reused tokens, requested rows, accepted and rejected drafted tokens.
pub(super) fn trace(number: u64) -> [usize; 6] {
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
    let available: Vec<usize> = world.scheduler.available_blocks().collect();
    assert!(available.iter().eq(world.groups.iter().map(|(_, blocks)| blocks)), "all blocks come back");
    let nothing = Plan { prompt_rows: usize::MAX, ..Plan::default() };
    assert_eq!(world.scheduler.plan([Event::Clear]), nothing);
    assert_eq!(world.scheduler.idle(), 0);
    let World { preempted, reused, asked, accepted, rejected, .. } = world;
    [world.submitted as usize, preempted, reused, asked, accepted, rejected]
}
