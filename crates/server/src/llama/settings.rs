//! `generation_settings`: how a text was generated.

use engine::{MirostatVersion, SamplerKind};
use serde_json::{Value as Json, json};

use crate::job::Parameters;

/// The settings of an answer, under the names of the request's fields.
pub(crate) fn json(parameters: &Parameters, seed: u32, n_probs: usize, is_stream: bool) -> Json {
    let Parameters { sampling, stop, max_tokens, .. } = parameters;
    let n_predict = max_tokens.and_then(|n| i64::try_from(n).ok()).unwrap_or(-1);
    let last = |n: usize| i64::try_from(n).unwrap_or(-1);
    let mirostat = sampling.mirostat;
    let bias = |&(token, bias): &(u32, f32)| json!({ "token": token, "bias": bias.max(f32::MIN) });
    json!({
        "seed": seed,
        "temperature": sampling.temperature,
        "dynatemp_range": sampling.dynamic_temperature.range,
        "dynatemp_exponent": sampling.dynamic_temperature.exponent,
        "top_k": sampling.top_k,
        "top_p": sampling.top_p,
        "min_p": sampling.min_p,
        "top_n_sigma": sampling.top_n_sigma,
        "xtc_probability": sampling.xtc.probability,
        "xtc_threshold": sampling.xtc.threshold,
        "typical_p": sampling.typical_p,
        // A sampler that is always off here.
        "adaptive_target": -1.0,
        "adaptive_decay": 0.9,
        "repeat_last_n": last(sampling.penalty_last_n),
        "repeat_penalty": sampling.repeat_penalty,
        "presence_penalty": sampling.presence_penalty,
        "frequency_penalty": sampling.frequency_penalty,
        "dry_multiplier": sampling.dry.multiplier,
        "dry_base": sampling.dry.base,
        "dry_allowed_length": sampling.dry.allowed_length,
        "dry_penalty_last_n": last(sampling.dry.penalty_last_n),
        "dry_sequence_breakers": sampling.dry.sequence_breakers,
        "mirostat": match mirostat.map(|mirostat| mirostat.version) {
            None => 0,
            Some(MirostatVersion::V1) => 1,
            Some(MirostatVersion::V2) => 2,
        },
        "mirostat_tau": mirostat.map_or(5.0, |mirostat| mirostat.tau),
        "mirostat_eta": mirostat.map_or(0.1, |mirostat| mirostat.eta),
        "stop": stop.strings,
        "max_tokens": n_predict,
        "n_predict": n_predict,
        "ignore_eos": stop.ignore_eog,
        "stream": is_stream,
        "logit_bias": sampling.logit_bias.iter().map(bias).collect::<Vec<_>>(),
        "n_probs": n_probs,
        "samplers": sampling.samplers.iter().map(|kind: &SamplerKind| kind.name()).collect::<Vec<_>>(),
    })
}
