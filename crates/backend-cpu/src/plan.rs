//! Compiles a graph into phases and assigns buffers.

use std::collections::HashMap;

use backend::{BoundProgram, Bucket, KV_BLOCK};
use graph::{LiveRange, Op, Rope, Rows, StoreId, ValueId, WeightId, assign_buffers};

use crate::attention::QUERY_TILE;
use crate::lanes::LANES;
use crate::packed::activations::Form;
use crate::recurrent::CONV_COLUMNS;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Item {
    Value(ValueId),
    /// A value, packed for the linear layers that read it.
    Packed(ValueId, Form),
    /// An intermediate of experts, one row per (row, chosen expert), sorted by expert; or of heads, one row per (row, head),
    /// sorted by head.
    Stage(ValueId, Stage),
}

/// The intermediates of experts and of heads, in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Stage {
    /// The input rows of each expert, packed.
    Gathered(Form),
    /// The products of the input and this weight of the hidden values.
    Product(usize),
    /// The hidden values, packed.
    Hidden(Form),
    /// The products of the hidden values and `down`.
    Downs,
    /// The input of each head, packed.
    Heads(Form),
    /// The product of each head.
    Products,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A row depends only on the same row of earlier items: threads take rows and compute all items of them.
    Rows(Rows),
    /// Independent linear layers: threads take columns.
    Linear,
    /// One attention: threads take rows and K/V heads.
    Attention,
    /// One recurrent operation: threads take sequences and columns or heads.
    Recurrent,
    /// All stages of one mixture of experts, in order: threads take experts and columns.
    Experts,
    /// One sum over ranks: not shared.
    Ranks,
    /// Both stages of linear layers of heads, in order: threads take heads and columns.
    Heads,
}

/// Work between two barriers.
#[derive(Debug)]
pub(crate) struct Phase {
    pub(crate) kind: Kind,
    pub(crate) items: Vec<Item>,
    /// The buffer of each item. Rows that only their own phase reads have none.
    pub(crate) slots: Vec<Option<usize>>,
}

/// The shape of a buffer that several items may reuse.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Shape {
    pub(crate) rows: Rows,
    /// 32-bit words per row.
    pub(crate) words: usize,
}

/// A graph as phases over shared buffers.
#[derive(Debug, Default)]
pub(crate) struct Plan {
    pub(crate) phases: Vec<Phase>,
    pub(crate) buffers: Vec<Shape>,
    pub(crate) ropes: Vec<Rope>,
    /// The items of each value that have a buffer, and its index.
    slots: Vec<Vec<(Item, usize)>>,
}

impl Plan {
    /// Plans `bound`; `form` gives the activation layout of each weight.
    pub(crate) fn new(bound: &BoundProgram, form: impl Fn(WeightId) -> Form) -> Plan {
        let mut order = Order::default();
        let mut written: HashMap<StoreId, Item> = HashMap::new();
        for (id, value) in bound.graph().values() {
            let (item, rows) = (Item::Value(id), Kind::Rows(value.rows));
            let inputs: Vec<Item> = value.op.inputs().map(Item::Value).collect();
            match value.op {
                Op::Linear { x, weight } => {
                    let packed = order.pack(bound, x, form(weight));
                    order.put(&[item], Kind::Linear, &[packed], None);
                }
                Op::Attention { kv, store, .. } => {
                    // Attention without its own K and V reads what another attention has written.
                    let writer = written.get(&store).copied();
                    order.put(&[item], Kind::Attention, &inputs, writer);
                    if kv.is_some() {
                        written.insert(store, item);
                    }
                }
                Op::Conv { .. } | Op::LinearAttention { .. } => {
                    order.put(&[item], Kind::Recurrent, &inputs, None);
                }
                Op::AllReduce { x } => order.put(&[item], Kind::Ranks, &[Item::Value(x)], None),
                Op::HeadLinear { x, weight } => {
                    let stages = [Stage::Heads(form(weight)), Stage::Products];
                    let stages = stages.map(|stage| Item::Stage(id, stage));
                    order.put(&stages, Kind::Heads, &[Item::Value(x)], None);
                    order.put(&[item], rows, &[Item::Stage(id, Stage::Products)], None);
                }
                Op::Experts { x, routes, hidden, down, .. } => {
                    let mut forms: Vec<Form> = hidden.weights().iter().map(|&id| form(id)).collect();
                    forms.dedup();
                    let mut inputs: Vec<Item> =
                        forms.iter().map(|&form| order.pack(bound, x, form)).collect();
                    inputs.push(Item::Value(routes));
                    let mut stages: Vec<Stage> = forms.into_iter().map(Stage::Gathered).collect();
                    stages.extend((0..hidden.weights().len()).map(Stage::Product));
                    stages.extend([Stage::Hidden(form(down)), Stage::Downs]);
                    let stages: Vec<Item> = stages.into_iter().map(|stage| Item::Stage(id, stage)).collect();
                    order.put(&stages, Kind::Experts, &inputs, None);
                    order.put(&[item], rows, &[Item::Stage(id, Stage::Downs)], None);
                }
                Op::Input { .. }
                | Op::Embed { .. }
                | Op::Norm { .. }
                | Op::Rope { .. }
                | Op::Gate { .. }
                | Op::Route { .. }
                | Op::Map { .. }
                | Op::Add { .. }
                | Op::AddBias { .. }
                | Op::MulWeight { .. }
                | Op::ScaleByPosition { .. }
                | Op::Slice { .. }
                | Op::Join { .. }
                | Op::OutputRows { .. }
                | Op::Pool { .. } => {
                    order.put(&[item], rows, &inputs, None);
                }
            }
        }
        let slots = vec![Vec::new(); bound.graph().values().len()];
        let mut plan = Plan { phases: order.phases, slots, ..Plan::default() };
        plan.assign(bound, &order.last_read);
        for (_, value) in bound.graph().values() {
            if let Op::Rope { rope, .. } = value.op
                && !plan.ropes.contains(&rope)
            {
                plan.ropes.push(rope);
            }
        }
        plan
    }

