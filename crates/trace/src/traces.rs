//! Values of two traces, and the first of them that is wrong.

use std::ops::Range;

use crate::cache;
use crate::causes::{head_dim, words};
use crate::judge::{Judgement, Pair, Region, WHOLE_FLOAT};
use crate::replay::Replay;
use crate::report::{Compared, Own};
use crate::{Error, First, Matrix, Oracle, Shape, Trace, Verdict};

/// NMSE limit of a whole model with BF16 weights, where engines round activations to 8 bits, too.
const WHOLE_BF16: f64 = 1e-3;

/// NMSE limit of a whole quantised model. Rounding errors accumulate over layers, so this finds only gross errors.
const WHOLE_QUANTIZED: f64 = 1e-2;

/// By how many times the usual NMSE of a cache a whole model may differ from one with another cache.
const WHOLE_CACHE: f64 = 20.0;

pub(crate) const SIDES: [&str; 2] = ["a", "b"];

pub(crate) struct Traces<'a> {
    pub(crate) traces: [&'a Trace; 2],
    pub(crate) positions: usize,
    /// For each trace that can be judged.
    pub(crate) oracles: [Option<Oracle<'a>>; 2],
    pub(crate) values: Vec<Compared>,
    pub(crate) notes: Vec<String>,
}

impl<'a> Traces<'a> {
    /// Computes the accumulated errors of the values of two traces; fails if they have none in common.
    pub(crate) fn new(
        traces: [&'a Trace; 2],
        positions: usize,
        oracles: [Option<Oracle<'a>>; 2],
        notes: Vec<String>,
    ) -> Result<Traces<'a>, Error> {
        let mut pair = Traces { traces, positions, oracles, values: Vec::new(), notes };
        let mut other_cols = None;
        for shape in traces[0].values() {
            let mut value = Compared {
                name: shape.name.clone(),
                rows: shape.rows.min(positions),
                cols: shape.cols,
                own: None,
                limit: None,
                accumulated: None,
                verdict: Verdict::NotJudged("it was not replayed".to_owned()),
                b: None,
            };
            match traces[1].value(&shape.name) {
                Some(b) if b.cols != shape.cols => {
                    let Shape { name, cols, .. } = shape;
                    let why = format!("`{name}` has {cols} columns in A, {} in B: other models", b.cols);
                    other_cols.get_or_insert(why);
                }
                Some(b) if b.rows >= value.rows => {
                    value.accumulated = Some(pair.judge(&value, 0.0, |_, _, _| None)?.metrics());
                }
                _ => {}
            }
            pair.values.push(value);
        }
        let nothing = || "the traces have no value in common".to_owned();
        if pair.values.iter().any(|value| value.accumulated.is_some()) {
            Ok(pair)
        } else {
            Err(Error::Compare(other_cols.unwrap_or_else(nothing)))
        }
    }

    /// Judges `value`, chunk by chunk. `wrong` gets the rows of a chunk in B and in A, and returns the region that is wrong,
    /// counted from the first of these rows.
    pub(crate) fn judge(
        &self,
        value: &Compared,
        limit: f64,
        wrong: impl Fn(&Range<usize>, &Matrix, &Matrix) -> Option<Region>,
    ) -> Result<Judgement, Error> {
        let [a, b] = self.traces;
        let rows =
            |rows: Range<usize>| Ok([b.matrix(&value.name, rows.clone())?, a.matrix(&value.name, rows)?]);
        Judgement::of(limit, (value.rows, value.cols), rows, wrong)
    }

    fn replay(&self, side: usize, oracle: Oracle<'a>) -> Replay<'a> {
        Replay { trace: self.traces[side], side: SIDES[side], positions: self.positions, oracle }
    }

    fn replay_all(&mut self, side: usize, oracle: Oracle<'a>) -> Result<Option<First>, Error> {
        let replay = self.replay(side, oracle);
        let values = &mut self.values;
        replay.all(&mut |name, own| {
            let Some(value) = values.iter_mut().find(|value| value.name == name) else { return };
            match side {
                0 => (value.own, value.limit, value.verdict) = (own.metrics, own.limit, own.verdict),
                _ => value.b = Some(own),
            }
        })
    }

    /// The first value that is wrong in itself, in A or else in B; or that differs and could not be judged.
    pub(crate) fn first_failing(&mut self) -> Result<Option<First>, Error> {
        if let Some(oracle) = self.oracles[0]
            && let Some(first) = self.replay_all(0, oracle)?
        {
            return Ok(Some(first));
        }
        match self.oracles[1] {
            _ if self.traces[1].is_trusted => {}
            Some(oracle) => {
                if let Some(first) = self.replay_all(1, oracle)? {
                    return Ok(Some(first));
                }
            }
            None => {
                for value in self.values.iter_mut().filter(|value| value.accumulated.is_some()) {
                    value.b = Some(Own::not_judged("it comes from another model file".to_owned()));
                }
            }
        }
        let limit = self.whole_limit();
        for value in &self.values {
            let open = match (&value.verdict, &value.b) {
                (Verdict::NotJudged(why), _) => Some(("A", why)),
                (_, Some(Own { verdict: Verdict::NotJudged(why), .. })) => Some(("B", why)),
                _ => None,
            };
            if let (Some(metrics), Some((side, why))) = (value.accumulated, open)
                && metrics.nmse > limit
            {
                let note = format!("apart, cannot be judged: `{}` of {side}: {why}", value.name);
                let first = self.apart(value, limit)?;
                self.notes.push(note);
                return Ok(Some(first));
            }
        }
        Ok(None)
    }

    /// A value that differs by more than `limit`; which side is wrong is not known.
    fn apart(&self, value: &Compared, limit: f64) -> Result<First, Error> {
        let mut judgement = self.judge(value, limit, |_, b, a| Pair::plain(b, a, limit).wrong())?;
        if !judgement.is_wrong() {
            judgement.region.rows.push(0);
        }
        Ok(self.first(value, None, &judgement))
    }

    pub(crate) fn first(&self, value: &Compared, side: Option<&'static str>, judgement: &Judgement) -> First {
        First::new(&value.name, side, judgement, self.oracles[0].or(self.oracles[1]))
    }

    pub(crate) fn whole_limit(&self) -> f64 {
        let types = self.traces.map(|trace| &*trace.meta().types);
        let limit = |word: &str| match word {
            "BF16" => WHOLE_BF16,
            _ if word.starts_with(['Q', 'I']) => WHOLE_QUANTIZED,
            _ => WHOLE_FLOAT,
        };
        let caches = self.traces.map(|trace| WHOLE_CACHE * cache::largest_nmse(trace.meta().kv));
        let weights = types.into_iter().flat_map(|types| types.split([' ', ','])).map(limit);
        weights.chain(caches).fold(WHOLE_FLOAT, f64::max)
    }

    /// The first value whose bits differ.
    pub(crate) fn first_unequal(&mut self) -> Result<Option<First>, Error> {
        let unequal = |_: &Range<usize>, b: &Matrix, a: &Matrix| {
            let differ = |r: usize, c: usize| a.at(r, c).to_bits() != b.at(r, c).to_bits();
            Region::of((a.rows, a.cols), differ)
        };
        let mut first: Option<First> = None;
        for i in 0..self.values.len() {
            let value = &self.values[i];
            if value.accumulated.is_none() {
                continue;
            }
            let judgement = self.judge(value, 0.0, unequal)?;
            if judgement.is_wrong() && first.is_none() {
                first = Some(self.first(value, None, &judgement));
            }
            (self.values[i].limit, self.values[i].verdict) = (Some(0.0), Own::of(&judgement).verdict);
        }
        // A replay of both may find which is wrong, and why.
        if let (Some(first), Some(oracle)) = (&mut first, self.oracles[0])
            && let Some(id) = oracle.graph.find(&first.name)
        {
            for side in [0, 1] {
                if let Some(failing) = self.replay(side, oracle).one(id)? {
                    (first.side, first.causes) = (Some(SIDES[side]), failing.causes);
                    break;
                }
            }
        }
        Ok(first)
    }

    /// The first value whose accumulated error exceeds the limit of a whole model.
    pub(crate) fn first_far(&mut self) -> Result<Option<First>, Error> {
        let limit = self.whole_limit();
        for value in &mut self.values {
            let Some(metrics) = value.accumulated else { continue };
            value.limit = Some(limit);
            value.verdict = if metrics.nmse > limit { Verdict::Wrong } else { Verdict::Right };
        }
        let first = self.values.iter().find(|value| value.verdict == Verdict::Wrong);
        first.map(|value| self.apart(value, limit)).transpose()
    }
}

impl First {
    pub(crate) fn new(
        name: &str,
        side: Option<&'static str>,
        judgement: &Judgement,
        oracle: Option<Oracle<'_>>,
    ) -> First {
        let found = oracle.and_then(|oracle| Some((oracle, oracle.graph.find(name)?)));
        let dim = found.and_then(|(oracle, id)| head_dim(&oracle, id));
        let line = found.map(|(oracle, id)| oracle.graph.value(id).location.to_string());
        let operation = found.and_then(|(oracle, _)| {
            let text = oracle.graph.to_string();
            text.lines().find(|line| line.split(" = ").next() == Some(name)).map(str::to_owned)
        });
        let region = judgement.region.clone();
        First {
            name: name.to_owned(),
            side,
            position: region.rows.first().copied().unwrap_or(0),
            operation,
            line,
            nmse: judgement.nmse(),
            whole: judgement.metrics().nmse,
            limit: judgement.limit,
            place: words::place(&region, judgement.shape, dim),
            region,
            causes: Vec::new(),
        }
    }
}
