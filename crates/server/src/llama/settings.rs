//! `generation_settings`: how a text was generated.

use engine::Params;
use serde_json::{Map, Value as Json, json};

/// The settings of an answer, under the names of the request's fields.
pub(crate) fn json(params: &Params, seed: u32, is_stream: bool) -> Json {
    let of_table = Params::TABLE.iter().map(|param| (param.name.to_owned(), param.get(params)));
    let mut settings: Map<String, Json> = of_table.collect();
    let own = [
        ("seed", json!(seed)),
        ("n_predict", settings["max_tokens"].clone()),
        ("n_probs", json!(params.logprobs.unwrap_or(0))),
        ("stream", json!(is_stream)),
        // A sampler that is always off here.
        ("adaptive_target", json!(-1.0)),
        ("adaptive_decay", json!(0.9)),
    ];
    settings.extend(own.map(|(name, value)| (name.to_owned(), value)));
    settings.into()
}
