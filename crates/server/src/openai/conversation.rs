//! From messages and tools to a prompt, the constraint of the answer and its parser.

use std::sync::Arc;

use chat::{Calls, Choice, Content, Message, Options, Prompt, Template, ToolFormat, Tools, TurnEnd};
use engine::Processor;
use grammar::Source;
use serde::Deserialize;
use serde_json::{Map, Value as Json};

use crate::answer::Parser;
use crate::config::Limits;
use crate::error::ApiError;
use crate::fields::Fields;
use crate::served::Served;

/// Variables that are the server's, not the client's.
const RESERVED: [&str; 6] =
    ["messages", "tools", "add_generation_prompt", "bos_token", "eos_token", "strftime_now"];

/// A conversation, as a client sends it.
pub(crate) struct Conversation {
    messages: Vec<Message>,
    tools: Vec<Json>,
    choice: Option<Choice>,
    is_parallel: bool,
    variables: Map<String, Json>,
    /// The field that asks for it, and what the answer must be.
    format: Option<(&'static str, Source)>,
}

/// What a conversation becomes.
pub(crate) struct Rendered {
    pub(crate) prompt: Vec<u32>,
    pub(crate) turn_end: Option<TurnEnd>,
    pub(crate) processors: Vec<Box<dyn Processor>>,
    parser: ParserOf,
}

/// What makes a parser for each choice.
enum ParserOf {
    Calls(Box<ToolFormat>, Prompt, Arc<Tools>),
    Reasoning(Prompt),
}

#[derive(Deserialize)]
#[serde(
    untagged,
    expecting = "expected \"none\", \"auto\", \"required\" or {\"type\": \"function\", \"function\": {\"name\": …}}"
)]
enum ToolChoice {
    Word(String),
    Named { function: Named },
}

#[derive(Deserialize)]
struct Named {
    name: String,
}

#[derive(Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum ResponseFormat {
    Text,
    JsonObject {
        #[serde(default)]
        schema: Option<Json>,
    },
    JsonSchema {
        json_schema: NamedSchema,
    },
}

#[derive(Deserialize)]
struct NamedSchema {
    #[serde(default)]
    schema: Option<Json>,
}

impl Conversation {
    pub(crate) fn read(fields: &mut Fields, limits: &Limits) -> Result<Conversation, ApiError> {
        let mut messages: Vec<Message> = fields
            .list("messages", limits.messages)?
            .ok_or_else(|| ApiError::invalid("messages", "`messages` is missing"))?;
        if messages.is_empty() {
            return Err(ApiError::invalid("messages", "`messages` is empty; expected at least one message"));
        }
        for (index, message) in messages.iter_mut().enumerate() {
            check_parts(index, message)?;
            if message.role == "developer" {
                message.role = "system".into();
            }
        }
        let tools: Vec<Json> = fields.list("tools", limits.tools)?.unwrap_or_default();
        let choice = match fields.take("tool_choice")? {
            _ if tools.is_empty() => None,
            Some(ToolChoice::Word(word)) if word == "none" => None,
            Some(ToolChoice::Word(word)) if word == "required" => Some(Choice::Required),
            Some(ToolChoice::Named { function }) => Some(Choice::Named(function.name)),
            Some(ToolChoice::Word(word)) if word != "auto" => {
                let message =
                    format!("`tool_choice` is {word:?}, expected none, auto, required or a function");
                return Err(ApiError::invalid("tool_choice", message));
            }
            _ => Some(Choice::Auto),
        };
        let mut variables: Map<String, Json> = fields.take("chat_template_kwargs")?.unwrap_or_default();
        if let Some(name) = variables.keys().find(|name| RESERVED.contains(&name.as_str())) {
            let message = format!("`chat_template_kwargs.{name}` is reserved for the server; leave it out");
            return Err(ApiError::invalid("chat_template_kwargs", message));
        }
        if let Some(effort) = fields.take::<String>("reasoning_effort")? {
            if effort == "none" {
                variables.insert("enable_thinking".into(), false.into());
            }
            variables.insert("reasoning_effort".into(), effort.into());
        }
        Ok(Conversation {
            messages,
            tools,
            choice,
            is_parallel: fields.take("parallel_tool_calls")?.unwrap_or(true),
            variables,
            format: format(fields)?,
        })
    }

    /// Bytes of the messages.
    pub(crate) fn bytes(&self) -> usize {
        self.messages.iter().map(|message| message.text().len()).sum()
    }

    /// The prompt as text. Takes a while: not for the threads of the runtime.
    pub(crate) fn prompt(mut self, served: &Served) -> Result<String, ApiError> {
        let (prompt, begun, _) = self.written(template(served)?)?;
        Ok(prompt.to_string() + &begun)
    }

    /// The prompt, the answer that has begun, and the tools.
    fn written(&mut self, template: &Template) -> Result<(Prompt, String, Vec<Json>), ApiError> {
        let begun = self.messages.pop_if(|last| last.role == "assistant" && last.tool_calls.is_empty());
        if self.messages.is_empty() {
            return Err(ApiError::invalid(
                "messages",
                "`messages` has only an answer; expected a question before it",
            ));
        }
        if self.format.is_some() {
            // The grammar is that of the whole answer, which must not begin with reasoning then.
            for (name, value) in template.without_reasoning().unwrap_or_default() {
                self.variables.entry(name).or_insert(value);
            }
        }
        let tools = if self.choice.is_some() { std::mem::take(&mut self.tools) } else { Vec::new() };
        let options = Options { tools, variables: std::mem::take(&mut self.variables), ..Options::default() };
        let prompt = template.render(&self.messages, &options).map_err(|error| {
            ApiError::invalid("messages", format!("the model's chat template rejects the messages: {error}"))
        })?;
        Ok((prompt, begun.map(|begun| begun.text().into_owned()).unwrap_or_default(), options.tools))
    }

