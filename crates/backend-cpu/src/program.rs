//! Runs the phases of a compiled graph.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::{Arc, Mutex};

use backend::{
    BoundProgram, Error, Input, MemoryKind, Outputs, Pending, Program, Remedy, Step, Ticket, Weight, lock,
};
use graph::{Index, Map, Op, Pool, Rope, ValueId, WeightId};

use crate::State;
use crate::attention::{Attend, Heads, QUERY_TILE};
use crate::experts::{Products, Routing, cut};
use crate::kernels::{Kernels, Ranking, route};
use crate::kv::Kv;
use crate::lanes::LANES;
use crate::matmul::{Product, TASKS, multiply};
use crate::memory::{Buffer, Scratch};
use crate::packed::activations::{Activations, Form, panels};
use crate::plan::{Item, Kind, Phase, Plan, Stage, words_of};
use crate::recurrent::{CONV_COLUMNS, Convolve, LinearHead, Slots};
use crate::weights::{Matrix, ModelWeights};

pub(crate) struct CpuProgram {
    bound: BoundProgram,
    kernels: Kernels,
    state: Arc<Mutex<State>>,
    plan: Plan,
    buffers: Vec<Buffer>,
    /// Bytes charged to the model's budget: activation buffers and the threads' scratch memory.
    taken: u64,
    weights: Arc<ModelWeights>,
    tables: Vec<RopeTable>,
    /// The routing of the current step, by value.
    routings: HashMap<ValueId, Routing>,
    pending: Pending,
}

/// The cos/sin table of one set of RoPE parameters, computed once per step for all layers.
#[derive(Debug)]
struct RopeTable {
    rope: Rope,
    /// Radians per position of each pair.
    frequencies: Vec<f64>,
    /// `[rows][pairs]` of (cosine, sine).
    cos_sin: Vec<[f32; 2]>,
}

impl CpuProgram {
    pub(crate) fn new(
        bound: BoundProgram,
        weights: Arc<ModelWeights>,
        kernels: Kernels,
        state: Arc<Mutex<State>>,
    ) -> Result<CpuProgram, Error> {
        let plan = Plan::new(&bound, |weight| weights.form(weight));
        let taken = {
            let state = &mut *lock(&state);
            let taken = plan.memory(&bound, kernels.tile, state.pool.threads());
            let remedy = if bound.bucket().rows > 1 { Remedy::SmallerBatch } else { Remedy::SmallerModel };
            state.budget.take("activations", taken, remedy)?;
            state.activation_bytes += taken;
            taken
        };
        let tables = plan.ropes.iter().map(|&rope| {
            let factors = rope.factors_for(bound.model().kv_layout().n_ctx).map(|id| weights.vector(id));
            let frequencies = rope.frequencies(factors);
            RopeTable { rope, frequencies, cos_sin: Vec::new() }
        });
        let tables = tables.collect();
        let mut buffers = Vec::new();
        buffers.resize_with(plan.buffers.len(), Buffer::default);
        let (routings, pending) = (HashMap::new(), Pending::default());
        Ok(CpuProgram { taken, buffers, plan, weights, tables, routings, kernels, state, bound, pending })
    }

    fn result(&self, id: ValueId) -> &[f32] {
        self.values(Item::Value(id))
    }
}

impl Drop for CpuProgram {
    fn drop(&mut self) {
        let state = &mut *lock(&self.state);
        state.activation_bytes -= self.taken;
        state.budget.give_back(self.taken);
    }
}

impl Program for CpuProgram {
    fn submit(&mut self, step: &Step) -> Result<Ticket, Error> {
        self.bound.check(step)?;
        let state = self.state.clone();
        let state = &mut *lock(&state);
        self.weights.pack(&mut state.pool)?;
        for table in &mut self.tables {
            table.fill(step);
        }
        for phase in 0..self.plan.phases.len() {
            step.check_interrupt()?;
            // The phase's output buffers, moved out of `self`. None holds an input of the phase.
            let mut out = self.take(phase, step)?;
            match self.plan.phases[phase].kind {
                Kind::Rows(_) => self.compute_rows(phase, step, state, &mut out),
                Kind::Linear => self.multiply(phase, state, &mut out),
                Kind::Attention => self.attend(phase, step, state, &mut out),
                Kind::Recurrent => self.recur(phase, step, state, &mut out),
                Kind::Experts => self.run_experts(phase, state, &mut out),
                Kind::Heads => self.multiply_heads(phase, state, &mut out),
                Kind::Ranks => self.sum(phase, state, &mut out)?,
            }
            for (place, buffer) in out {
                self.buffers[place] = buffer;
            }
        }
        Ok(self.pending.begin(step))
    }

