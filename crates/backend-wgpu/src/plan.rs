//! How a graph becomes a list of passes over the device's buffers, and what is fused.
//!
//! Fused are, where nobody else reads the value in between: a norm into the products of its rows, products of the
//! same rows into one pass, biases and residuals into the products before them, SwiGLU into its two products,
//! rotations of queries and keys into the pass that writes keys and values to the cache. A value that is tapped is
//! made as a whole; what is made anyway, is copied when it is made.

use backend::Bound;
use graph::{Op, Rope, Rows, ValueId, WeightId};

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
    SwiGlu {
        gate: ValueId,
        up: ValueId,
        y: ValueId,
    },
    Take {
        x: ValueId,
        y: ValueId,
    },
    /// Queries, or any heads, turned.
    Turn {
        x: ValueId,
        rope: Rope,
        y: ValueId,
    },
    /// Keys and values go to the cache of a layer, and queries meet what is there.
    Attend(Attend),
}

/// Attention, with what comes just before it.
#[derive(Clone, Debug)]
pub(crate) struct Attend {
    pub(crate) q: ValueId,
    pub(crate) k: ValueId,
    pub(crate) v: ValueId,
    /// What turns queries and keys on the way.
    pub(crate) q_rope: Option<Rope>,
    pub(crate) k_rope: Option<Rope>,
    pub(crate) y: ValueId,
    pub(crate) layer: usize,
    pub(crate) heads: usize,
    pub(crate) kv_heads: usize,
    pub(crate) scale: f32,
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
    /// Of two, silu of the first times the second: the value of both parts.
    Glu,
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
#[derive(Clone, Copy, Debug)]
pub(crate) struct Slot {
    /// Numbers of a row, a multiple of 4.
    pub(crate) cols: usize,
    pub(crate) rows: Rows,
}

/// The passes of a graph.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    pub(crate) passes: Vec<Pass>,
    pub(crate) slots: Vec<Slot>,
    /// By value; none for what is never whole.
    places: Vec<Option<Place>>,
}

impl Plan {
    /// The plan of `bound`, with `margin` free columns on both sides of each value.
    pub(crate) fn new(bound: &Bound, margin: usize) -> Plan {
        let passes = Fusion::new(bound).passes();
        let (slots, places) = places(bound, &passes, margin);
        Plan { passes, slots, places }
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
            Pass::Linear { parts, .. } => vec![parts[0].y],
            Pass::Input { y }
            | Pass::Embed { y, .. }
            | Pass::Norm { y, .. }
            | Pass::Add { y, .. }
            | Pass::AddBias { y, .. }
            | Pass::SwiGlu { y, .. }
            | Pass::Take { y, .. }
            | Pass::Turn { y, .. }
            | Pass::Attend(Attend { y, .. }) => vec![*y],
        }
    }

    /// The attention it is, if it is one.
    pub(crate) fn attention(&self) -> Option<&Attend> {
        match self {
            Pass::Attend(attend) => Some(attend),
            _ => None,
        }
    }

    /// The values it reads.
    fn reads(&self) -> Vec<ValueId> {
        match *self {
            Pass::Input { .. } | Pass::Embed { .. } => Vec::new(),
            Pass::Linear { x, rest: Rest::Residual(rest), .. } => vec![x, rest],
            Pass::Linear { x, .. }
            | Pass::Norm { x, .. }
            | Pass::AddBias { x, .. }
            | Pass::Take { x, .. }
            | Pass::Turn { x, .. } => vec![x],
            Pass::Add { a, b, .. } => vec![a, b],
            Pass::SwiGlu { gate, up, .. } => vec![gate, up],
            Pass::Attend(Attend { q, k, v, .. }) => vec![q, k, v],
        }
    }
}

/// Products that one pass computes, at most: so many weights a kernel can bind.
const PARTS: usize = 3;

/// What is decided for each value of a graph.
struct Fusion<'a> {
    bound: &'a Bound,
    /// By value, who reads it.
    readers: Vec<Vec<usize>>,
    /// By value, whether another value's pass makes it.
    absorbed: Vec<bool>,
}

