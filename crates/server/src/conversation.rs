//! From messages and tools, whatever the protocol, to a prompt, the constraint of the answer and its parser.

use std::time::Duration;

use chat::{Calls, Choice, Content, Message, Options, Prompt, Template, ToolsError};
use grammar::Source;
use serde_json::{Map, Value as Json, json};

use crate::config::Defaults;
use crate::demand::{Demand, ToolCalls, unenforced};
use crate::error::ApiError;
use crate::models::Served;

/// How long a conversation may take to render: longer than any that is meant well.
const TEMPLATE_TIME: Duration = Duration::from_secs(1);

/// A conversation, as a client sends it.
pub(crate) struct Conversation {
    messages: Vec<Message>,
    pub(crate) tools: ToolUse,
    /// Variables of the chat template.
    pub(crate) variables: Map<String, Json>,
    /// What the answer must be, and the field that asks for it.
    pub(crate) format: Option<(&'static str, Source)>,
    pub(crate) ending: Ending,
    /// When tool calls are passed on, if the model's format allows it.
    pub(crate) calls: Calls,
}

/// What follows the messages in the prompt.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Ending {
    /// The beginning of an answer, or its continuation if the last message is one.
    #[default]
    Continued,
    /// The beginning of an answer.
    Answer,
    /// Nothing.
    Nothing,
}

/// The tools of a conversation.
pub(crate) struct ToolUse {
    /// In OpenAI's shape.
    pub(crate) tools: Vec<Json>,
    /// None if they must not be used.
    pub(crate) choice: Option<Choice>,
    /// Whether an answer may have several calls.
    pub(crate) is_parallel: bool,
    /// Names of tools whose schemas are errors if they cannot be enforced, also where the model may leave calls out.
    pub(crate) strict: Vec<String>,
}

impl Default for ToolUse {
    fn default() -> ToolUse {
        ToolUse { tools: Vec::new(), choice: None, is_parallel: true, strict: Vec::new() }
    }
}

/// What a conversation becomes.
pub(crate) struct Rendered {
    /// The tokens of the prompt, and of the answer that has begun.
    pub(crate) ids: Vec<u32>,
    pub(crate) prompt: Prompt,
    /// What the answer must be.
    pub(crate) demand: Option<Demand>,
    /// When its tool calls are passed on.
    pub(crate) calls: Calls,
}

/// Variables of the chat template that are the server's, not those of a client or of an operator.
pub const RESERVED_VARIABLES: [&str; 6] =
    ["messages", "tools", "add_generation_prompt", "bos_token", "eos_token", "strftime_now"];

/// Turns reasoning on or off, by the names that templates have for it.
pub fn reason(variables: &mut Map<String, Json>, is_wanted: bool) {
    for name in ["enable_thinking", "thinking"] {
        variables.insert(name.into(), is_wanted.into());
    }
}

