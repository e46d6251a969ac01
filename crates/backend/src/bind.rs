//! Binding of a graph to its weights and KV stores, with the checks that all backends share.

use std::collections::HashMap;
use std::sync::Arc;

use graph::{Graph, Index, Op, Value, ValueId, WeightId};

use crate::{
    Bucket, CacheBlock, Error, Input, KvLayout, Member, MemoryKind, Output, Outputs, Remedy, Sequence, Step,
    StoreLayout, Taps, Weight, Weights,
};

/// A graph bound to checked weights and to the layout of its KV stores.
#[derive(Debug)]
pub struct BoundModel {
    graph: Graph,
    weights: Vec<Weight>,
    stores: Vec<StoreLayout>,
    kv_layout: KvLayout,
    /// Rows of the tables that are read by token and by position.
    table_rows: [usize; 2],
}

#[expect(missing_docs, reason = "the names say it")]
impl BoundModel {
    /// Fails if a weight is missing or does not match the graph, or if the KV layout belongs to another graph.
    pub fn new(graph: &Graph, weights: &dyn Weights, kv_layout: &KvLayout) -> Result<BoundModel, Error> {
        let bound = graph.weights().map(|(_, declared)| {
            let name = || declared.name.clone();
            let weight = weights.weight(declared).ok_or_else(|| Error::MissingWeight { name: name() })?;
            let found = [weight.count, weight.rows, weight.cols];
            let expected = [declared.count, declared.rows, declared.cols];
            if found != expected {
                return Err(Error::WeightShape { name: name(), found, expected });
            }
            weight.check(&declared.name).map(|()| weight)
        });
        let weights = bound.collect::<Result<Vec<_>, Error>>()?;
        if kv_layout.blocks.len() != graph.groups().len() {
            let (found, expected) = (kv_layout.blocks.len(), graph.groups().len());
            return Err(Error::Stores { found, expected });
        }
        let table_rows = [Index::Token, Index::Position].map(|by| {
            let rows = graph.values().filter_map(|(_, value)| {
                let Op::Embed { table, index } = value.op else { return None };
                (index == by).then(|| weights[table.index()].rows)
            });
            rows.min().unwrap_or(usize::MAX)
        });
        let (graph, stores, kv_layout) = (graph.clone(), kv_layout.stores(graph), kv_layout.clone());
        Ok(BoundModel { graph, weights, stores, kv_layout, table_rows })
    }

    /// Checks that the backend is a member of a group if the graph has sums over ranks.
    pub fn check_member(&self, member: Option<&Member>) -> Result<(), Error> {
        let is_sharded = self.graph.values().any(|(_, value)| matches!(value.op, Op::AllReduce { .. }));
        let is_alone = is_sharded && member.is_none();
        if is_alone { Err(Error::Shard("the backend has not joined a group".to_owned())) } else { Ok(()) }
    }

    pub fn graph(&self) -> &Graph {
        &self.graph
    }

    pub fn weight(&self, id: WeightId) -> &Weight {
        &self.weights[id.index()]
    }

    /// All weights, indexed by [`WeightId`].
    pub fn weights(&self) -> &[Weight] {
        &self.weights
    }

    /// By [`graph::StoreId`].
    pub fn stores(&self) -> &[StoreLayout] {
        &self.stores
    }

    pub fn kv_layout(&self) -> &KvLayout {
        &self.kv_layout
    }

    /// Total size of the KV stores and of the slots in bytes, saturating.
    pub fn kv_bytes(&self) -> u64 {
        self.kv_layout.bytes(&self.graph)
    }

    /// Allocates the zeroed state of operation `id`, [`Graph::state_len`] values in each slot; the system commits memory on
    /// first write.
    pub fn zeroed_state(&self, id: ValueId) -> Result<Vec<f32>, Error> {
        let values = self.kv_layout.slots.saturating_mul(self.graph.state_len(id));
        let (what, remedy) = ("the state of recurrent layers", Remedy::SmallerContext);
        let bytes = (values as u64).saturating_mul(size_of::<f32>() as u64);
        let error = |()| Error::OutOfMemory { what, bytes, memory: MemoryKind::Host, remedy };
        bytemuck::allocation::try_zeroed_vec(values).map_err(error)
    }

