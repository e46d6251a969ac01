//! Lowers a graph to a list of passes over the device's buffers, and fuses operations.
//!
//! These fusions apply if nothing else reads the intermediate value: a norm into the following matmuls, matmuls of the
//! same input into one pass, a bias or residual into the matmul before it, the gate of a GLU into its two matmuls, RoPE of
//! queries and keys into attention. A tapped value is never fused away; it is copied as soon as it is computed.

use backend::BoundProgram;
use graph::{
    Glu, Hidden, Index, LiveRange, NormKind, Op, Rope, Router, Rows, Score, StoreId, ValueId, WeightId,
    assign_buffers,
};

/// A pass: reads values of earlier passes, and writes one or more, such as `y`.
#[derive(Clone, Debug)]
#[expect(missing_docs, reason = "the fields are those of the operations")]
pub enum Pass {
    /// Uploads the rows of a step, in pipeline stages after the first.
    Input { y: ValueId },
    /// Looks up rows of a table.
    Embed { table: WeightId, index: Index, y: ValueId },
    /// Multiplies the rows of `x`, after a norm if fused, with the weight of each part.
    Linear { x: ValueId, norm: Option<Norm>, parts: Vec<Part>, output: LinearOutput, addend: Addend },
    /// Multiplies each head of `x` with its own matrix.
    HeadLinear { x: ValueId, weight: WeightId, y: ValueId },
    /// A row-wise operation as it is in the graph.
    Rows { op: Op, y: ValueId },
    /// The output rows of `x`, which are all of its rows: nothing to do, `y` is stored where `x` is.
    Same { x: ValueId, y: ValueId },
    /// RoPE that is not fused.
    Rope { x: ValueId, rope: Rope, y: ValueId },
    /// A convolution or linear attention, as it is in the graph.
    Recurrent { op: Op, y: ValueId },
    /// First writes keys and values to the KV cache.
    Attend(Attend),
    /// Also writes each row's list of experts, by index in [`Plan::lists`].
    Route { logits: ValueId, bias: Option<WeightId>, router: Router, list: usize, y: ValueId },
    /// A mixture-of-experts layer.
    Experts(Experts),
    /// Sums `x` over ranks, in place: `y` is stored where `x` is, alone in its slot.
    AllReduce { x: ValueId, y: ValueId },
}

/// Attention, with the fused RoPE of its queries and keys.
#[derive(Clone, Debug)]
#[expect(missing_docs, reason = "the names say it")]
pub struct Attend {
    /// Before a fused RoPE.
    pub q: ValueId,
    /// Keys, before a fused RoPE, and values; `None` if an earlier pass wrote the store.
    pub kv: Option<[ValueId; 2]>,
    pub q_rope: Option<Rope>,
    pub k_rope: Option<Rope>,
    pub y: ValueId,
    pub store: StoreId,
    pub heads: usize,
    pub score: Score,
}

/// A mixture-of-experts layer, with a norm before and a residual after it if fused.
#[derive(Clone, Debug)]
#[expect(missing_docs, reason = "the fields are those of the operation")]
pub struct Experts {
    /// Before a fused norm.
    pub x: ValueId,
    pub norm: Option<Norm>,
    pub routes: ValueId,
    /// The list of experts per row, by index in [`Plan::lists`].
    pub list: usize,
    /// Whether the pass builds the list itself, because the routing weights do not come from a [`Pass::Route`].
    pub makes_list: bool,
    pub hidden: Hidden,
    pub down: WeightId,
    pub scale: Option<WeightId>,
    pub bias: Option<WeightId>,
    pub weighs_inputs: bool,
    pub residual: Option<ValueId>,
    pub y: ValueId,
}

/// An RMS norm of whole rows that is fused into the matmuls after it.
#[derive(Clone, Copy, Debug)]
#[expect(missing_docs, reason = "the names say it")]
pub struct Norm {
    pub weight: WeightId,
    pub eps: f32,
}

