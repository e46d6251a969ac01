//! The heads of a value.

use graph::{Op, Value, ValueId};

use crate::Oracle;

/// Columns of a head of the value `id`; `None` when it has no heads.
pub(crate) fn head_dim(oracle: &Oracle<'_>, id: ValueId) -> Option<usize> {
    let graph = oracle.graph();
    let of = |id: ValueId| {
        let value = graph.value(id);
        if let Op::Attention { heads, .. } = value.op {
            Some(value.cols / heads)
        } else {
            by_heads(oracle, id)
        }
    };
    let read_by = |(reader_id, reader): (ValueId, &Value)| {
        if let Op::AddBias { x, .. } = reader.op
            && x == id
        {
            return head_dim(oracle, reader_id);
        }
        if let Op::Attention { q, kv, store, .. } = reader.op {
            let (store, [k, v]) = (graph.store(store), kv.unwrap_or([q; 2]));
            let dim = if id == v && v != q { store.v_dim } else { store.k_dim };
            return [q, k, v].contains(&id).then_some(dim);
        }
        by_heads(oracle, reader_id).filter(|_| reader.op.inputs().any(|x| x == id))
    };
    of(id).or_else(|| graph.values().find_map(read_by))
}

/// Columns of a head where the operation of `id` treats heads alike, one by one.
fn by_heads(oracle: &Oracle<'_>, id: ValueId) -> Option<usize> {
    let value = oracle.graph().value(id);
    if let Op::Rope { rope, .. } = value.op {
        return Some(rope.head_dim);
    }
    if let Op::RmsNorm { weight, .. } = value.op {
        return Some(oracle.graph().weight(weight).cols).filter(|&cols| cols < value.cols);
    }
    None
}
