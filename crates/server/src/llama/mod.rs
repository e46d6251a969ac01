//! llama-server's own endpoints, and one of sglang's that routers read.

mod completion;
mod settings;
mod status;

use std::sync::Arc;

use axum::Router;
use axum::routing::{get, post};

use crate::app::App;

pub(crate) fn routes() -> Router<Arc<App>> {
    Router::new()
        .route("/completion", post(completion::handle))
        .route("/slots", get(status::slots))
        .route("/v1/loads", get(status::loads))
}