/// A weight of a matmul pass, and its output value.
#[derive(Clone, Copy, Debug)]
#[expect(missing_docs, reason = "see above")]
pub struct Part {
    pub weight: WeightId,
    pub y: ValueId,
}

/// What a matmul pass writes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum LinearOutput {
    /// One value per part.
    Separate,
    /// A gated linear unit of the first part's output and the second part's, as one value.
    Glu(Glu),
}

/// What is added to the output of a matmul pass.
#[derive(Clone, Debug)]
#[expect(missing_docs, reason = "the names say it")]
pub enum Addend {
    None,
    Residual(ValueId),
    /// A bias per part, or none for some.
    Biases(Vec<Option<WeightId>>),
}

/// Where a value is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Location {
    /// Index in [`Plan::slots`].
    pub slot: usize,
    /// First column in the slot, a multiple of 4 if the margin is one.
    pub col: usize,
}

/// A buffer that values share, one after another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names say it")]
pub struct Slot {
    /// Row stride in values, a multiple of 4 if the margin is one.
    pub cols: usize,
    pub rows: Rows,
}

/// A buffer for the lists of experts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names say it")]
pub struct List {
    /// Maximum experts per row.
    pub used: usize,
    pub rows: Rows,
}

impl List {
    /// Words per row: a count, then for each expert its index and the bits of its weight as f32.
    pub fn words(self) -> usize {
        1 + 2 * self.used
    }
}

/// The passes of a graph in order, and the buffers for its values and for lists of experts.
#[derive(Clone, Debug)]
#[expect(missing_docs, reason = "see above")]
pub struct Plan {
    pub passes: Vec<Pass>,
    pub slots: Vec<Slot>,
    pub lists: Vec<List>,
    /// By value; `None` for fused values.
    locations: Vec<Option<Location>>,
}

impl Plan {
    /// Plans `bound`, with `margin` guard columns on both sides of each value.
    pub fn new(bound: &BoundProgram, margin: usize) -> Plan {
        let mut passes = Fusion::new(bound).passes();
        let (slots, locations) = assign_slots(bound, &passes, margin);
        let lists = lists(bound, &mut passes);
        Plan { passes, slots, lists, locations }
    }

    /// Where a value is stored; panics if it is fused and thus not stored.
    pub fn location(&self, id: ValueId) -> Location {
        self.locations[id.index()].expect("only stored values are read")
    }
}

impl Pass {
    /// The values it writes. They are adjacent columns of one slot.
    pub fn makes(&self) -> Vec<ValueId> {
        match self {
            Pass::Linear { parts, output: LinearOutput::Separate, .. } => {
                parts.iter().map(|part| part.y).collect()
            }
            Pass::Linear { parts, output: LinearOutput::Glu(_), .. } => vec![parts[0].y],
            Pass::Input { y }
            | Pass::Embed { y, .. }
            | Pass::HeadLinear { y, .. }
            | Pass::Rows { y, .. }
            | Pass::Same { y, .. }
            | Pass::Rope { y, .. }
            | Pass::Recurrent { y, .. }
            | Pass::Route { y, .. }
            | Pass::AllReduce { y, .. }
            | Pass::Experts(Experts { y, .. })
            | Pass::Attend(Attend { y, .. }) => vec![*y],
        }
    }

    fn reads(&self) -> Vec<ValueId> {
        match *self {
            Pass::Input { .. } | Pass::Embed { .. } => Vec::new(),
            Pass::Linear { x, ref addend, .. } => match addend {
                Addend::Residual(addend) => vec![x, *addend],
                Addend::None | Addend::Biases(_) => vec![x],
            },
            Pass::Rows { op, .. } | Pass::Recurrent { op, .. } => op.inputs().collect(),
            Pass::HeadLinear { x, .. }
            | Pass::Route { logits: x, .. }
            | Pass::Same { x, .. }
            | Pass::Rope { x, .. }
            | Pass::AllReduce { x, .. } => vec![x],
            Pass::Attend(Attend { q, kv, .. }) => [q].into_iter().chain(kv.into_iter().flatten()).collect(),
            Pass::Experts(Experts { x, routes, residual, .. }) => {
                [x, routes].into_iter().chain(residual).collect()
            }
        }
    }
}

