//! Which values are computed together, and where they lie.

use std::collections::HashMap;

use backend::Bound;
use graph::{Op, Rows, ValueId, WeightId};

use crate::packed::activations::Form;

/// What is computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Item {
    /// A value of the graph.
    Value(ValueId),
    /// A value, packed for the linear layers that read it.
    Packed(ValueId, Form),
}

/// What items of a phase have in common.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A row needs nothing of this phase but the same row of earlier items: threads take rows and compute all
    /// items of them.
    Rows(Rows),
    /// Linear layers, which need nothing of this phase: threads take columns.
    Linear,
    /// One attention: threads take rows and K/V heads.
    Attention,
}

/// What all threads do together before they meet.
#[derive(Debug)]
pub(crate) struct Phase {
    pub(crate) kind: Kind,
    /// In an order to compute them in.
    pub(crate) items: Vec<Item>,
}

/// A buffer that items take in turns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Shape {
    pub(crate) rows: Rows,
    /// Words of 32 bits of a row.
    pub(crate) words: usize,
}

/// A graph as a list of phases over a few buffers.
#[derive(Debug, Default)]
pub(crate) struct Plan {
    pub(crate) phases: Vec<Phase>,
    pub(crate) buffers: Vec<Shape>,
    /// Of each value, the buffers of its items, but for rows that only their own phase reads. A step asks often.
    places: Vec<Vec<(Item, usize)>>,
}

impl Plan {
    /// Plans `bound`; `form` is what linear layers want of activations, by weight.
    pub(crate) fn new(bound: &Bound, form: impl Fn(WeightId) -> Form) -> Plan {
        let mut order = Order::default();
        for (i, value) in bound.values().iter().enumerate() {
            let item = Item::Value(ValueId::from_index(i));
            match value.op {
                Op::Linear { x, weight } => {
                    let packed = Item::Packed(x, form(weight));
                    if !order.phase_of.contains_key(&packed) {
                        order.put(packed, Kind::Rows(bound.value(x).rows), &[Item::Value(x)]);
                    }
                    order.put(item, Kind::Linear, &[packed]);
                }
                ref op => {
                    let inputs: Vec<Item> = op.inputs().map(Item::Value).collect();
                    let is_attention = matches!(op, Op::Attention { .. });
                    let kind = if is_attention { Kind::Attention } else { Kind::Rows(value.rows) };
                    order.put(item, kind, &inputs);
                }
            }
        }
        let places = vec![Vec::new(); bound.values().len()];
        let mut plan = Plan { phases: order.phases, places, ..Plan::default() };
        plan.place(bound, &order.last_read);
        plan
    }

    /// Gives every item a buffer, but for rows that only their own phase reads: one of the same shape that items
    /// which are not needed any more have left, or a new one.
    fn place(&mut self, bound: &Bound, last_read: &HashMap<Item, usize>) {
        let mut free: Vec<usize> = Vec::new();
        let mut dying: Vec<Vec<usize>> = vec![Vec::new(); self.phases.len()];
        for (now, phase) in self.phases.iter().enumerate() {
            for &item in &phase.items {
                let (Item::Value(id) | Item::Packed(id, _)) = item;
                let is_kept = matches!(item, Item::Value(_)) && bound.is_kept(id);
                let last = last_read.get(&item).copied().unwrap_or(now);
                if matches!(phase.kind, Kind::Rows(_)) && last == now && !is_kept {
                    continue;
                }
                let shape = Shape { rows: bound.value(id).rows, words: words_of(bound, item) };
                let place = match free.iter().position(|&place| self.buffers[place] == shape) {
                    Some(i) => free.swap_remove(i),
                    None => {
                        self.buffers.push(shape);
                        self.buffers.len() - 1
                    }
                };
                self.places[id.index()].push((item, place));
                if !is_kept {
                    dying[last].push(place);
                }
            }
            free.append(&mut dying[now]);
        }
    }

    /// The buffer of an item; none of rows that only their own phase reads.
    pub(crate) fn buffer_of(&self, item: Item) -> Option<usize> {
        let (Item::Value(id) | Item::Packed(id, _)) = item;
        self.places[id.index()].iter().find(|(placed, _)| *placed == item).map(|&(_, place)| place)
    }
}

/// Words of a row of an item.
pub(crate) fn words_of(bound: &Bound, item: Item) -> usize {
    match item {
        Item::Value(id) => bound.value(id).cols,
        Item::Packed(id, form) => form.words(bound.value(id).cols),
    }
}

/// Phases while they are listed.
#[derive(Default)]
struct Order {
    phases: Vec<Phase>,
    phase_of: HashMap<Item, usize>,
    /// The last phase that reads an item.
    last_read: HashMap<Item, usize>,
}

