//! Local replay: each operation of a trace again, on the inputs that were recorded.

use std::ops::Range;

use backend::KvFormat;
use graph::{Op, ValueId};
use half::f16;

use crate::causes::{self, Candidate, Cause};
use crate::judge::{self, Judgement, Pair, Rounding, WHOLE_FLOAT};
use crate::oracle::Call;
use crate::report::{First, Own};
use crate::{Error, Matrix, Oracle, Trace, Verdict, tapped_name};

/// Operations that are replayed in a row where a trace lacks the values between, at most.
const CHAIN: usize = 4;

/// The replay of one trace.
pub(crate) struct Replay<'a> {
    pub(crate) trace: &'a Trace,
    pub(crate) side: &'static str,
    pub(crate) positions: usize,
    pub(crate) oracle: Oracle<'a>,
}

/// What the replay of one operation said.
pub(crate) struct Replayed {
    judgement: Judgement,
    limit: f64,
}

/// Rows of a value: how they are made, of what, what was recorded and what should be.
struct Rows {
    call: Call,
    inputs: Vec<Matrix>,
    found: Matrix,
    expected: Matrix,
}

/// Some rows of an operation's inputs and the largest limit of those that were computed, none when all
/// were recorded; or the name of what is missing.
type Inputs = Result<(Vec<Matrix>, f64), String>;