/// Matmuls per pass, limited by the storage buffers that a kernel can bind.
const MAX_PARTS: usize = 3;

struct Fusion<'a> {
    bound: &'a BoundProgram,
    /// By value: the values computed from it.
    readers: Vec<Vec<usize>>,
    /// By value: whether it is computed inside the pass of its reader.
    fused: Vec<bool>,
}

impl<'a> Fusion<'a> {
    fn new(bound: &'a BoundProgram) -> Fusion<'a> {
        let values = bound.graph().values().len();
        let mut readers = vec![Vec::new(); values];
        for (reader, value) in bound.graph().values() {
            value.op.inputs().for_each(|input| readers[input.index()].push(reader.index()));
        }
        let mut fusion = Fusion { bound, readers, fused: vec![false; values] };
        for index in 0..values {
            fusion.fused[index] = fusion.is_fused(index);
        }
        fusion
    }

    fn op(&self, value: usize) -> &'a Op {
        &self.bound.value(ValueId::from_index(value)).op
    }

    /// The only reader of `value`, unless the value is tapped.
    fn only_reader(&self, value: usize) -> Option<usize> {
        match self.readers[value][..] {
            [reader] if !self.bound.is_readable(ValueId::from_index(value)) => Some(reader),
            _ => None,
        }
    }

    /// Whether a value is computed inside the pass of its reader and never stored.
    fn is_fused(&self, index: usize) -> bool {
        match *self.op(index) {
            Op::Norm { x, kind, width, weight, .. } => {
                let readers = &self.readers[index];
                weight.is_some()
                    && width == self.bound.value(x).cols
                    && kind == NormKind::Rms
                    && !self.bound.is_readable(ValueId::from_index(index))
                    && !readers.is_empty()
                    && readers.iter().all(|&reader| self.is_matmul_of(reader, index))
            }
            Op::Linear { .. } => self.only_reader(index).is_some_and(|reader| {
                let reads = self.op(reader);
                matches!(reads, Op::AddBias { .. })
                    || matches!(*reads, Op::Gate { gate, up, .. } if self.is_glu(gate, up))
                    || self.has_residual(index, reader)
            }),
            Op::Experts { .. } => {
                self.only_reader(index).is_some_and(|reader| self.has_residual(index, reader))
            }
            // Keys are roped when they are written to the cache, queries when attention loads them.
            Op::Rope { .. } => self.only_reader(index).is_some_and(|reader| {
                let Op::Attention { q, kv, .. } = *self.op(reader) else { return false };
                let is_value = kv.is_some_and(|[_, v]| v.index() == index);
                let inputs = [q].into_iter().chain(kv.into_iter().flatten());
                inputs.filter(|id| id.index() == index).count() == 1 && !is_value
            }),
            Op::Input { .. }
            | Op::Embed { .. }
            | Op::Attention { .. }
            | Op::Conv { .. }
            | Op::LinearAttention { .. }
            | Op::Gate { .. }
            | Op::Route { .. }
            | Op::Map { .. }
            | Op::Add { .. }
            | Op::AddBias { .. }
            | Op::MulWeight { .. }
            | Op::ScaleByPosition { .. }
            | Op::HeadLinear { .. }
            | Op::Slice { .. }
            | Op::Join { .. }
            | Op::OutputRows { .. }
            | Op::Pool { .. }
            | Op::AllReduce { .. } => false,
        }
    }

    /// Whether `reader` only uses `value` as the input of matmuls.
    fn is_matmul_of(&self, reader: usize, value: usize) -> bool {
        let reads = self.op(reader);
        matches!(reads, Op::Linear { .. })
            || matches!(*reads, Op::Experts { x, routes, .. } if x != routes && x.index() == value)
    }

    /// Whether `reader` adds a residual to the matmul output `product`.
    fn has_residual(&self, product: usize, reader: usize) -> bool {
        matches!(*self.op(reader), Op::Add { a, b } if a != b && self.residual(a, b).0.index() == product)
    }

