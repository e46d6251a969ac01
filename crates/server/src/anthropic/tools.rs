//! Tools in Anthropic's shape.

use chat::Choice;
use serde::Deserialize;
use serde_json::{Map, Value as Json, json};

use super::conversation::at;
use crate::config::Limits;
use crate::conversation::ToolUse;
use crate::error::ApiError;
use crate::fields::Fields;

#[derive(Deserialize)]
struct Tool {
    name: String,
    #[serde(default)]
    description: Option<String>,
    input_schema: Map<String, Json>,
    #[serde(default)]
    strict: Option<bool>,
    #[serde(flatten)]
    others: Map<String, Json>,
}

#[derive(Deserialize)]
struct ToolChoice {
    #[serde(rename = "type")]
    kind: ChoiceKind,
    #[serde(default)]
    name: Option<String>,
    #[serde(default)]
    disable_parallel_tool_use: Option<bool>,
}

#[derive(Clone, Copy, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
enum ChoiceKind {
    Auto,
    Any,
    Tool,
    None,
}

/// Parts of a tool that change nothing here.
const HARMLESS: [&str; 3] = ["type", "cache_control", "eager_input_streaming"];

/// `tools` and `tool_choice`. Names what is ignored in `ignored`.
pub(super) fn read(
    fields: &mut Fields,
    limits: &Limits,
    ignored: &mut Vec<String>,
) -> Result<ToolUse, ApiError> {
    let tools: Vec<Json> = fields.list("tools", limits.tools)?.unwrap_or_default();
    let mut strict = Vec::new();
    let read = |(index, json)| {
        let (tool, is_strict) = tool(index, json, ignored)?;
        strict.extend(tool["function"]["name"].as_str().filter(|_| is_strict).map(str::to_owned));
        Ok(tool)
    };
    let tools: Vec<Json> = tools.into_iter().enumerate().map(read).collect::<Result<_, ApiError>>()?;
    let Some(json) = fields.take::<Json>("tool_choice")? else {
        let choice = (!tools.is_empty()).then_some(Choice::Auto);
        return Ok(ToolUse { tools, choice, is_parallel: true, strict });
    };
    let ToolChoice { kind, name, disable_parallel_tool_use } = at("tool_choice", json)?;
    let choice = match kind {
        ChoiceKind::Any | ChoiceKind::Tool if tools.is_empty() => {
            return Err(ApiError::invalid(
                "tool_choice",
                "`tool_choice` demands a call, but there are no `tools`",
            ));
        }
        ChoiceKind::Auto if tools.is_empty() => None,
        ChoiceKind::None => None,
        ChoiceKind::Auto => Some(Choice::Auto),
        ChoiceKind::Any => Some(Choice::Required),
        ChoiceKind::Tool => Some(Choice::Named(name.ok_or_else(|| {
            ApiError::invalid("tool_choice.name", "`tool_choice.name` is missing; it says which tool")
        })?)),
    };
    let is_parallel = !disable_parallel_tool_use.unwrap_or(false);
    Ok(ToolUse { tools, choice, is_parallel, strict })
}

/// A tool in OpenAI's shape, and whether it is strict.
fn tool(index: usize, json: Json, ignored: &mut Vec<String>) -> Result<(Json, bool), ApiError> {
    let place = format!("tools[{index}]");
    if let Some(kind) = json["type"].as_str().filter(|&kind| kind != "custom") {
        let message = format!(
            "`{place}` has the type `{kind}`, which this server does not have; it takes tools of the type `custom`"
        );
        return Err(ApiError::unsupported(place, message));
    }
    let Tool { name, description, input_schema, strict, others } = at(&place, json)?;
    for (field, value) in others {
        let field_of_tools = format!("tools[].{field}");
        let says_nothing = matches!(value, Json::Null | Json::Bool(false));
        if !says_nothing && !HARMLESS.contains(&&*field) && !ignored.contains(&field_of_tools) {
            ignored.push(field_of_tools);
        }
    }
    let mut function = json!({ "name": name });
    if let Some(description) = description {
        function["description"] = description.into();
    }
    function["parameters"] = input_schema.into();
    Ok((json!({ "type": "function", "function": function }), strict.unwrap_or(false)))
}
