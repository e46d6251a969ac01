//! `tools` and `tool_choice`, which are flatter here than in chat completions.

use chat::Choice;
use serde::{Deserialize, Serialize};
use serde_json::{Value as Json, json};

use crate::config::Limits;
use crate::conversation::ToolUse;
use crate::error::{ApiError, Kind};
use crate::fields::Fields;
use crate::openai::conversation::no_function;

/// A function that the model may call.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub(super) struct Function {
    #[serde(rename = "type")]
    kind: String,
    name: String,
    #[serde(default)]
    description: Option<String>,
    #[serde(default)]
    parameters: Option<Json>,
    #[serde(default)]
    strict: Option<bool>,
}

#[derive(Deserialize)]
#[serde(
    untagged,
    expecting = "expected \"none\", \"auto\", \"required\", {\"type\": \"function\", \"name\": …} or {\"type\": \"allowed_tools\", \"mode\": …, \"tools\": …}"
)]
enum ToolChoice {
    Word(Mode),
    Object(Chosen),
}

#[derive(Clone, Copy, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
enum Mode {
    None,
    Auto,
    Required,
}

#[derive(Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Chosen {
    Function {
        name: String,
    },
    AllowedTools {
        mode: Mode,
        tools: Vec<Named>,
    },
    #[serde(other)]
    Other,
}

#[derive(Deserialize)]
struct Named {
    #[serde(rename = "type", default = "function_type")]
    kind: String,
    #[serde(default)]
    name: String,
}

fn function_type() -> String {
    "function".to_owned()
}

/// What a call says of tools, to be used and to be repeated.
pub(super) struct Read {
    pub(super) used: ToolUse,
    pub(super) tools: Vec<Function>,
    pub(super) choice: Json,
}

/// Reads `tools` and `tool_choice`. Beside functions, tools that a service would run are left out, and named in `ignored`.
pub(super) fn read(
    fields: &mut Fields,
    limits: &Limits,
    ignored: &mut Vec<String>,
) -> Result<Read, ApiError> {
    let given: Vec<Json> = fields.list("tools", limits.tools)?.unwrap_or_default();
    let has_functions = given.iter().any(|tool| tool["type"] == "function");
    let mut tools = Vec::new();
    for (index, tool) in given.into_iter().enumerate() {
        match function(index, tool) {
            Ok(function) => tools.push(function),
            Err(error) if has_functions && error.kind == Kind::Unsupported => ignored.extend(error.param),
            Err(error) => return Err(error),
        }
    }
    let choice: Json = fields.take("tool_choice")?.unwrap_or_else(|| json!("auto"));
    let parsed = serde_json::from_value(choice.clone())
        .map_err(|error| ApiError::invalid("tool_choice", format!("`tool_choice` is {choice}: {error}")))?;
    let (allowed, chosen) = match parsed {
        ToolChoice::Word(mode) => (None, mode.choice()),
        ToolChoice::Object(Chosen::Function { name }) => (None, Some(Choice::Named(name))),
        ToolChoice::Object(Chosen::AllowedTools { mode, tools: mut allowed }) => {
            // Others have been left out, too.
            allowed.retain(|tool| tool.kind == "function" || !has_functions);
            (Some(allowed), mode.choice())
        }
        ToolChoice::Object(Chosen::Other) => {
            let why = format!("`tool_choice` is {choice}; this server calls functions only");
            return Err(ApiError::unsupported("tool_choice", why));
        }
    };
    if let Some(unknown) =
        allowed.iter().flatten().find(|allowed| tools.iter().all(|tool| tool.name != allowed.name))
    {
        let why = format!("`tool_choice` allows {:?}, which is none of the tools", unknown.name);
        return Err(ApiError::invalid("tool_choice", why));
    }
    // The model sees only what it may call.
    let is_allowed = |tool: &&Function| match &allowed {
        Some(allowed) => allowed.iter().any(|allowed| allowed.name == tool.name),
        None => true,
    };
    let usable: Vec<Json> = tools.iter().filter(is_allowed).map(Function::nested).collect();
    let chosen = match chosen {
        Some(Choice::Required | Choice::Named(_)) if usable.is_empty() => {
            let why = "`tool_choice` demands a call, but there are no tools to call";
            return Err(ApiError::invalid("tool_choice", why));
        }
        Some(Choice::Auto) if usable.is_empty() => None,
        chosen => chosen,
    };
    let is_parallel = fields.take("parallel_tool_calls")?.unwrap_or(true);
    let strict = tools.iter().filter(is_allowed).filter(|tool| tool.strict == Some(true));
    let strict = strict.map(|tool| tool.name.clone()).collect();
    Ok(Read { used: ToolUse { tools: usable, choice: chosen, is_parallel, strict }, tools, choice })
}

fn function(index: usize, tool: Json) -> Result<Function, ApiError> {
    let param = format!("tools[{index}]");
    match tool.get("type").and_then(Json::as_str) {
        Some("function") => serde_json::from_value(tool)
            .map_err(|error| ApiError::invalid(&param, format!("`{param}`: {error}"))),
        Some(kind) => Err(no_function(index, kind)),
        None => {
            let why = format!("`{param}` has no `type`, expected \"function\"");
            Err(ApiError::invalid(param, why))
        }
    }
}

impl Mode {
    fn choice(self) -> Option<Choice> {
        match self {
            Mode::None => None,
            Mode::Auto => Some(Choice::Auto),
            Mode::Required => Some(Choice::Required),
        }
    }
}

impl Function {
    /// In the shape of chat completions, which templates know.
    fn nested(&self) -> Json {
        let mut function = json!({ "name": self.name });
        if let Some(description) = &self.description {
            function["description"] = description.as_str().into();
        }
        if let Some(parameters) = &self.parameters {
            function["parameters"] = parameters.clone();
        }
        json!({ "type": "function", "function": function })
    }
}
