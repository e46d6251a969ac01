//! `tools` and `tool_choice`, which are flatter here than in chat completions.

use chat::Choice;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value as Json, json};

use crate::config::Limits;
use crate::conversation::{self, ToolUse, parse};
use crate::error::{ApiError, Kind};
use crate::fields::{Group, at_most};
use crate::openai::conversation::{Mode, not_a_function};

#[derive(Deserialize, JsonSchema)]
pub(in crate::openai) struct Tools {
    /// Functions that the model may call.
    #[serde(default)]
    #[schemars(with = "Vec<Function>")]
    tools: Vec<Json>,
    /// Whether tools are called, and which.
    #[schemars(with = "Option<ToolChoice>")]
    tool_choice: Option<Json>,
    /// Whether an answer may have several calls.
    parallel_tool_calls: Option<bool>,
}

impl Group for Tools {}

/// A function that the model may call.
#[derive(Clone, Debug, Deserialize, JsonSchema, Serialize)]
#[schemars(inline)]
pub(super) struct Function {
    #[serde(rename = "type")]
    #[schemars(extend("enum" = ["function"]))]
    kind: String,
    name: String,
    #[serde(default)]
    description: Option<String>,
    #[serde(default)]
    parameters: Option<Json>,
    #[serde(default)]
    strict: Option<bool>,
}

#[derive(Deserialize, JsonSchema)]
#[schemars(inline)]
#[serde(
    untagged,
    expecting = "expected \"none\", \"auto\", \"required\", {\"type\": \"function\", \"name\": …} or {\"type\": \"allowed_tools\", \"mode\": …, \"tools\": …}"
)]
enum ToolChoice {
    Word(Mode),
    Object(Chosen),
}

#[derive(Deserialize, JsonSchema)]
#[schemars(inline)]
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
    #[schemars(skip)]
    Other,
}

#[derive(Deserialize, JsonSchema)]
#[schemars(inline)]
struct Named {
    #[serde(rename = "type", default = "function_type")]
    kind: String,
    #[serde(default)]
    name: String,
}

fn function_type() -> String {
    "function".to_owned()
}

/// The tools of a call, to be used and to be repeated.
pub(super) struct Read {
    pub(super) used: ToolUse,
    pub(super) tools: Vec<Function>,
    pub(super) choice: Json,
}

impl Tools {
    /// Reads the tools. Beside functions, tools that a service would run are left out, and named in `ignored`.
    pub(super) fn read(self, limits: &Limits, ignored: &mut Vec<String>) -> Result<Read, ApiError> {
        let Tools { tools: given, tool_choice, parallel_tool_calls } = self;
        at_most("tools", &given, limits.tools)?;
        let has_functions = given.iter().any(|tool| tool["type"] == "function");
        let mut tools = Vec::new();
        for (index, tool) in given.into_iter().enumerate() {
            match function(index, tool) {
                Ok(function) => tools.push(function),
                Err(error) if has_functions && error.kind == Kind::Unsupported => ignored.extend(error.param),
                Err(error) => return Err(error),
            }
        }
        let choice = tool_choice.unwrap_or_else(|| json!("auto"));
        let parsed = serde_json::from_value(choice.clone())
            .map_err(|error| ApiError::invalid("tool_choice", format!("is {choice}: {error}")))?;
        let (allowed, chosen) = match parsed {
            ToolChoice::Word(mode) => (None, mode.choice()),
            ToolChoice::Object(Chosen::Function { name }) => (None, Some(Choice::Named(name))),
            ToolChoice::Object(Chosen::AllowedTools { mode, tools: mut allowed }) => {
                // Others have been left out, too.
                allowed.retain(|tool| tool.kind == "function" || !has_functions);
                (Some(allowed), mode.choice())
            }
            ToolChoice::Object(Chosen::Other) => {
                let why = format!("is {choice}; this server calls functions only");
                return Err(ApiError::unsupported("tool_choice", why));
            }
        };
        if let Some(unknown) =
            allowed.iter().flatten().find(|allowed| tools.iter().all(|tool| tool.name != allowed.name))
        {
            let why = format!("allows {:?}, which is not one of the tools", unknown.name);
            return Err(ApiError::invalid("tool_choice", why));
        }
        // The model sees only what it may call.
        let is_allowed = |tool: &&Function| match &allowed {
            Some(allowed) => allowed.iter().any(|allowed| allowed.name == tool.name),
            None => true,
        };
        let usable: Vec<Json> = tools.iter().filter(is_allowed).map(Function::nested).collect();
        let is_parallel = parallel_tool_calls.unwrap_or(true);
        let strict = tools.iter().filter(is_allowed).filter(|tool| tool.strict == Some(true));
        let strict = strict.map(|tool| tool.name.clone()).collect();
        Ok(Read { used: ToolUse::new(usable, chosen, is_parallel, strict)?, tools, choice })
    }
}

fn function(index: usize, tool: Json) -> Result<Function, ApiError> {
    let param = format!("tools[{index}]");
    match tool["type"].as_str() {
        Some("function") => parse(&param, tool),
        Some(kind) => Err(not_a_function(index, kind)),
        None => Err(ApiError::invalid(param, "has no `type`, expected \"function\"")),
    }
}

impl Function {
    /// In the shape of chat completions.
    fn nested(&self) -> Json {
        conversation::function(&self.name, self.description.as_deref(), self.parameters.clone())
    }
}
