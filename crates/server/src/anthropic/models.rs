//! Models in Anthropic's shape.

use jiff::Timestamp;
use serde_json::{Value as Json, json};

use crate::served::{Models, Served};

pub(crate) fn list(models: &Models) -> Json {
    let name = |served: Option<&std::sync::Arc<Served>>| served.map(|served| served.name.clone());
    json!({
        "data": models.0.iter().map(|served| describe(served)).collect::<Vec<_>>(),
        "has_more": false,
        "first_id": name(models.0.first()),
        "last_id": name(models.0.last()),
    })
}

pub(crate) fn describe(served: &Served) -> Json {
    let created = Timestamp::from_second(served.created).unwrap_or_default();
    json!({
        "type": "model",
        "id": served.name,
        "display_name": served.name,
        "created_at": created.to_string(),
        "lifecycle": "active",
        "max_input_tokens": served.limits.n_ctx,
        "max_tokens": served.limits.n_ctx,
    })
}
