//! A graph bound to loaded weights: what every backend works out before it compiles.

use std::collections::HashMap;

use graph::{Graph, Op, Value, ValueId, WeightId};

use crate::{Bucket, Error, KvLayout, Step, Taps, Weight};

/// A graph whose weights are at hand and whose shapes have been checked.
#[derive(Debug)]
pub struct Bound {
    values: Vec<Value>,
    weights: Vec<Weight>,
    tapped: Vec<bool>,
    dying: Vec<Vec<usize>>,
    output: ValueId,
    bucket: Bucket,
    n_vocab: usize,
    kv: Option<KvLayout>,
}

impl Bound {
    /// Binds `graph` to `weights` and a K/V store of shape `kv`, for steps of up to `bucket` rows.
    ///
    /// # Errors
    /// When a weight is missing or of another shape, the K/V store does not fit an attention, or a
    /// tapped name is not in the graph.
    pub fn new(
        graph: &Graph,
        weights: &HashMap<String, Weight>,
        kv: Option<KvLayout>,
        bucket: Bucket,
        taps: Taps<'_>,
    ) -> Result<Bound, Error> {
        let bound = graph.weights().map(|(_, expected)| {
            let name = &expected.name;
            let weight = weights.get(name).ok_or_else(|| Error::MissingWeight { name: name.clone() })?;
            let (found, expected) = ((weight.rows, weight.cols), (expected.rows, expected.cols));
            if found != expected {
                return Err(Error::WeightShape { name: name.clone(), found, expected });
            }
            Ok(weight.clone())
        });
        let weights = bound.collect::<Result<Vec<_>, Error>>()?;
        if let Taps::Names(names) = taps
            && let Some(name) = names.iter().find(|name| graph.find(name).is_none())
        {
            return Err(Error::Value { name: (*name).to_owned(), why: "is not in the graph" });
        }
        let values: Vec<Value> = graph.values().map(|(_, value)| value.clone()).collect();
        let mut last_use: Vec<usize> = (0..values.len()).collect();
        let mut n_vocab = usize::MAX;
        for (i, value) in values.iter().enumerate() {
            value.op.inputs().for_each(|input| last_use[input.index()] = i);
            match value.op {
                Op::Embed { table } => n_vocab = n_vocab.min(weights[table.index()].rows),
                Op::Attention { k, v, layer, kv_heads, .. } => {
                    let dim = |id: ValueId| graph.value(id).cols / kv_heads;
                    kv.ok_or_else(|| "there is none; allocate one before compiling".to_owned())
                        .and_then(|kv| kv.fits(layer, kv_heads, dim(k), dim(v)))
                        .map_err(|why| Error::Kv {
                            value: value.name.clone(),
                            location: value.location.to_string(),
                            why,
                        })?;
                }
                _ => {}
            }
        }
        let tapped: Vec<bool> = values.iter().map(|value| taps.contains(&value.name)).collect();
        let mut dying = vec![Vec::new(); values.len()];
        for (index, &last_use) in last_use.iter().enumerate() {
            if index != graph.output().index() && !tapped[index] {
                dying[last_use].push(index);
            }
        }
        Ok(Bound { output: graph.output(), kv, tapped, dying, n_vocab, values, weights, bucket })
    }

    /// The graph's values, in the order to compute them.
    pub fn values(&self) -> &[Value] {
        &self.values
    }

    /// One value.
    pub fn value(&self, id: ValueId) -> &Value {
        &self.values[id.index()]
    }

    /// One weight.
    pub fn weight(&self, id: WeightId) -> &Weight {
        &self.weights[id.index()]
    }

    /// The value the graph is for.
    pub fn output(&self) -> ValueId {
        self.output
    }

    /// The room for rows.
    pub fn bucket(&self) -> Bucket {
        self.bucket
    }

    /// The values that are not needed any more once value `now` has been computed: it was the last that
    /// read them, and they are neither tapped nor the output.
    pub fn dying_at(&self, now: usize) -> &[usize] {
        &self.dying[now]
    }

    /// Whether a value can be read after a step: it is tapped or the output.
    pub fn is_kept(&self, id: ValueId) -> bool {
        self.tapped[id.index()] || id == self.output
    }

    /// Checks a step against the bucket, the vocabulary and the store there is now.
    ///
    /// # Errors
    /// See [`Step::check`]; also when the store is not the one the graph was compiled for.
    pub fn check(&self, step: &Step, kv: Option<KvLayout>) -> Result<(), Error> {
        if kv != self.kv {
            return Err(Error::Step("the K/V store is not the one the graph was compiled for".into()));
        }
        let input = self.values.iter().find(|value| matches!(value.op, Op::Input));
        let expected = input.map_or(0, |value| value.cols * step.tokens().len());
        if step.input().len() != expected {
            let found = step.input().len();
            return Err(Error::Step(format!(
                "{found} numbers come with it, the graph begins with {expected}"
            )));
        }
        step.check(self.bucket, self.n_vocab, kv.map_or(usize::MAX, |kv| kv.pages))
    }

    /// The value called `name`, if it can be read after a step.
    ///
    /// # Errors
    /// When the graph has no such value or it was not tapped.
    pub fn readable(&self, name: &str) -> Result<ValueId, Error> {
        let error = |why| Error::Value { name: name.to_owned(), why };
        let index = self.values.iter().position(|value| value.name == name);
        let index = index.ok_or_else(|| error("is not in the graph"))?;
        let id = ValueId::from_index(index);
        if !self.is_kept(id) {
            return Err(error("was not tapped; compile the graph with a tap on it"));
        }
        Ok(id)
    }
}
