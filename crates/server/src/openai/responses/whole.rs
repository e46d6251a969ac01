//! The answer as a whole.

use serde_json::Value as Json;

use super::object::Object;
use crate::answer::Answers;
use crate::error::ApiError;

pub(super) async fn write(mut object: Object, mut answers: Answers) -> Result<Json, ApiError> {
    while let Some(delta) = answers.next().await? {
        object.push(delta.kind);
    }
    Ok(object.json())
}
