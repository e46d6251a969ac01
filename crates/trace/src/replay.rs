//! Local replay: each operation of a trace again, on the inputs that were recorded.

use std::cell::OnceCell;

use backend::KvFormat;
use graph::{Op, ValueId};
use half::f16;

use crate::causes::{self, Cause, Suspect};
use crate::compare::{WHOLE_FLOAT, read};
use crate::judge::{self, Judgement, NO_NOISE, Noise, judge};
use crate::oracle::Call;
use crate::{Compared, Error, First, Matrix, Oracle, Trace, Verdict, tapped_name};

/// Operations that are replayed in a row where a trace lacks what lies between, at most.
const CHAIN: usize = 4;

/// The replay of one trace.
pub(crate) struct Replay<'a> {
    pub(crate) trace: &'a Trace,
    pub(crate) side: &'static str,
    pub(crate) positions: usize,
    pub(crate) oracle: Oracle<'a>,
}

/// What the replay of one operation gave.
pub(crate) struct Replayed {
    call: Call,
    inputs: Vec<Matrix>,
    found: Matrix,
    expected: Matrix,
    judgement: Judgement,
    limit: f64,
    noise: Noise,
}

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

    /// What was recorded of a value.
    fn recorded(&self, id: ValueId) -> Result<Option<Matrix>, Error> {
        let (name, cols) = (self.name(id), self.oracle.graph().value(id).cols);
        match self.trace.value(&name) {
            Some(shape) if shape.cols == cols && shape.rows >= self.positions => {
                read(self.trace, &name, self.positions).map(Some)
            }
            _ => Ok(None),
        }
    }

    /// Inputs of `id`: recorded, or computed from what was; or the name of what is missing. With the
    /// largest limit of what was computed.
    fn inputs(&self, id: ValueId, depth: usize) -> Result<Result<(Vec<Matrix>, f64), String>, Error> {
        let (mut inputs, mut most) = (Vec::new(), 0.0f64);
        for input in self.oracle.graph().value(id).op.inputs() {
            if let Some(table) = self.recorded(input)? {
                inputs.push(table);
                continue;
            }
            if depth == 0 {
                return Ok(Err(self.oracle.graph().value(input).name.clone()));
            }
            match self.inputs(input, depth - 1)? {
                Err(missing) => return Ok(Err(missing)),
                Ok((before, limit)) => {
                    let call = self.oracle.call(input, self.tokens())?;
                    most = most.max(limit).max(judge::limit(&call, self.trace.meta().kv));
                    let before: Vec<&Matrix> = before.iter().collect();
                    inputs.push(self.oracle.run(&call, &before)?);
                }
            }
        }
        Ok(Ok((inputs, most)))
    }

    /// Replays what makes `id`; `None` when it was not recorded.
    pub(crate) fn one(&self, id: ValueId) -> Result<Option<Replayed>, Error> {
        match self.replay(id)? {
            Some(Ok(replayed)) => Ok(Some(replayed)),
            _ => Ok(None),
        }
    }

    fn replay(&self, id: ValueId) -> Result<Option<Result<Replayed, String>>, Error> {
        let Some(found) = self.recorded(id)? else { return Ok(None) };
        let (mut inputs, chain) = match self.inputs(id, CHAIN)? {
            Ok(inputs) => inputs,
            Err(missing) => return Ok(Some(Err(format!("its input `{missing}` was not recorded")))),
        };
        let kv = self.trace.meta().kv;
        if kv == KvFormat::F16 && matches!(self.oracle.graph().value(id).op, Op::Attention { .. }) {
            // As the cache stores them.
            inputs.iter_mut().skip(1).for_each(|x| *x = x.map(|x| f16::from_f32(x).to_f32()));
        }
        let call = self.oracle.call(id, self.tokens())?;
        let borrowed: Vec<&Matrix> = inputs.iter().collect();
        let expected = self.oracle.run(&call, &borrowed)?;
        let once: OnceCell<Noise> = OnceCell::new();
        let noise = || match &call {
            Call::Linear(weight) => once.get_or_init(|| Noise::of(&inputs[0], weight)),
            _ => &NO_NOISE,
        };
        let limit = judge::limit(&call, kv).max(chain);
        let judgement = judge(&expected, &found, limit, noise);
        let noise = once.into_inner().unwrap_or_default();
        Ok(Some(Ok(Replayed { call, inputs, found, expected, judgement, limit, noise })))
    }

    /// Replays every operation; the first that is guilty, with its causes. Judgements go to `values`.
    pub(crate) fn all(&self, values: &mut [Compared]) -> Result<Option<First>, Error> {
        let mut first: Option<First> = None;
        for (id, _) in self.oracle.graph().values() {
            let Some(replayed) = self.replay(id)? else { continue };
            let (verdict, judged) = match &replayed {
                Err(why) => (Verdict::NotJudged(why.clone()), None),
                Ok(Replayed { judgement, limit, .. }) => {
                    let verdict = if judgement.region.is_some() { Verdict::Wrong } else { Verdict::Right };
                    (verdict, Some((judgement.metrics, *limit)))
                }
            };
            let name = self.name(id);
            if let Some(row) = values.iter_mut().find(|row| row.name == name) {
                row.local = judged.map(|(metrics, _)| metrics);
                row.limit = judged.map(|(_, limit)| limit);
                row.verdict = verdict;
            }
            if first.is_none()
                && let Ok(replayed) = replayed
            {
                first = replayed.guilty(self, id);
            }
        }
        if first.is_none() {
            first = self.unwatched(values)?;
        }
        Ok(first)
    }

    /// Whether the program that is not watched computes the same output.
    fn unwatched(&self, values: &mut [Compared]) -> Result<Option<First>, Error> {
        let graph = self.oracle.graph();
        let name = &graph.value(graph.output()).name;
        let tapped = tapped_name(name);
        let (Some(watched), Some(plain)) = (self.trace.value(&tapped), self.trace.value(name)) else {
            return Ok(None);
        };
        let rows = watched.rows.min(plain.rows).min(self.positions);
        let (watched, plain) = (read(self.trace, &tapped, rows)?, read(self.trace, name, rows)?);
        let quantized = graph
            .weights()
            .any(|(id, _)| self.oracle.weight(id).is_ok_and(|weight| weight.format.block_len() > 1));
        let limit = if quantized { 5e-4 } else { WHOLE_FLOAT };
        let judgement = judge(&watched, &plain, limit, || &NO_NOISE);
        if let Some(row) = values.iter_mut().find(|row| row.name == *name) {
            row.local = Some(judgement.metrics);
            row.limit = Some(limit);
            row.verdict = if judgement.region.is_some() { Verdict::Wrong } else { Verdict::Right };
        }
        let Some(region) = judgement.region else { return Ok(None) };
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
        let pair = (&watched, &plain);
        let first = First::new(name, Some(self.side), region, pair, limit, Some(&self.oracle));
        Ok(Some(First { causes: vec![cause], ..first }))
    }
}

impl Replayed {
    /// The value with its causes, if it is wrong.
    pub(crate) fn guilty(self, replay: &Replay<'_>, id: ValueId) -> Option<First> {
        let Replayed { call, inputs, found, expected, judgement, limit, noise } = self;
        let region = judgement.region?;
        let oracle = replay.oracle;
        let name = &oracle.graph().value(id).name;
        let recorded = |id: ValueId| replay.recorded(id).ok().flatten();
        let pair = (&expected, &found);
        let first = First::new(name, Some(replay.side), region.clone(), pair, limit, Some(&oracle));
        let suspect =
            Suspect { oracle, id, call, inputs, found, expected, region, limit, noise, recorded: &recorded };
        Some(First { causes: causes::find(&suspect), ..first })
    }
}