    /// Renders the conversation. Takes a while: not for the threads of the runtime.
    pub(crate) fn render(mut self, served: &Served) -> Result<Rendered, ApiError> {
        too_long_for(served, self.bytes())?;
        let template = template(served)?;
        let (prompt, begun, tools) = self.written(template)?;
        let mut ids = served.model.encode_rendered(&prompt);
        let text = tokenizer::Encode { add_special: false, parse_special: false };
        ids.extend(served.model.tokenizer().encode(&begun, text));
        let (parser, calls) = self.parser(template, prompt, &tools)?;
        let processors = match calls.map(|lark| ("tools", Source::Lark(lark))).or(self.format) {
            None => Vec::new(),
            Some((param, source)) => {
                vec![Box::new(served.grammar(param, &source)?.constraint()) as Box<dyn Processor>]
            }
        };
        Ok(Rendered { prompt: ids, turn_end: template.turn_end(), processors, parser })
    }

    /// What reads the answers, and the grammar of demanded calls.
    fn parser(
        &self,
        template: &Template,
        prompt: Prompt,
        tools: &[Json],
    ) -> Result<(ParserOf, Option<String>), ApiError> {
        let Some(choice) = &self.choice else { return Ok((ParserOf::Reasoning(prompt), None)) };
        let format =
            template.tool_format().map_err(|error| ApiError::unsupported("tools", error.to_string()))?;
        let tools = Tools::read(tools).map_err(|error| ApiError::invalid("tools", error.to_string()))?;
        let grammar = match choice {
            Choice::Auto => None,
            Choice::Required | Choice::Named(_) => {
                let grammar = format.grammar(&prompt, &tools, choice, self.is_parallel);
                Some(grammar.map_err(|error| ApiError::invalid("tool_choice", error.to_string()))?.lark)
            }
        };
        Ok((ParserOf::Calls(Box::new(format), prompt, Arc::new(tools)), grammar))
    }
}

fn template(served: &Served) -> Result<&Template, ApiError> {
    served.model.template().map_err(|why| {
        ApiError::unsupported("messages", format!("this model cannot chat: {why}; use /v1/completions"))
    })
}

impl Rendered {
    /// A parser for each of `n` answers.
    pub(crate) fn parsers(&self, served: &Served, n: usize) -> Vec<Parser> {
        let template = served.model.template().ok();
        let parser = |_| match (&self.parser, template) {
            (ParserOf::Calls(format, prompt, tools), _) => {
                Parser::Calls(Box::new(format.parser(prompt, tools.clone(), Calls::Whole)))
            }
            (ParserOf::Reasoning(prompt), Some(template)) => {
                Parser::Reasoning(Box::new(template.splitter(prompt)))
            }
            (ParserOf::Reasoning(_), None) => Parser::Text,
        };
        (0..n).map(parser).collect()
    }
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

/// Fails if a part of a message is no text: nothing is fetched for a client, and the models read text.
fn check_parts(index: usize, message: &Message) -> Result<(), ApiError> {
    if let Content::Parts(parts) = &message.content
        && let Some((number, part)) = parts.iter().enumerate().find(|(_, part)| part.text().is_none())
    {
        let param = format!("messages[{index}].content[{number}]");
        let message = format!("`{param}` has the type `{}`; this server takes text only", part.kind);
        return Err(ApiError::unsupported(param, message));
    }
    Ok(())
}

/// `response_format`, or the fields of llama-server and vLLM for the same.
fn format(fields: &mut Fields) -> Result<Option<(&'static str, Source)>, ApiError> {
    let schema = |json: Json| Source::JsonSchema(json.to_string());
    let found = match fields.take("response_format")? {
        None | Some(ResponseFormat::Text) => None,
        Some(ResponseFormat::JsonObject { schema: None }) => Some(Source::JsonObject),
        Some(ResponseFormat::JsonObject { schema: Some(json) }) => Some(schema(json)),
        Some(ResponseFormat::JsonSchema { json_schema }) => match json_schema.schema {
            Some(json) => Some(schema(json)),
            None => {
                return Err(ApiError::invalid(
                    "response_format",
                    "`response_format.json_schema.schema` is missing",
                ));
            }
        },
    };
    let found = found.map(|source| ("response_format", source));
    one(found.into_iter().chain(constraints(fields)?))
}

/// The constraint that all protocols of text have: a JSON schema, a GBNF grammar or a regular expression.
pub(crate) fn constraint(fields: &mut Fields) -> Result<Option<(&'static str, Source)>, ApiError> {
    one(constraints(fields)?)
}

fn constraints(fields: &mut Fields) -> Result<impl Iterator<Item = (&'static str, Source)>, ApiError> {
    let schema = fields.take::<Json>("json_schema")?.map(|json| Source::JsonSchema(json.to_string()));
    let grammar = fields.take("grammar")?.filter(|text: &String| !text.is_empty()).map(Source::Gbnf);
    let regex = fields.take("guided_regex")?.map(Source::Regex);
    let all = [("json_schema", schema), ("grammar", grammar), ("guided_regex", regex)];
    Ok(all.into_iter().filter_map(|(name, source)| Some((name, source?))))
}

/// The only one of these constraints. Fails if there are two.
fn one(
    mut all: impl Iterator<Item = (&'static str, Source)>,
) -> Result<Option<(&'static str, Source)>, ApiError> {
    match (all.next(), all.next()) {
        (Some((first, _)), Some((second, _))) => {
            Err(ApiError::invalid(second, format!("both `{first}` and `{second}` are given; choose one")))
        }
        (found, _) => Ok(found),
    }
}