    /// Splits the operands of an add into matmul output and residual. Of two matmuls, the later one is fused.
    fn residual(&self, a: ValueId, b: ValueId) -> (ValueId, ValueId) {
        let is_matmul = |id: ValueId| matches!(self.op(id.index()), Op::Linear { .. } | Op::Experts { .. });
        match (is_matmul(a), is_matmul(b)) {
            (true, true) => (a.max(b), a.min(b)),
            (false, true) => (b, a),
            (true, false) | (false, false) => (a, b),
        }
    }

    /// Whether both are matmuls of the same input, of equal shape and with no other reader.
    fn is_glu(&self, gate: ValueId, up: ValueId) -> bool {
        let linear = |id: ValueId| {
            let Op::Linear { x, weight } = *self.op(id.index()) else { return None };
            self.only_reader(id.index()).map(|_| (x, self.bound.weight(weight).rows))
        };
        gate != up && linear(gate).is_some() && linear(gate) == linear(up)
    }

    fn passes(&self) -> Vec<Pass> {
        let mut passes = Vec::new();
        let mut done = vec![false; self.fused.len()];
        for index in 0..self.fused.len() {
            if self.fused[index] || done[index] {
                continue;
            }
            let y = ValueId::from_index(index);
            match *self.op(index) {
                Op::Input { cols: _ } => passes.push(Pass::Input { y }),
                Op::Embed { table, index } => passes.push(Pass::Embed { table, index, y }),
                Op::Linear { .. } | Op::AddBias { .. } if self.as_linear(index).is_some() => {
                    passes.push(self.group_linears(index, &mut done));
                }
                Op::Linear { .. } => unreachable!("`as_linear` accepts every linear"),
                Op::HeadLinear { x, weight } => passes.push(Pass::HeadLinear { x, weight, y }),
                op @ Op::Add { a, b } => passes.push(self.add(a, b, y).unwrap_or(Pass::Rows { op, y })),
                // A row that there is alone is the output row of each step that has one.
                Op::OutputRows { x } if self.bound.bucket().rows == 1 => passes.push(Pass::Same { x, y }),
                op @ Op::Gate { gate, up, glu } => {
                    passes.push(self.gate(gate, up, glu, y).unwrap_or(Pass::Rows { op, y }))
                }
                op @ (Op::AddBias { .. }
                | Op::Norm { .. }
                | Op::Map { .. }
                | Op::MulWeight { .. }
                | Op::ScaleByPosition { .. }
                | Op::Slice { .. }
                | Op::Join { .. }
                | Op::OutputRows { .. }
                | Op::Pool { .. }) => passes.push(Pass::Rows { op, y }),
                op @ (Op::Conv { .. } | Op::LinearAttention { .. }) => passes.push(Pass::Recurrent { op, y }),
                Op::Rope { x, rope } => passes.push(Pass::Rope { x, rope, y }),
                Op::AllReduce { x } => passes.push(Pass::AllReduce { x, y }),
                Op::Attention { q, kv, store, heads, score } => {
                    let (q, q_rope) = self.before_rope(q);
                    let k = kv.map(|[k, _]| self.before_rope(k));
                    let k_rope = k.and_then(|(_, rope)| rope);
                    let kv = k.zip(kv).map(|((k, _), [_, v])| [k, v]);
                    passes.push(Pass::Attend(Attend { q, kv, q_rope, k_rope, y, store, heads, score }));
                }
                Op::Route { logits, bias, router } => {
                    passes.push(Pass::Route { logits, bias, router, list: 0, y });
                }
                Op::Experts { .. } => passes.extend(self.experts(y, None, y)),
            }
        }
        passes
    }

