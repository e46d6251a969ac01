//! llama-server's own endpoints, and one of sglang's that routers read.

mod completion;
mod embedding;
mod infill;
mod props;
mod status;

use serde_json::json;

use crate::http::Routes;
use crate::openapi::Protocol;

const LLAMA: Protocol = Protocol { tag: "llama-server", error: "LlamaError" };

pub(crate) fn routes() -> Routes {
    let error = json!({
        "code": "integer", "message": "string", "type": "string", "param": "string|null", "n_prompt_tokens?": "integer",
        "n_ctx?": "integer",
    });
    completion::routes()
        .merge(infill::routes())
        .merge(embedding::routes())
        .merge(props::routes())
        .merge(status::routes())
        .shapes([("LlamaError", json!({ "error": error }))])
}
