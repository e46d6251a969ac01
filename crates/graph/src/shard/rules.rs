//! Which values are split, and how each form of a value is made.

use std::ops::Range;

use super::{Form, Operands, Rank, ShardError};
use crate::{Graph, Map, Op, Operand, Score, ValueId, Weight, WeightId};

type Result<T> = std::result::Result<T, ShardError>;

/// How a form of a value is made: it is that of another value, or an operation makes it.
pub(super) enum Made {
    Same(ValueId),
    By(Op),
}

/// The origin of the columns of a value, each on its own.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Source {
    /// Heads of attention, which the ranks share.
    Attention,
    /// Products of matrices, of which a rank may compute some rows.
    Products,
    /// Something else, which every rank has as a whole.
    Other,
}

impl Source {
    /// The origin of columns that are computed from two values.
    fn and(self, other: Source) -> Source {
        match (self, other) {
            (Source::Attention, _) | (_, Source::Attention) => Source::Attention,
            (Source::Products, Source::Products) => Source::Products,
            (Source::Other, _) | (_, Source::Other) => Source::Other,
        }
    }
}

pub(super) struct Split<'a> {
    graph: &'a Graph,
    rank: Rank,
    /// By value: the rank's columns of the input of a product or of hidden values; `None` if every rank has it as a whole.
    columns: Vec<Option<Range<usize>>>,
    /// By value: whether it is made as a summand, and summed where it is read as a whole.
    is_summand: Vec<bool>,
    readers: Vec<usize>,
}