impl Replay<'_> {
    /// The name under which a value was recorded; of the output, what the tapped program computed.
    fn name(&self, id: ValueId) -> String {
        let name = &self.oracle.graph().value(id).name;
        let tapped = tapped_name(name);
        if self.trace.value(&tapped).is_some() { tapped } else { name.clone() }
    }

    /// Whether a value was recorded.
    fn is_recorded(&self, id: ValueId) -> bool {
        let cols = self.oracle.graph().value(id).cols;
        let shape = self.trace.value(&self.name(id));
        shape.is_some_and(|shape| shape.cols == cols && shape.rows >= self.positions)
    }

    /// Rows of a value that were recorded.
    fn recorded(&self, id: ValueId, rows: Range<usize>) -> Result<Option<Matrix>, Error> {
        self.is_recorded(id).then(|| self.trace.matrix(&self.name(id), rows)).transpose()
    }

    /// The operation of `id` for `rows`.
    fn call(&self, id: ValueId, rows: &Range<usize>) -> Call {
        self.oracle.call(id, &self.trace.meta().tokens[rows.clone()], rows.start)
    }

    /// An input of `op` as the operation reads it: what follows the first as the store holds it, if there is one.
    fn as_read(&self, op: &Op, slot: usize, table: Matrix) -> Matrix {
        match op.store().is_some() && slot > 0 && self.trace.meta().kv == KvFormat::F16 {
            true => table.map(|x| f16::from_f32(x).to_f32()),
            false => table,
        }
    }

    /// What the operation of `id` computes `rows` from: recorded, or computed from what was, through
    /// `depth` operations at most.
    fn inputs(&self, id: ValueId, rows: &Range<usize>, depth: usize) -> Result<Inputs, Error> {
        let (mut inputs, mut most) = (Vec::new(), 0.0f64);
        let op = self.oracle.op(id);
        for (slot, input) in op.inputs().enumerate() {
            let table = match self.recorded(input, rows.clone())? {
                Some(table) => table,
                None if depth == 0 => return Ok(Err(self.oracle.graph().value(input).name.clone())),
                None => match self.again(input, rows, depth - 1)? {
                    Err(missing) => return Ok(Err(missing)),
                    Ok((table, limit)) => {
                        most = most.max(limit);
                        table
                    }
                },
            };
            inputs.push(self.as_read(&op, slot, table));
        }
        Ok(Ok((inputs, most)))
    }

    /// `rows` of a value, computed again; with the largest limit of what was computed.
    fn again(
        &self,
        id: ValueId,
        rows: &Range<usize>,
        depth: usize,
    ) -> Result<Result<(Matrix, f64), String>, Error> {
        // A row of what reads a store needs those before it.
        let from = if self.oracle.op(id).store().is_some() { 0 } else { rows.start };
        let (inputs, most) = match self.inputs(id, &(from..rows.end), depth)? {
            Ok(inputs) => inputs,
            Err(missing) => return Ok(Err(missing)),
        };
        let call = self.call(id, &(from..rows.end));
        // Output rows are what they were.
        let limit = match matches!(call.op, Op::OutputRows { .. }) {
            true => most,
            false => most.max(self.limit(&call.op)),
        };
        let inputs: Vec<&Matrix> = inputs.iter().collect();
        let made = self.oracle.run(&call, &inputs)?;
        let asked: Vec<usize> = (rows.start - from..rows.end - from).collect();
        Ok(Ok((if from < rows.start { made.take_rows(&asked) } else { made }, limit)))
    }

    fn limit(&self, op: &Op) -> f64 {
        judge::limit(&self.oracle, op, self.trace.meta().kv)
    }

    /// The rows that are replayed together: all where positions count, since mistakes with them show in how rows hang
    /// together.
    fn chunks(&self, id: ValueId) -> Vec<Range<usize>> {
        let graph = self.oracle.graph();
        let op = self.oracle.op(id);
        let cols = op.inputs().map(|input| graph.value(input).cols).fold(graph.value(id).cols, usize::max);
        let cols = if op.is_positional() { 0 } else { cols };
        judge::chunks(self.positions, cols).collect()
    }

    /// `rows` of a value whose inputs are there.
    fn rows(&self, id: ValueId, rows: Range<usize>) -> Result<Rows, Error> {
        let found = self.recorded(id, rows.clone())?.unwrap_or_default();
        let inputs = self.inputs(id, &rows, CHAIN)?.map_or_else(|_| Vec::new(), |(inputs, _)| inputs);
        let call = self.call(id, &rows);
        let expected = self.oracle.run(&call, &inputs.iter().collect::<Vec<_>>())?;
        Ok(Rows { call, inputs, found, expected })
    }

    /// Replays what makes `id`; `None` when it was not recorded, and why it cannot be when its inputs were
    /// not.
    fn replay(&self, id: ValueId) -> Result<Option<Result<Replayed, String>>, Error> {
        if !self.is_recorded(id) {
            return Ok(None);
        }
        // What is missing is missing in all rows.
        let chain = match self.inputs(id, &(0..1), CHAIN)? {
            Ok((_, chain)) => chain,
            Err(missing) => return Ok(Some(Err(format!("its input `{missing}` was not recorded")))),
        };
        let limit = self.limit(&self.oracle.op(id)).max(chain);
        let mut judgement = Judgement::default();
        for chunk in self.chunks(id) {
            let Rows { call, inputs, found, expected } = self.rows(id, chunk.clone())?;
            let is_product = judge::format(&self.oracle, &call)?.is_some();
            let plain = Pair::plain(&expected, &found, limit);
            let directed = Pair { is_directed: is_product && chain == 0.0, ..plain };
            let mut region = plain.wrong();
            if is_product && (region.is_some() || directed.is_suspicious()) {
                let rounding = Rounding::of(&self.oracle, &call, &inputs, &expected)?;
                region = Pair { rounding: Some(&rounding), ..directed }.wrong();
            }
            judgement.add(chunk.start, &expected, &found, region);
        }
        Ok(Some(Ok(Replayed { judgement, limit })))
    }

    /// Replays every operation; the first that is failing, with its causes. What each is like goes to `report`,
    /// with its name.
    pub(crate) fn all(&self, report: &mut dyn FnMut(&str, Own)) -> Result<Option<First>, Error> {
        let mut first: Option<First> = None;
        for (id, _) in self.oracle.graph().values() {
            let Some(replayed) = self.replay(id)? else { continue };
            let own = match &replayed {
                Err(why) => Own::not_judged(why.clone()),
                Ok(Replayed { judgement, limit }) => Own::of(judgement, *limit),
            };
            report(&self.name(id), own);
            if first.is_none()
                && let Ok(replayed) = replayed
            {
                first = self.failing(id, replayed)?;
            }
        }
        if first.is_none() {
            first = self.untapped(report)?;
        }
        Ok(first)
    }

    /// The value `id`, if it is wrong.
    pub(crate) fn one(&self, id: ValueId) -> Result<Option<First>, Error> {
        match self.replay(id)? {
            Some(Ok(replayed)) => self.failing(id, replayed),
            _ => Ok(None),
        }
    }

    /// Whether the untapped program computes the same output.
    fn untapped(&self, report: &mut dyn FnMut(&str, Own)) -> Result<Option<First>, Error> {
        let graph = self.oracle.graph();
        let name = &graph.value(graph.output()).name;
        let tapped = tapped_name(name);
        let (Some(with_taps), Some(plain)) = (self.trace.value(&tapped), self.trace.value(name)) else {
            return Ok(None);
        };
        let rows = with_taps.rows.min(plain.rows).min(self.positions);
        let quantized = graph
            .weights()
            .any(|(id, _)| self.oracle.weight(id).is_ok_and(|weight| weight.format.block_len() > 1));
        let limit = if quantized { 5e-4 } else { WHOLE_FLOAT };
        let judgement = Judgement::of(
            (rows, plain.cols),
            |rows| Ok([self.trace.matrix(&tapped, rows.clone())?, self.trace.matrix(name, rows)?]),
            |_, expected, found| Pair::plain(expected, found, limit).wrong(),
        )?;
        report(name, Own::of(&judgement, limit));
        if !judgement.is_wrong() {
            return Ok(None);
        }
        let cause = Cause::certain(
            "untapped",
            "the untapped program computes something else than the tapped one, whose values are recorded and whose \
             operations are all right: a fused kernel is wrong where the single operations are right, or a buffer \
             is used again too early"
                .to_owned(),
        );
        let first =
            First::new(name, Some(self.side), &judgement, (rows, plain.cols), limit, Some(&self.oracle));
        Ok(Some(First { causes: vec![cause], ..first }))
    }

    /// The value with its causes, if it is wrong.
    fn failing(&self, id: ValueId, replayed: Replayed) -> Result<Option<First>, Error> {
        let Replayed { judgement, limit } = replayed;
        if !judgement.is_wrong() {
            return Ok(None);
        }
        let value = self.oracle.graph().value(id);
        let shape = (self.positions, value.cols);
        let first = First::new(&value.name, Some(self.side), &judgement, shape, limit, Some(&self.oracle));
        // Causes are looked for in the rows that are replayed together with the first wrong one.
        let chunk = self.chunks(id).into_iter().find(|chunk| chunk.contains(&first.position));
        let rows = chunk.unwrap_or(0..self.positions);
        let Rows { call, inputs, found, expected } = self.rows(id, rows.clone())?;
        let rounding = Rounding::of(&self.oracle, &call, &inputs, &expected)?;
        let recorded = |id: ValueId| self.recorded(id, rows.clone()).ok().flatten();
        let again = |slot: usize| self.input_again(id, slot, &rows).ok().flatten();
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
            limit,
            rounding,
            recorded: &recorded,
            again: &again,
        };
        let causes = causes::find(&candidate);
        Ok(Some(First { causes, ..first }))
    }

    /// An input that was recorded, computed again from its own.
    fn input_again(&self, id: ValueId, slot: usize, rows: &Range<usize>) -> Result<Option<Matrix>, Error> {
        let op = self.oracle.op(id);
        let Some(input) = op.inputs().nth(slot).filter(|&input| self.is_recorded(input)) else {
            return Ok(None);
        };
        let again = self.again(input, rows, CHAIN)?.ok().map(|(table, _)| table);
        Ok(again.map(|table| self.as_read(&op, slot, table)))
    }
}

impl Own {
    fn of(judgement: &Judgement, limit: f64) -> Own {
        let verdict = if judgement.is_wrong() { Verdict::Wrong } else { Verdict::Right };
        Own { metrics: Some(judgement.metrics()), limit: Some(limit), verdict }
    }

    pub(crate) fn not_judged(why: String) -> Own {
        Own { metrics: None, limit: None, verdict: Verdict::NotJudged(why) }
    }
}
