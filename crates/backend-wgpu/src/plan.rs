//! How a graph becomes a list of passes over the device's buffers, and what is fused.
//!
//! Fused are, where nobody else reads the value in between: a norm into the products of its rows, products of the
//! same rows into one pass, biases and residuals into the products before them, a gate into its two products,
//! RoPE of queries and keys into attention. A value that is tapped is made as a whole, and copied when it is made.

use backend::BoundProgram;
use graph::{Activation, LiveRange, Op, Rope, Rows, StoreId, ValueId, WeightId, assign_buffers};

/// One pass: values that exist, and the value or values it makes.
#[derive(Clone, Debug)]
pub(crate) enum Pass {
    /// Rows that come with the step.
    Input {
        y: ValueId,
    },
    Embed {
        table: WeightId,
        y: ValueId,
    },
    /// Products of the rows of `x` with each part's weight.
    Linear {
        x: ValueId,
        norm: Option<Norm>,
        parts: Vec<Part>,
        shape: Shape,
        rest: Rest,
    },
    Norm {
        x: ValueId,
        norm: Norm,
        y: ValueId,
    },
    Add {
        a: ValueId,
        b: ValueId,
        y: ValueId,
    },
    AddBias {
        x: ValueId,
        weight: WeightId,
        y: ValueId,
    },
    Gate {
        gate: ValueId,
        up: ValueId,
        act: Activation,
        y: ValueId,
    },
    Scale {
        x: ValueId,
        factor: f32,
        y: ValueId,
    },
    OutputRows {
        x: ValueId,
        y: ValueId,
    },
    /// Heads that are roped.
    Rope {
        x: ValueId,
        rope: Rope,
        y: ValueId,
    },
    /// Keys and values are written to their store, and attended to.
    Attend(Attend),
    /// How much each expert counts, and the list of those that rows use.
    Route {
        logits: ValueId,
        used: usize,
        list: usize,
        y: ValueId,
    },
    Experts(Experts),
}

/// Attention, with what comes just before it.
#[derive(Clone, Debug)]
pub(crate) struct Attend {
    pub(crate) q: ValueId,
    pub(crate) kv: Option<[ValueId; 2]>,
    /// The RoPE of queries and keys on the way.
    pub(crate) q_rope: Option<Rope>,
    pub(crate) k_rope: Option<Rope>,
    pub(crate) y: ValueId,
    pub(crate) store: StoreId,
    pub(crate) heads: usize,
    pub(crate) scale: f32,
}

/// Experts, with a norm that comes before and what is added.
#[derive(Clone, Debug)]
pub(crate) struct Experts {
    pub(crate) x: ValueId,
    pub(crate) norm: Option<Norm>,
    pub(crate) routes: ValueId,
    /// The list of those that rows use, which the pass makes itself where no route has.
    pub(crate) list: usize,
    pub(crate) makes_list: bool,
    pub(crate) gate: WeightId,
    pub(crate) up: WeightId,
    pub(crate) down: WeightId,
    pub(crate) act: Activation,
    pub(crate) residual: Option<ValueId>,
    pub(crate) y: ValueId,
}

/// A norm that comes before products.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Norm {
    pub(crate) weight: WeightId,
    pub(crate) eps: f32,
}

/// A weight of a pass of products, and the value it makes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Part {
    pub(crate) weight: WeightId,
    pub(crate) y: ValueId,
}

/// What products become.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shape {
    /// A value each.
    Each,
    /// Of two, the activation of the first times the second: the value of both parts.
    Glu(Activation),
}

impl Shape {
    /// What gates go through.
    pub(crate) fn act(self) -> Option<Activation> {
        match self {
            Shape::Each => None,
            Shape::Glu(act) => Some(act),
        }
    }
}

/// What is added to products.
#[derive(Clone, Debug)]
pub(crate) enum Rest {
    None,
    Residual(ValueId),
    /// For each part.
    Biases(Vec<Option<WeightId>>),
}

/// Where the rows of a value lie.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) slot: usize,
    /// The first column.
    pub(crate) col: usize,
}

/// A buffer that values take turns in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Slot {
    /// Values of a row, a multiple of 4.
    pub(crate) cols: usize,
    pub(crate) rows: Rows,
}

