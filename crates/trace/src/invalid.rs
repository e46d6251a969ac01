//! Values that are wrong whatever their error says: of a wrong shape, or NaN or infinite in both traces.

use backend::Weight;
use graph::{Graph, ValueId};

use crate::causes::{Cause, words};
use crate::judge::{Judgement, Region, chunks};
use crate::report::{Compared, Own};
use crate::trace::Shape;
use crate::traces::{SIDES, Traces};
use crate::{Error, First, Oracle, Verdict, tapped_name};

impl Traces<'_> {
    /// The first of: the value that was found, one of a wrong shape, one that a weight makes NaN or infinite in both traces.
    pub(crate) fn sooner(&mut self, mut first: Option<First>) -> Result<Option<First>, Error> {
        let at = |name: &str| self.values.iter().position(|value| value.name == name);
        let mut end = first.as_ref().map_or(self.values.len(), |first| at(&first.name).unwrap_or(0));
        let misshapen = (0..end).find_map(|at| Some((at, self.misshapen(&self.values[at])?)));
        if let Some((at, misshapen)) = misshapen {
            let value = &mut self.values[at];
            match misshapen.side {
                Some("b") => value.b = Some(Own { metrics: None, limit: None, verdict: Verdict::Wrong }),
                _ => value.verdict = Verdict::Wrong,
            }
            (first, end) = (Some(misshapen), at);
        }
        for at in 0..end {
            let value = &self.values[at];
            let Some(region) = self.not_finite(value)? else { continue };
            if let Some(oracle) = self.oracles[0]
                && let Some(found) = self.by_weight(value, &region, oracle)?
            {
                self.values[at].verdict = Verdict::Wrong;
                return Ok(Some(found));
            }
            let place = words::place(&region, (self.positions, value.cols), None);
            let name = &value.name;
            self.notes
                .push(format!("`{name}` is the first with NaN or infinities, {place}; both sides have them"));
            break;
        }
        Ok(first)
    }

    /// The value, if one of the traces has it in another shape than the model or the other trace.
    fn misshapen(&self, value: &Compared) -> Option<First> {
        let shapes = self.traces.map(|trace| trace.value(&value.name));
        let is_wrong = |side: usize| {
            let expected = self.oracles[side]
                .and_then(|oracle| value_id(oracle.graph, &value.name).map(|id| oracle.graph.value(id).cols));
            shapes[side].is_some_and(|shape| {
                shape.rows < self.positions || expected.is_some_and(|cols| cols != shape.cols)
            })
        };
        let side = match ([0, 1].into_iter().find(|&side| is_wrong(side)), shapes) {
            (Some(side), _) => Some(SIDES[side]),
            (None, [Some(a), Some(b)]) if a.cols != b.cols => None,
            _ => return None,
        };
        let shapes = ["A", "B"].iter().zip(shapes).filter_map(|(side, shape)| {
            shape.map(|Shape { rows, cols, .. }| format!("{rows} x {cols} in {side}"))
        });
        let shapes = shapes.collect::<Vec<_>>().join(", ");
        let text = format!("its shape: {shapes}, of {} positions that are compared", self.positions);
        let first = self.first(value, side, &Judgement::new(self.whole_limit()));
        Some(first.certain("shape", text))
    }

    /// Where a value of A is NaN or infinite.
    fn not_finite(&self, value: &Compared) -> Result<Option<Region>, Error> {
        let mut region = Region::default();
        for chunk in chunks(value.rows, value.cols) {
            let found = self.traces[0].matrix(&value.name, chunk.clone())?;
            if let Some(bad) = Region::of((found.rows, found.cols), |r, c| !found.at(r, c).is_finite()) {
                region.extend(chunk.start, &bad);
            }
        }
        Ok((!region.rows.is_empty()).then_some(region))
    }

    /// The value, if a weight of its operation is itself NaN or infinite.
    fn by_weight(
        &self,
        value: &Compared,
        region: &Region,
        oracle: Oracle<'_>,
    ) -> Result<Option<First>, Error> {
        let graph = oracle.graph;
        let Some(id) = value_id(graph, &value.name) else { return Ok(None) };
        let damaged = graph.value(id).op.weights().find_map(|(weight, _)| {
            Some((&graph.weight(weight).name, not_finite_values(&oracle.weight(weight).ok()?)?))
        });
        let Some((weight, (count, place))) = damaged else { return Ok(None) };
        let text = format!(
            "{count} of the values of the weight `{weight}` are NaN or infinite, the first in {place}: the model's \
             file is damaged, and every engine computes such values from it"
        );
        let judgement =
            self.judge(value, self.whole_limit(), |rows, _, _| Some(region.within(rows.clone())))?;
        Ok(Some(self.first(value, Some("a"), &judgement).certain("weight-not-finite", text)))
    }
}

impl First {
    /// The same with a cause that needs no hypothesis, and an infinite error.
    fn certain(self, kind: &'static str, text: String) -> First {
        First { nmse: f64::INFINITY, whole: f64::INFINITY, causes: vec![Cause::certain(kind, text)], ..self }
    }
}

/// The value that was recorded as `name`; the output may be that of the tapped program.
fn value_id(graph: &Graph, name: &str) -> Option<ValueId> {
    let output = graph.output();
    graph.find(name).or_else(|| (tapped_name(&graph.value(output).name) == name).then_some(output))
}

/// How many elements of a weight are NaN or infinite, and where the first is, in words.
fn not_finite_values(weight: &Weight) -> Option<(usize, String)> {
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
