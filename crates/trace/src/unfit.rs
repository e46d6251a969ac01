//! Values that are not alike whatever their numbers say: of another shape, or no numbers in either trace.

use backend::Weight;
use graph::{Graph, ValueId};

use crate::causes::words;
use crate::judge::{Judgement, Region, chunks};
use crate::report::Own;
use crate::sides::Sides;
use crate::trace::Shape;
use crate::{Cause, Error, First, Oracle, Verdict, tapped_name};

impl Sides<'_> {
    /// What is first: the value that was found, one of another shape, or one that a weight makes NaN or
    /// infinite, which is alike in both.
    pub(crate) fn sooner(
        &mut self,
        mut first: Option<First>,
        oracles: [Option<Oracle<'_>>; 2],
        notes: &mut Vec<String>,
    ) -> Result<Option<First>, Error> {
        let place = |name: &str| self.values.iter().position(|value| value.name == name);
        let mut before = first.as_ref().map_or(self.values.len(), |first| place(&first.name).unwrap_or(0));
        if let Some((at, misshapen)) = self.misshapen(before, oracles)? {
            let value = &mut self.values[at];
            match misshapen.side {
                Some("b") => value.b = Some(Own { metrics: None, limit: None, verdict: Verdict::Wrong }),
                _ => value.verdict = Verdict::Wrong,
            }
            (first, before) = (Some(misshapen), at);
        }
        for at in 0..before {
            let Some(region) = self.not_finite(at)? else { continue };
            let name = &self.values[at].name;
            return Ok(match oracles[0].map(|oracle| self.by_weight(at, &region, oracle)).transpose()? {
                Some(Some(found)) => {
                    self.values[at].verdict = Verdict::Wrong;
                    Some(found)
                }
                _ => {
                    notes.push(format!(
                        "`{name}` is the first with NaN or infinities, {}; both sides have them",
                        words::place(&region, (self.positions, self.values[at].cols), None)
                    ));
                    first
                }
            });
        }
        Ok(first)
    }

    /// The first of the values before `before` that has not the shape that it must have, with its place.
    fn misshapen(
        &self,
        before: usize,
        oracles: [Option<Oracle<'_>>; 2],
    ) -> Result<Option<(usize, First)>, Error> {
        for (at, value) in self.values[..before].iter().enumerate() {
            let shapes = [self.a, self.b].map(|trace| trace.value(&value.name));
            let is_wrong = |side: usize| {
                let expected = oracles[side].and_then(|oracle| {
                    id_of(oracle.graph(), &value.name).map(|id| oracle.graph().value(id).cols)
                });
                let is_other = |shape: &Shape| expected.is_some_and(|cols| cols != shape.cols);
                shapes[side].is_some_and(|shape| shape.rows < self.positions || is_other(shape))
            };
            let side = match (is_wrong(0), is_wrong(1), shapes) {
                (true, ..) => Some("a"),
                (_, true, _) => Some("b"),
                (_, _, [Some(a), Some(b)]) if a.cols != b.cols => None,
                _ => continue,
            };
            let shapes = ["A", "B"].iter().zip(shapes).filter_map(|(side, shape)| {
                shape.map(|Shape { rows, cols, .. }| format!("{rows} x {cols} in {side}"))
            });
            let text = format!(
                "its shape: {}, of {} positions that are compared",
                shapes.collect::<Vec<_>>().join(", "),
                self.positions
            );
            let oracle = oracles[0].or(oracles[1]);
            let (limit, nothing) = (self.whole_limit(), Judgement::default());
            let first = First::new(&value.name, side, &nothing, (0, 0), limit, oracle.as_ref());
            let (nmse, causes) = (f64::INFINITY, vec![Cause::certain("shape", text)]);
            return Ok(Some((at, First { nmse, whole: nmse, causes, ..first })));
        }
        Ok(None)
    }

    /// Where a value of A is NaN or infinite.
    fn not_finite(&self, at: usize) -> Result<Option<Region>, Error> {
        let value = &self.values[at];
        let (mut rows, mut cols) = (Vec::new(), vec![false; value.cols]);
        for chunk in chunks(value.rows, value.cols) {
            let found = self.a.matrix(&value.name, chunk.clone())?;
            for r in 0..found.rows {
                let bad = found.row(r).iter().zip(&mut cols).filter(|(x, _)| !x.is_finite());
                if bad.map(|(_, col)| *col = true).count() > 0 {
                    rows.push(chunk.start + r);
                }
            }
        }
        let cols = (0..cols.len()).filter(|&c| cols[c]).collect();
        Ok((!rows.is_empty()).then_some(Region { rows, cols }))
    }

    /// The value, when a weight of its operation is NaN or infinite itself.
    fn by_weight(&self, at: usize, region: &Region, oracle: Oracle<'_>) -> Result<Option<First>, Error> {
        let (value, graph) = (&self.values[at], oracle.graph());
        let Some(id) = id_of(graph, &value.name) else { return Ok(None) };
        let Some((weight, (count, place))) = graph.value(id).op.weights().find_map(|(weight, _)| {
            let spoilt = spoilt(&oracle.weight(weight).ok()?)?;
            Some((weight, spoilt))
        }) else {
            return Ok(None);
        };
        let text = format!(
            "{count} of the numbers of the weight `{}` are NaN or infinite, the first in {place}: the model's \
             file is spoilt, and every engine computes such numbers from it",
            graph.weight(weight).name
        );
        let judgement = self.value(value, |rows, _, _| Some(region.within(rows.clone())))?;
        let (shape, limit) = ((value.rows, value.cols), self.whole_limit());
        let first = First::new(&value.name, Some("a"), &judgement, shape, limit, Some(&oracle));
        let (nmse, causes) = (f64::INFINITY, vec![Cause::certain("weight-not-finite", text)]);
        Ok(Some(First { nmse, whole: nmse, causes, ..first }))
    }
}

/// The value that was recorded as `name`, which may be that of the tapped program.
fn id_of(graph: &Graph, name: &str) -> Option<ValueId> {
    let output = || (tapped_name(&graph.value(graph.output()).name) == name).then(|| graph.output());
    graph.find(name).or_else(output)
}

/// How many numbers of a weight are NaN or infinite, and where the first is, in words.
fn spoilt(weight: &Weight) -> Option<(usize, String)> {
    let (mut found, mut row) = (None, vec![0.0; weight.cols]);
    for r in 0..weight.count * weight.rows {
        weight.format.dequantize(weight.row(r), &mut row);
        for c in (0..weight.cols).filter(|&c| !row[c].is_finite()) {
            found.get_or_insert((0, r, c)).0 += 1;
        }
    }
    found.map(|(count, r, c)| {
        let expert = if weight.count > 1 { format!("expert {}, ", r / weight.rows) } else { String::new() };
        (count, format!("{expert}row {}, column {c}", r % weight.rows))
    })
}