/// A buffer for lists of the experts that rows use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct List {
    /// Experts of a row, at most.
    pub(crate) used: usize,
    pub(crate) rows: Rows,
}

impl List {
    /// Words of a row: how many experts there are, and two for each (`kernels/route.wgsl`).
    pub(crate) fn words(self) -> usize {
        1 + 2 * self.used
    }
}

/// The passes of a graph.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    pub(crate) passes: Vec<Pass>,
    pub(crate) slots: Vec<Slot>,
    pub(crate) lists: Vec<List>,
    /// By value; none for what is never whole.
    places: Vec<Option<Place>>,
}

impl Plan {
    /// The plan of `bound`, with `margin` free columns on both sides of each value.
    pub(crate) fn new(bound: &BoundProgram, margin: usize) -> Plan {
        let mut passes = Fusion::new(bound).passes();
        let (slots, places) = places(bound, &passes, margin);
        let lists = lists(bound, &mut passes);
        Plan { passes, slots, lists, places }
    }

    /// Where a value lies that some pass makes.
    pub(crate) fn place(&self, id: ValueId) -> Place {
        self.places[id.index()].expect("a pass makes what another reads")
    }
}

impl Pass {
    /// The values it makes, in the order of their columns; one buffer holds them.
    pub(crate) fn makes(&self) -> Vec<ValueId> {
        match self {
            Pass::Linear { parts, shape: Shape::Each, .. } => parts.iter().map(|part| part.y).collect(),
            Pass::Linear { parts, shape: Shape::Glu(_), .. } => vec![parts[0].y],
            Pass::Input { y }
            | Pass::Embed { y, .. }
            | Pass::Norm { y, .. }
            | Pass::Add { y, .. }
            | Pass::AddBias { y, .. }
            | Pass::Gate { y, .. }
            | Pass::Scale { y, .. }
            | Pass::OutputRows { y, .. }
            | Pass::Rope { y, .. }
            | Pass::Route { y, .. }
            | Pass::Experts(Experts { y, .. })
            | Pass::Attend(Attend { y, .. }) => vec![*y],
        }
    }

    /// The values it reads.
    fn reads(&self) -> Vec<ValueId> {
        match *self {
            Pass::Input { .. } | Pass::Embed { .. } => Vec::new(),
            Pass::Linear { x, ref rest, .. } => match rest {
                Rest::Residual(rest) => vec![x, *rest],
                Rest::None | Rest::Biases(_) => vec![x],
            },
            Pass::Norm { x, .. }
            | Pass::AddBias { x, .. }
            | Pass::Scale { x, .. }
            | Pass::OutputRows { x, .. }
            | Pass::Route { logits: x, .. }
            | Pass::Rope { x, .. } => vec![x],
            Pass::Add { a, b, .. } => vec![a, b],
            Pass::Gate { gate, up, .. } => vec![gate, up],
            Pass::Attend(Attend { q, kv, .. }) => [q].into_iter().chain(kv.into_iter().flatten()).collect(),
            Pass::Experts(Experts { x, routes, residual, .. }) => {
                [x, routes].into_iter().chain(residual).collect()
            }
        }
    }
}

/// Products that one pass computes, at most: so many weights a kernel can bind.
const PARTS: usize = 3;

/// What is decided for each value of a graph.
struct Fusion<'a> {
    bound: &'a BoundProgram,
    /// By value, who reads it.
    readers: Vec<Vec<usize>>,
    /// By value, whether another value's pass makes it.
    absorbed: Vec<bool>,
}

impl<'a> Fusion<'a> {
    fn new(bound: &'a BoundProgram) -> Fusion<'a> {
        let values = bound.graph().values().len();
        let mut readers = vec![Vec::new(); values];
        for (reader, value) in bound.graph().values() {
            value.op.inputs().for_each(|input| readers[input.index()].push(reader.index()));
        }
        let mut fusion = Fusion { bound, readers, absorbed: vec![false; values] };
        for number in 0..values {
            fusion.absorbed[number] = fusion.is_absorbed(number);
        }
        fusion
    }

    fn op(&self, value: usize) -> &'a Op {
        &self.bound.value(ValueId::from_index(value)).op
    }

