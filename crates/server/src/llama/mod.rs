//! llama-server's own endpoints, and one of sglang's that routers read.

mod completion;
mod embedding;
mod infill;
pub(crate) mod settings;
mod status;

use std::sync::Arc;

use axum::Router;
use axum::routing::{get, post};

use crate::app::App;

pub(crate) fn routes() -> Router<Arc<App>> {
    Router::new()
        .route("/completion", post(completion::handle))
        .route("/infill", post(infill::handle))
        .route("/embedding", post(embedding::handle))
        .route("/slots", get(status::slots))
        .route("/v1/loads", get(status::loads))
}