    fn wait(&mut self, ticket: Ticket) -> Result<Outputs<'_>, Error> {
        let output_rows = self.pending.end(ticket)?;
        Ok(self.bound.outputs(output_rows, |id| self.result(id)))
    }

    fn read(&self, name: &str) -> Result<&[f32], Error> {
        Ok(self.result(self.bound.readable(name)?))
    }
}

/// Rows `rows` of the items of a phase that were computed before the current one.
struct Part<'a, 'm> {
    rows: Range<usize>,
    items: &'a [Item],
    values: &'a [&'m mut [f32]],
}

impl CpuProgram {
    /// Takes the output buffers of a phase, resized to the step's rows.
    fn take(&mut self, phase: usize, step: &Step) -> Result<Vec<(usize, Buffer)>, Error> {
        let slots = &self.plan.phases[phase].slots;
        let mut out = Vec::with_capacity(slots.len());
        for &place in slots.iter().flatten() {
            let (shape, mut buffer) = (self.plan.buffers[place], std::mem::take(&mut self.buffers[place]));
            let words = step.count(shape.rows).saturating_mul(shape.words);
            buffer.resize(words).map_err(|_| Error::OutOfMemory {
                what: "activations",
                bytes: (words as u64).saturating_mul(size_of::<f32>() as u64),
                memory: MemoryKind::Host,
                remedy: Remedy::SmallerBatch,
            })?;
            out.push((place, buffer));
        }
        Ok(out)
    }

    /// The values of an item that has a buffer.
    fn values(&self, item: Item) -> &[f32] {
        let place = self.plan.buffer_of(item).expect("a later phase reads it");
        self.buffers[place].values()
    }

    fn compute_rows(&self, phase: usize, step: &Step, state: &mut State, out: &mut [(usize, Buffer)]) {
        let Phase { items, slots, .. } = &self.plan.phases[phase];
        let matrices = out.iter_mut().map(|(place, out)| (out.values_mut(), self.plan.buffers[*place].words));
        state.pool.rows(matrices.collect(), self.kernels.tile, |rows, stored| {
            let mut scratch = Scratch::take();
            let words = |item: Item| rows.len() * words_of(&self.bound, item);
            let passing = items.iter().zip(slots).filter(|(_, slot)| slot.is_none());
            let lines = |item: Item| words(item).div_ceil(LANES);
            let mut left = scratch.lines(passing.map(|(&item, _)| lines(item)).sum());
            let mut stored = stored.iter_mut();
            let mut values: Vec<&mut [f32]> = Vec::with_capacity(items.len());
            for (&item, slot) in items.iter().zip(slots) {
                values.push(match slot {
                    Some(_) => stored.next().expect("an item with a buffer"),
                    None => {
                        let here = left.split_off_mut(..lines(item)).expect("as many as needed");
                        &mut bytemuck::cast_slice_mut(here)[..words(item)]
                    }
                });
            }
            for (i, &item) in items.iter().enumerate() {
                let (before, rest) = values.split_at_mut(i);
                let part = Part { rows: rows.clone(), items: &items[..i], values: before };
                match item {
                    Item::Value(id) => self.compute(id, &part, step, rest[0]),
                    Item::Packed(id, form) => {
                        let (x, words) = (self.rows_of(id, &part), bytemuck::cast_slice_mut(rest[0]));
                        (self.kernels.pack)(x, rows.len(), self.kernels.tile, form, words);
                    }
                    Item::Stage(..) => unreachable!("not computed row by row"),
                }
            }
        });
    }

