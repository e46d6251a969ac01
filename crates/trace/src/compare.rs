//! Two traces side by side: how far values are apart, and which operation is failing.
//!
//! Error that an operation gets with its inputs is not its own. So each operation is judged alone: the
//! inputs that were recorded are fed to the same operation of a reference backend, and what was recorded
//! of its result is held against that. The first operation beyond the one-operation limit is failing.

use crate::sides::Sides;
use crate::{Error, Meta, Method, Oracle, Report, Side, Trace};

/// Checks trace `a` against `b`; operations are replayed on `oracle` when there
/// is one. Of the two, those are judged that come from its model, as far as they say; `b` when `a` is right
/// and `b` is not [trusted](Trace::trusted). What was not judged must be near.
///
/// # Errors
/// When the traces have no position or no value in common, or one cannot be read.
pub fn compare(a: &Trace, b: &Trace, oracle: Option<Oracle<'_>>) -> Result<Report, Error> {
    let (a_tokens, b_tokens) = (&a.meta().tokens, &b.meta().tokens);
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
    if let (Some(a), Some(b)) = (&a.meta().model_digest, &b.meta().model_digest)
        && a != b
    {
        notes.push("the traces come from different model files; accumulated error includes that".to_owned());
    }
    // Only what comes from the model can be judged by it.
    let digest = oracle.map(|oracle| oracle.digest());
    let mut judged = |name: &str, trace: &Trace| match (&trace.meta().model_digest, &digest) {
        (Some(found), Some(given)) if found != given => {
            notes.push(format!(
                "{name} comes from another model file than the one given: its operations are not judged"
            ));
            None
        }
        (None, Some(_)) => {
            notes.push(format!(
                "{name} does not say which model file it comes from: it is judged as if from the one given"
            ));
            oracle
        }
        _ => oracle,
    };
    let mut judged = |name: &str, trace: &Trace| {
        judged(name, trace).map(|oracle| oracle.for_context(trace.meta().tokens.len()))
    };
    let oracles = [judged("A", a), judged("B", b)];
    let method = match (same_bits_expected(a, b), oracles.iter().any(Option::is_some)) {
        (true, _) => Method::Bits,
        (false, true) => Method::Replay,
        (false, false) => Method::Accumulated,
    };
    if method == Method::Accumulated {
        notes.push(
            "without the model (-m) operations cannot be replayed: errors are accumulated, and where they \
             begin is a guess"
                .to_owned(),
        );
    }
    let mut sides = Sides::new(a, b, positions)?;
    let first = match method {
        Method::Bits => sides.first_unequal(oracles[0])?,
        Method::Accumulated => sides.first_far()?,
        Method::Replay => sides.first_failing(oracles, &mut notes)?,
    };
    let first = sides.sooner(first, oracles, &mut notes)?;
    if method == Method::Replay
        && let Some(side) = first.as_ref().and_then(|first| first.side)
        && !is_one_program(a, b)
    {
        notes.push(format!(
            "judged by this program's model and reference: if {} is the one to trust, the model's line above \
             is wrong and the cause is what it ought to say",
            side.to_uppercase()
        ));
    }
    let side = |trace: &Trace| {
        let meta = trace.meta();
        Side {
            trace: trace.path().display().to_string(),
            producer: meta.producer.clone(),
            backend: meta.backend.clone(),
            model: meta.model.clone(),
            types: meta.types.clone(),
        }
    };
    let values = sides.values;
    Ok(Report { alike: first.is_none(), method, a: side(a), b: side(b), positions, first, values, notes })
}

/// Whether both runs must have computed the same bits: one program, one backend with the same kernels, one
/// model, one format of the cache. Threads share out the work and change none.
fn same_bits_expected(a: &Trace, b: &Trace) -> bool {
    let (a, b) = (a.meta(), b.meta());
    let facts = |meta: &Meta| {
        let facts = meta.facts.split("; ").filter(|fact| !fact.starts_with("threads: "));
        facts.map(str::to_owned).collect::<Vec<_>>()
    };
    a.producer == b.producer
        && a.backend == b.backend
        && facts(a) == facts(b)
        && a.kv == b.kv
        && a.model_digest.is_some()
        && a.model_digest == b.model_digest
}

/// Whether one program made both, in whatever version.
fn is_one_program(a: &Trace, b: &Trace) -> bool {
    let name = |trace: &Trace| trace.meta().producer.split(' ').next().map(str::to_owned);
    name(a) == name(b)
}