impl<'a> Split<'a> {
    pub(super) fn new(graph: &'a Graph, rank: Rank, block: &dyn Fn(&Weight) -> usize) -> Result<Split<'a>> {
        let values = graph.values.len();
        let mut readers = vec![0; values];
        let read = graph.values.iter().flat_map(|value| value.op.inputs());
        read.chain(graph.layer_ends.iter().copied())
            .chain([graph.output])
            .for_each(|x| readers[x.index()] += 1);
        let mut split = Split { graph, rank, columns: Vec::new(), is_summand: Vec::new(), readers };
        let mut sources: Vec<Source> = Vec::with_capacity(values);
        for id in (0..values).map(ValueId::from_index) {
            let columns = split.split_columns(id, &sources, block)?;
            sources.push(match columns {
                Some(_) => Source::Other,
                None => split.source(id, &sources)?,
            });
            let is_summand = columns.is_some() || split.addends(id).iter().any(|&x| split.is_carried(x));
            split.columns.push(columns);
            split.is_summand.push(is_summand);
        }
        Ok(split)
    }

    fn refuse<T>(&self, id: ValueId, why: impl Into<String>) -> Result<T> {
        Err(ShardError { value: self.graph.value(id).name.clone(), why: why.into() })
    }

    /// The rank's columns of the input of a product, or of the hidden values of experts.
    fn split_columns(
        &self,
        id: ValueId,
        sources: &[Source],
        block: &dyn Fn(&Weight) -> usize,
    ) -> Result<Option<Range<usize>>> {
        let op = self.graph.value(id).op;
        let (source, weight) = if let Op::Linear { x, weight } = op {
            (sources[x.index()], weight)
        } else if let Op::Experts { down, .. } = op {
            (Source::Products, down)
        } else {
            return Ok(None);
        };
        let weight = self.graph.weight(weight);
        let block = block(weight).max(1);
        match source {
            Source::Other => Ok(None),
            Source::Products => {
                let part = self.rank.part(weight.cols / block);
                let is_split = weight.cols / block >= self.rank.ranks;
                Ok(is_split.then_some(part.start * block..part.end * block))
            }
            Source::Attention => {
                let cols = weight.cols / self.rank.ranks;
                if !cols.is_multiple_of(block) {
                    let why = format!(
                        "a rank has {cols} columns of heads, but `{}` is stored in blocks of {block} columns",
                        weight.name
                    );
                    return self.refuse(id, why);
                }
                Ok(Some(self.rank.rank * cols..(self.rank.rank + 1) * cols))
            }
        }
    }

    fn source(&self, id: ValueId, sources: &[Source]) -> Result<Source> {
        let of = |x: ValueId| sources[x.index()];
        Ok(match self.graph.value(id).op {
            Op::Attention { store, score, .. } => {
                let (heads, ranks) = (self.graph.store(store).heads, self.rank.ranks);
                if score.alibi.is_some() {
                    return self.refuse(id, "ALiBi depends on the number of all heads");
                }
                if !heads.is_multiple_of(ranks) {
                    return self.refuse(id, format!("{heads} key and value heads over {ranks} ranks"));
                }
                Source::Attention
            }
            Op::Linear { .. } => Source::Products,
            Op::AddBias { x, .. }
            | Op::MulWeight { x, .. }
            | Op::Map { x, .. }
            | Op::ScaleByPosition { x, .. }
            | Op::OutputRows { x }
            | Op::Rope { x, .. } => of(x),
            Op::Norm { x, width, .. } if width < self.cols(id) => of(x),
            Op::Slice { x, .. } if of(x) == Source::Products => Source::Products,
            Op::Gate { gate, up, .. } if self.cols(gate) == self.cols(up) => of(gate).and(of(up)),
            Op::Gate { up, .. } => of(up),
            Op::Add { a, b } => of(a).and(of(b)),
            Op::Conv { .. } | Op::LinearAttention { .. } => {
                return self.refuse(id, "it is recurrent");
            }
            Op::AllReduce { .. } => return self.refuse(id, "the graph is sharded already"),
            Op::Input { .. }
            | Op::Embed { .. }
            | Op::Norm { .. }
            | Op::Route { .. }
            | Op::Experts { .. }
            | Op::HeadLinear { .. }
            | Op::Slice { .. }
            | Op::Join { .. }
            | Op::Pool { .. } => Source::Other,
        })
    }

    /// The operands in which an operation is linear, if the others are as a whole: one of them may be a summand.
    fn addends(&self, id: ValueId) -> Vec<ValueId> {
        match self.graph.value(id).op {
            Op::Add { a, b } => vec![a, b],
            Op::AddBias { x, .. } | Op::MulWeight { x, .. } | Op::Map { x, map: Map::Scale(_) } => vec![x],
            Op::Gate { gate, up, .. } if self.cols(gate) != self.cols(up) => vec![up],
            Op::Input { .. }
            | Op::Embed { .. }
            | Op::Linear { .. }
            | Op::Norm { .. }
            | Op::Rope { .. }
            | Op::Attention { .. }
            | Op::Conv { .. }
            | Op::LinearAttention { .. }
            | Op::Gate { .. }
            | Op::Route { .. }
            | Op::Experts { .. }
            | Op::Map { .. }
            | Op::ScaleByPosition { .. }
            | Op::HeadLinear { .. }
            | Op::Slice { .. }
            | Op::Join { .. }
            | Op::OutputRows { .. }
            | Op::Pool { .. }
            | Op::AllReduce { .. } => Vec::new(),
        }
    }

    /// Whether the only reader of a summand reads it as one.
    fn is_carried(&self, x: ValueId) -> bool {
        self.is_summand[x.index()] && self.readers[x.index()] == 1
    }

    fn cols(&self, id: ValueId) -> usize {
        self.graph.value(id).cols
    }

    fn form(&self, id: ValueId, columns: Range<usize>) -> Form {
        if columns.len() == self.cols(id) {
            return Form::Whole;
        }
        Form::Columns { start: columns.start, len: columns.len() }
    }

    /// How `form` of value `id` is made of `operands`.
    pub(super) fn make(&self, id: ValueId, form: Form, operands: &mut dyn Operands) -> Result<Made> {
        match form {
            Form::Partial => Ok(self.partial(id, operands)),
            Form::Whole if self.is_summand[id.index()] => {
                Ok(Made::By(Op::AllReduce { x: operands.value(id, Form::Partial) }))
            }
            Form::Whole if matches!(self.graph.value(id).op, Op::Attention { .. }) => {
                self.refuse(id, "its heads are read together, before a matrix multiplies them")
            }
            Form::Whole => {
                Ok(Made::By(self.with(id, operands, |x| (x, Form::Whole), |weight| self.all(weight))))
            }
            Form::Columns { start, len } => self.some_columns(id, start..start + len, operands),
        }
    }

    fn with(
        &self,
        id: ValueId,
        operands: &mut dyn Operands,
        value: impl Fn(ValueId) -> (ValueId, Form),
        part: impl Fn(WeightId) -> [Range<usize>; 2],
    ) -> Op {
        let mut op = self.graph.value(id).op;
        op.operands(|operand| match operand {
            Operand::Value(x) => {
                let (of, form) = value(*x);
                *x = operands.value(of, form);
            }
            Operand::Weight(weight, _) => {
                let [rows, cols] = part(*weight);
                *weight = operands.weight(*weight, rows, cols);
            }
            Operand::Store(store, _) => *store = operands.store(*store),
        });
        op
    }

    fn all(&self, weight: WeightId) -> [Range<usize>; 2] {
        let Weight { rows, cols, .. } = *self.graph.weight(weight);
        [0..rows, 0..cols]
    }

    /// The rows and columns of a vector, or of its repetitions, that belong to `columns` of `all`; `None` if they are not a range.
    fn vector_part(&self, weight: WeightId, columns: &Range<usize>, all: usize) -> Option<[Range<usize>; 2]> {
        let Weight { rows, cols, .. } = *self.graph.weight(weight);
        let (len, Range { start, end }) = (rows * cols, columns.clone());
        match (len == all, rows == 1) {
            (true, true) => Some([0..1, start..end]),
            (true, false) => is_aligned(columns, cols).then(|| [start / cols..end / cols, 0..cols]),
            (false, _) => is_aligned(columns, len).then(|| self.all(weight)),
        }
    }

    fn some_columns(&self, id: ValueId, columns: Range<usize>, operands: &mut dyn Operands) -> Result<Made> {
        let cols = self.cols(id);
        if self.is_summand[id.index()] {
            return Ok(Made::By(self.slice(id, &columns, operands)));
        }
        let vector = |weight: Option<WeightId>| match weight {
            Some(weight) => self.vector_part(weight, &columns, cols),
            None => Some([0..0, 0..0]),
        };
        // Element by element, with this part of the vectors; `None` if every rank makes all columns first.
        let vectors = match self.graph.value(id).op {
            Op::Linear { weight, .. } => {
                let rows = [columns.clone(), 0..self.graph.weight(weight).cols];
                return Ok(Made::By(self.with(id, operands, |x| (x, Form::Whole), |_| rows.clone())));
            }
            Op::Attention { .. } => return self.heads(id, columns, operands).map(Made::By),
            Op::AddBias { weight, .. } | Op::MulWeight { weight, .. } => vector(Some(weight)),
            Op::Norm { width, weight, .. } if is_aligned(&columns, width) => vector(weight),
            Op::Rope { rope, .. } if is_aligned(&columns, rope.head_dim) => {
                let form = self.form(id, columns.clone());
                return Ok(Made::By(self.with(id, operands, |x| (x, form), |weight| self.all(weight))));
            }
            Op::Map { .. }
            | Op::Add { .. }
            | Op::Gate { .. }
            | Op::ScaleByPosition { .. }
            | Op::OutputRows { .. } => vector(None),
            Op::Slice { x, heads: 1, start, len } => {
                let columns = start + columns.start..start + columns.end;
                debug_assert!(columns.end <= start + len, "columns of the slice");
                return Ok(Made::Same(operands.value(x, self.form(x, columns))));
            }
            Op::Slice { x, heads, start, len } if is_aligned(&columns, len) => {
                let (first, count, width) = (columns.start / len, columns.len() / len, self.cols(x) / heads);
                let form = self.form(x, first * width..(first + count) * width);
                let x = operands.value(x, form);
                return Ok(Made::By(Op::Slice { x, heads: count, start, len }));
            }
            Op::Input { .. }
            | Op::Embed { .. }
            | Op::Norm { .. }
            | Op::Rope { .. }
            | Op::Conv { .. }
            | Op::LinearAttention { .. }
            | Op::Route { .. }
            | Op::Experts { .. }
            | Op::HeadLinear { .. }
            | Op::Slice { .. }
            | Op::Join { .. }
            | Op::Pool { .. }
            | Op::AllReduce { .. } => None,
        };
        let Some(part) = vectors else {
            return Ok(Made::By(self.slice(id, &columns, operands)));
        };
        // A gate of one column applies to all.
        let form = |x: ValueId| {
            if self.cols(x) == cols { (x, self.form(x, columns.clone())) } else { (x, Form::Whole) }
        };
        Ok(Made::By(self.with(id, operands, form, |_| part.clone())))
    }

    /// Columns of a value that the rank has as a whole.
    fn slice(&self, id: ValueId, columns: &Range<usize>, operands: &mut dyn Operands) -> Op {
        let x = operands.value(id, Form::Whole);
        Op::Slice { x, heads: 1, start: columns.start, len: columns.len() }
    }

    fn heads(&self, id: ValueId, columns: Range<usize>, operands: &mut dyn Operands) -> Result<Op> {
        let Op::Attention { q, kv, store, heads, score } = self.graph.value(id).op else {
            unreachable!("attention")
        };
        let ranks = self.rank.ranks;
        let part = |cols: usize| cols / ranks * self.rank.rank..cols / ranks * (self.rank.rank + 1);
        if columns != part(self.cols(id)) {
            return self.refuse(id, "a matrix reads other columns of it than the heads of a rank");
        }
        let mut of = |x: ValueId| operands.value(x, self.form(x, part(self.cols(x))));
        let (q, kv) = (of(q), kv.map(|kv| kv.map(&mut of)));
        let sinks = score.sinks.map(|sinks| operands.weight(sinks, 0..1, part(heads)));
        let store = operands.store(store);
        Ok(Op::Attention { q, kv, store, heads: heads / ranks, score: Score { sinks, ..score } })
    }

    fn partial(&self, id: ValueId, operands: &mut dyn Operands) -> Made {
        let op = self.graph.value(id).op;
        if let Some(columns) = &self.columns[id.index()] {
            if let Op::Experts { .. } = op {
                return Made::By(self.experts(op, columns, operands));
            }
            let part = |weight| [self.all(weight)[0].clone(), columns.clone()];
            return Made::By(self.with(id, operands, |x| (x, self.form(x, columns.clone())), part));
        }
        // One rank's summand has the terms that every rank has as a whole.
        let adds_whole = matches!(op, Op::AddBias { .. })
            || matches!(op, Op::Add { a, b } if !(self.is_carried(a) && self.is_carried(b)));
        if adds_whole && self.rank.rank != 0 {
            let addends = self.addends(id);
            let carried = addends.into_iter().find(|&x| self.is_carried(x));
            return Made::Same(operands.value(carried.expect("a summand is made of one"), Form::Partial));
        }
        let addends = self.addends(id);
        let form = |x: ValueId| {
            let is_summand = addends.contains(&x) && self.is_carried(x);
            (x, if is_summand { Form::Partial } else { Form::Whole })
        };
        Made::By(self.with(id, operands, form, |weight| self.all(weight)))
    }

    fn experts(&self, op: Op, columns: &Range<usize>, operands: &mut dyn Operands) -> Op {
        let Op::Experts { x, routes, mut hidden, down, scale, bias, weighs_inputs } = op else {
            unreachable!("experts")
        };
        let [x, routes] = [x, routes].map(|x| operands.value(x, Form::Whole));
        let mut whole = |weight: WeightId| {
            let [rows, cols] = self.all(weight);
            operands.weight(weight, rows, cols)
        };
        let bias = bias.filter(|_| self.rank.rank == 0).map(&mut whole);
        let scale = scale.map(&mut whole);
        let (weights, scales, biases) = hidden.operands();
        scales.iter_mut().flatten().for_each(|scale| *scale = whole(*scale));
        for weight in weights {
            *weight = operands.weight(*weight, columns.clone(), self.all(*weight)[1].clone());
        }
        for bias in biases {
            *bias = operands.weight(*bias, self.all(*bias)[0].clone(), columns.clone());
        }
        let down = operands.weight(down, self.all(down)[0].clone(), columns.clone());
        Op::Experts { x, routes, hidden, down, scale, bias, weighs_inputs }
    }
}

/// Whether both ends are multiples of `width`.
fn is_aligned(columns: &Range<usize>, width: usize) -> bool {
    columns.start.is_multiple_of(width) && columns.end.is_multiple_of(width)
}
