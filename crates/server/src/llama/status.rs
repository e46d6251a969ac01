//! How much is going on: `/slots` for people, `/v1/loads` for routers.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use axum::Json;
use axum::extract::{RawQuery, State};
use axum::response::{IntoResponse, Response};
use backend::PAGE;
use jiff::Timestamp;
use serde_json::{Value, json};

use super::LLAMA;
use crate::app::App;
use crate::error::{ApiError, Kind};
use crate::http::Routes;
use crate::metrics::Stats;
use crate::models::Held;
use crate::openapi::SERVER;

pub(super) fn routes() -> Routes {
    let slots_of = LLAMA
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
    let loads_of = SERVER.endpoint("loads", &["/v1/loads"], "The load of each model, in sglang's shape");
    Routes::default().get(slots_of.answers(json!([slot])), slots).get(loads_of.answers(all), loads)
}

/// Places of requests that are computed together. A request has no place of its own here: the first ones are taken.
async fn slots(State(app): State<Arc<App>>, RawQuery(query): RawQuery) -> Result<Response, ApiError> {
    if !app.config.slots {
        let message = "This server does not support slots endpoint. Start it with `--slots`";
        return Err(ApiError::new(Kind::NotImplemented, message));
    }
    let sequences = match app.models.look(None).await? {
        (_, Some(Held::Generator(generator))) => Some((generator.limits.sequences, generator.limits.n_ctx)),
        _ => None,
    };
    let (sequences, n_ctx) = sequences.unwrap_or_default();
    let running = app.models.stats().next().map_or(0, |(_, stats)| stats.running.load(Relaxed));
    let slots: Vec<Value> = (0..sequences as u64)
        .map(|id| {
            json!({
                "id": id,
                "n_ctx": n_ctx,
                "speculative": false,
                "is_processing": id < running,
            })
        })
        .collect();
    // Its value does not matter, as in llama-server.
    let must_be_free = query.is_some_and(|query| query.contains("fail_on_no_slot"));
    if must_be_free && running >= slots.len() as u64 {
        return Err(ApiError::new(Kind::Busy, "no slot available"));
    }
    Ok(Json(slots).into_response())
}

/// The load of each model, in sglang's shape: a model is what a data-parallel rank is there.
async fn loads(State(app): State<Arc<App>>) -> Response {
    let models = app.models.list().zip(app.models.stats());
    let loads: Vec<Load> = models.map(|((name, held), (_, stats))| Load::of(name, held, stats)).collect();
    let running: u64 = loads.iter().map(|load| load.running).sum();
    let waiting: u64 = loads.iter().map(|load| load.waiting).sum();
    let usage: f64 = loads.iter().map(|load| load.usage).sum();
    Json(json!({
        "timestamp": Timestamp::now().to_string(),
        "version": concat!("rustorch ", env!("CARGO_PKG_VERSION")),
        "dp_rank_count": loads.len(),
        "loads": loads.iter().enumerate().map(|(rank, load)| load.json(rank)).collect::<Vec<_>>(),
        "aggregate": {
            "total_running_reqs": running,
            "total_waiting_reqs": waiting,
            "total_reqs": running + waiting,
            "avg_token_usage": usage / loads.len().max(1) as f64,
        },
    }))
    .into_response()
}

/// The load of a model.
struct Load<'a> {
    name: &'a str,
    /// Requests that are computed at once; none while it is not loaded.
    sequences: usize,
    stats: &'a Stats,
    running: u64,
    waiting: u64,
    /// The share of the KV cache in use, from 0 to 1.
    usage: f64,
}

impl Load<'_> {
    fn of<'a>(name: &'a str, held: Option<Held>, stats: &'a Stats) -> Load<'a> {
        let sequences = match held {
            Some(Held::Generator(generator)) => generator.limits.sequences,
            _ => 0,
        };
        let (running, waiting) = (stats.running.load(Relaxed), stats.waiting.load(Relaxed));
        Load { name, sequences, stats, running, waiting, usage: stats.kv_usage() }
    }

    fn json(&self, rank: usize) -> Value {
        let Load { name, sequences, stats, running, waiting, usage } = self;
        let (used, pages) = (stats.pages_used.load(Relaxed), stats.pages.load(Relaxed));
        let (cached, prompt) = (stats.cached_tokens.load(Relaxed), stats.prompt_tokens.load(Relaxed));
        json!({
            "dp_rank": rank,
            "model": name,
            "num_running_reqs": running,
            "num_waiting_reqs": waiting,
            "num_total_reqs": running + waiting,
            "max_running_requests": sequences,
            "num_used_pages": used,
            "max_total_num_pages": pages,
            "num_used_tokens": used * PAGE as u64,
            "max_total_num_tokens": pages * PAGE as u64,
            "token_usage": usage,
            "cache_hit_rate": cached as f64 / prompt.max(1) as f64,
        })
    }
}