/// The schema in Lark of an answer that may be calls instead.
fn reply((param, source): &(&'static str, Source)) -> Result<String, ApiError> {
    match source {
        Source::JsonObject => Ok("%json {\"type\": \"object\"}".to_owned()),
        Source::JsonSchema(schema) => Ok(format!("%json {schema}")),
        _ => {
            let message =
                format!("`{param}` and `tools` are given; with tools, an answer can have a JSON schema only");
            Err(ApiError::unsupported(*param, message))
        }
    }
}

impl Conversation {
    /// A conversation of these messages, in OpenAI's shape, without tools. Fails if there are none, or if one is not text.
    pub(crate) fn new(mut messages: Vec<Message>, defaults: &Defaults) -> Result<Conversation, ApiError> {
        if messages.is_empty() {
            return Err(ApiError::invalid("messages", "`messages` is empty; expected at least one message"));
        }
        for (index, message) in messages.iter_mut().enumerate() {
            check_parts(index, message)?;
            if message.role == "developer" {
                message.role = "system".into();
            }
        }
        Ok(Conversation {
            messages,
            tools: ToolUse::default(),
            variables: defaults.variables.clone(),
            format: None,
            ending: Ending::default(),
            calls: Calls::Streamed,
        })
    }

    /// Whether the last message is an answer, which can be continued.
    pub(crate) fn ends_with_answer(&self) -> bool {
        self.messages.last().is_some_and(has_begun)
    }

    /// Bytes of the messages.
    pub(crate) fn bytes(&self) -> usize {
        self.messages.iter().map(|message| message.text().len()).sum()
    }

    /// The prompt as text. Takes a while: not for the threads of the runtime.
    pub(crate) fn prompt(mut self, served: &Served) -> Result<String, ApiError> {
        let (prompt, begun) = self.written(template(served)?)?;
        Ok(prompt.to_string() + &begun)
    }

    /// The prompt, and the answer that has begun.
    fn written(&mut self, template: &Template) -> Result<(Prompt, String), ApiError> {
        let is_continued = self.ending == Ending::Continued && self.ends_with_answer();
        let begun = self.messages.pop_if(|_| is_continued);
        if self.messages.is_empty() {
            return Err(ApiError::invalid(
                "messages",
                "the messages are only an answer; expected a question before it",
            ));
        }
        let reasoning = begun.as_ref().and_then(|begun| begun.reasoning.as_ref());
        if reasoning.is_some_and(|text| !text.is_empty()) {
            let message =
                "`messages` ends with an answer that has reasoning; this server continues only text";
            return Err(ApiError::unsupported("messages", message));
        }
        // What has begun is the answer's text: no reasoning follows.
        if begun.is_some() {
            self.variables.extend(template.without_reasoning().unwrap_or_default());
        }
        let tools = match self.tools.choice {
            Some(_) => std::mem::take(&mut self.tools.tools),
            None => Vec::new(),
        };
        let mut options = Options {
            tools,
            variables: std::mem::take(&mut self.variables),
            time: TEMPLATE_TIME,
            add_generation_prompt: self.ending != Ending::Nothing,
            ..Options::default()
        };
        let prompt = match template.render(&self.messages, &options) {
            Err(error @ chat::Error::Render { .. }) if complete(&mut options.tools) => {
                template.render(&self.messages, &options).map_err(|_| error)
            }
            rendered => rendered,
        };
        let prompt = prompt.map_err(|error| {
            ApiError::invalid("messages", format!("the model's chat template rejects the messages: {error}"))
        })?;
        Ok((prompt, begun.map(|begun| begun.text().into_owned()).unwrap_or_default()))
    }

    /// The number of the prompt's tokens, even if they do not fit the context. Takes a while: not for the threads of the
    /// runtime.
    pub(crate) fn tokens(mut self, served: &Served) -> Result<usize, ApiError> {
        let (prompt, begun) = self.written(template(served)?)?;
        // Fails with tools that the model cannot be given.
        self.demand(&prompt, false)?;
        Ok(encoded(served, &prompt, &begun).len())
    }

    /// Renders the conversation. Takes a while: not for the threads of the runtime.
    pub(crate) fn render(mut self, served: &Served) -> Result<Rendered, ApiError> {
        too_long_for(served, self.bytes())?;
        let is_begun = self.messages.last().is_some_and(has_begun);
        let (prompt, begun) = self.written(template(served)?)?;
        too_long_for(served, prompt.len() + begun.len())?;
        let ids = encoded(served, &prompt, &begun);
        let calls = self.calls;
        let demand = self.demand(&prompt, is_begun)?;
        Ok(Rendered { ids, prompt, demand, calls })
    }

    /// What the answers must be. An answer that `is_begun` does not reason any more.
    fn demand(self, prompt: &Prompt, is_begun: bool) -> Result<Option<Demand>, ApiError> {
        let Some(choice) = &self.tools.choice else {
            let preamble = (!is_begun).then(|| prompt.preamble());
            return Ok(self.format.map(|(param, source)| Demand::Content { param, source, preamble }));
        };
        let tools = prompt.tools().map_err(|error| match error {
            chat::Error::Tools(error) => ApiError::invalid("tools", error.to_string()),
            error => ApiError::unsupported("tools", error.to_string()),
        })?;
        let ToolUse { is_parallel, strict, .. } = self.tools;
        let content = |param, grammar: Result<chat::Grammar, ToolsError>| {
            let grammar = grammar.map_err(|error| match error {
                ToolsError::Grammar => ApiError::invalid("tools", error.to_string()),
                error => ApiError::invalid("tool_choice", error.to_string()),
            })?;
            if let Some(open) = unenforced(&grammar, &strict) {
                return Err(ApiError::invalid("tools", format!("`tools`: {open}")));
            }
            Ok::<_, ApiError>(Demand::Content { param, source: Source::Lark(grammar.lark), preamble: None })
        };
        let demand = match (choice, &self.format) {
            (Choice::Auto, None) => {
                let (prompt, tools) = (prompt.clone(), tools.clone());
                Demand::Calls(Box::new(ToolCalls { prompt, tools, is_parallel, strict }))
            }
            (Choice::Auto, Some(demanded)) => {
                let reply = reply(demanded)?;
                content(demanded.0, prompt.grammar(tools, choice, is_parallel, Some(&reply)))?
            }
            // Calls have no content.
            (choice, _) => content("tools", prompt.grammar(tools, choice, is_parallel, None))?,
        };
        Ok(Some(demand))
    }
}

/// The tokens of the prompt and of the answer that has begun.
fn encoded(served: &Served, prompt: &Prompt, begun: &str) -> Vec<u32> {
    let mut ids = served.model.encode_rendered(prompt);
    let text = tokenizer::Encode { add_special: false, parse_special: false };
    ids.extend(served.model.tokenizer().encode(begun, text));
    ids
}

/// Adds to tools what clients may leave out, and some templates read all the same; returns whether that is anything.
fn complete(tools: &mut [Json]) -> bool {
    let mut is_changed = false;
    let mut add = |object: &mut Map<String, Json>, name: &str, value: Json| {
        if object.get(name).is_none_or(Json::is_null) {
            object.insert(name.to_owned(), value);
            is_changed = true;
        }
    };
    for tool in tools {
        let Some(function) = tool.get_mut("function").and_then(Json::as_object_mut) else { continue };
        add(function, "description", "".into());
        add(function, "parameters", json!({}));
        let Some(parameters) = function.get_mut("parameters").and_then(Json::as_object_mut) else { continue };
        add(parameters, "type", "object".into());
        add(parameters, "properties", json!({}));
    }
    is_changed
}

/// Whether the last message is an answer that is to be continued.
fn has_begun(last: &Message) -> bool {
    last.role == "assistant" && last.tool_calls.is_empty()
}

fn template(served: &Served) -> Result<&Template, ApiError> {
    served.model.template().map_err(|why| {
        ApiError::unsupported("messages", format!("this model cannot chat: {why}; use /v1/completions"))
    })
}

/// Fails if so many bytes cannot fit the context, before they are rendered and encoded.
pub(crate) fn too_long_for(served: &Served, bytes: usize) -> Result<(), ApiError> {
    let n_ctx = served.limits.n_ctx;
    let longest = served.model.tokenizer().longest_token().max(1);
    match bytes > n_ctx.saturating_mul(longest) {
        true => Err(ApiError::too_long(bytes.div_ceil(longest), n_ctx)),
        false => Ok(()),
    }
}

/// Fails if a part of a message is no text: nothing is fetched for a client, and the models read text. What an answer
/// refused by is text.
fn check_parts(index: usize, message: &mut Message) -> Result<(), ApiError> {
    let Content::Parts(parts) = &mut message.content else { return Ok(()) };
    for part in parts.iter_mut().filter(|part| part.kind == "refusal") {
        if let Some(text) = part.fields.remove("refusal") {
            part.kind = "text".into();
            part.fields.insert("text".into(), text);
        }
    }
    if let Some((number, part)) = parts.iter().enumerate().find(|(_, part)| part.text().is_none()) {
        let param = format!("messages[{index}].content[{number}]");
        let message = format!("`{param}` has the type `{}`; this server takes text only", part.kind);
        return Err(ApiError::unsupported(param, message));
    }
    Ok(())
}
