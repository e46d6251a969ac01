//! The operation has another parameter or choice: a missing scale, a wrong factor, the wrong pairing.

use graph::Op;

use super::diagnosis::{Diagnosis, Few, Rank};

/// Doublings within which a parameter is searched, in both directions.
const DOUBLINGS: f64 = 16.0;

pub(super) fn diagnose(diagnosis: &mut Diagnosis<'_>) {
    let s = diagnosis.candidate;
    let (name, own) = (s.call.op.name(), s.call.op.parameters().unwrap_or_default());
    for other in s.call.op.variants(s.oracle.graph) {
        let parameters = other.parameters().unwrap_or_default();
        let text = if other.name() != name {
            format!("it is computed as {}, not {name}", other.name())
        } else if parameters == own {
            "it is computed without one of its weights".to_owned()
        } else {
            format!("it is computed with {parameters}, not {own}")
        };
        diagnosis.try_call("wrong-choice", Rank::Known, text, &s.call.with_op(other));
    }
    let mut numbers: Vec<(&'static str, f32)> = Vec::new();
    let mut op = s.call.op;
    op.numbers(|name, number| numbers.push((name, *number)));
    for (i, &(name, own)) in numbers.iter().enumerate() {
        let mut others = vec![
            (Rank::Known, 1.0, ": it is left out"),
            (Rank::Known, 0.0, ": it is left out"),
            (Rank::Known, -own, ": it has the wrong sign"),
            (Rank::Known, own * own, ": it counts twice"),
            (Rank::Known, 1.0 / own, ": it divides in place of multiplying"),
        ];
        if let Some(found) = estimated(diagnosis, i, own) {
            let near = rounded(found);
            others.push((Rank::Estimated, near as f32, ""));
            if (found / near - 1.0).abs() > 1e-4 {
                others.push((Rank::Estimated, found as f32, ""));
            }
        }
        for (rank, value, why) in
            others.into_iter().filter(|(_, value, _)| value.is_finite() && *value != own)
        {
            let text = format!("its {name} is {}, not {}{why}", digits(value), digits(own));
            let call = s.call.with_op(with_number(s.call.op, i, value));
            diagnosis.try_call("wrong-number", rank, text, &call);
        }
    }
}

fn with_number(mut op: Op, which: usize, value: f32) -> Op {
    let mut i = 0;
    op.numbers(|_, number| {
        if i == which {
            *number = value;
        }
        i += 1;
    });
    op
}

/// The value that explains most, by golden-section search over its logarithm in a few rows.
fn estimated(diagnosis: &Diagnosis<'_>, which: usize, own: f32) -> Option<f64> {
    let s = diagnosis.candidate;
    let few = Few::new(s);
    let value = |log: f64| f64::from(own) * log.exp2();
    let error = |log: f64| {
        let call = s.call.with_op(with_number(s.call.op, which, value(log) as f32));
        few.error(&call, &s.inputs).unwrap_or(f64::INFINITY)
    };
    let steps = (0..=(DOUBLINGS * 8.0) as usize).map(|i| i as f64 / 4.0 - DOUBLINGS);
    let (_, coarse) = steps.map(|log| (error(log), log)).min_by(|a, b| a.0.total_cmp(&b.0))?;
    let (mut low, mut high) = (coarse - 0.25, coarse + 0.25);
    for _ in 0..30 {
        let (a, b) = (high - (high - low) * 0.618, low + (high - low) * 0.618);
        if error(a) < error(b) { high = b } else { low = a }
    }
    let found = value(f64::midpoint(low, high));
    ((found / f64::from(own) - 1.0).abs() > 1e-3).then_some(found)
}

/// The nearest number with two digits, if it is within the accuracy of an estimate.
fn rounded(x: f64) -> f64 {
    let near = format!("{x:.1e}").parse().unwrap_or(x);
    if (x / near - 1.0).abs() < 0.02 { near } else { x }
}

fn digits(x: f32) -> String {
    if x != 0.0 && !(1e-3..1e7).contains(&x.abs()) { format!("{x:e}") } else { x.to_string() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn estimates_are_rounded_when_near() {
        assert_eq!(rounded(500_321.0), 500_000.0);
        assert_eq!(rounded(0.2499), 0.25);
        assert_eq!(rounded(10_113.0), 10_000.0);
        assert_eq!((digits(1e-5), digits(500_000.0)), ("1e-5".to_owned(), "500000".to_owned()));
    }
}