    /// Assigns a buffer to every item, except for rows that only their own phase reads.
    fn assign(&mut self, bound: &BoundProgram, last_read: &HashMap<Item, usize>) {
        let (mut items, mut lives) = (Vec::new(), Vec::new());
        for (made, phase) in self.phases.iter().enumerate() {
            for &item in &phase.items {
                let id = item_value(item);
                let is_readable = matches!(item, Item::Value(_)) && bound.is_readable(id);
                let last = last_read.get(&item).copied().unwrap_or(made);
                if matches!(phase.kind, Kind::Rows(_)) && last == made && !is_readable {
                    continue;
                }
                let shape = Shape { rows: bound.value(id).rows, words: words_of(bound, item) };
                let last_read = if is_readable { LiveRange::<Shape>::LIVE_OUT } else { last };
                items.push(item);
                lives.push(LiveRange { shape, made, last_read });
            }
        }
        let (buffers, slots) = assign_buffers(&lives);
        self.buffers = buffers;
        for (item, slot) in items.into_iter().zip(slots) {
            self.slots[item_value(item).index()].push((item, slot));
        }
        let slots = |phase: &Phase| phase.items.iter().map(|&item| self.buffer_of(item)).collect();
        let slots: Vec<Vec<Option<usize>>> = self.phases.iter().map(slots).collect();
        for (phase, slots) in self.phases.iter_mut().zip(slots) {
            phase.slots = slots;
        }
    }

    /// The buffer of an item that has one.
    pub(crate) fn buffer_of(&self, item: Item) -> Option<usize> {
        let slots = &self.slots[item_value(item).index()];
        slots.iter().find(|(placed, _)| *placed == item).map(|&(_, slot)| slot)
    }

    /// Bytes of the buffers when `bucket` is full.
    fn bytes(&self, bucket: Bucket) -> u64 {
        let words = |shape: &Shape| bucket.count(shape.rows).saturating_mul(shape.words) as u64;
        let words = self.buffers.iter().map(words);
        // The cos/sin tables.
        let tables = self.ropes.iter().map(|rope| bucket.rows.saturating_mul(rope.dims) as u64);
        words.chain(tables).fold(0, u64::saturating_add).saturating_mul(size_of::<f32>() as u64)
    }

    /// Bytes of the activation buffers and of the scratch memory of `threads` threads.
    pub(crate) fn memory(&self, bound: &BoundProgram, tile: usize, threads: usize) -> u64 {
        let scratch = self.scratch_bytes(bound, tile).saturating_mul(threads as u64);
        self.bytes(bound.bucket()).saturating_add(scratch)
    }