impl<'a> Fusion<'a> {
    fn new(bound: &'a Bound) -> Fusion<'a> {
        let values = bound.values();
        let mut readers = vec![Vec::new(); values.len()];
        for (reader, value) in values.iter().enumerate() {
            value.op.inputs().for_each(|input| readers[input.index()].push(reader));
        }
        let mut fusion = Fusion { bound, readers, absorbed: vec![false; values.len()] };
        for number in 0..values.len() {
            fusion.absorbed[number] = fusion.is_absorbed(number);
        }
        fusion
    }

    fn op(&self, value: usize) -> &'a Op {
        &self.bound.values()[value].op
    }

    /// The only one that reads `value`, which is not to be read by name.
    fn only_reader(&self, value: usize) -> Option<usize> {
        match self.readers[value][..] {
            [reader] if !self.bound.is_kept(ValueId::from_index(value)) => Some(reader),
            _ => None,
        }
    }

    /// Whether a value is made on the way to another and never lies anywhere.
    fn is_absorbed(&self, number: usize) -> bool {
        let is_linear = |value: usize| matches!(self.op(value), Op::Linear { .. });
        match self.op(number) {
            Op::RmsNorm { .. } => {
                let kept = self.bound.is_kept(ValueId::from_index(number));
                !kept
                    && !self.readers[number].is_empty()
                    && self.readers[number].iter().all(|&reader| is_linear(reader))
            }
            Op::Linear { .. } => self.only_reader(number).is_some_and(|reader| match *self.op(reader) {
                Op::AddBias { .. } => true,
                Op::Add { a, b } => a != b && self.residual(a, b).0.index() == number,
                Op::SwiGlu { gate, up } => self.are_gated(gate, up),
                _ => false,
            }),
            // Keys are turned where they are stored, queries where they are used.
            Op::Rope { .. } => self.only_reader(number).is_some_and(|reader| match *self.op(reader) {
                Op::Attention { q, k, v, .. } => {
                    [q, k, v].iter().filter(|id| id.index() == number).count() == 1 && v.index() != number
                }
                _ => false,
            }),
            _ => false,
        }
    }

    /// Of two that are added, the product and what is added to it: the later of two products is.
    fn residual(&self, a: ValueId, b: ValueId) -> (ValueId, ValueId) {
        let is_linear = |id: ValueId| matches!(self.op(id.index()), Op::Linear { .. });
        match (is_linear(a), is_linear(b)) {
            (true, true) => (a.max(b), a.min(b)),
            (false, true) => (b, a),
            _ => (a, b),
        }
    }

