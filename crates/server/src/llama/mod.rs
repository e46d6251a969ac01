//! llama-server's own endpoints, and one of sglang's that routers read.

mod completion;
mod embedding;
mod infill;
pub(crate) mod settings;
mod status;

pub(crate) use completion::{HARMLESS, MAX_FIELDS, MAX_PROBS, REFUSED};
pub(crate) use infill::MAX_FILES;

use crate::http::Routes;

pub(crate) fn routes() -> Routes {
    Routes::default()
        .post("/completion", completion::handle)
        .post("/infill", infill::handle)
        .post("/embedding", embedding::handle)
        .get("/slots", status::slots)
        .get("/v1/loads", status::loads)
}