impl Order {
    /// Puts `item` into the first phase of its kind that comes late enough, or into a new one.
    fn put(&mut self, item: Item, kind: Kind, inputs: &[Item]) {
        let after = |input: &Item| {
            let phase = self.phase_of[input];
            let is_same = matches!(kind, Kind::Rows(_)) && self.phases[phase].kind == kind;
            if is_same { phase } else { phase + 1 }
        };
        let earliest = inputs.iter().map(after).max().unwrap_or(0);
        let fits = |phase: &Phase| phase.kind == kind && kind != Kind::Attention;
        let found = self.phases.iter().skip(earliest).position(fits).map(|i| earliest + i);
        let phase = found.unwrap_or_else(|| {
            self.phases.push(Phase { kind, items: Vec::new() });
            self.phases.len() - 1
        });
        self.phases[phase].items.push(item);
        self.phase_of.insert(item, phase);
        for &input in inputs {
            let last = self.last_read.entry(input).or_insert(phase);
            *last = phase.max(*last);
        }
    }
}

#[cfg(test)]
mod tests {
    use backend::{Bucket, Taps, Weight};
    use graph::{Builder, Graph};
    use quant::Format;

    use super::*;

    const FORM: Form = Form::Floats;

    /// Two blocks of a norm, a gate and a sum, and an output.
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
            let h = g.swiglu(("s", block), gate, up);
            let h = g.linear(("d", block), h, down);
            x = g.add(("l", block), h, x);
        }
        let x = g.take_rows("wanted", x);
        let head = g.weight("head", 4, 32);
        let y = g.linear("y", x, head);
        g.finish(y)
    }

    fn bound(graph: &Graph, taps: Taps<'_>) -> Bound {
        let weight = |rows: usize, cols: usize| {
            let bytes: Vec<u8> = vec![0; rows * cols * 4];
            Weight { format: Format::F32, rows, cols, bytes: bytes.into() }
        };
        let weights = graph.weights().map(|(_, w)| (w.name.clone(), weight(w.rows, w.cols))).collect();
        Bound::new(graph, &weights, None, Bucket { rows: 3, wanted: 1 }, taps).expect("a good graph")
    }

    /// The items of each phase by name, packed ones in brackets.
    fn told(bound: &Bound, plan: &Plan) -> Vec<String> {
        let name = |item: &Item| match *item {
            Item::Value(id) => bound.value(id).name.clone(),
            Item::Packed(id, _) => format!("[{}]", bound.value(id).name),
        };
        let phase = |phase: &Phase| phase.items.iter().map(name).collect::<Vec<_>>().join(" ");
        plan.phases.iter().map(phase).collect()
    }

    #[test]
    fn what_can_be_computed_together_is() {
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
            "wanted [wanted]",
            "y",
        ];
        assert_eq!(told(&bound, &plan), expected);
    }

    #[test]
    fn only_rows_that_pass_have_no_buffer_and_none_that_are_tapped() {
        let graph = graph();
        for (taps, without) in [(Taps::None, 5), (Taps::Names(&["s-1"]), 4), (Taps::All, 0)] {
            let bound = bound(&graph, taps);
            let plan = Plan::new(&bound, |_| FORM);
            let items = plan.phases.iter().flat_map(|phase| &phase.items);
            // Both norms, both gates and the rows wanted.
            assert_eq!(items.filter(|&&item| plan.buffer_of(item).is_none()).count(), without);
        }
    }

    #[test]
    fn a_buffer_is_left_alone_until_all_have_read_it() {
        let graph = graph();
        for taps in [Taps::None, Taps::Names(&["l-0", "h-1"]), Taps::All] {
            let bound = bound(&graph, taps);
            let plan = Plan::new(&bound, |_| FORM);
            let mut holds: Vec<Option<Item>> = vec![None; plan.buffers.len()];
            for phase in &plan.phases {
                for &item in &phase.items {
                    if let Some(place) = plan.buffer_of(item) {
                        holds[place] = Some(item);
                    }
                }
                for &item in &phase.items {
                    let inputs: Vec<Item> = match item {
                        Item::Packed(id, _) => vec![Item::Value(id)],
                        Item::Value(id) => match bound.value(id).op {
                            Op::Linear { x, .. } => vec![Item::Packed(x, FORM)],
                            ref op => op.inputs().map(Item::Value).collect(),
                        },
                    };
                    for input in inputs {
                        match plan.buffer_of(input) {
                            Some(place) => assert_eq!(holds[place], Some(input), "{item:?}"),
                            None => assert!(phase.items.contains(&input), "{item:?}"),
                        }
                    }
                }
            }
            for (i, value) in bound.values().iter().enumerate() {
                let id = ValueId::from_index(i);
                if bound.is_kept(id) {
                    let item = Item::Value(id);
                    assert_eq!(
                        holds[plan.buffer_of(item).expect("it is kept")],
                        Some(item),
                        "{}",
                        value.name
                    );
                }
            }
        }
    }
}
