//! Values of two traces, and the first of them that is wrong.

use std::ops::Range;

use crate::causes::{head_dim, words};
use crate::judge::{Judgement, Pair, Region, WHOLE_FLOAT, chunks};
use crate::metrics::Measure;
use crate::replay::Replay;
use crate::report::Own;
use crate::{Compared, Error, First, Matrix, Metrics, Oracle, Trace, Verdict};

/// The largest error of a whole model with weights of BF16, where engines cut activations to 8 bits, too.
const WHOLE_BF16: f64 = 1e-3;

/// The largest error of a whole quantised model for which traces without a model count as alike. Rounding
/// accumulates over layers, so this finds only gross errors.
const WHOLE_QUANTIZED: f64 = 1e-2;

/// Two traces and what is known of their values.
pub(crate) struct Sides<'a> {
    pub(crate) a: &'a Trace,
    pub(crate) b: &'a Trace,
    pub(crate) positions: usize,
    pub(crate) values: Vec<Compared>,
}

impl<'a> Sides<'a> {
    /// The accumulated errors of the values of two traces.
    ///
    /// # Errors
    /// When they have no value in common, or one cannot be read.
    pub(crate) fn new(a: &'a Trace, b: &'a Trace, positions: usize) -> Result<Sides<'a>, Error> {
        let mut sides = Sides { a, b, positions, values: Vec::new() };
        for shape in a.values() {
            let rows = shape.rows.min(positions);
            let has_same_shape = b.value(&shape.name).is_some_and(|b| b.cols == shape.cols && b.rows >= rows);
            let accumulated =
                has_same_shape.then(|| sides.distance(&shape.name, rows, shape.cols)).transpose()?;
            sides.values.push(Compared {
                name: shape.name.clone(),
                rows,
                cols: shape.cols,
                own: None,
                limit: None,
                accumulated,
                verdict: Verdict::NotJudged("it was not replayed".to_owned()),
                b: None,
            });
        }
        match sides.values.iter().any(|value| value.accumulated.is_some()) {
            true => Ok(sides),
            false => Err(Error::Compare(sides.nothing_common())),
        }
    }

    /// Rows of a value that both have: B's, then A's.
    pub(crate) fn rows(&self, name: &str, rows: Range<usize>) -> Result<[Matrix; 2], Error> {
        Ok([self.b.matrix(name, rows.clone())?, self.a.matrix(name, rows)?])
    }

    /// How far A's first rows of a value are from B's.
    fn distance(&self, name: &str, rows: usize, cols: usize) -> Result<Metrics, Error> {
        let mut measure = Measure::default();
        for chunk in chunks(rows, cols) {
            let [expected, found] = self.rows(name, chunk.clone())?;
            measure.add(chunk.start, &expected, &found);
        }
        Ok(measure.metrics())
    }

    /// A value that is wrong where `wrong` says so of a chunk of its rows.
    pub(crate) fn value(
        &self,
        value: &Compared,
        wrong: impl Fn(&Range<usize>, &Matrix, &Matrix) -> Option<Region>,
    ) -> Result<Judgement, Error> {
        Judgement::of((value.rows, value.cols), |rows| self.rows(&value.name, rows), wrong)
    }

    /// Why no value can be measured.
    fn nothing_common(&self) -> String {
        let other = self.values.iter().find_map(|Compared { name, cols, .. }| {
            let b = self.b.value(name).filter(|b| b.cols != *cols)?;
            Some(format!("`{name}` has {cols} columns in A, {} in B: other models", b.cols))
        });
        match other {
            Some(other) => other,
            None => "the traces have no value in common".to_owned(),
        }
    }

    /// The first value that is wrong in itself, in A or else in B; or that is far apart and could not be
    /// judged.
    pub(crate) fn first_failing(
        &mut self,
        [a, b]: [Option<Oracle<'_>>; 2],
        notes: &mut Vec<String>,
    ) -> Result<Option<First>, Error> {
        let positions = self.positions;
        if let Some(oracle) = a {
            let values = &mut self.values;
            let first = Replay { trace: self.a, side: "a", positions, oracle }.all(&mut |name, own| {
                if let Some(value) = values.iter_mut().find(|value| value.name == name) {
                    (value.own, value.limit, value.verdict) = (own.metrics, own.limit, own.verdict);
                }
            })?;
            if first.is_some() {
                return Ok(first);
            }
        }
        if self.b.is_trusted() {
            // It is right.
        } else if let Some(oracle) = b {
            let values = &mut self.values;
            let first = Replay { trace: self.b, side: "b", positions, oracle }.all(&mut |name, own| {
                if let Some(value) = values.iter_mut().find(|value| value.name == name) {
                    value.b = Some(own);
                }
            })?;
            if first.is_some() {
                return Ok(first);
            }
        } else {
            for value in self.values.iter_mut().filter(|value| value.accumulated.is_some()) {
                value.b = Some(Own::not_judged("it comes from another model file".to_owned()));
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
                notes.push(format!("apart, cannot be judged: `{}` of {side}: {why}", value.name));
                return self.apart(value, limit, a.or(b)).map(Some);
            }
        }
        Ok(None)
    }

    /// A value that is further apart than `limit`, of which no side is known to be wrong.
    fn apart(&self, value: &Compared, limit: f64, oracle: Option<Oracle<'_>>) -> Result<First, Error> {
        let mut judgement = self.value(value, |_, b, a| Pair::plain(b, a, limit).wrong())?;
        if !judgement.is_wrong() {
            judgement.region.rows.push(0);
        }
        let shape = (value.rows, value.cols);
        Ok(First::new(&value.name, None, &judgement, shape, limit, oracle.as_ref()))
    }

    /// How far values may be apart after the whole model.
    pub(crate) fn whole_limit(&self) -> f64 {
        let types = [self.a, self.b].map(|trace| &*trace.meta().types);
        let limit = |word: &str| match word {
            "BF16" => WHOLE_BF16,
            _ if word.starts_with(['Q', 'I']) => WHOLE_QUANTIZED,
            _ => WHOLE_FLOAT,
        };
        types.into_iter().flat_map(|types| types.split([' ', ','])).map(limit).fold(WHOLE_FLOAT, f64::max)
    }

    /// The first value whose bits differ.
    pub(crate) fn first_unequal(&mut self, oracle: Option<Oracle<'_>>) -> Result<Option<First>, Error> {
        let unequal = |_: &Range<usize>, b: &Matrix, a: &Matrix| {
            let differs = |i: &usize| a.data[*i].to_bits() != b.data[*i].to_bits();
            let which: Vec<usize> = (0..a.data.len()).filter(differs).collect();
            let [mut rows, mut cols] = [0, 1].map(|_| which.clone());
            rows.iter_mut().for_each(|i| *i /= a.cols);
            cols.iter_mut().for_each(|i| *i %= a.cols);
            rows.dedup();
            cols.sort_unstable();
            cols.dedup();
            (!rows.is_empty()).then_some(Region { rows, cols })
        };
        let (mut first, mut verdicts) = (None, Vec::new());
        for value in self.values.iter().filter(|value| value.accumulated.is_some()) {
            let judgement = self.value(value, unequal)?;
            verdicts.push((value.name.clone(), judgement.is_wrong()));
            if judgement.is_wrong() && first.is_none() {
                let shape = (value.rows, value.cols);
                first = Some(First::new(&value.name, None, &judgement, shape, 0.0, oracle.as_ref()));
            }
        }
        for value in &mut self.values {
            if let Some((_, differs)) = verdicts.iter().find(|(name, _)| *name == value.name) {
                value.limit = Some(0.0);
                value.verdict = if *differs { Verdict::Wrong } else { Verdict::Right };
            }
        }
        // Bits may differ for a reason: a replay of both sides finds which is wrong, and why.
        if let (Some(first), Some(oracle)) = (&mut first, oracle) {
            for (trace, side) in [(self.a, "a"), (self.b, "b")] {
                let replay = Replay { trace, side, positions: self.positions, oracle };
                if let Some(id) = oracle.graph().find(&first.name)
                    && let Some(failing) = replay.one(id)?
                {
                    (first.side, first.causes) = (Some(side), failing.causes);
                    break;
                }
            }
        }
        Ok(first)
    }

    /// The first value that is further apart than a whole model may be.
    pub(crate) fn first_far(&mut self) -> Result<Option<First>, Error> {
        let limit = self.whole_limit();
        for value in &mut self.values {
            let Some(metrics) = value.accumulated else { continue };
            value.limit = Some(limit);
            value.verdict = if metrics.nmse > limit { Verdict::Wrong } else { Verdict::Right };
        }
        let first = self.values.iter().find(|value| value.verdict == Verdict::Wrong);
        first.map(|value| self.apart(value, limit, None)).transpose()
    }
}

impl First {
    /// The value `name` of `shape`, rows and columns, and what is known of it, without causes.
    pub(crate) fn new(
        name: &str,
        side: Option<&'static str>,
        judgement: &Judgement,
        shape: (usize, usize),
        limit: f64,
        oracle: Option<&Oracle<'_>>,
    ) -> First {
        let id = oracle.and_then(|oracle| oracle.graph().find(name).map(|id| (oracle, id)));
        let dim = id.and_then(|(oracle, id)| head_dim(oracle, id));
        let line = id.map(|(oracle, id)| oracle.graph().value(id).location.to_string());
        let operation = id.and_then(|(oracle, _)| {
            let text = oracle.graph().to_string();
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
            limit,
            place: words::place(&region, shape, dim),
            region,
            causes: Vec::new(),
        }
    }
}