    /// Maximum scratch bytes per thread with tiles of `tile` rows.
    fn scratch_bytes(&self, bound: &BoundProgram, tile: usize) -> u64 {
        let words = |phase: &Phase| match phase.kind {
            // Rows that only their own phase reads.
            Kind::Rows(_) => {
                let passing = phase.items.iter().zip(&phase.slots).filter(|(_, slot)| slot.is_none());
                passing
                    .fold(0, |all: usize, (&item, _)| all.saturating_add(words_of(bound, item)))
                    .saturating_mul(tile)
            }
            // A strip packed on the fly, and rows of experts or heads before packing, with two rows beside them.
            Kind::Linear | Kind::Experts | Kind::Heads => {
                let weights = phase.items.iter().flat_map(|&item| bound.value(item_value(item)).op.weights());
                let widest = weights.map(|(id, _)| bound.weight(id).cols);
                widest.max().unwrap_or(0).saturating_mul(LANES.max(tile + 2))
            }
            // The weights of a convolution and the rows before, or the state of two vectors of columns.
            Kind::Recurrent => {
                let words = phase.items.iter().map(|&item| {
                    let op = bound.value(item_value(item)).op;
                    if let Op::Conv { weight, .. } = op {
                        return bound.weight(weight).cols.saturating_mul(2 * CONV_COLUMNS);
                    }
                    let widest = op.inputs().map(|input| bound.value(input).cols).max();
                    widest.unwrap_or(0).saturating_mul(2 * LANES)
                });
                words.max().unwrap_or(0)
            }
            Kind::Ranks => 0,
            // PV of a query tile, and a block converted to f32.
            Kind::Attention => {
                let stores = phase.items.iter().filter_map(|&item| bound.value(item_value(item)).op.store());
                let stores = stores.map(|(id, _)| bound.graph().store(id));
                let widest = stores.map(|store| store.k_dim.max(store.v_dim)).max();
                widest.unwrap_or(0).saturating_mul(QUERY_TILE + KV_BLOCK)
            }
        };
        let most = self.phases.iter().map(words).max().unwrap_or(0);
        (most as u64).saturating_mul(size_of::<f32>() as u64)
    }
}

fn item_value(item: Item) -> ValueId {
    let (Item::Value(id) | Item::Packed(id, _) | Item::Stage(id, _)) = item;
    id
}

/// 32-bit words per row of an item; for stages, of all experts that a row uses.
pub(crate) fn words_of(bound: &BoundProgram, item: Item) -> usize {
    match item {
        Item::Value(id) => bound.value(id).cols,
        Item::Packed(id, form) => form.words(bound.value(id).cols),
        Item::Stage(id, stage) => {
            let op = bound.value(id).op;
            if let Op::HeadLinear { weight, .. } = op {
                let weight = bound.weight(weight);
                let words =
                    if let Stage::Heads(form) = stage { form.words(weight.cols) } else { weight.rows };
                return words.saturating_mul(weight.count);
            }
            let Op::Experts { x, routes, down, .. } = op else {
                unreachable!("only experts and heads have stages")
            };
            let down = bound.weight(down);
            let words = match stage {
                Stage::Gathered(form) => form.words(bound.value(x).cols),
                Stage::Product(_) => down.cols,
                Stage::Hidden(form) => form.words(down.cols),
                Stage::Downs => down.rows,
                Stage::Heads(_) | Stage::Products => unreachable!("a stage of heads"),
            };
            words.saturating_mul(bound.graph().experts_used(routes))
        }
    }
}

#[derive(Default)]
struct Order {
    phases: Vec<Phase>,
    phase_of: HashMap<Item, usize>,
    /// The last phase that reads an item.
    last_read: HashMap<Item, usize>,
}

impl Order {
    /// Adds the packed form of `x` unless an earlier reader did.
    fn pack(&mut self, bound: &BoundProgram, x: ValueId, form: Form) -> Item {
        let packed = Item::Packed(x, form);
        if !self.phase_of.contains_key(&packed) {
            self.put(&[packed], Kind::Rows(bound.value(x).rows), &[Item::Value(x)], None);
        }
        packed
    }

