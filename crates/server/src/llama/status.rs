//! The load: `/slots` for people, `/v1/loads` for routers.

use std::sync::Arc;

use axum::Json;
use axum::extract::{RawQuery, State};
use axum::response::{IntoResponse, Response};
use backend::KV_BLOCK;
use jiff::Timestamp;
use serde_json::{Value, json};

use super::LLAMA;
use crate::app::App;
use crate::error::{ApiError, Kind};
use crate::http::Routes;
use crate::metrics::Figures;
use crate::models::Held;
use crate::openapi::SERVER;

pub(super) fn routes() -> Routes {
    let slots_entry = LLAMA
        .endpoint("slots", &["/slots"], "Tells how many requests run, with `--slots`")
        .asks("fail_on_no_slot", "query", "Answer 503 if no slot is free.")
        .fails(&[400, 401, 403, 501, 503]);
    let slot = json!({
        "id": "integer", "n_ctx": "integer", "speculative": "boolean", "is_processing": "boolean",
    });
    let number = "number";
    let load = json!({
        "dp_rank": "integer", "model": "string", "num_running_reqs": number, "num_waiting_reqs": number,
        "num_total_reqs": number, "max_running_requests": number, "num_used_pages": number,
        "max_total_num_pages": number, "num_used_tokens": number, "max_total_num_tokens": number,
        "token_usage": number, "cache_hit_rate": number,
    });
    let all = json!({
        "timestamp": "string", "version": "string", "dp_rank_count": "integer", "loads": [load], "aggregate": "object",
    });
    let loads_entry = SERVER.endpoint("loads", &["/v1/loads"], "The load of each model, in sglang's shape");
    Routes::default().get(slots_entry.answers(json!([slot])), slots).get(loads_entry.answers(all), loads)
}

/// Places of requests that are computed together. A request has no place of its own here: the first ones are taken.
async fn slots(State(app): State<Arc<App>>, RawQuery(query): RawQuery) -> Result<Response, ApiError> {
    if !app.config.slots {
        let message = "This server does not support slots endpoint. Start it with `--slots`";
        return Err(ApiError::new(Kind::NotImplemented, message));
    }
    let sequences = match app.models.look(None).await? {
        (_, Some(Held::Generator(generator))) => Some((generator.sequences, generator.n_ctx)),
        _ => None,
    };
    let (sequences, n_ctx) = sequences.unwrap_or_default();
    let running = app.models.stats().next().map_or(0, |(_, stats)| stats.get().load.running);
    let slot = |id| json!({ "id": id, "n_ctx": n_ctx, "speculative": false, "is_processing": id < running });
    let slots: Vec<Value> = (0..sequences).map(slot).collect();
    // Its value does not matter, as in llama-server.
    let must_be_free = query.is_some_and(|query| query.contains("fail_on_no_slot"));
    if must_be_free && running >= slots.len() {
        return Err(ApiError::new(Kind::Busy, "no slot available"));
    }
    Ok(Json(slots).into_response())
}

/// The load of each model, in sglang's shape: a model is what a data-parallel rank is there.
async fn loads(State(app): State<Arc<App>>) -> Response {
    let models = app.models.list().zip(app.models.stats());
    let models: Vec<_> = models.map(|((name, held), (_, stats))| (name, held, stats.get())).collect();
    let load = |(rank, (name, held, figures)): (usize, &(&str, Option<Held>, Figures))| {
        // A model that is not loaded computes no requests.
        let sequences = match held {
            Some(Held::Generator(generator)) => generator.sequences,
            _ => 0,
        };
        let Figures { load, ended, .. } = figures;
        json!({
            "dp_rank": rank,
            "model": name,
            "num_running_reqs": load.running,
            "num_waiting_reqs": load.waiting,
            "num_total_reqs": load.running + load.waiting,
            "max_running_requests": sequences,
            "num_used_pages": load.blocks_used,
            "max_total_num_pages": load.blocks,
            "num_used_tokens": load.blocks_used * KV_BLOCK,
            "max_total_num_tokens": load.blocks * KV_BLOCK,
            "token_usage": figures.kv_usage(),
            "cache_hit_rate": ended.cached_tokens as f64 / ended.prompt_tokens.max(1) as f64,
        })
    };
    let running: usize = models.iter().map(|(_, _, figures)| figures.load.running).sum();
    let waiting: usize = models.iter().map(|(_, _, figures)| figures.load.waiting).sum();
    let usage: f64 = models.iter().map(|(_, _, figures)| figures.kv_usage()).sum();
    Json(json!({
        "timestamp": Timestamp::now().to_string(),
        "version": concat!("rustorch ", env!("CARGO_PKG_VERSION")),
        "dp_rank_count": models.len(),
        "loads": models.iter().enumerate().map(load).collect::<Vec<_>>(),
        "aggregate": {
            "total_running_reqs": running,
            "total_waiting_reqs": waiting,
            "total_reqs": running + waiting,
            "avg_token_usage": usage / models.len().max(1) as f64,
        },
    }))
    .into_response()
}