    /// A GLU fused with its matmuls.
    fn gate(&self, gate: ValueId, up: ValueId, glu: Glu, y: ValueId) -> Option<Pass> {
        let (&Op::Linear { x, weight }, &Op::Linear { weight: up, .. }) =
            (self.op(gate.index()), self.op(up.index()))
        else {
            return None;
        };
        let (x, norm) = self.rows(x);
        let parts = vec![Part { weight, y }, Part { weight: up, y }];
        let pass = Pass::Linear { x, norm, parts, output: LinearOutput::Glu(glu), addend: Addend::None };
        self.fused[gate.index()].then_some(pass)
    }

    /// An add fused with the matmul before it.
    fn add(&self, a: ValueId, b: ValueId, y: ValueId) -> Option<Pass> {
        let (product, other) = self.residual(a, b);
        if !self.fused[product.index()] {
            return None;
        }
        if let Op::Linear { x, weight } = *self.op(product.index()) {
            let (x, norm) = self.rows(x);
            let (parts, addend) = (vec![Part { weight, y }], Addend::Residual(other));
            return Some(Pass::Linear { x, norm, parts, output: LinearOutput::Separate, addend });
        }
        self.experts(product, Some(other), y)
    }

    /// The experts pass that computes `value`, plus `residual`, as `y`.
    fn experts(&self, value: ValueId, residual: Option<ValueId>, y: ValueId) -> Option<Pass> {
        let Op::Experts { x, routes, hidden, down, scale, bias, weighs_inputs } = *self.op(value.index())
        else {
            return None;
        };
        let (x, norm) = self.rows(x);
        let (list, makes_list) = (0, !matches!(self.op(routes.index()), Op::Route { .. }));
        Some(Pass::Experts(Experts {
            x,
            norm,
            routes,
            list,
            makes_list,
            hidden,
            down,
            scale,
            bias,
            weighs_inputs,
            residual,
            y,
        }))
    }

    /// The input rows of a matmul with `x`: `x` itself, or the input of a fused norm.
    fn rows(&self, x: ValueId) -> (ValueId, Option<Norm>) {
        if let Op::Norm { x: before, weight: Some(weight), eps, .. } = *self.op(x.index())
            && self.fused[x.index()]
        {
            return (before, Some(Norm { weight, eps }));
        }
        (x, None)
    }

    /// The input and parameters of a fused RoPE.
    fn before_rope(&self, id: ValueId) -> (ValueId, Option<Rope>) {
        if let Op::Rope { x, rope } = *self.op(id.index())
            && self.fused[id.index()]
        {
            return (x, Some(rope));
        }
        (id, None)
    }

    /// Input, weight and bias of a linear layer, where `value` is its final output.
    fn as_linear(&self, value: usize) -> Option<(ValueId, WeightId, Option<WeightId>)> {
        if let Op::Linear { x, weight } = *self.op(value) {
            return Some((x, weight, None));
        }
        let Op::AddBias { x, weight: bias } = *self.op(value) else { return None };
        let Op::Linear { x: rows, weight } = *self.op(x.index()) else { return None };
        self.fused[x.index()].then_some((rows, weight, Some(bias)))
    }

    /// Whether a value is summed over ranks: it shares its slot with no other.
    fn is_reduced(&self, value: usize) -> bool {
        self.readers[value].iter().any(|&reader| matches!(self.op(reader), Op::AllReduce { .. }))
    }

    /// The linear layer `first`, grouped with later ones that have the same input.
    fn group_linears(&self, first: usize, done: &mut [bool]) -> Pass {
        let (x, ..) = self.as_linear(first).expect("a linear layer");
        let (mut parts, mut biases) = (Vec::new(), Vec::new());
        for (index, done) in done.iter_mut().enumerate().skip(first) {
            let is_apart = index > first && (self.is_reduced(first) || self.is_reduced(index));
            if self.fused[index] || *done || is_apart || parts.len() == MAX_PARTS {
                continue;
            }
            if let Some((rows, weight, bias)) = self.as_linear(index)
                && rows == x
            {
                parts.push(Part { weight, y: ValueId::from_index(index) });
                biases.push(bias);
                *done = true;
            }
        }
        let addend = if biases.iter().any(Option::is_some) { Addend::Biases(biases) } else { Addend::None };
        let (x, norm) = self.rows(x);
        Pass::Linear { x, norm, parts, output: LinearOutput::Separate, addend }
    }
}