    /// Adds `items` to the first phase of their kind after their inputs and `writer`, or to a new phase.
    fn put(&mut self, items: &[Item], kind: Kind, inputs: &[Item], writer: Option<Item>) {
        let after = |input: &Item| {
            let phase = self.phase_of[input];
            let is_same = matches!(kind, Kind::Rows(_)) && self.phases[phase].kind == kind;
            if is_same { phase } else { phase + 1 }
        };
        let earliest = inputs.iter().chain(&writer).map(after).max().unwrap_or(0);
        let fits = |phase: &Phase| phase.kind == kind && matches!(kind, Kind::Rows(_) | Kind::Linear);
        let found = self.phases.iter().skip(earliest).position(fits).map(|i| earliest + i);
        let phase = found.unwrap_or_else(|| {
            self.phases.push(Phase { kind, items: Vec::new(), slots: Vec::new() });
            self.phases.len() - 1
        });
        self.phases[phase].items.extend_from_slice(items);
        self.phase_of.extend(items.iter().map(|&item| (item, phase)));
        for &input in inputs {
            let last = self.last_read.entry(input).or_insert(phase);
            *last = phase.max(*last);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;
    use std::sync::Arc;

    use backend::{BoundModel, KvFormat, KvLayout, Taps, Weight};
    use graph::{Activation, Builder, Graph, Mask, Store};
    use quant::Format;

    use super::*;
    use crate::packed::activations::Q8Layout;

    const FORM: Form = Form::F32;

    /// Two layers of norm, FFN and residual, and an output.
    fn graph() -> Graph {
        let mut g = Builder::new();
        let table = g.weight("table", 4, 32);
        let mut x = g.embed("x", table);
        for block in [0, 1] {
            let weight =
                |g: &mut Builder, name: &str, rows, cols| g.weight(format!("{name}-{block}"), rows, cols);
            let (norm, gate) = (weight(&mut g, "norm", 1, 32), weight(&mut g, "gate", 64, 32));
            let (up, down) = (weight(&mut g, "up", 64, 32), weight(&mut g, "down", 32, 64));
            let h = g.rms_norm(("h", block), x, norm, 1e-5);
            let gate = g.linear(("g", block), h, gate);
            let up = g.linear(("u", block), h, up);
            let h = g.gate(("s", block), gate, up, Activation::Silu);
            let h = g.linear(("d", block), h, down);
            x = g.add(("l", block), h, x);
        }
        let x = g.output_rows("outputs", x);
        let head = g.weight("head", 4, 32);
        let y = g.linear("y", x, head);
        g.finish(y)
    }

    /// An attention, another that reads its store, and 2 of 4 experts of 48 columns.
    fn newer() -> Graph {
        let mut g = Builder::new();
        let (table, router) = (g.weight("table", 9, 32), g.weight("router", 4, 32));
        let x = g.embed("x", table);
        let store = g.store(Store { heads: 1, k_dim: 32, v_dim: 32, mask: Mask::Causal });
        let a = g.attention("a", x, Some([x, x]), store, 1, 0.1);
        let b = g.attention("b", x, None, store, 1, 0.1);
        let h = g.add("h", a, b);
        let logits = g.linear("logits", h, router);
        let p = g.route("p", logits, 2);
        let weights = [("gates", 48, 32), ("ups", 48, 32), ("downs", 32, 48)];
        let weights = weights.map(|(name, rows, cols)| g.weights(name, [4, rows, cols]));
        let e = g.experts("e", h, p, weights, Activation::GeluTanh);
        let h = g.add("sum", e, h);
        let y = g.output_rows("outputs", h);
        g.finish(y)
    }

    fn bound(graph: &Graph, taps: Taps<'_>) -> BoundProgram {
        let weight = |w: &graph::Weight| {
            let bytes: Vec<u8> = vec![0; w.count * w.rows * w.cols * 4];
            Weight { count: w.count, ..Weight::matrix(Format::F32, w.rows, w.cols, bytes.into()) }
        };
        let weights: HashMap<_, _> = graph.weights().map(|(_, w)| (w.name.clone(), weight(w))).collect();
        let kv_layout = KvLayout::uniform(graph, 1, KvFormat::F16);
        let model = BoundModel::new(graph, &weights, &kv_layout).expect("a good graph");
        BoundProgram::new(Arc::new(model), Bucket { rows: 3, outputs: 1 }, taps).expect("good taps")
    }

    /// The items of each phase by name; packed ones in brackets.
    fn phase_names(bound: &BoundProgram, plan: &Plan) -> Vec<String> {
        let name = |item: &Item| match *item {
            Item::Value(id) => bound.value(id).name.clone(),
            Item::Packed(id, _) => format!("[{}]", bound.value(id).name),
            Item::Stage(id, Stage::Gathered(_) | Stage::Hidden(_)) => format!("[{}]", bound.value(id).name),
            Item::Stage(id, stage) => format!("{} {stage:?}", bound.value(id).name),
        };
        let phase = |phase: &Phase| phase.items.iter().map(name).collect::<Vec<_>>().join(" ");
        plan.phases.iter().map(phase).collect()
    }

    #[test]
    fn independent_items_share_phases() {
        let bound = bound(&graph(), Taps::None);
        let plan = Plan::new(&bound, |_| FORM);
        let expected = [
            "x h-0 [h-0]",
            "g-0 u-0",
            "s-0 [s-0]",
            "d-0",
            "l-0 h-1 [h-1]",
            "g-1 u-1",
            "s-1 [s-1]",
            "d-1",
            "l-1",
            "outputs [outputs]",
            "y",
        ];
        assert_eq!(phase_names(&bound, &plan), expected);
    }

    #[test]
    fn experts_have_a_phase_and_a_store_is_read_after_it_is_written() {
        let graph = newer();
        let bound = bound(&graph, Taps::None);
        let expected = [
            "x",
            "a",
            "b",
            "h [h]",
            "logits",
            "p",
            "[e] e Product(0) e Product(1) [e] e Downs",
            "e sum",
            "outputs",
        ];
        assert_eq!(phase_names(&bound, &Plan::new(&bound, |_| FORM)), expected);
        // `up` weights with another activation layout get their own rows.
        let bytes = Form::Q8(Q8Layout { block: 32, group: 32, zero: None });
        let up = graph.weights().find(|(_, weight)| weight.name == "ups").expect("it is there").0;
        let other = Plan::new(&bound, |weight| if weight == up { bytes } else { FORM });
        assert_eq!(phase_names(&bound, &other)[3], "h [h] [h]");
        assert_eq!(phase_names(&bound, &other)[6], "[e] [e] e Product(0) e Product(1) [e] e Downs");
        // Two experts per row.
        let id = graph.find("e").expect("it is there");
        let words = |stage| words_of(&bound, Item::Stage(id, stage));
        assert_eq!(words(Stage::Gathered(bytes)), 2 * (8 + 1 + 1));
        assert_eq!((words(Stage::Product(1)), words(Stage::Hidden(FORM)), words(Stage::Downs)), (96, 96, 64));
    }

    #[test]
    fn only_untapped_rows_of_one_phase_have_no_buffer() {
        let graph = graph();
        for (taps, without) in [(Taps::None, 5), (Taps::Names(&["s-1"]), 4), (Taps::All, 0)] {
            let bound = bound(&graph, taps);
            let plan = Plan::new(&bound, |_| FORM);
            let items = plan.phases.iter().flat_map(|phase| &phase.items);
            // Both norms, both gates and the output rows.
            assert_eq!(items.filter(|&&item| plan.buffer_of(item).is_none()).count(), without);
        }
    }

    fn inputs(bound: &BoundProgram, plan: &Plan, item: Item) -> Vec<Item> {
        match item {
            Item::Packed(id, _) => vec![Item::Value(id)],
            Item::Value(id) => {
                let op = &bound.value(id).op;
                if let Op::Linear { x, .. } = *op {
                    return vec![Item::Packed(x, FORM)];
                }
                let is_experts = matches!(op, Op::Experts { .. });
                let values = || op.inputs().map(Item::Value).collect();
                if is_experts { vec![Item::Stage(id, Stage::Downs)] } else { values() }
            }
            Item::Stage(id, Stage::Gathered(form)) => {
                let Op::Experts { x, routes, .. } = bound.value(id).op else { unreachable!("experts") };
                vec![Item::Packed(x, form), Item::Value(routes)]
            }
            Item::Stage(id, _) => {
                let stages = plan.phases.iter().flat_map(|phase| &phase.items).copied();
                let before = stages.filter(|stage| matches!(stage, Item::Stage(of, _) if *of == id));
                before.take_while(|&stage| stage != item).collect()
            }
        }
    }

    #[test]
    fn a_buffer_is_left_alone_until_all_have_read_it() {
        let taps = [Taps::None, Taps::Names(&["l-0", "h-1"]), Taps::All];
        let newer = (newer(), &[Taps::None, Taps::All][..]);
        for (graph, taps) in [(graph(), &taps[..]), newer] {
            for &taps in taps {
                let bound = bound(&graph, taps);
                left_alone(&bound, &Plan::new(&bound, |_| FORM));
            }
        }
    }

    fn left_alone(bound: &BoundProgram, plan: &Plan) {
        let mut holds: Vec<Option<Item>> = vec![None; plan.buffers.len()];
        for phase in &plan.phases {
            for &item in &phase.items {
                if let Some(slot) = plan.buffer_of(item) {
                    holds[slot] = Some(item);
                }
            }
            for &item in &phase.items {
                for input in inputs(bound, plan, item) {
                    match plan.buffer_of(input) {
                        Some(slot) => assert_eq!(holds[slot], Some(input), "{item:?}"),
                        None => assert!(phase.items.contains(&input), "{item:?}"),
                    }
                }
            }
        }
        for (id, value) in bound.graph().values().filter(|&(id, _)| bound.is_readable(id)) {
            let slot = plan.buffer_of(Item::Value(id)).expect("it is kept");
            assert_eq!(holds[slot], Some(Item::Value(id)), "{}", value.name);
        }
    }
}
