//! Compares two traces value by value, and finds the first operation beyond its limit. The reference backend computes each again on
//! its recorded inputs, so that the error of the inputs does not count.

use crate::cache;
use crate::judge::WHOLE_FLOAT;
use crate::traces::{SIDES, Traces};
use crate::{Error, Meta, Method, Oracle, Report, Trace, digest, report::Side};

/// Checks trace `a` against `b`. With an oracle, operations of traces of its model are judged, except those of a `b` that is
/// [trusted](Trace::trusted); other values must be near each other. Fails if the traces have nothing in common.
pub fn compare(a: &Trace, b: &Trace, oracle: Option<Oracle<'_>>) -> Result<Report, Error> {
    let traces = [a, b];
    let [a_meta, b_meta] = traces.map(Trace::meta);
    let (a_tokens, b_tokens) = (&a_meta.tokens, &b_meta.tokens);
    let positions = a_tokens.iter().zip(b_tokens).take_while(|(a, b)| a == b).count();
    if positions == 0 {
        let why = format!("they begin with other tokens: {:?} and {:?}", a_tokens.first(), b_tokens.first());
        return Err(Error::Compare(why + "; record both with the same tokens"));
    }
    let mut notes = Vec::new();
    if positions < a_tokens.len().max(b_tokens.len()) {
        notes.push(format!(
            "A has {} tokens, B {}; the first {positions} are the same and are compared",
            a_tokens.len(),
            b_tokens.len()
        ));
    }
    if let (Some(a), Some(b)) = (&a_meta.model_digest, &b_meta.model_digest)
        && a != b
    {
        notes.push("the traces come from different model files; accumulated error includes that".to_owned());
    }
    let lost = cache::largest_nmse(a_meta.kv).max(cache::largest_nmse(b_meta.kv));
    if a_meta.kv != b_meta.kv && lost > WHOLE_FLOAT {
        notes.push(format!(
            "A keeps K and V in {}, B in {}; accumulated error includes that",
            a_meta.kv, b_meta.kv
        ));
    }
    // A model judges only its own traces.
    let digest = oracle.map(|oracle| digest(oracle.file));
    let oracles = [0, 1].map(|side| {
        let (name, meta) = (SIDES[side].to_uppercase(), traces[side].meta());
        let mut oracle = oracle?;
        (oracle.n_ctx, oracle.kv) = (meta.tokens.len(), meta.kv);
        if meta.model_digest.is_none() {
            notes.push(format!(
                "{name} does not say which model file it comes from: the given one is assumed"
            ));
        } else if meta.model_digest != digest {
            notes.push(format!(
                "{name} comes from another model file than the one given: its operations are not judged"
            ));
            return None;
        }
        Some(oracle)
    });
    let method = match oracles {
        _ if same_bits_expected(a_meta, b_meta) => Method::Bits,
        [None, None] => Method::Accumulated,
        _ => Method::Replay,
    };
    if method == Method::Accumulated {
        notes.push(
            "without the model (-m) operations cannot be replayed: errors are accumulated, and where they \
             begin is a guess"
                .to_owned(),
        );
    }
    let mut pair = Traces::new(traces, positions, oracles, notes)?;
    let first = match method {
        Method::Bits => pair.first_unequal()?,
        Method::Accumulated => pair.first_far()?,
        Method::Replay => pair.first_failing()?,
    };
    let first = pair.sooner(first)?;
    let Traces { values, mut notes, .. } = pair;
    let program = |meta: &Meta| meta.producer.split(' ').next().map(str::to_owned);
    if method == Method::Replay
        && let Some(side) = first.as_ref().and_then(|first| first.side)
        && program(a_meta) != program(b_meta)
    {
        notes.push(format!(
            "this program's definition of the model is the judge: if you trust {}, the line of the model above is wrong, and \
             the cause says what it should be",
            side.to_uppercase()
        ));
    }
    let [a, b] = traces.map(|trace| {
        let Meta { producer, backend, model, types, .. } = trace.meta().clone();
        Side { trace: trace.path().display().to_string(), producer, backend, model, types }
    });
    Ok(Report { alike: first.is_none(), method, a, b, positions, first, values, notes })
}

/// Whether both runs must have the same bits: same program, backend, kernels, model and K/V format, any number of threads.
fn same_bits_expected(a: &Meta, b: &Meta) -> bool {
    let [a_facts, b_facts] =
        [a, b].map(|meta| meta.facts.split("; ").filter(|fact| !fact.starts_with("threads: ")));
    a.producer == b.producer
        && a.backend == b.backend
        && a_facts.eq(b_facts)
        && a.kv == b.kv
        && a.model_digest.is_some()
        && a.model_digest == b.model_digest
}
