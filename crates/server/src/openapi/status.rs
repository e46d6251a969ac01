//! What tells of the server, its page, and this document.

use utoipa::openapi::path::ParameterIn;

use super::document::{Document, Endpoint, OF_LOOKS};
use super::openai::ERROR;
use super::schema::{Schema, free, integer, list, must, number, object, text, words};

const TAG: &str = "server";

pub(super) fn add(document: Document) -> Document {
    let state = |word: &str| object([must("status", words(&[word]), "")]);
    let not_ready = object([must("status", words(&["stopping", "loading", "failed"]), "")]);
    let document = document.schema("NotReady", not_ready);
    let document = document
        .endpoint(
            Endpoint::get("health", &["/health", "/v1/health"])
                .says(TAG, "Whether the server runs")
                .for_everybody()
                .answers("It does.", state("ok"))
                .fails(ERROR, &[400, 403]),
        )
        .endpoint(
            Endpoint::get("ready", &["/ready"])
                .says(TAG, "Whether it takes requests")
                .for_everybody()
                .answers("It does.", state("ready"))
                .fails(ERROR, &[400, 403])
                .fails("NotReady", &[503]),
        )
        .endpoint(
            Endpoint::get("metrics", &["/metrics"])
                .says(TAG, "Figures for Prometheus, under vLLM's names")
                .answers_as("Figures.", &[("text/plain", text())])
                .fails(ERROR, OF_LOOKS),
        )
        .endpoint(
            Endpoint::get("loads", &["/v1/loads"])
                .says(TAG, "The load of each model, in sglang's shape")
                .answers("Loads.", loads())
                .fails(ERROR, OF_LOOKS),
        )
        .endpoint(
            Endpoint::get("document", &["/openapi.json"])
                .says(TAG, "This document")
                .answers("The document.", free())
                .fails(ERROR, OF_LOOKS),
        );
    page(document)
}

fn page(document: Document) -> Document {
    let file = |name, paths, kind| {
        Endpoint::get(name, paths)
            .says(TAG, "The page")
            .for_everybody()
            .answers_as("A file.", &[(kind, text())])
    };
    document
        .endpoint(file("page", &["/"], "text/html").fails(ERROR, &[400, 403]))
        .endpoint(file("icon", &["/favicon.ico"], "image/svg+xml").fails(ERROR, &[400, 403]))
        .endpoint(
            file("file", &["/page/{path}"], "*/*")
                .asks("path", ParameterIn::Path, "A file of the page, which may have slashes.")
                .fails(ERROR, &[400, 403, 404]),
        )
}

fn loads() -> Schema {
    let figure = |name| must(name, number(), "");
    let load = object([
        must("dp_rank", integer(), "Which of the models."),
        must("model", text(), ""),
        figure("num_running_reqs"),
        figure("num_waiting_reqs"),
        figure("num_total_reqs"),
        figure("max_running_requests"),
        figure("num_used_pages"),
        figure("max_total_num_pages"),
        figure("num_used_tokens"),
        figure("max_total_num_tokens"),
        figure("token_usage"),
        figure("cache_hit_rate"),
    ]);
    object([
        must("timestamp", text(), ""),
        must("version", text(), ""),
        must("dp_rank_count", integer(), ""),
        must("loads", list(load), ""),
        must("aggregate", free(), "Sums."),
    ])
}
