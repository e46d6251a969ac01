//! Local replay: each operation of a trace again, on the inputs that were recorded.

use std::ops::Range;

use backend::KvFormat;
use graph::{Op, ValueId};
use half::f16;

use crate::causes::{self, Candidate, Cause};
use crate::judge::{self, Block, Blocks, Judgement, Products, Rounding, WHOLE_FLOAT, judge, rows_at_once};
use crate::oracle::Call;
use crate::report::{First, Own};
use crate::{Error, Matrix, Oracle, Trace, Verdict, tapped_name};

/// Operations that are replayed in a row where a trace lacks what lies between, at most.
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

/// Some rows of an operation's inputs and the largest limit of what was computed of them, none when all
/// were recorded; or the name of what is missing.
type Inputs = Result<(Vec<Matrix>, f64), String>;

impl Replay<'_> {
    fn tokens(&self) -> &[u32] {
        &self.trace.meta().tokens[..self.positions]
    }

    /// The name under which a value was recorded; of the output, what the watched program computed.
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
        self.oracle.call(id, &self.tokens()[rows.clone()], rows.start)
    }

    /// An input of `op` as the operation reads it: keys and values as the cache stores them.
    fn as_read(&self, op: &Op, slot: usize, table: Matrix) -> Matrix {
        let is_stored = matches!(op, Op::Attention { .. }) && slot > 0;
        match is_stored && self.trace.meta().kv == KvFormat::F16 {
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
        let from = if self.reads_a_store(id) { 0 } else { rows.start };
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

    /// Whether a row needs those before it.
    fn reads_a_store(&self, id: ValueId) -> bool {
        self.oracle.graph().value(id).op.store().is_some()
    }

    /// Rows that are replayed together: those that read a store need all before them, and mistakes of RoPE show in how
    /// rows hang together.
    fn rows_at_once(&self, id: ValueId) -> usize {
        let graph = self.oracle.graph();
        let (op, cols) = (&graph.value(id).op, graph.value(id).cols);
        match self.reads_a_store(id) || matches!(op, Op::Rope { .. }) {
            true => self.positions,
            false => rows_at_once(op.inputs().map(|input| graph.value(input).cols).fold(cols, usize::max)),
        }
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
        let make = |rows: Range<usize>| {
            let (call, inputs, found, expected) = self.rows(id, rows)?;
            let products = Products::of(&self.oracle, &call, &inputs)?;
            Ok(Block { expected, found, products, is_exact: chain == 0.0 })
        };
        let shape = (self.positions, self.oracle.graph().value(id).cols);
        let judgement = judge(&Blocks::new(shape, self.rows_at_once(id), &make), limit)?;
        Ok(Some(Ok(Replayed { judgement, limit })))
    }

    /// `rows` of a value whose inputs are there: the operation, its inputs, what was recorded and what
    /// should be.
    fn rows(&self, id: ValueId, rows: Range<usize>) -> Result<(Call, Vec<Matrix>, Matrix, Matrix), Error> {
        let found = self.recorded(id, rows.clone())?.unwrap_or_default();
        let inputs = self.inputs(id, &rows, CHAIN)?.map_or_else(|_| Vec::new(), |(inputs, _)| inputs);
        let call = self.call(id, &rows);
        let expected = self.oracle.run(&call, &inputs.iter().collect::<Vec<_>>())?;
        Ok((call, inputs, found, expected))
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
            first = self.unwatched(report)?;
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

    /// Whether the program that is not watched computes the same output.
    fn unwatched(&self, report: &mut dyn FnMut(&str, Own)) -> Result<Option<First>, Error> {
        let graph = self.oracle.graph();
        let name = &graph.value(graph.output()).name;
        let tapped = tapped_name(name);
        let (Some(watched), Some(plain)) = (self.trace.value(&tapped), self.trace.value(name)) else {
            return Ok(None);
        };
        let rows = watched.rows.min(plain.rows).min(self.positions);
        let quantized = graph
            .weights()
            .any(|(id, _)| self.oracle.weight(id).is_ok_and(|weight| weight.format.block_len() > 1));
        let limit = if quantized { 5e-4 } else { WHOLE_FLOAT };
        let make = |rows: Range<usize>| {
            let (expected, found) =
                (self.trace.matrix(&tapped, rows.clone())?, self.trace.matrix(name, rows)?);
            Ok(Block::plain(expected, found))
        };
        let value = Blocks::new((rows, plain.cols), rows_at_once(plain.cols), &make);
        let judgement = judge(&value, limit)?;
        report(name, Own::of(&judgement, limit));
        let Judgement { region: Some(region), .. } = judgement else { return Ok(None) };
        let cause = Cause {
            kind: "not-watched",
            text: "the program that is not watched computes something else than the one whose values are \
                   recorded, in which every operation is right: a fused kernel is wrong where the single \
                   operations are right, or a buffer is used again too early"
                .to_owned(),
            nmse: 0.0,
            explained: 1.0,
            likely: true,
        };
        let first = First::new(name, Some(self.side), region, &value, limit, Some(&self.oracle))?;
        Ok(Some(First { causes: vec![cause], ..first }))
    }

    /// The value with its causes, if it is wrong.
    fn failing(&self, id: ValueId, replayed: Replayed) -> Result<Option<First>, Error> {
        let Replayed { judgement, limit } = replayed;
        let Some(region) = judgement.region else { return Ok(None) };
        let graph = self.oracle.graph();
        let make = |rows: Range<usize>| {
            let (_, _, found, expected) = self.rows(id, rows)?;
            Ok(Block::plain(expected, found))
        };
        let shape = (self.positions, graph.value(id).cols);
        let value = Blocks::new(shape, self.rows_at_once(id), &make);
        let name = &graph.value(id).name;
        let first = First::new(name, Some(self.side), region, &value, limit, Some(&self.oracle))?;
        // Causes are looked for in so many rows as are replayed together, from shortly before the first
        // that is wrong.
        let most = self.rows_at_once(id);
        let from = first.position.saturating_sub(most / 8).min(self.positions.saturating_sub(most));
        let rows = from..self.positions.min(from + most);
        let (call, inputs, found, expected) = self.rows(id, rows.clone())?;
        let products = Products::of(&self.oracle, &call, &inputs)?;
        let rounding = products.map_or_else(Rounding::default, |products| products.rounding(&expected));
        let recorded = |id: ValueId| self.recorded(id, rows.clone()).ok().flatten();
        let again = |slot: usize| self.input_again(id, slot, &rows).ok().flatten();
        let candidate = Candidate {
            oracle: self.oracle,
            id,
            call,
            inputs,
            found,
            expected,
            first: from,
            region: first.region.within(rows.clone()),
            place: &first.place,
            limit,
            rounding: rounding.without_direction(),
            recorded: &recorded,
            again: &again,
        };
        let causes = causes::find(&candidate);
        Ok(Some(First { causes, ..first }))
    }

    /// An input that was recorded, computed again from its own.
    fn input_again(&self, id: ValueId, slot: usize, rows: &Range<usize>) -> Result<Option<Matrix>, Error> {
        let op = self.oracle.op(id);
        let Some(input) = op.inputs().nth(slot) else { return Ok(None) };
        if !self.is_recorded(input) {
            return Ok(None);
        }
        let again = self.again(input, rows, CHAIN)?.ok().map(|(table, _)| table);
        Ok(again.map(|table| self.as_read(&op, slot, table)))
    }
}

impl Own {
    fn of(judgement: &Judgement, limit: f64) -> Own {
        let verdict = if judgement.region.is_some() { Verdict::Wrong } else { Verdict::Right };
        Own { metrics: Some(judgement.metrics), limit: Some(limit), verdict }
    }

    pub(crate) fn not_judged(why: String) -> Own {
        Own { metrics: None, limit: None, verdict: Verdict::NotJudged(why) }
    }
}