    /// The rows `part` of a value, computed in this phase or an earlier one.
    fn rows_of<'a>(&'a self, id: ValueId, part: &Part<'a, '_>) -> &'a [f32] {
        if let Some(here) = part.items.iter().position(|&item| item == Item::Value(id)) {
            return part.values[here];
        }
        let cols = self.bound.value(id).cols;
        &self.result(id)[part.rows.start * cols..part.rows.end * cols]
    }

    fn compute(&self, id: ValueId, part: &Part<'_, '_>, step: &Step, out: &mut [f32]) {
        let value = self.bound.value(id);
        let cols = value.cols;
        match value.op {
            Op::Input { cols: _ } => {
                out.copy_from_slice(&step.hidden()[part.rows.start * cols..part.rows.end * cols]);
            }
            Op::Embed { table, index } => {
                let (table, rows) = (self.bound.weight(table), &step.rows()[part.rows.clone()]);
                let mut positions = step.positions().skip(part.rows.start);
                by_rows(out, cols, |row, y| {
                    let at = match (index, rows[row].input) {
                        (Index::Token, Input::Embedding(at)) => {
                            return y.copy_from_slice(&step.embeddings()[at as usize * cols..][..cols]);
                        }
                        (Index::Token, Input::Token(token)) => token as usize,
                        (Index::Token, Input::Ahead(_)) => unreachable!("tokens are chosen by the host"),
                        (Index::Position, _) => positions.next().expect("a position for every row").1,
                    };
                    table.format.dequantize(table.row(at), y);
                });
            }
            Op::Norm { x, kind, width, weight, eps } => {
                let (x, weight) = (self.rows_of(x, part), weight.map(|weight| self.weights.vector(weight)));
                // The norm's groups: whole rows, or heads.
                by_rows(out, width, |group, y| {
                    let weight = weight.map(|weight| &weight[group * width % weight.len()..][..width]);
                    (self.kernels.norm)(kind, y, &x[group * width..][..width], weight, eps);
                });
            }
            Op::Rope { x, rope } => {
                let x = self.rows_of(x, part);
                let table = self.tables.iter().find(|table| table.rope == rope);
                let table = table.expect("every rope has a table");
                by_rows(out, cols, |row, y| {
                    let (cos_sin, pairing) = (table.row(part.rows.start + row), rope.pairing);
                    (self.kernels.rope)(y, &x[row * cols..][..cols], rope.head_dim, pairing, cos_sin);
                });
            }
            Op::Gate { gate, up, glu } if self.bound.value(gate).cols == cols => {
                (self.kernels.gate)(glu, out, self.rows_of(gate, part), self.rows_of(up, part));
            }
            Op::Gate { gate, up, glu } => {
                let (gate, up) = (self.rows_of(gate, part), self.rows_of(up, part));
                by_rows(out, cols, |row, y| {
                    let mut factor = [0.0];
                    (self.kernels.map)(Map::Act(glu.act), &mut factor, &[gate[row]]);
                    (self.kernels.map)(Map::Scale(factor[0]), y, &up[row * cols..][..cols]);
                });
            }
            Op::Route { logits, bias, router } => {
                let (logits, mut ranking) = (self.rows_of(logits, part), Ranking::default());
                let bias = bias.map(|bias| self.weights.vector(bias));
                by_rows(out, cols, |row, y| {
                    route(y, &logits[row * cols..][..cols], bias, router, &mut ranking);
                });
            }
            Op::Experts { scale, bias, weighs_inputs, .. } => {
                let (routing, downs) = (&self.routings[&id], self.values(Item::Stage(id, Stage::Downs)));
                let vectors = [scale, bias].map(|id| id.map(|id| self.weights.vector(id)));
                by_rows(out, cols, |row, y| {
                    routing.sum(part.rows.start + row, downs, vectors, !weighs_inputs, y);
                });
            }
            Op::Map { x, map } => (self.kernels.map)(map, out, self.rows_of(x, part)),
            Op::Add { a, b } => {
                let (a, b) = (self.rows_of(a, part), self.rows_of(b, part));
                by_rows(out, cols, |row, y| {
                    for ((y, &a), &b) in y.iter_mut().zip(&a[row * cols..]).zip(&b[row * cols..]) {
                        *y = a + b;
                    }
                });
            }
            Op::AddBias { x, weight } => {
                let (x, weight) = (self.rows_of(x, part), self.weights.vector(weight));
                by_rows(out, cols, |row, y| {
                    for ((y, &x), &w) in y.iter_mut().zip(&x[row * cols..]).zip(weight) {
                        *y = x + w;
                    }
                });
            }
            Op::MulWeight { x, weight } => {
                let (x, weight) = (self.rows_of(x, part), self.weights.vector(weight));
                by_rows(out, weight.len(), |group, y| {
                    for ((y, &x), &w) in y.iter_mut().zip(&x[group * weight.len()..]).zip(weight) {
                        *y = x * w;
                    }
                });
            }
            Op::ScaleByPosition { x, beta, offset, interval } => {
                let (x, mut rows) = (self.rows_of(x, part), step.positions().skip(part.rows.start));
                by_rows(out, cols, |row, y| {
                    let position = rows.next().expect("a position for every row").1;
                    let intervals = (position as f64 + f64::from(offset)) / f64::from(interval);
                    let factor = 1.0 + f64::from(beta) * intervals.floor().ln_1p();
                    (self.kernels.map)(Map::Scale(factor as f32), y, &x[row * cols..][..cols]);
                });
            }
            Op::HeadLinear { weight, .. } => {
                let (heads, products) = (self.bound.weight(weight).count, Item::Stage(id, Stage::Products));
                let (width, products) = (cols / heads, self.values(products));
                let rows = products.len() / cols;
                by_rows(out, width, |at, y| {
                    let (row, head) = (part.rows.start + at / heads, at % heads);
                    y.copy_from_slice(&products[(head * rows + row) * width..][..width]);
                });
            }
            Op::Slice { x, heads, start, len } => {
                let (width, x) = (self.bound.value(x).cols / heads, self.rows_of(x, part));
                by_rows(out, len, |head, y| y.copy_from_slice(&x[head * width + start..][..len]));
            }
            Op::Join { a, b, heads, b_heads } => {
                let [a_width, b_width] =
                    [(a, heads), (b, b_heads)].map(|(x, heads)| self.bound.value(x).cols / heads);
                let (a, b) = (self.rows_of(a, part), self.rows_of(b, part));
                by_rows(out, a_width + b_width, |head, y| {
                    y[..a_width].copy_from_slice(&a[head * a_width..][..a_width]);
                    y[a_width..].copy_from_slice(&b[head * b_heads / heads * b_width..][..b_width]);
                });
            }
            Op::OutputRows { x } => {
                let (x, outputs) = (self.result(x), step.outputs().skip(part.rows.start));
                for (y, (row, _)) in out.chunks_exact_mut(cols).zip(outputs) {
                    y.copy_from_slice(&x[row * cols..][..cols]);
                }
            }
            Op::Pool { x, pool } => {
                let (x, outputs) = (self.result(x), step.outputs().skip(part.rows.start));
                for (y, (row, _)) in out.chunks_exact_mut(cols).zip(outputs) {
                    let rows = step.rows_beside(row);
                    let rows = if pool == Pool::First { rows.start..rows.start + 1 } else { rows };
                    y.fill(0.0);
                    for row in rows.clone() {
                        y.iter_mut().zip(&x[row * cols..]).for_each(|(y, x)| *y += x);
                    }
                    y.iter_mut().for_each(|y| *y /= rows.len() as f32);
                }
            }
            Op::Linear { .. }
            | Op::Attention { .. }
            | Op::Conv { .. }
            | Op::LinearAttention { .. }
            | Op::AllReduce { .. } => unreachable!("not computed row by row"),
        }
    }

    fn sum(&self, phase: usize, state: &State, out: &mut [(usize, Buffer)]) -> Result<(), Error> {
        let [Item::Value(id)] = self.plan.phases[phase].items[..] else { unreachable!("one sum") };
        let Op::AllReduce { x } = self.bound.value(id).op else { unreachable!("one sum") };
        let out = out[0].1.values_mut();
        out.copy_from_slice(self.result(x));
        state.member.as_ref().map_or(Ok(()), |member| member.all_reduce(out))
    }

    fn attend(&self, phase: usize, step: &Step, state: &mut State, out: &mut [(usize, Buffer)]) {
        let [Item::Value(id)] = self.plan.phases[phase].items[..] else { unreachable!("one attention") };
        let value = self.bound.value(id);
        let Op::Attention { q, kv, store, heads, score } = value.op else { unreachable!("one attention") };
        let (cols, out) = (value.cols, out[0].1.values_mut());
        let graph = self.bound.graph();
        let (kv_heads, index) = (graph.store(store).heads, graph.store_group(store));
        let store = &mut state.stores[store.index()];
        if let Some([k, v]) = kv {
            (self.kernels.write_kv)(store, index, self.result(k), self.result(v), step);
        }
        let (q, group) = (self.result(q), (graph.groups()[index], index));
        let sinks = score.sinks.map(|sinks| self.weights.vector(sinks));
        let at: Vec<_> = step.positions().collect();
        let rows = &at[..];
        // At most the queries that share converted blocks; fewer if there would be too few tasks.
        let fair = rows.len() * kv_heads / (state.pool.threads() * TASKS);
        let tile = (fair.min(QUERY_TILE * kv_heads / heads).max(1), cols / kv_heads);
        state.pool.tiles(out, cols, tile, |tile| match &*store {
            Kv::F16(store) => {
                let heads = Heads { store, group, rows, q, heads, kv_heads, score, sinks };
                (self.kernels.attend_f16)(Attend { heads, tile });
            }
            Kv::F32(store) => {
                let heads = Heads { store, group, rows, q, heads, kv_heads, score, sinks };
                (self.kernels.attend_f32)(Attend { heads, tile });
            }
            Kv::Packed(store) => {
                let heads = Heads { store, group, rows, q, heads, kv_heads, score, sinks };
                (self.kernels.attend_packed)(Attend { heads, tile });
            }
        });
    }

    fn recur(&self, phase: usize, step: &Step, state: &mut State, out: &mut [(usize, Buffer)]) {
        let [Item::Value(id)] = self.plan.phases[phase].items[..] else { unreachable!("one operation") };
        let (cols, out) = (self.bound.value(id).cols, out[0].1.values_mut());
        let mut slots = Slots {
            pool: &mut state.pool,
            states: &mut state.slots[id.index()],
            values: self.bound.graph().state_len(id),
            step,
        };
        let op = self.bound.value(id).op;
        if let Op::Conv { x, weight, bias } = op {
            let [weight, bias] = [Some(weight), bias].map(|weight| weight.map(|id| self.weights.vector(id)));
            let (x, weight) = (self.result(x), weight.unwrap_or_default());
            slots.by_columns(out, cols, CONV_COLUMNS.min(cols), |rows, tile, state| {
                let x = &x[rows.start * cols..rows.end * cols];
                (self.kernels.convolve)(Convolve { x, cols, weight, bias, tile, state });
            });
            return;
        }
        let Op::LinearAttention { q, k, v, decay, beta, skip, heads } = op else { unreachable!("recurrent") };
        let inputs = [q, k, v, decay, beta].map(|x| (self.result(x), self.bound.value(x).cols));
        let skip = skip.map(|skip| self.weights.vector(skip));
        let (k_dim, v_dim) = (inputs[1].1 / heads.k_heads, cols / heads.heads);
        slots.by_columns(out, cols, v_dim, |rows, tile, state| {
            let inputs = inputs.map(|(x, cols)| &x[rows.start * cols..rows.end * cols]);
            let skip = skip.map_or(0.0, |skip| skip[tile.cols().start / v_dim]);
            (self.kernels.linear_head)(LinearHead { inputs, skip, heads, k_dim, tile, state });
        });
    }

    fn multiply(&self, phase: usize, state: &mut State, out: &mut [(usize, Buffer)]) {
        let items = &self.plan.phases[phase].items;
        let products = items.iter().zip(out).map(|(&item, (_, out))| {
            let Item::Value(id) = item else { unreachable!("a linear layer") };
            let Op::Linear { x, weight } = self.bound.value(id).op else { unreachable!("a linear layer") };
            let Matrix { linear, .. } = self.weights.matrix(weight);
            let (weight, x) = (&self.packed(weight)[0], self.activations(x, linear.form));
            Product { linear, weight, x, out: out.values_mut() }
        });
        multiply(&mut state.pool, products.collect());
    }

    fn run_experts(&mut self, phase: usize, state: &mut State, out: &mut [(usize, Buffer)]) {
        let [Item::Stage(id, _), ..] = self.plan.phases[phase].items[..] else { unreachable!("experts") };
        let mut routing = self.routings.remove(&id).unwrap_or_default();
        self.compute_experts(id, &mut routing, phase, state, out);
        self.routings.insert(id, routing);
    }

    fn compute_experts(
        &self,
        id: ValueId,
        routing: &mut Routing,
        phase: usize,
        state: &mut State,
        out: &mut [(usize, Buffer)],
    ) {
        let Op::Experts { x, routes, hidden, down, weighs_inputs, .. } = self.bound.value(id).op else {
            unreachable!("experts")
        };
        let (pool, tile) = (&mut state.pool, self.kernels.tile);
        let experts = self.bound.weight(down).count;
        let routes = self.result(routes);
        routing.fill(routes, experts);
        let n_gathered = out.len() - hidden.weights().len() - 2;
        let (gathered, rest) = out.split_at_mut(n_gathered);
        let [products @ .., (_, hiddens), (_, downs)] = rest else { unreachable!("two stages at least") };
        let mut gathered = gathered.iter_mut();
        // All experts of a single row share its packed form; otherwise rows are gathered per expert.
        let is_single = routes.len() == experts;
        let mut inputs: Vec<(Form, &[u32])> = Vec::with_capacity(n_gathered);
        for &item in &self.plan.phases[phase].items[..n_gathered] {
            let Item::Stage(_, Stage::Gathered(form)) = item else { unreachable!("rows of experts") };
            let (source, to) = (self.activations(x, form), gathered.next().expect("a buffer each"));
            let words = if is_single {
                source.words
            } else {
                let to = &mut bytemuck::cast_slice_mut(to.1.values_mut())[..];
                routing.gather(pool, source, form, to);
                to
            };
            inputs.push((form, words));
        }
        let cols = self.bound.value(x).cols;
        let input = |weight: WeightId, entries: &Range<usize>| {
            let form = self.weights.form(weight);
            let words = inputs.iter().find(|input| input.0 == form).expect("it has been packed").1;
            let entries = if is_single { 0..1 } else { entries.clone() };
            entry_rows(words, entries, (form, cols), tile)
        };
        let inner = self.bound.weight(down).cols;
        let mut outs: Vec<&mut [f32]> =
            products.iter_mut().map(|(_, product)| product.values_mut()).collect();
        let mut matmuls = Vec::new();
        for (expert, entries) in routing.chosen() {
            for (number, (&weight, out)) in hidden.weights().iter().zip(&mut outs).enumerate() {
                let out = out.split_off_mut(..entries.len() * inner).expect("a row for every entry");
                let x = input(weight, &entries);
                let linear = &self.weights.matrix(weight).linear;
                let weight = &self.packed(weight)[hidden.matrix(number, expert)];
                matmuls.push(Product { linear, weight, x, out });
            }
        }
        multiply(pool, matmuls);
        let form = self.weights.form(down);
        let words: &mut [u32] = bytemuck::cast_slice_mut(hiddens.values_mut());
        let of = Products {
            hidden,
            products: products.iter().map(|(_, product)| product.values()).collect(),
            scales: hidden.scales().iter().map(|id| id.map(|id| self.weights.vector(id))).collect(),
            biases: hidden.biases().iter().map(|&bias| self.weights.vector(bias)).collect(),
            weighs_inputs,
        };
        routing.pack_hidden(pool, &self.kernels, &of, (form, inner), words);
        let mut downs = downs.values_mut();
        let product = |(expert, entries): (usize, Range<usize>)| {
            let len = entries.len() * self.bound.weight(down).rows;
            let out = downs.split_off_mut(..len).expect("a row for every entry");
            let x = entry_rows(words, entries, (form, inner), tile);
            let linear = &self.weights.matrix(down).linear;
            Product { linear, weight: &self.packed(down)[expert], x, out }
        };
        let products = routing.chosen().map(product).collect();
        multiply(pool, products);
    }

    /// Linear layers of heads: each head's rows are packed on their own, then multiplied with its matrix.
    fn multiply_heads(&self, phase: usize, state: &mut State, out: &mut [(usize, Buffer)]) {
        let [Item::Stage(id, Stage::Heads(form)), _] = self.plan.phases[phase].items[..] else {
            unreachable!("the stages of heads")
        };
        let Op::HeadLinear { x, weight } = self.bound.value(id).op else { unreachable!("heads") };
        let [(_, packed), (_, products)] = out else { unreachable!("two stages") };
        let Weight { count, rows: outputs, cols, .. } = *self.bound.weight(weight);
        let (x, tile, row_words) = (self.result(x), self.kernels.tile, form.words(cols));
        let rows = x.len() / (count * cols);
        let words: &mut [u32] = bytemuck::cast_slice_mut(packed.values_mut());
        // Head by head, row by row.
        let entries = (0..count).flat_map(|head| panels(head * rows..(head + 1) * rows, tile));
        let entries: Vec<Range<usize>> = entries.collect();
        state.pool.tiles_of(cut(&entries, row_words, words), |number, mut to| {
            let (panel, mut scratch) = (entries[number].clone(), Scratch::take());
            let (len, head) = (panel.len() * cols, panel.start / rows);
            let head_rows: &mut [f32] =
                &mut bytemuck::cast_slice_mut(scratch.lines(len.div_ceil(LANES)))[..len];
            by_rows(head_rows, cols, |at, y| {
                let row = (panel.start + at) % rows;
                y.copy_from_slice(&x[(row * count + head) * cols..][..cols]);
            });
            (self.kernels.pack)(head_rows, panel.len(), tile, form, to.row(0));
        });
        let (words, linear) = (&*words, &self.weights.matrix(weight).linear);
        let heads = products.values_mut().chunks_exact_mut(rows * outputs).enumerate();
        let product = |(head, out)| {
            let words = &words[head * rows * row_words..][..rows * row_words];
            let x = Activations { words, rows, cols, tile };
            Product { linear, weight: &self.packed(weight)[head], x, out }
        };
        multiply(&mut state.pool, heads.map(product).collect());
    }

    fn activations(&self, x: ValueId, form: Form) -> Activations<'_> {
        let packed = Item::Packed(x, form);
        let words = bytemuck::cast_slice(self.values(packed));
        let (rows, cols) = (words.len() / words_of(&self.bound, packed), self.bound.value(x).cols);
        Activations { words, rows, cols, tile: self.kernels.tile }
    }

    fn packed(&self, weight: WeightId) -> &[crate::packed::Packed] {
        self.weights.matrix(weight).packed.get().expect("the step has packed it")
    }
}

/// Some entries of packed rows of `cols` values.
fn entry_rows(
    words: &[u32],
    entries: Range<usize>,
    (form, cols): (Form, usize),
    tile: usize,
) -> Activations<'_> {
    let row_words = form.words(cols);
    let words = &words[entries.start * row_words..entries.end * row_words];
    Activations { words, rows: entries.len(), cols, tile }
}

fn by_rows(out: &mut [f32], cols: usize, mut work: impl FnMut(usize, &mut [f32])) {
    out.chunks_exact_mut(cols).enumerate().for_each(|(row, y)| work(row, y));
}

impl RopeTable {
    fn fill(&mut self, step: &Step) {
        self.cos_sin.clear();
        for (_, position) in step.positions() {
            let cos_sin = |&frequency: &f64| self.rope.cos_sin(position, frequency).map(|value| value as f32);
            self.cos_sin.extend(self.frequencies.iter().map(cos_sin));
        }
    }

    fn row(&self, row: usize) -> &[[f32; 2]] {
        let pairs = self.frequencies.len();
        &self.cos_sin[row * pairs..][..pairs]
    }
}
