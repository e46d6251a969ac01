//! Replays one operation at a time on the reference backend: a graph of the operation itself, whose inputs are rows of tables, with
//! the model's weights and store. [`Op::operands`] says what these are, so nothing here lists operations.

use std::borrow::Cow;
use std::collections::HashMap;

use backend::{
    Backend, Bucket, KV_BLOCK, KvFormat, KvLayout, KvType, Row, Sequence, Step, Taps, Weight, Weights,
};
use gguf::Gguf;
use graph::{Builder, Graph, Op, Operand, Store, ValueId, ValueName, WeightId};
use runner::FileWeights;

use crate::cache::{self, Choice};
use crate::{Error, Matrix};

type Make<'a> = &'a (dyn Fn() -> Box<dyn Backend> + 'a);

/// Computes single operations of a model exactly.
#[derive(Clone, Copy)]
pub struct Oracle<'a> {
    pub(crate) file: &'a Gguf,
    pub(crate) graph: &'a Graph,
    make: Make<'a>,
    /// Positions of the recorded sequence, on which RoPE factors may depend.
    pub(crate) n_ctx: usize,
    /// Types of the cache of the recorded run: attention reads keys and values as it stores them.
    pub(crate) kv: KvFormat,
}

/// An operation without its inputs, as a replay or a hypothesis runs it.
#[derive(Clone, Debug)]
pub(crate) struct Call {
    pub(crate) op: Op,
    pub(crate) tokens: Vec<u32>,
    pub(crate) first: usize,
    pub(crate) replaced: Option<(WeightId, Weight)>,
    pub(crate) store: Option<Store>,
}

impl Call {
    pub(crate) fn with_op(&self, op: Op) -> Call {
        Call { op, ..self.clone() }
    }

    /// The same with another weight, of any shape that the operation can take.
    pub(crate) fn with_weight(&self, id: WeightId, weight: Weight) -> Call {
        Call { replaced: Some((id, weight)), ..self.clone() }
    }
}

impl<'a> Oracle<'a> {
    /// An oracle for the model of this file and graph; `make` creates a reference backend.
    pub fn new(file: &'a Gguf, graph: &'a Graph, make: Make<'a>) -> Oracle<'a> {
        Oracle { file, graph, make, n_ctx: 0, kv: KvFormat::F32 }
    }

    pub(crate) fn weight(&self, id: WeightId) -> Result<Weight, Error> {
        let weight = self.graph.weight(id);
        let missing = || backend::Error::MissingWeight { name: weight.name.clone() };
        Ok(FileWeights(self.file).weight(weight).ok_or_else(missing)?)
    }

    /// The operation of the value `id`. Attention that reads another attention's store gets its keys and values.
    pub(crate) fn op(&self, id: ValueId) -> Op {
        let mut op = self.graph.value(id).op;
        if let Op::Attention { kv: kv @ None, store, .. } = &mut op {
            *kv = self.graph.values().find_map(|(_, value)| {
                let Op::Attention { kv, store: of, .. } = value.op else { return None };
                kv.filter(|_| of == *store)
            });
        }
        op
    }

    /// The operation of the value `id` on the rows of `tokens`, from position `first` on.
    pub(crate) fn call(&self, id: ValueId, tokens: &[u32], first: usize) -> Call {
        Call { op: self.op(id), tokens: tokens.to_vec(), first, replaced: None, store: None }
    }

    /// The columns of a head and the type of an input that `call` stores in the cache; `None` if it does not.
    pub(crate) fn cached(&self, call: &Call, slot: usize) -> Option<(usize, KvType)> {
        let (id, _) = call.op.store()?;
        let store = call.store.as_ref().unwrap_or(self.graph.store(id));
        match slot {
            1 => Some((store.k_dim, self.kv.k)),
            2 => Some((store.v_dim, self.kv.v)),
            _ => None,
        }
    }

    /// The result of `call` on `inputs`, rows of one sequence from the call's first position on, which alone are stored.
    pub(crate) fn run(&self, call: &Call, inputs: &[Matrix]) -> Result<Matrix, Error> {
        assert_eq!(call.op.inputs().count(), inputs.len(), "inputs of {}", call.op.name());
        let (mut g, mut op, mut weights) = (Builder::new(), call.op, HashMap::new());
        let as_read = |(slot, input)| match self.cached(call, slot) {
            Some((dim, kind)) => Cow::Owned(cache::stored(input, dim, kind, Choice::Exact)),
            None => Cow::Borrowed(input),
        };
        let mut tables = inputs.iter().enumerate().map(as_read).enumerate();
        let mut missing = None;
        op.operands(|operand| match operand {
            Operand::Value(id) => {
                for (slot, table) in tables.by_ref().take(1) {
                    let name = format!("x{slot}");
                    let weight = g.weight(&name, table.rows, table.cols);
                    weights.insert(name, table.weight());
                    *id = g.embed(ValueName("x", Some(slot)), weight);
                }
            }
            Operand::Weight(id, _) => match self.call_weight(call, *id) {
                Ok((shape, weight)) => {
                    let name = &self.graph.weight(*id).name;
                    weights.insert(name.clone(), weight);
                    *id = g.weights(name, shape);
                }
                Err(error) => missing = Some(error),
            },
            Operand::Store(id, _) => *id = g.store(call.store.unwrap_or(*self.graph.store(*id))),
        });
        if let Some(error) = missing {
            return Err(error);
        }
        let y = g.op("y", op);
        let y = if g.has_output_rows(y) { y } else { g.output_rows("outputs", y) };
        let graph = g.finish(y);

        let tokens = match inputs.first() {
            Some(table) => (0..table.rows as u32).collect(),
            None => call.tokens.clone(),
        };
        let rows = tokens.len();
        let first = if op.reads_earlier_rows() { 0 } else { call.first };
        let blocks = (first + rows).div_ceil(KV_BLOCK);
        let kv_layout = KvLayout { n_ctx: self.n_ctx, ..KvLayout::uniform(&graph, blocks, KvFormat::F32) };
        let mut loaded = (self.make)().load(&graph, &weights, &kv_layout)?;
        let mut program = loaded.compile(Bucket { rows, outputs: rows }, Taps::None)?;
        let sequence = Sequence::uniform(first, rows, graph.groups().len(), 0..blocks as u32);
        let step = Step::new(Row::logits(tokens, 0..rows as u32), vec![sequence])?;
        Ok(Matrix::new(graph.value(y).cols, program.run(&step)?.values().to_vec()))
    }

    /// A weight as `call` uses it, and its shape.
    fn call_weight(&self, call: &Call, id: WeightId) -> Result<([usize; 3], Weight), Error> {
        if let Some((_, weight)) = call.replaced.as_ref().filter(|(replaced, _)| *replaced == id) {
            return Ok(([weight.count, weight.rows, weight.cols], weight.clone()));
        }
        let declared = self.graph.weight(id);
        Ok(([declared.count, declared.rows, declared.cols], self.weight(id)?))
    }
}