    /// The only one that reads `value`, which is not to be read by name.
    fn only_reader(&self, value: usize) -> Option<usize> {
        match self.readers[value][..] {
            [reader] if !self.bound.is_readable(ValueId::from_index(value)) => Some(reader),
            _ => None,
        }
    }

    /// Whether a value is made on the way to another and never lies anywhere.
    fn is_absorbed(&self, number: usize) -> bool {
        match *self.op(number) {
            Op::RmsNorm { x, weight, .. } => {
                let is_of_rows = self.bound.weight(weight).cols == self.bound.value(x).cols;
                let readers = &self.readers[number];
                is_of_rows
                    && !self.bound.is_readable(ValueId::from_index(number))
                    && !readers.is_empty()
                    && readers.iter().all(|&reader| self.multiplies_rows(reader, number))
            }
            Op::Linear { .. } => self.only_reader(number).is_some_and(|reader| {
                let reads = self.op(reader);
                matches!(reads, Op::AddBias { .. })
                    || matches!(*reads, Op::Gate { gate, up, .. } if self.are_gated(gate, up))
                    || self.is_added(number, reader)
            }),
            Op::Experts { .. } => {
                self.only_reader(number).is_some_and(|reader| self.is_added(number, reader))
            }
            // Keys are roped where they are stored, queries where they are used.
            Op::Rope { .. } => self.only_reader(number).is_some_and(|reader| {
                let Op::Attention { q, kv, .. } = *self.op(reader) else { return false };
                let is_value = kv.is_some_and(|[_, v]| v.index() == number);
                let inputs = [q].into_iter().chain(kv.into_iter().flatten());
                inputs.filter(|id| id.index() == number).count() == 1 && !is_value
            }),
            Op::Input { .. }
            | Op::Embed { .. }
            | Op::Attention { .. }
            | Op::Gate { .. }
            | Op::Route { .. }
            | Op::Scale { .. }
            | Op::Add { .. }
            | Op::AddBias { .. }
            | Op::OutputRows { .. } => false,
        }
    }

    /// Whether `reader` multiplies the rows of `value` with weights, and does nothing else with them.
    fn multiplies_rows(&self, reader: usize, value: usize) -> bool {
        let reads = self.op(reader);
        matches!(reads, Op::Linear { .. })
            || matches!(*reads, Op::Experts { x, routes, .. } if x != routes && x.index() == value)
    }

    /// Whether `reader` adds something to a product.
    fn is_added(&self, product: usize, reader: usize) -> bool {
        matches!(*self.op(reader), Op::Add { a, b } if a != b && self.residual(a, b).0.index() == product)
    }

    /// Of two that are added, the product and what is added to it: the later of two products is.
    fn residual(&self, a: ValueId, b: ValueId) -> (ValueId, ValueId) {
        let is_product = |id: ValueId| matches!(self.op(id.index()), Op::Linear { .. } | Op::Experts { .. });
        match (is_product(a), is_product(b)) {
            (true, true) => (a.max(b), a.min(b)),
            (false, true) => (b, a),
            (true, false) | (false, false) => (a, b),
        }
    }

    /// Whether both are products of the same rows that nobody else reads.
    fn are_gated(&self, gate: ValueId, up: ValueId) -> bool {
        let product = |id: ValueId| {
            let Op::Linear { x, weight } = *self.op(id.index()) else { return None };
            self.only_reader(id.index()).map(|_| (x, self.bound.weight(weight).cols))
        };
        gate != up && product(gate).is_some() && product(gate) == product(up)
    }