    /// Whether both are products of the same rows that nobody else reads.
    fn are_gated(&self, gate: ValueId, up: ValueId) -> bool {
        let product = |id: ValueId| match *self.op(id.index()) {
            Op::Linear { x, weight } if self.only_reader(id.index()).is_some() => {
                Some((x, self.bound.weight(weight).cols))
            }
            _ => None,
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
                Op::Input => passes.push(Pass::Input { y }),
                Op::Embed { table } => passes.push(Pass::Embed { table, y }),
                Op::Linear { .. } | Op::AddBias { .. } if self.product(number).is_some() => {
                    passes.push(self.products(number, &mut done));
                }
                Op::Linear { .. } => unreachable!("a product that nobody absorbs is one"),
                Op::AddBias { x, weight } => passes.push(Pass::AddBias { x, weight, y }),
                Op::RmsNorm { x, weight, eps } => {
                    passes.push(Pass::Norm { x, norm: Norm { weight, eps }, y })
                }
                Op::Add { a, b } => {
                    let (product, other) = self.residual(a, b);
                    match *self.op(product.index()) {
                        Op::Linear { x, weight } if self.absorbed[product.index()] => {
                            let (x, norm) = self.rows(x);
                            let parts = vec![Part { weight, y }];
                            let rest = Rest::Residual(other);
                            passes.push(Pass::Linear { x, norm, parts, shape: Shape::Each, rest });
                        }
                        _ => passes.push(Pass::Add { a, b, y }),
                    }
                }
                Op::SwiGlu { gate, up } => match (self.op(gate.index()), self.op(up.index())) {
                    (&Op::Linear { x, weight }, &Op::Linear { weight: up, .. })
                        if self.absorbed[gate.index()] =>
                    {
                        let (x, norm) = self.rows(x);
                        let parts = vec![Part { weight, y }, Part { weight: up, y }];
                        passes.push(Pass::Linear { x, norm, parts, shape: Shape::Glu, rest: Rest::None });
                    }
                    _ => passes.push(Pass::SwiGlu { gate, up, y }),
                },
                Op::TakeRows { x } => passes.push(Pass::Take { x, y }),
                Op::Rope { x, ref rope } => passes.push(Pass::Turn { x, rope: rope.clone(), y }),
                Op::Attention { q, k, v, layer, heads, kv_heads, scale } => {
                    let ((q, q_rope), (k, k_rope)) = (self.unturned(q), self.unturned(k));
                    passes.push(Pass::Attend(Attend {
                        q,
                        k,
                        v,
                        q_rope,
                        k_rope,
                        y,
                        layer,
                        heads,
                        kv_heads,
                        scale,
                    }));
                }
            }
        }
        passes
    }

    /// The rows that are multiplied for a product with `x`: its own, or those of a norm that is made on the way.
    fn rows(&self, x: ValueId) -> (ValueId, Option<Norm>) {
        match *self.op(x.index()) {
            Op::RmsNorm { x: before, weight, eps } if self.absorbed[x.index()] => {
                (before, Some(Norm { weight, eps }))
            }
            _ => (x, None),
        }
    }

    /// Heads before they are turned on the way, and by what.
    fn unturned(&self, id: ValueId) -> (ValueId, Option<Rope>) {
        match self.op(id.index()) {
            Op::Rope { x, rope } if self.absorbed[id.index()] => (*x, Some(rope.clone())),
            _ => (id, None),
        }
    }

    /// A product that is a value itself, or the one before a bias: its rows, weight and bias.
    fn product(&self, value: usize) -> Option<(ValueId, WeightId, Option<WeightId>)> {
        match *self.op(value) {
            Op::Linear { x, weight } => Some((x, weight, None)),
            Op::AddBias { x, weight: bias } => match *self.op(x.index()) {
                Op::Linear { x: rows, weight } if self.absorbed[x.index()] => {
                    Some((rows, weight, Some(bias)))
                }
                _ => None,
            },
            _ => None,
        }
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
fn places(bound: &Bound, passes: &[Pass], margin: usize) -> (Vec<Slot>, Vec<Option<Place>>) {
    let mut last_use = vec![0; bound.values().len()];
    for (pass_number, pass) in passes.iter().enumerate() {
        for id in pass.reads().into_iter().chain(pass.makes()) {
            last_use[id.index()] = pass_number;
        }
    }
    last_use[bound.output().index()] = passes.len();
    let (mut slots, mut places) = (Vec::<Slot>::new(), vec![None; bound.values().len()]);
    // By slot, the last pass that reads it.
    let mut busy_until: Vec<usize> = Vec::new();
    for (pass_number, pass) in passes.iter().enumerate() {
        let made = pass.makes();
        let Some(&first) = made.first() else { continue };
        let rows = bound.value(first).rows;
        let width = |id: ValueId| bound.value(id).cols.next_multiple_of(4) + margin;
        let cols = margin + made.iter().map(|&id| width(id)).sum::<usize>();
        let until = made.iter().map(|id| last_use[id.index()]).max().unwrap_or(pass_number);
        let fits = |slot: usize| {
            margin == 0
                && slots[slot].rows == rows
                && slots[slot].cols == cols
                && busy_until[slot] < pass_number
        };
        let slot = (0..slots.len()).find(|&slot| fits(slot)).unwrap_or_else(|| {
            slots.push(Slot { cols, rows });
            busy_until.push(0);
            slots.len() - 1
        });
        busy_until[slot] = until;
        let mut col = margin;
        for id in made {
            places[id.index()] = Some(Place { slot, col });
            col += width(id);
        }
    }
    (slots, places)
}
