//! Local replay: computes each operation of a trace again, on its recorded inputs.

use std::ops::Range;

use graph::{Op, ValueId};

use crate::cache;
use crate::causes::{self, Candidate, Cause};
use crate::judge::{self, Judgement, Pair, Rounding, WHOLE_FLOAT};
use crate::oracle::Call;
use crate::report::{First, Own};
use crate::{Error, Matrix, Oracle, Trace, Verdict, tapped_name};

/// The longest chain of operations that are replayed because values between them were not recorded.
const CHAIN: usize = 4;

pub(crate) struct Replay<'a> {
    pub(crate) trace: &'a Trace,
    pub(crate) side: &'static str,
    pub(crate) positions: usize,
    pub(crate) oracle: Oracle<'a>,
}

struct Rows {
    call: Call,
    inputs: Vec<Matrix>,
    found: Matrix,
    expected: Matrix,
}

impl Replay<'_> {
    /// The name of a recorded value. For the output, this is the name of the tapped program's output, if it was recorded.
    fn name(&self, id: ValueId) -> String {
        let name = &self.oracle.graph.value(id).name;
        let tapped = tapped_name(name);
        if self.trace.value(&tapped).is_some() { tapped } else { name.clone() }
    }

    fn is_recorded(&self, id: ValueId) -> bool {
        let cols = self.oracle.graph.value(id).cols;
        let shape = self.trace.value(&self.name(id));
        shape.is_some_and(|shape| shape.cols == cols && shape.rows >= self.positions)
    }

    fn recorded(&self, id: ValueId, rows: Range<usize>) -> Result<Option<Matrix>, Error> {
        self.is_recorded(id).then(|| self.trace.matrix(&self.name(id), rows)).transpose()
    }

    fn call(&self, id: ValueId, rows: &Range<usize>) -> Call {
        self.oracle.call(id, &self.trace.meta().tokens[rows.clone()], rows.start)
    }

    /// The inputs of `rows` of `id`, recorded or replayed through at most `depth` operations, and the largest limit of these, or 0.
    /// Replayed keys and values may be on the other side of a boundary between quants: the errors of two caches add up.
    fn inputs(&self, id: ValueId, rows: &Range<usize>, depth: usize) -> Result<(Vec<Matrix>, f64), Error> {
        let (mut inputs, mut limit) = (Vec::new(), 0.0f64);
        let call = self.call(id, rows);
        for (slot, input) in call.op.inputs().enumerate() {
            let (table, chain_limit) = match self.recorded(input, rows.clone())? {
                Some(table) => (table, 0.0),
                None if depth > 0 => self.again(input, rows, depth - 1)?,
                None => return Err(Error::NotRecorded(self.oracle.graph.value(input).name.clone())),
            };
            limit = limit.max(chain_limit);
            if let Some((_, kind)) = self.oracle.cached(&call, slot).filter(|_| chain_limit > 0.0) {
                limit = limit.max(chain_limit + 10.0 * cache::nmse(kind));
            }
            inputs.push(table);
        }
        Ok((inputs, limit))
    }

    /// `rows` of a value, computed again, and the largest limit of the replayed operations.
    fn again(&self, id: ValueId, rows: &Range<usize>, depth: usize) -> Result<(Matrix, f64), Error> {
        // An operation that reads a store needs all rows before.
        let from = if self.oracle.op(id).reads_earlier_rows() { 0 } else { rows.start };
        let (inputs, limit) = self.inputs(id, &(from..rows.end), depth)?;
        let call = self.call(id, &(from..rows.end));
        // Selecting rows has no error.
        let own = if matches!(call.op, Op::OutputRows { .. }) { 0.0 } else { self.limit(&call.op) };
        let made = self.oracle.run(&call, &inputs)?;
        let asked: Vec<usize> = (rows.start - from..rows.end - from).collect();
        Ok((made.take_rows(&asked), limit.max(own)))
    }

    fn limit(&self, op: &Op) -> f64 {
        judge::limit(&self.oracle, op)
    }

    /// The rows that are replayed together: all of them where rows depend on each other.
    fn chunks(&self, id: ValueId) -> impl Iterator<Item = Range<usize>> {
        let graph = self.oracle.graph;
        let op = self.oracle.op(id);
        let cols = op.inputs().map(|input| graph.value(input).cols).fold(graph.value(id).cols, usize::max);
        judge::chunks(self.positions, if op.is_positional() { 0 } else { cols })
    }

    fn rows(&self, id: ValueId, rows: Range<usize>) -> Result<Rows, Error> {
        let found = self.recorded(id, rows.clone())?.unwrap_or_default();
        let (inputs, _) = self.inputs(id, &rows, CHAIN)?;
        let call = self.call(id, &rows);
        let expected = self.oracle.run(&call, &inputs)?;
        Ok(Rows { call, inputs, found, expected })
    }

    /// Replays the operation of `id`; `None` if the value was not recorded.
    fn replay(&self, id: ValueId) -> Result<Option<Judgement>, Error> {
        if !self.is_recorded(id) {
            return Ok(None);
        }
        // An input that is missing in one row is missing in all.
        let (_, chain) = self.inputs(id, &(0..1), CHAIN)?;
        let limit = self.limit(&self.oracle.op(id)).max(chain);
        let mut judgement = Judgement::new(limit);
        for chunk in self.chunks(id) {
            let Rows { call, inputs, found, expected } = self.rows(id, chunk.clone())?;
            let is_matmul = judge::format(&self.oracle, &call)?.is_some();
            let plain = Pair::plain(&expected, &found, limit);
            let directed = Pair { is_directed: is_matmul && chain == 0.0, ..plain };
            let mut region = plain.wrong();
            if region.is_some() || directed.is_suspicious() {
                let rounding = Rounding::of(&self.oracle, &call, &inputs, &expected)?;
                region = Pair { rounding: Some(&rounding), ..directed }.wrong();
            }
            judgement.add(chunk.start, &expected, &found, region);
        }
        Ok(Some(judgement))
    }

    /// Replays every operation and passes each verdict to `report`; returns the first wrong value with its causes.
    pub(crate) fn all(&self, report: &mut dyn FnMut(&str, Own)) -> Result<Option<First>, Error> {
        let mut first = None;
        for (id, _) in self.oracle.graph.values() {
            match self.replay(id) {
                Ok(None) => {}
                Ok(Some(judgement)) => {
                    report(&self.name(id), Own::of(&judgement));
                    if first.is_none() && judgement.is_wrong() {
                        first = Some(self.diagnose(id, &judgement)?);
                    }
                }
                Err(why @ Error::NotRecorded(_)) => report(&self.name(id), Own::not_judged(why.to_string())),
                Err(error) => return Err(error),
            }
        }
        if first.is_none() { self.untapped(report) } else { Ok(first) }
    }

    /// The value `id` with its causes, if it is wrong.
    pub(crate) fn one(&self, id: ValueId) -> Result<Option<First>, Error> {
        match self.replay(id) {
            Ok(Some(judgement)) if judgement.is_wrong() => self.diagnose(id, &judgement).map(Some),
            Ok(_) | Err(Error::NotRecorded(_)) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// The output of the program without taps, if it differs from that of the program with taps.
    fn untapped(&self, report: &mut dyn FnMut(&str, Own)) -> Result<Option<First>, Error> {
        let graph = self.oracle.graph;
        let name = &graph.value(graph.output()).name;
        let tapped = tapped_name(name);
        let (Some(with_taps), Some(plain)) = (self.trace.value(&tapped), self.trace.value(name)) else {
            return Ok(None);
        };
        let rows = with_taps.rows.min(plain.rows).min(self.positions);
        let quantized = graph
            .weights()
            .any(|(id, _)| self.oracle.weight(id).is_ok_and(|weight| weight.format.block_len() > 1));
        // Where fused kernels round otherwise, keys and values next to boundaries become other quants.
        let limit =
            if quantized { judge::QUANTIZED } else { WHOLE_FLOAT }.max(cache::largest_nmse(self.oracle.kv));
        let judgement = Judgement::of(
            limit,
            (rows, plain.cols),
            |rows| Ok([self.trace.matrix(&tapped, rows.clone())?, self.trace.matrix(name, rows)?]),
            |_, expected, found| Pair::plain(expected, found, limit).wrong(),
        )?;
        report(name, Own::of(&judgement));
        let cause = Cause::certain(
            "untapped",
            "the untapped program computes something else than the tapped one, whose values are recorded and whose \
             operations are all right: a fused kernel is wrong where the single operations are right, or a buffer \
             is used again too early"
                .to_owned(),
        );
        let first = First::new(name, Some(self.side), &judgement, Some(self.oracle));
        Ok(judgement.is_wrong().then_some(First { causes: vec![cause], ..first }))
    }

    fn diagnose(&self, id: ValueId, judgement: &Judgement) -> Result<First, Error> {
        let name = &self.oracle.graph.value(id).name;
        let first = First::new(name, Some(self.side), judgement, Some(self.oracle));
        // The rows that are replayed together with the first wrong one show the cause.
        let rows = self.chunks(id).find(|chunk| chunk.contains(&first.position)).unwrap_or(0..self.positions);
        let Rows { call, inputs, found, expected } = self.rows(id, rows.clone())?;
        let rounding = Rounding::of(&self.oracle, &call, &inputs, &expected)?;
        let recorded = |id: ValueId| self.recorded(id, rows.clone()).ok().flatten();
        let op = call.op;
        let again = |slot: usize| {
            let input = op.inputs().nth(slot).filter(|&input| self.is_recorded(input))?;
            let (table, _) = self.again(input, &rows, CHAIN).ok()?;
            Some(table)
        };
        let candidate = Candidate {
            oracle: self.oracle,
            id,
            call,
            inputs,
            found,
            expected,
            first: rows.start,
            region: first.region.within(rows.clone()),
            place: &first.place,
            limit: judgement.limit,
            rounding,
            recorded: &recorded,
            again: &again,
        };
        let causes = causes::find(&candidate);
        Ok(First { causes, ..first })
    }
}

impl Own {
    pub(crate) fn of(judgement: &Judgement) -> Own {
        let verdict = if judgement.is_wrong() { Verdict::Wrong } else { Verdict::Right };
        Own { metrics: Some(judgement.metrics()), limit: Some(judgement.limit), verdict }
    }

    pub(crate) fn not_judged(why: String) -> Own {
        Own { metrics: None, limit: None, verdict: Verdict::NotJudged(why) }
    }
}