    fn passes(&self) -> Vec<Pass> {
        let mut passes = Vec::new();
        let mut done = vec![false; self.absorbed.len()];
        for number in 0..self.absorbed.len() {
            if self.absorbed[number] || done[number] {
                continue;
            }
            let y = ValueId::from_index(number);
            match *self.op(number) {
                Op::Input { cols: _ } => passes.push(Pass::Input { y }),
                Op::Embed { table } => passes.push(Pass::Embed { table, y }),
                Op::Linear { .. } | Op::AddBias { .. } if self.product(number).is_some() => {
                    passes.push(self.products(number, &mut done));
                }
                Op::Linear { .. } => unreachable!("a product that nobody absorbs is one"),
                Op::AddBias { x, weight } => passes.push(Pass::AddBias { x, weight, y }),
                Op::RmsNorm { x, weight, eps } => {
                    passes.push(Pass::Norm { x, norm: Norm { weight, eps }, y })
                }
                Op::Add { a, b } => passes.push(self.added(a, b, y)),
                Op::Gate { gate, up, act } => passes.push(self.gated(gate, up, act, y)),
                Op::Scale { x, factor } => passes.push(Pass::Scale { x, factor, y }),
                Op::OutputRows { x } => passes.push(Pass::OutputRows { x, y }),
                Op::Rope { x, rope } => passes.push(Pass::Rope { x, rope, y }),
                Op::Attention { q, kv, store, heads, scale } => {
                    let (q, q_rope) = self.unroped(q);
                    let k = kv.map(|[k, _]| self.unroped(k));
                    let k_rope = k.and_then(|(_, rope)| rope);
                    let kv = k.zip(kv).map(|((k, _), [_, v])| [k, v]);
                    passes.push(Pass::Attend(Attend { q, kv, q_rope, k_rope, y, store, heads, scale }));
                }
                Op::Route { logits, used } => passes.push(Pass::Route { logits, used, list: 0, y }),
                Op::Experts { .. } => passes.extend(self.experts(y, None, y)),
            }
        }
        passes
    }

    /// A gate, with the products that are absorbed in it.
    fn gated(&self, gate: ValueId, up: ValueId, act: Activation, y: ValueId) -> Pass {
        if let (&Op::Linear { x, weight }, &Op::Linear { weight: up, .. }) =
            (self.op(gate.index()), self.op(up.index()))
            && self.absorbed[gate.index()]
        {
            let (x, norm) = self.rows(x);
            let parts = vec![Part { weight, y }, Part { weight: up, y }];
            return Pass::Linear { x, norm, parts, shape: Shape::Glu(act), rest: Rest::None };
        }
        Pass::Gate { gate, up, act, y }
    }

    /// A sum, with the product that is absorbed in it.
    fn added(&self, a: ValueId, b: ValueId, y: ValueId) -> Pass {
        let (product, other) = self.residual(a, b);
        if !self.absorbed[product.index()] {
            return Pass::Add { a, b, y };
        }
        if let Op::Linear { x, weight } = *self.op(product.index()) {
            let (x, norm) = self.rows(x);
            let parts = vec![Part { weight, y }];
            return Pass::Linear { x, norm, parts, shape: Shape::Each, rest: Rest::Residual(other) };
        }
        self.experts(product, Some(other), y).unwrap_or(Pass::Add { a, b, y })
    }

    /// The experts that `value` is, with what is added to them, as `y`.
    fn experts(&self, value: ValueId, residual: Option<ValueId>, y: ValueId) -> Option<Pass> {
        let Op::Experts { x, routes, gate, up, down, act } = *self.op(value.index()) else { return None };
        let (x, norm) = self.rows(x);
        let makes_list = !matches!(self.op(routes.index()), Op::Route { .. });
        let list = 0;
        Some(Pass::Experts(Experts { x, norm, routes, list, makes_list, gate, up, down, act, residual, y }))
    }

    /// The rows that are multiplied for a product with `x`: its own, or those of a norm that is made on the way.
    fn rows(&self, x: ValueId) -> (ValueId, Option<Norm>) {
        if let Op::RmsNorm { x: before, weight, eps } = *self.op(x.index())
            && self.absorbed[x.index()]
        {
            return (before, Some(Norm { weight, eps }));
        }
        (x, None)
    }

    /// Heads before RoPE on the way, and that.
    fn unroped(&self, id: ValueId) -> (ValueId, Option<Rope>) {
        if let Op::Rope { x, rope } = *self.op(id.index())
            && self.absorbed[id.index()]
        {
            return (x, Some(rope));
        }
        (id, None)
    }

    /// A product that is a value itself, or the one before a bias: its rows, weight and bias.
    fn product(&self, value: usize) -> Option<(ValueId, WeightId, Option<WeightId>)> {
        if let Op::Linear { x, weight } = *self.op(value) {
            return Some((x, weight, None));
        }
        let Op::AddBias { x, weight: bias } = *self.op(value) else { return None };
        let Op::Linear { x: rows, weight } = *self.op(x.index()) else { return None };
        self.absorbed[x.index()].then_some((rows, weight, Some(bias)))
    }

