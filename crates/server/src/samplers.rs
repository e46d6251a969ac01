//! Samplers beyond OpenAI's fields, under llama-server's names: penalties' window, DRY, Mirostat, top-nσ, their order.

use engine::{Mirostat, MirostatVersion, SamplerKind, Sampling};
use serde::Deserialize;

use crate::config::Limits;
use crate::error::ApiError;
use crate::fields::Fields;

/// The order of samplers.
#[derive(Deserialize)]
#[serde(untagged, expecting = "expected an array of names, or a string of letters")]
enum Order {
    Letters(String),
    Names(Vec<String>),
}

/// Bytes of a sequence breaker, at most.
const MAX_BREAKER_BYTES: usize = 40;

/// Reads them into `sampling`.
pub(crate) fn read(fields: &mut Fields, sampling: &mut Sampling, limits: &Limits) -> Result<(), ApiError> {
    // -1 is the context, as in llama-server.
    let last = |n: i64| usize::try_from(n).unwrap_or(usize::MAX);
    if let Some(n) = fields.within("repeat_last_n", -1..=i64::MAX)? {
        sampling.penalty_last_n = last(n);
    }
    if let Some(sigma) = fields.take("top_n_sigma")? {
        sampling.top_n_sigma = sigma;
    }
    let dry = &mut sampling.dry;
    dry.multiplier = fields.within("dry_multiplier", 0.0..=100.0)?.unwrap_or(dry.multiplier);
    dry.base = fields.within("dry_base", 1.0..=100.0)?.unwrap_or(dry.base);
    dry.allowed_length = fields.take("dry_allowed_length")?.unwrap_or(dry.allowed_length);
    dry.penalty_last_n = fields.within("dry_penalty_last_n", -1..=i64::MAX)?.map_or(dry.penalty_last_n, last);
    if let Some(breakers) = fields.list::<String>("dry_sequence_breakers", limits.stops)? {
        Limits::check_strings("dry_sequence_breakers", &breakers, MAX_BREAKER_BYTES)?;
        dry.sequence_breakers = breakers;
    }
    sampling.mirostat = mirostat(fields, sampling.mirostat)?;
    if let Some(order) = fields.take("samplers")? {
        sampling.samplers = kinds(order)?;
    }
    Ok(())
}

fn mirostat(fields: &mut Fields, default: Option<Mirostat>) -> Result<Option<Mirostat>, ApiError> {
    let tau =
        fields.within("mirostat_tau", 0.0..=100.0)?.or(default.map(|default| default.tau)).unwrap_or(5.0);
    let eta =
        fields.within("mirostat_eta", 0.0..=100.0)?.or(default.map(|default| default.eta)).unwrap_or(0.1);
    let version = match fields.within("mirostat", 0..=2)? {
        None => default.map(|default| default.version),
        Some(1) => Some(MirostatVersion::V1),
        Some(2) => Some(MirostatVersion::V2),
        Some(_) => None,
    };
    Ok(version.map(|version| Mirostat { version, tau, eta }))
}

/// Samplers in an order, at most: each costs a pass over the vocabulary.
pub(crate) const MAX_SAMPLERS: usize = 32;

fn kinds(order: Order) -> Result<Vec<SamplerKind>, ApiError> {
    let found = match &order {
        Order::Letters(letters) => letters.len(),
        Order::Names(names) => names.len(),
    };
    if found > MAX_SAMPLERS {
        let message = format!("`samplers` has {found} samplers, expected at most {MAX_SAMPLERS}");
        return Err(ApiError::invalid("samplers", message));
    }
    let kinds: Result<Vec<SamplerKind>, _> = match order {
        Order::Letters(letters) => letters.chars().map(SamplerKind::from_letter).collect(),
        Order::Names(names) => names.iter().map(|name| name.parse()).collect(),
    };
    kinds.map_err(|error| ApiError::invalid("samplers", format!("`samplers`: {error}")))
}