    /// The memory of `block` in a host backend. For a KV block, this is one block of the keys and values of each store in its
    /// group. For a state, it is one slot of each recurrent operation. `stores` are in the order of [`graph::StoreId`], `states`
    /// in that of [`ValueId`]. Fails if the block is out of range.
    pub fn block_parts<'a, S>(
        &self,
        block: CacheBlock,
        stores: &'a mut [S],
        kv_block: impl Fn(&'a mut S, usize) -> [&'a mut [u8]; 2],
        states: impl Iterator<Item = &'a mut Vec<f32>>,
    ) -> Result<Vec<&'a mut [u8]>, Error> {
        let KvLayout { blocks, slots, .. } = &self.kv_layout;
        let (index, count) = match block {
            CacheBlock::Kv { group, block } => (block as usize, blocks.get(group).copied().unwrap_or(0)),
            CacheBlock::State { slot } => (slot as usize, *slots),
        };
        if index >= count {
            return Err(Error::CacheBlock { block, count });
        }
        let CacheBlock::Kv { group, .. } = block else {
            let slot = |states: &'a mut Vec<f32>| {
                let values = states.len() / count;
                bytemuck::cast_slice_mut(&mut states[index * values..][..values])
            };
            return Ok(states.map(slot).collect());
        };
        let stores = self.graph.stores().zip(stores);
        let stores = stores.filter(|((id, _), _)| self.graph.store_group(*id) == group);
        Ok(stores.flat_map(|(_, store)| kv_block(store, index)).collect())
    }
}

/// A bound model together with the bucket and the taps of one program.
#[derive(Clone, Debug)]
pub struct BoundProgram {
    model: Arc<BoundModel>,
    bucket: Bucket,
    tapped: Vec<bool>,
    last_reads: Vec<usize>,
}

#[expect(missing_docs, reason = "the names say it")]
impl BoundProgram {
    pub fn new(model: Arc<BoundModel>, bucket: Bucket, taps: Taps<'_>) -> Result<BoundProgram, Error> {
        taps.check(&model.graph)?;
        let tapped = model.graph.values().map(|(_, value)| taps.contains(&value.name)).collect();
        let last_reads = model.graph.last_reads();
        Ok(BoundProgram { model, bucket, tapped, last_reads })
    }

    pub fn model(&self) -> &Arc<BoundModel> {
        &self.model
    }

    pub fn graph(&self) -> &Graph {
        &self.model.graph
    }

    pub fn value(&self, id: ValueId) -> &Value {
        self.model.graph.value(id)
    }

    pub fn weight(&self, id: WeightId) -> &Weight {
        self.model.weight(id)
    }

    pub fn output(&self) -> ValueId {
        self.model.graph.output()
    }

    pub fn bucket(&self) -> Bucket {
        self.bucket
    }

    /// The last reader of value `id`, or `id` if nothing reads it; `None` if the value is readable after the step.
    pub fn last_read(&self, id: ValueId) -> Option<usize> {
        (!self.is_readable(id)).then(|| self.last_reads[id.index()])
    }

    /// Whether a value can be read after a step: it is tapped, or a result.
    pub fn is_readable(&self, id: ValueId) -> bool {
        self.tapped[id.index()] || id == self.output() || self.graph().heads().contains(&id)
    }