    /// The product `first`, with the next ones of the same rows.
    fn products(&self, first: usize, done: &mut [bool]) -> Pass {
        let (x, ..) = self.product(first).expect("it is a product");
        let (mut parts, mut biases) = (Vec::new(), Vec::new());
        for (number, done) in done.iter_mut().enumerate().skip(first) {
            if self.absorbed[number] || *done || parts.len() == PARTS {
                continue;
            }
            if let Some((rows, weight, bias)) = self.product(number)
                && rows == x
            {
                parts.push(Part { weight, y: ValueId::from_index(number) });
                biases.push(bias);
                *done = true;
            }
        }
        let rest = if biases.iter().any(Option::is_some) { Rest::Biases(biases) } else { Rest::None };
        let (x, norm) = self.rows(x);
        Pass::Linear { x, norm, parts, shape: Shape::Each, rest }
    }
}

/// Gives values their places: a slot is free again after the last pass that reads what lies there. With margins each
/// pass has its own, so that after a step all is there.
fn places(bound: &BoundProgram, passes: &[Pass], margin: usize) -> (Vec<Slot>, Vec<Option<Place>>) {
    let values = bound.graph().values().len();
    let mut last_use = vec![0; values];
    for (number, pass) in passes.iter().enumerate() {
        for id in pass.reads().into_iter().chain(pass.makes()) {
            last_use[id.index()] = number;
        }
    }
    // What is tapped is copied when it is made; tokens are chosen from the output at the end.
    last_use[bound.output().index()] = LiveRange::<Slot>::LIVE_OUT;
    let width = |id: ValueId| bound.value(id).cols.next_multiple_of(4) + margin;
    let life = |(number, pass): (usize, &Pass)| {
        let makes = pass.makes();
        let cols = margin + makes.iter().map(|&id| width(id)).sum::<usize>();
        let rows = bound.value(makes[0]).rows;
        let last_read = makes.iter().map(|id| last_use[id.index()]).fold(number, usize::max);
        let last_read = if margin > 0 { LiveRange::<Slot>::LIVE_OUT } else { last_read };
        LiveRange { shape: Slot { cols, rows }, made: number, last_read }
    };
    let lives: Vec<LiveRange<Slot>> = passes.iter().enumerate().map(life).collect();
    let (slots, of_passes) = assign_buffers(&lives);
    let mut places = vec![None; values];
    for (pass, slot) in passes.iter().zip(of_passes) {
        let mut col = margin;
        for id in pass.makes() {
            places[id.index()] = Some(Place { slot, col });
            col += width(id);
        }
    }
    (slots, places)
}

/// Experts that a row of `routes` uses at most; scaling chooses no others.
fn used(bound: &BoundProgram, mut routes: ValueId) -> usize {
    while let Op::Scale { x, .. } = bound.value(routes).op {
        routes = x;
    }
    bound.graph().experts_used(routes)
}

/// Gives each list of experts a buffer, and says in the passes which.
fn lists(bound: &BoundProgram, passes: &mut [Pass]) -> Vec<List> {
    let reads = |pass: &Pass, route: ValueId| matches!(pass, Pass::Experts(Experts { routes, makes_list: false, .. }) if *routes == route);
    let (mut lives, mut makers) = (Vec::new(), Vec::new());
    for (made, pass) in passes.iter().enumerate() {
        let (routes, used, last_read) = match *pass {
            Pass::Route { y, used, .. } => {
                (y, used, passes.iter().rposition(|pass| reads(pass, y)).unwrap_or(made))
            }
            Pass::Experts(Experts { routes, makes_list: true, .. }) => (routes, used(bound, routes), made),
            _ => continue,
        };
        let shape = List { used, rows: bound.value(routes).rows };
        lives.push(LiveRange { shape, made, last_read });
        makers.push((made, routes));
    }
    let (shapes, of_lives) = assign_buffers(&lives);
    for (&(maker, routes), number) in makers.iter().zip(of_lives) {
        for (at, pass) in passes.iter_mut().enumerate() {
            match pass {
                Pass::Route { list, .. } if at == maker => *list = number,
                Pass::Experts(experts) if at == maker || !experts.makes_list && experts.routes == routes => {
                    experts.list = number;
                }
                _ => {}
            }
        }
    }
    shapes
}
