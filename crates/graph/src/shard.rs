//! Sharding a graph: tensor parallelism (Shoeybi et al. 2019, Megatron-LM).
//!
//! Each of several ranks computes the whole graph with a part of its weights: some heads of each attention, some hidden columns of
//! each feed-forward network and of each expert, and the matrix rows that make them. The product of the matrix behind them,
//! attention output or down, is a summand of the whole one: an [`Op::AllReduce`] sums over the ranks. Rank 0 alone adds bias and
//! residual before, if nothing comes between. Every rank computes the rest as a whole: embeddings, norms of whole rows, routers,
//! the output matrix, and what has fewer blocks of columns than there are ranks.
//!
//! Two passes over the values: the first, from the output back, finds the [`Form`]s in which each is needed; the second makes them.
//! Both ask `rules.rs` how a form is made.

mod rules;

use std::collections::{BTreeSet, HashMap};
use std::fmt;
use std::ops::Range;

use crate::{Builder, Graph, Op, Store, StoreId, Value, ValueId, Weight, WeightId};
use rules::{Made, Split};

/// One of several ranks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Rank {
    /// From 0 on.
    pub rank: usize,
    /// How many there are.
    pub ranks: usize,
}

impl Rank {
    /// Its part of `units` units: consecutive, and never more than one unit larger than that of another rank.
    fn part(self, units: usize) -> Range<usize> {
        let start = |rank| units * rank / self.ranks;
        start(self.rank)..start(self.rank + 1)
    }
}

/// Why a graph cannot be sharded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShardError {
    /// The value that cannot be split.
    pub value: String,
    /// Why not.
    pub why: String,
}

impl fmt::Display for ShardError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}` cannot be split over several ranks: {}", self.value, self.why)
    }
}

impl std::error::Error for ShardError {}

/// The form in which a rank has a value. In this order, a form may be made of an earlier one of the same value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum Form {
    /// A summand: the sum over all ranks is the value.
    Partial,
    Whole,
    /// Columns from `start` on.
    Columns {
        start: usize,
        len: usize,
    },
}

trait Operands {
    fn value(&mut self, id: ValueId, form: Form) -> ValueId;
    /// These rows and columns of each matrix.
    fn weight(&mut self, id: WeightId, rows: Range<usize>, cols: Range<usize>) -> WeightId;
    /// The rank's heads of a store.
    fn store(&mut self, id: StoreId) -> StoreId;
}

impl Graph {
    /// The graph that `rank` computes, with the groups of the whole graph and the rank's heads of each store. `block` tells how many
    /// columns of a weight are not divided. Values keep their names; a summand has the name of its sum and `.partial`.
    ///
    /// Fails if the graph has recurrent operations, ALiBi, or an attention whose heads do not divide over the ranks, or not into
    /// whole blocks of its output matrix; or if attention is read in a way that has no columns.
    pub fn shard(&self, rank: Rank, block: &dyn Fn(&Weight) -> usize) -> Result<Graph, ShardError> {
        if rank.ranks == 1 {
            return Ok(self.clone());
        }
        let split = Split::new(self, rank, block)?;
        let forms = self.forms(&split)?;
        let mut maker =
            Maker { graph: self, rank, made: HashMap::new(), part: Builder::new(), stores: HashMap::new() };
        for ((id, value), forms) in self.values().zip(&forms) {
            for &form in forms {
                let name = form_name(value, form, forms);
                match split.make(id, form, &mut maker)? {
                    Made::Same(made) => drop(maker.made.insert((id, form), made)),
                    Made::By(op) => maker.put((id, form), name, op, value),
                }
            }
        }
        let Maker { made, part, .. } = maker;
        Ok(part.finish_shard(self, |id| made[&(id, Form::Whole)]))
    }

    fn forms(&self, split: &Split<'_>) -> Result<Vec<BTreeSet<Form>>, ShardError> {
        let mut forms = vec![BTreeSet::new(); self.values.len()];
        for id in self.layer_ends.iter().chain(&self.heads).chain([&self.output]) {
            forms[id.index()].insert(Form::Whole);
        }
        for index in (0..self.values.len()).rev() {
            let (id, mut left) = (ValueId::from_index(index), forms[index].clone());
            while let Some(form) = left.pop_last() {
                let mut needed = Needed::default();
                split.make(id, form, &mut needed)?;
                for (input, form) in needed.0 {
                    forms[input.index()].insert(form);
                    if input == id {
                        left.insert(form);
                    }
                }
            }
        }
        Ok(forms)
    }
}

#[derive(Default)]
struct Needed(Vec<(ValueId, Form)>);

impl Operands for Needed {
    fn value(&mut self, id: ValueId, form: Form) -> ValueId {
        self.0.push((id, form));
        id
    }

    fn weight(&mut self, id: WeightId, _: Range<usize>, _: Range<usize>) -> WeightId {
        id
    }

    fn store(&mut self, id: StoreId) -> StoreId {
        id
    }
}

struct Maker<'a> {
    graph: &'a Graph,
    rank: Rank,
    made: HashMap<(ValueId, Form), ValueId>,
    part: Builder,
    stores: HashMap<StoreId, StoreId>,
}

impl Maker<'_> {
    fn put(&mut self, of: (ValueId, Form), name: String, op: Op, value: &Value) {
        let (rows, cols) = op.shape(&self.part);
        let id = self.part.push(Value { name, op, rows, cols, location: value.location });
        self.made.insert(of, id);
    }
}

impl Operands for Maker<'_> {
    fn value(&mut self, id: ValueId, form: Form) -> ValueId {
        self.made[&(id, form)]
    }

    fn weight(&mut self, id: WeightId, rows: Range<usize>, cols: Range<usize>) -> WeightId {
        self.part.declare(self.graph.weight(id).part(rows, cols))
    }

    fn store(&mut self, id: StoreId) -> StoreId {
        *self.stores.entry(id).or_insert_with(|| {
            let store = *self.graph.store(id);
            let store = Store { heads: store.heads / self.rank.ranks, ..store };
            self.part.stores.push((store, self.graph.store_group(id)));
            StoreId(self.part.stores.len() as u32 - 1)
        })
    }
}

fn form_name(value: &Value, form: Form, forms: &BTreeSet<Form>) -> String {
    let is_alone = forms.iter().all(|other| *other == form || *other == Form::Partial);
    match form {
        Form::Partial => format!("{}.partial", value.name),
        Form::Columns { start, len } if !is_alone => format!("{}[{start}..{}]", value.name, start + len),
        Form::Whole | Form::Columns { .. } => value.name.clone(),
    }
}

#[cfg(test)]
mod tests;