/// Assigns slots to values. A slot is reused after the last pass that reads its value. With margins nothing is
/// reused, so that all values can be checked after the step.
fn assign_slots(bound: &BoundProgram, passes: &[Pass], margin: usize) -> (Vec<Slot>, Vec<Option<Location>>) {
    let values = bound.graph().values().len();
    let mut last_use = vec![0; values];
    for (index, pass) in passes.iter().enumerate() {
        for id in pass.reads().into_iter().chain(pass.makes()) {
            last_use[id.index()] = index;
        }
    }
    // Argmax and candidates read the output after the last pass. Tapped values are copied right after their pass.
    last_use[bound.output().index()] = LiveRange::<Slot>::LIVE_OUT;
    // Passes whose result is where their operand is.
    let in_place = |pass: &Pass| match *pass {
        Pass::AllReduce { x, y } | Pass::Same { x, y } => Some((x, y)),
        _ => None,
    };
    for (x, y) in passes.iter().rev().filter_map(in_place) {
        last_use[x.index()] = last_use[x.index()].max(last_use[y.index()]);
    }
    let width = |id: ValueId| bound.value(id).cols.next_multiple_of(4) + margin;
    let live_range = |(index, pass): (usize, &Pass)| {
        let makes = pass.makes();
        let cols = margin + makes.iter().map(|&id| width(id)).sum::<usize>();
        let rows = bound.value(makes[0]).rows;
        let last_read = makes.iter().map(|id| last_use[id.index()]).fold(index, usize::max);
        let last_read = if margin > 0 { LiveRange::<Slot>::LIVE_OUT } else { last_read };
        LiveRange { shape: Slot { cols, rows }, made: index, last_read }
    };
    let stored = passes.iter().enumerate().filter(|(_, pass)| in_place(pass).is_none());
    let live_ranges: Vec<LiveRange<Slot>> = stored.map(live_range).collect();
    let (slots, assigned) = assign_buffers(&live_ranges);
    let mut locations = vec![None; values];
    let mut assigned = assigned.into_iter();
    for pass in passes {
        if let Some((x, y)) = in_place(pass) {
            locations[y.index()] = locations[x.index()];
            continue;
        }
        let slot = assigned.next().expect("a slot for every pass that stores values");
        let mut col = margin;
        for id in pass.makes() {
            locations[id.index()] = Some(Location { slot, col });
            col += width(id);
        }
    }
    (slots, locations)
}

/// Assigns buffers to the lists of experts, and sets them in the passes.
fn lists(bound: &BoundProgram, passes: &mut [Pass]) -> Vec<List> {
    let reads = |pass: &Pass, route: ValueId| matches!(pass, Pass::Experts(experts) if !experts.makes_list && experts.routes == route);
    let (mut live_ranges, mut makers) = (Vec::new(), Vec::new());
    for (made, pass) in passes.iter().enumerate() {
        let (routes, used, last_read) = match *pass {
            Pass::Route { y, router, .. } => {
                (y, router.used, passes.iter().rposition(|pass| reads(pass, y)).unwrap_or(made))
            }
            Pass::Experts(Experts { routes, makes_list: true, .. }) => {
                (routes, bound.graph().experts_used(routes), made)
            }
            _ => continue,
        };
        let shape = List { used, rows: bound.value(routes).rows };
        live_ranges.push(LiveRange { shape, made, last_read });
        makers.push((made, routes));
    }
    let (shapes, assigned) = assign_buffers(&live_ranges);
    for (&(maker, routes), index) in makers.iter().zip(assigned) {
        for (at, pass) in passes.iter_mut().enumerate() {
            match pass {
                Pass::Route { list, .. } if at == maker => *list = index,
                Pass::Experts(experts) if at == maker || !experts.makes_list && experts.routes == routes => {
                    experts.list = index;
                }
                _ => {}
            }
        }
    }
    shapes
}