    /// The outputs of a step, of whose results `values` gives the rows.
    pub fn outputs<'a>(&self, outputs: &[Output], values: impl Fn(ValueId) -> &'a [f32]) -> Outputs<'a> {
        let result = |id| (values(id), self.value(id).cols);
        let (logits, cols) = result(self.output());
        let (hidden, hidden_cols) = self.graph().heads().first().map_or((&[][..], 0), |&id| result(id));
        Outputs::new(outputs, logits, cols).with_hidden(hidden, hidden_cols)
    }

    /// Checks a step against bucket, vocabulary, stores, slots and graph input.
    pub fn check(&self, step: &Step) -> Result<(), Error> {
        self.check_after(step, 0)
    }

    /// The same for a step that may follow one with this number of output rows whose tokens are on the device.
    pub fn check_after(&self, step: &Step, chosen: usize) -> Result<(), Error> {
        let invalid = |why: String| Err(Error::Step(why));
        let BoundModel { graph, kv_layout, table_rows: [n_vocab, n_positions], .. } = &*self.model;
        let (rows, outputs) = (step.rows().len(), step.outputs().len());
        let cols = |value: &Value| if let Op::Input { cols } = value.op { cols } else { 0 };
        let expected = rows * graph.values().map(|(_, value)| cols(value)).sum::<usize>();
        let found = step.hidden().len();
        if found != expected {
            return invalid(format!("the input has {found} values, the graph expects {expected}"));
        }
        if rows > self.bucket.rows || outputs > self.bucket.outputs {
            return invalid(format!("{rows} rows and {outputs} outputs exceed {:?}", self.bucket));
        }
        for row in step.rows() {
            match row.input {
                Input::Token(token) if token as usize >= *n_vocab => {
                    return invalid(format!("token {token} is outside the vocabulary of {n_vocab} tokens"));
                }
                Input::Ahead(row) if row as usize >= chosen => {
                    return invalid(format!(
                        "a row takes the token of output row {row} of the step before it, but that step leaves {chosen} tokens on the device"
                    ));
                }
                Input::Embedding(row) => self.check_embedding(row as usize, step.embeddings())?,
                Input::Token(_) | Input::Ahead(_) => {}
            }
        }
        if kv_layout.slots > 0 {
            check_slots(step, kv_layout.slots)?;
        }
        let groups = graph.groups();
        for (i, sequence) in step.sequences().iter().enumerate() {
            let end = sequence.positions().end;
            if end > *n_positions {
                return invalid(format!(
                    "sequence {i} has {end} positions, expected at most {n_positions}, the rows of the model's position table"
                ));
            }
            let (found, expected) = (sequence.tables.len(), groups.len());
            if found != expected {
                return invalid(format!(
                    "sequence {i} has {found} block tables, expected {expected}, one for each store group"
                ));
            }
            let groups = groups.iter().zip(&kv_layout.blocks);
            for (number, (table, (group, &blocks))) in sequence.tables.iter().zip(groups).enumerate() {
                if let Some(block) = table.blocks.iter().find(|&&block| block as usize >= blocks) {
                    return invalid(format!(
                        "block {block} of group {number} is out of range: the group has {blocks} blocks"
                    ));
                }
                // Backends have room for as many positions as the group has.
                if table.blocks.len() > blocks {
                    return invalid(format!(
                        "sequence {i} has {} blocks of group {number}, expected at most {blocks}; use each block of the group once",
                        table.blocks.len()
                    ));
                }
                if !group.mask.is_causal() && sequence.n_past > 0 {
                    return invalid(format!(
                        "sequence {i}: its rows see {} in group {number}, but {} of them are already cached; compute the whole sequence in one step",
                        group.mask, sequence.n_past
                    ));
                }
                let (start, first) = (table.positions().start, group.mask.first_visible(sequence.n_past));
                if start > first {
                    return invalid(format!(
                        "sequence {i}: the blocks of group {number} start at position {start}, but the rows see position {first}"
                    ));
                }
            }
        }
        Ok(())
    }

    /// Checks that the graph has a single token embedding table, `embeddings` has rows of its width, and row `row` exists. A part
    /// of a cut graph may have no table.
    fn check_embedding(&self, row: usize, embeddings: &[f32]) -> Result<(), Error> {
        let is_looked_up = |op: &Op| matches!(op, Op::Embed { index: Index::Token, .. });
        let mut lookups = self.graph().values().filter(|(_, value)| is_looked_up(&value.op));
        let Some(cols) = lookups.next().map(|(_, value)| value.cols.max(1)) else { return Ok(()) };
        if lookups.next().is_some() {
            return Err(Error::Step(
                "the model has several tables of tokens, of which given embeddings replace one".into(),
            ));
        }
        if !embeddings.len().is_multiple_of(cols) || embeddings.len() / cols <= row {
            return Err(Error::Step(format!(
                "embedding {row} is missing: there are {} values, {cols} for each embedding of the model",
                embeddings.len()
            )));
        }
        Ok(())
    }

    /// Looks up value `name`, which must be readable after a step.
    pub fn readable(&self, name: &str) -> Result<ValueId, Error> {
        let error = |why| Error::Value { name: name.to_owned(), why };
        let id = self.graph().find(name).ok_or_else(|| error("is not in the graph"))?;
        let untapped = "was not tapped; compile the graph with a tap on it";
        if self.is_readable(id) { Ok(id) } else { Err(error(untapped)) }
    }
}

/// Checks that no slot is out of range, or written by one sequence and used by another.
fn check_slots(step: &Step, slots: usize) -> Result<(), Error> {
    let mut writer = HashMap::new();
    for (i, Sequence { n_past, slots: used, len, .. }) in step.sequences().iter().enumerate() {
        if let Some(slot) = used.written().chain([used.read]).find(|&slot| slot as usize >= slots) {
            return Err(Error::Step(format!(
                "sequence {i}: slot {slot} is out of range: there are {slots} slots"
            )));
        }
        let is_read = |slot: u32| *n_past > 0 && slot == used.read;
        if used.checkpoint.is_some_and(|(rows, slot)| !(1..*len).contains(&rows) || is_read(slot)) {
            return Err(Error::Step(format!(
                "sequence {i}: the checkpoint is {:?}, expected a number of rows from 1 to below {len}, and a slot that is not read",
                used.checkpoint
            )));
        }
        for slot in used.written() {
            if writer.insert(slot, i).is_some() {
                return Err(Error::Step(format!("sequence {i}: slot {slot} is written twice")));
            }
        }
    }
    for (i, Sequence { slots: used, n_past, .. }) in step.sequences().iter().enumerate() {
        if *n_past > 0 && writer.get(&used.read).is_some_and(|&writer| writer != i) {
            let slot = used.read;
            return Err(Error::Step(format!(
                "sequence {i} reads slot {slot}, which another sequence writes"
            )));
        }
    }
    Ok(())
}
