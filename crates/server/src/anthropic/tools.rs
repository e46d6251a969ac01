//! Tools in Anthropic's shape.

use chat::Choice;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value as Json};

use crate::config::Limits;
use crate::conversation::{ToolUse, function, parse};
use crate::error::ApiError;
use crate::fields::{Group, at_most};

#[derive(Deserialize, JsonSchema)]
pub(super) struct Tools {
    /// Functions that the model may call.
    #[serde(default)]
    #[schemars(with = "Vec<Tool>")]
    tools: Vec<Json>,
    /// Whether tools are called, and which.
    tool_choice: Option<ToolChoice>,
}

impl Group for Tools {}

#[derive(Deserialize, JsonSchema)]
#[schemars(inline)]
struct Tool {
    name: String,
    #[serde(default)]
    description: Option<String>,
    input_schema: Map<String, Json>,
    #[serde(default)]
    strict: Option<bool>,
    #[serde(flatten)]
    #[schemars(skip)]
    others: Map<String, Json>,
}

#[derive(Deserialize, JsonSchema)]
#[schemars(inline)]
struct ToolChoice {
    #[serde(rename = "type")]
    kind: ChoiceKind,
    #[serde(default)]
    name: Option<String>,
    #[serde(default)]
    disable_parallel_tool_use: Option<bool>,
}

#[derive(Clone, Copy, Deserialize, JsonSchema, PartialEq, Eq)]
#[schemars(inline)]
#[serde(rename_all = "lowercase")]
enum ChoiceKind {
    Auto,
    Any,
    Tool,
    None,
}

/// Parts of a tool that change nothing here.
const HARMLESS: [&str; 3] = ["type", "cache_control", "eager_input_streaming"];

impl Tools {
    /// The tools of a call, and how they may be used. Names what is ignored in `ignored`.
    pub(super) fn read(self, limits: &Limits, ignored: &mut Vec<String>) -> Result<ToolUse, ApiError> {
        let Tools { tools, tool_choice } = self;
        at_most("tools", &tools, limits.tools)?;
        let mut strict = Vec::new();
        let read = |(index, json)| {
            let (tool, is_strict) = tool(index, json, ignored)?;
            strict.extend(tool["function"]["name"].as_str().filter(|_| is_strict).map(str::to_owned));
            Ok(tool)
        };
        let tools: Vec<Json> = tools.into_iter().enumerate().map(read).collect::<Result<_, ApiError>>()?;
        let Some(ToolChoice { kind, name, disable_parallel_tool_use }) = tool_choice else {
            return ToolUse::new(tools, Some(Choice::Auto), true, strict);
        };
        let choice = match kind {
            ChoiceKind::None => None,
            ChoiceKind::Auto => Some(Choice::Auto),
            ChoiceKind::Any => Some(Choice::Required),
            ChoiceKind::Tool => {
                let missing = || ApiError::invalid("tool_choice.name", "is missing; it says which tool");
                Some(Choice::Named(name.ok_or_else(missing)?))
            }
        };
        ToolUse::new(tools, choice, !disable_parallel_tool_use.unwrap_or(false), strict)
    }
}

/// A tool in OpenAI's shape, and whether it is strict.
fn tool(index: usize, json: Json, ignored: &mut Vec<String>) -> Result<(Json, bool), ApiError> {
    let place = format!("tools[{index}]");
    if let Some(kind) = json["type"].as_str().filter(|&kind| kind != "custom") {
        let why = format!(
            "has the type `{kind}`, which this server does not have; it takes tools of the type `custom`"
        );
        return Err(ApiError::unsupported(place, why));
    }
    let Tool { name, description, input_schema, strict, others } = parse(&place, json)?;
    for (field, value) in others {
        let place = format!("tools[].{field}");
        let says_nothing = matches!(value, Json::Null | Json::Bool(false));
        if !says_nothing && !HARMLESS.contains(&&*field) && !ignored.contains(&place) {
            ignored.push(place);
        }
    }
    let tool = function(&name, description.as_deref(), Some(input_schema.into()));
    Ok((tool, strict.unwrap_or(false)))
}
