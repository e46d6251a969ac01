//! From a request to what the engine computes: the prompt, the constraint of the answers, and their parsers.

use std::sync::Arc;
use std::time::Duration;

use chat::{AnswerParser, Calls, Choice, Message, Options, Prompt, Template};
use engine::Processor;
use engine::tokenizer::Encode;
use grammar::{Compiler, Source};
use serde_json::{Map, Value as Json, json};

use crate::driver::{Demand, Watch};
use crate::error::{Error, Field, Result};
use crate::loaded::Loaded;
use crate::request::{Conversation, Ending, Input, PromptPiece, Request, TemplateUse};
use crate::stream::Stream;

/// The longest that a conversation may take to render.
const TEMPLATE_TIME: Duration = Duration::from_secs(1);

/// Text is never read as special tokens.
const TEXT: Encode = Encode { add_special: false, parse_special: false };

/// A request whose prompt is rendered and encoded.
#[derive(Debug)]
#[must_use = "it is submitted by `submit`"]
pub struct Prepared {
    loaded: Arc<Loaded>,
    request: engine::Request,
    watch: Watch,
    prompt: Option<Prompt>,
    constraint: Option<Constraint>,
    calls: Calls,
    is_eager: bool,
}

/// What an answer must be, before it is compiled.
#[derive(Debug)]
enum Constraint {
    /// The content, which follows reasoning unless the answer has begun.
    Content { field: Field, source: Source, relaxes: bool, follows_reasoning: bool },
    /// Tool calls: among other text, demanded, or unless the answer is JSON of the schema `reply`.
    Calls { choice: Choice, reply: Option<(Source, bool)>, is_parallel: bool, strict: Vec<String> },
}

/// A compiled [`Constraint`], and the parts of schemas that it does not enforce.
type Compiled = (grammar::Constraint, Vec<String>);

impl Loaded {
    /// Renders and encodes the prompt of a request. May take a second.
    pub(crate) fn prepare(self: &Arc<Loaded>, request: Request) -> Result<Prepared> {
        let Request { input, params, format, relaxes_format, mut processors, tenant, .. } = request;
        let Request { prompt_logprobs, progress, is_eager, .. } = request;
        let format = format.map(|source| (source, relaxes_format));
        self.model().prepare(&params);
        let mut calls = Calls::Whole;
        let (tokens, rendered, constraint) = match input {
            Input::Messages(conversation) => {
                calls = conversation.calls;
                self.render_and_encode(*conversation, format)?
            }
            Input::Prompt(pieces) => {
                self.check_bytes(text_bytes(&pieces))?;
                (self.encode(pieces), None, format.map(Constraint::whole))
            }
        };
        if let Some(prompt) = &rendered {
            let preamble = prompt.preamble();
            processors.iter_mut().for_each(|processor| processor.expect(&preamble));
        }
        let request = engine::Request {
            params,
            tenant,
            processors,
            turn_end: rendered.as_ref().and_then(Prompt::turn_end).cloned(),
            ..engine::Request::new(tokens)
        };
        let watch = Watch { prompt_logprobs, progress };
        Ok(Prepared { loaded: self.clone(), request, watch, prompt: rendered, constraint, calls, is_eager })
    }

    /// The prompt of a conversation as the template writes it, with the answer that has begun.
    pub(crate) fn prompt_text(&self, mut conversation: Conversation) -> Result<String> {
        self.check_bytes(conversation.bytes())?;
        let (prompt, begun) = conversation.render(self.template()?)?;
        Ok(prompt.to_string() + &begun)
    }

    /// Number of tokens of a conversation's prompt, even if they do not fit the context.
    pub(crate) fn count_tokens(&self, mut conversation: Conversation) -> Result<usize> {
        let (prompt, begun) = conversation.render(self.template()?)?;
        // Fails with tools that the model cannot be given.
        constraint(&prompt, &conversation, None, false)?;
        Ok(self.encode_prompt(&prompt, &begun).len())
    }

    /// The tokens of a conversation's prompt, the prompt if a template wrote it, and what the answer must be.
    fn render_and_encode(
        &self,
        mut conversation: Conversation,
        format: Option<(Source, bool)>,
    ) -> Result<(Vec<u32>, Option<Prompt>, Option<Constraint>)> {
        self.check_bytes(conversation.bytes())?;
        let is_raw = match conversation.template {
            TemplateUse::Required => false,
            TemplateUse::IfUsable => self.model().template().is_err(),
            TemplateUse::Never => true,
        };
        if is_raw {
            let text = plain_text(&conversation.messages);
            return Ok((self.model().encode_prompt(&text, false), None, format.map(Constraint::whole)));
        }
        let has_begun = conversation.continues_answer();
        let (prompt, begun) = conversation.render(self.template()?)?;
        self.check_bytes(prompt.len() + begun.len())?;
        let constraint = constraint(&prompt, &conversation, format, has_begun)?;
        Ok((self.encode_prompt(&prompt, &begun), Some(prompt), constraint))
    }

    pub(crate) fn template(&self) -> Result<&Template> {
        self.model().template().map_err(|why| engine::Error::NoTemplate { why: why.to_string() }.into())
    }

    fn encode_prompt(&self, prompt: &Prompt, begun: &str) -> Vec<u32> {
        let mut tokens = self.model().encode_rendered(prompt);
        tokens.extend(self.model().tokenizer().encode(begun, TEXT));
        tokens
    }

    fn encode(&self, pieces: Vec<PromptPiece>) -> Vec<u32> {
        let model = self.model();
        let mut tokens = Vec::new();
        for (index, piece) in pieces.into_iter().enumerate() {
            match piece {
                PromptPiece::Text { text, parse_special } if index == 0 => {
                    tokens = model.encode_prompt(&text, parse_special);
                }
                PromptPiece::Text { text, parse_special } => {
                    tokens.extend(model.tokenizer().encode(&text, Encode { parse_special, ..TEXT }));
                }
                PromptPiece::Tokens(more) => tokens.extend(more),
            }
        }
        tokens
    }
}

fn text_bytes(pieces: &[PromptPiece]) -> usize {
    let bytes = |piece: &PromptPiece| match piece {
        PromptPiece::Text { text, .. } => text.len(),
        PromptPiece::Tokens(_) => 0,
    };
    pieces.iter().map(bytes).sum()
}

/// Messages without a template: an answer right after the user's message, the next message on a new line.
fn plain_text(messages: &[Message]) -> String {
    let mut text = String::new();
    for message in messages {
        if message.role != "assistant" && !text.is_empty() && !text.ends_with('\n') {
            text.push('\n');
        }
        text.push_str(&message.text());
    }
    text
}

/// Whether `last`, the last message, is an answer that can be continued.
fn is_unfinished(last: &Message) -> bool {
    last.role == "assistant" && last.tool_calls.is_empty()
}

impl Conversation {
    /// Whether the answer continues the last message.
    pub fn continues_answer(&self) -> bool {
        self.ending == Ending::Continued && self.messages.last().is_some_and(is_unfinished)
    }

    fn options(&mut self) -> Options {
        Options {
            tools: if self.tool_choice.is_some() { std::mem::take(&mut self.tools) } else { Vec::new() },
            variables: std::mem::take(&mut self.variables),
            time: TEMPLATE_TIME,
            add_generation_prompt: self.ending != Ending::Nothing,
            ..Options::default()
        }
    }

    /// Renders the messages, tools and variables, which it takes. Returns the prompt, and the answer that has begun. Fails if there
    /// are no messages, or the template rejects them.
    ///
    /// A developer's message is a system message: most templates drop a role that they do not know.
    pub fn render(&mut self, template: &Template) -> Result<(Prompt, String)> {
        let (mut messages, mut options) = (std::mem::take(&mut self.messages), self.options());
        for message in messages.iter_mut().filter(|message| message.role == "developer") {
            message.role = "system".to_owned();
        }
        let begun = messages.pop_if(|last| self.ending == Ending::Continued && is_unfinished(last));
        if messages.is_empty() {
            let message = if begun.is_some() {
                "the messages are only an answer; expected a question before it"
            } else {
                "there are no messages; expected at least one"
            };
            return Err(Error::invalid(Field::Messages, message));
        }
        if let Some(begun) = &begun {
            if begun.reasoning.as_ref().is_some_and(|text| !text.is_empty()) {
                let message = "the last message is an answer with reasoning, which cannot be continued; leave its reasoning out";
                return Err(Error::unsupported(Field::Messages, message));
            }
            // The text of the answer has begun: no reasoning follows.
            options.variables.extend(template.without_reasoning().unwrap_or_default());
        }
        let prompt = match template.render(&messages, &options) {
            Err(error @ chat::Error::Render { .. }) if complete_tools(&mut options.tools) => {
                template.render(&messages, &options).map_err(|_| error)
            }
            rendered => rendered,
        };
        let prompt = prompt.map_err(engine::Error::from)?;
        Ok((prompt, begun.map(|begun| begun.text().into_owned()).unwrap_or_default()))
    }
}

/// Adds to tools what clients may leave out, although some templates read it. Returns whether it added anything.
fn complete_tools(tools: &mut [Json]) -> bool {
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

/// What the answer to `prompt` must be. An answer that has begun does not reason any more.
fn constraint(
    prompt: &Prompt,
    conversation: &Conversation,
    format: Option<(Source, bool)>,
    has_begun: bool,
) -> Result<Option<Constraint>> {
    let Conversation { parallel_tool_calls: is_parallel, strict_tools: strict, .. } = conversation;
    let Some(choice) = &conversation.tool_choice else {
        let (field, follows_reasoning) = (Field::Format, !has_begun);
        let content = |(source, relaxes)| Constraint::Content { field, source, relaxes, follows_reasoning };
        return Ok(format.map(content));
    };
    prompt.tools().map_err(|error| Error::invalid(Field::Tools, error.to_string()))?;
    // Calls that are demanded have no content.
    let reply = format.filter(|_| *choice == Choice::Auto);
    if let Some((reply, _)) = &reply {
        lark_reply(reply)?;
    }
    let (choice, is_parallel, strict) = (choice.clone(), *is_parallel, strict.clone());
    Ok(Some(Constraint::Calls { choice, reply, is_parallel, strict }))
}

/// The Lark expression of an answer that is no tool call.
fn lark_reply(format: &Source) -> Result<String> {
    match format {
        Source::JsonObject => Ok("%json {\"type\": \"object\"}".to_owned()),
        Source::JsonSchema(schema) => Ok(format!("%json {schema}")),
        _ => Err(Error::unsupported(Field::Format, "with tools, an answer can have a JSON schema only")),
    }
}

/// Fails if the grammar leaves something of a strict tool open.
fn check_strict(grammar: &chat::Grammar, strict: &[String]) -> Result<()> {
    match grammar.unenforced.iter().find(|open| strict.contains(&open.tool)) {
        Some(open) => Err(Error::invalid(Field::Tools, open.to_string())),
        None => Ok(()),
    }
}

impl Constraint {
    /// The whole text is of this language.
    fn whole((source, relaxes): (Source, bool)) -> Constraint {
        Constraint::Content { field: Field::Format, source, relaxes, follows_reasoning: false }
    }

    /// Compiles it. May take seconds.
    fn compile(self, compiler: &Compiler, prompt: Option<&Prompt>) -> Result<Option<Compiled>> {
        match (self, prompt) {
            (Constraint::Content { field, source, relaxes, follows_reasoning }, prompt) => {
                let (grammar, left_open) = match (compiler.compile(&source), &source) {
                    (Err(_), Source::JsonSchema(schema)) if relaxes => {
                        let (schema, left_open) = relaxed(compiler, schema)?;
                        (compiler.compile(&schema).map_err(|error| Error::grammar(field, error))?, left_open)
                    }
                    (compiled, _) => (compiled.map_err(|error| Error::grammar(field, error))?, Vec::new()),
                };
                let mut constraint = grammar.constraint();
                if let Some(prompt) = prompt.filter(|_| follows_reasoning) {
                    constraint.expect(&prompt.preamble());
                }
                Ok(Some((constraint, left_open)))
            }
            (Constraint::Calls { choice, reply, is_parallel, strict }, Some(prompt)) => {
                let (reply, left_open) = match reply {
                    None => (None, Vec::new()),
                    Some((source, relaxes)) => match (compiler.compile(&source), &source) {
                        (Err(_), Source::JsonSchema(schema)) if relaxes => {
                            let (schema, left_open) = relaxed(compiler, schema)?;
                            (Some(lark_reply(&schema)?), left_open)
                        }
                        (compiled, _) => {
                            compiled.map_err(|error| Error::grammar(Field::Format, error))?;
                            (Some(lark_reply(&source)?), Vec::new())
                        }
                    },
                };
                let calls = CallCompiler {
                    compiler,
                    prompt,
                    choice: &choice,
                    reply: reply.as_deref(),
                    is_parallel,
                    strict: &strict,
                };
                let (constraint, more) = calls.compile()?;
                Ok(Some((constraint, [left_open, more].concat())))
            }
            // Only a template can give tools to a model.
            (Constraint::Calls { .. }, None) => Ok(None),
        }
    }
}

/// The schema of a response format without what cannot be enforced.
fn relaxed(compiler: &Compiler, schema: &str) -> Result<(Source, Vec<String>)> {
    let schema =
        serde_json::from_str(schema).map_err(|error| Error::invalid(Field::Format, error.to_string()))?;
    let (schema, left_open) = compiler.relaxed(&schema);
    if let Some(invalid) = left_open.iter().find(|error| error.problem.is_invalid()) {
        return Err(Error::grammar(Field::Format, invalid.clone().into()));
    }
    Ok((Source::JsonSchema(schema.to_string()), left_open.iter().map(|error| place("", error)).collect()))
}

/// Where the schema called `name` is not enforced: JSON pointer and keyword.
fn place(name: &str, error: &grammar::SchemaError) -> String {
    format!("{name}{}/{}", error.pointer, error.problem.keyword().unwrap_or_default())
}

/// Why calls cannot be constrained.
enum Failure {
    /// It makes no difference to leave schemas open: a strict tool is left open, or the choice names no tool.
    Final(Error),
    /// The tools together are too much.
    TooMuch(Error),
    /// The schema of a tool may be to blame.
    Schema(Error),
}

impl Failure {
    fn error(self) -> Error {
        let (Failure::Final(error) | Failure::TooMuch(error) | Failure::Schema(error)) = self;
        error
    }
}

/// Compiles the grammar of calls.
struct CallCompiler<'a> {
    compiler: &'a Compiler,
    prompt: &'a Prompt,
    choice: &'a Choice,
    reply: Option<&'a str>,
    is_parallel: bool,
    strict: &'a [String],
}

impl CallCompiler<'_> {
    /// What cannot be enforced of a tool is left open, unless the tool is strict.
    fn compile(&self) -> Result<Compiled> {
        let tools = self.prompt.tools().map_err(|error| Error::invalid(Field::Tools, error.to_string()))?;
        let may_open = |tool: &chat::Tool| !self.strict.contains(&tool.name);
        let failure = match self.grammar(tools) {
            Err(failure) if tools.iter().any(may_open) => failure,
            done => return done.map_err(|failure| self.named(tools, failure)),
        };
        let mut left_open = Vec::new();
        let mut relaxed = Vec::new();
        if let Failure::Schema(_) = failure {
            for tool in tools.iter().filter(|tool| may_open(tool)) {
                let (schema, open) = self.compiler.relaxed(&tool.parameters);
                if !open.is_empty() {
                    left_open.extend(open.iter().map(|error| place(&tool.name, error)));
                    relaxed.push((tool.name.clone(), schema));
                }
            }
        }
        let relax = |tool: &chat::Tool| {
            relaxed.iter().find(|(name, _)| *name == tool.name).map(|(_, schema)| schema.clone())
        };
        let first = (!relaxed.is_empty()).then(|| self.grammar(&tools.with_parameters(relax)));
        match first {
            Some(Ok((constraint, more))) => {
                left_open.extend(more);
                Ok((constraint, left_open))
            }
            Some(Err(Failure::Final(error))) => Err(error),
            _ => {
                let (constraint, _) =
                    self.grammar(&tools.opened(may_open)).map_err(|failure| self.named(tools, failure))?;
                tracing::debug!("schemas of tools are not enforced: {}", failure.error());
                let open = tools.iter().filter(|tool| may_open(tool)).map(|tool| format!("{}/", tool.name));
                Ok((constraint, open.collect()))
            }
        }
    }

    fn grammar(&self, tools: &chat::Tools) -> Result<Compiled, Failure> {
        let CallCompiler { compiler, prompt, choice, reply, is_parallel, strict } = *self;
        let grammar = prompt.grammar(tools, choice, is_parallel, reply).map_err(|error| match error {
            chat::ToolsError::Grammar => Failure::TooMuch(Error::invalid(Field::Tools, error.to_string())),
            other => Failure::Final(Error::invalid(Field::ToolChoice, other.to_string())),
        })?;
        check_strict(&grammar, strict).map_err(Failure::Final)?;
        let chat::Grammar { triggers, lark, unenforced } = grammar;
        let mut compiled = compiler.compile(&Source::Lark(lark));
        if !triggers.is_empty() {
            compiled = compiled
                .and_then(|compiled| compiled.at_triggers(&triggers, &prompt.preamble(), !is_parallel));
        }
        let grammar = compiled.map_err(|error| match &error {
            grammar::Error::TooLong { .. } | grammar::Error::Deadline { .. } => {
                Failure::TooMuch(Error::grammar(Field::Tools, error))
            }
            _ => Failure::Schema(Error::grammar(Field::Tools, error)),
        })?;
        let open = unenforced.iter().map(|open| format!("{}{}/{}", open.tool, open.pointer, open.keyword));
        Ok((grammar.constraint(), open.collect()))
    }

    /// The error of the strict tool whose schema is to blame, which it names.
    fn named(&self, tools: &chat::Tools, failure: Failure) -> Error {
        if let Failure::Schema(_) = failure {
            for tool in tools.iter().filter(|tool| self.strict.contains(&tool.name)) {
                if let Err(error) = self.compiler.compile(&Source::JsonSchema(tool.parameters.to_string())) {
                    let message = format!("the schema of the tool {:?}: {error}", tool.name);
                    return Error::invalid(Field::Tools, message);
                }
            }
        }
        failure.error()
    }
}

impl Prepared {
    /// Tokens of the prompt.
    pub fn prompt(&self) -> &[u32] {
        &self.request.prompt
    }

    /// Whether the template moved system messages into other messages, because it does not write them where they were.
    pub fn merged_system(&self) -> bool {
        self.prompt.as_ref().is_some_and(Prompt::merged_system)
    }

    /// How the model writes calls, if it is given tools.
    pub fn tool_format(&self) -> Option<chat::ToolFormat> {
        self.prompt.as_ref()?.tool_format()
    }

    /// Submits the request. Compiles a grammar if the answer is constrained, which may take seconds.
    ///
    /// # Errors
    /// If the format or the tools cannot be enforced. The stream's first item is an error if a parameter is invalid, or the
    /// prompt does not fit the context.
    pub fn submit(self) -> Result<Stream> {
        let loaded = self.loaded.clone();
        loaded.submit(vec![self])
    }
}

impl Loaded {
    /// Submits requests that this model has prepared: all of them are accepted or none. Their answers are numbered one after the
    /// other.
    pub(crate) fn submit(&self, requests: Vec<Prepared>) -> Result<Stream> {
        let demand = Arc::new(Demand::new(requests.iter().any(|request| request.is_eager)));
        let (mut choices, mut parsers, mut left_open) = (Vec::new(), Vec::new(), Vec::new());
        for Prepared { loaded, mut request, watch, prompt, constraint, calls, .. } in requests {
            if !std::ptr::eq(&*loaded, self) {
                return Err(Error::OtherModel);
            }
            if let Some(constraint) = constraint {
                let compiler = self.grammars()?;
                if let Some((constraint, open)) = constraint.compile(&compiler, prompt.as_ref())? {
                    request.processors.insert(0, Box::new(constraint));
                    left_open.extend(open);
                }
            }
            // The engine refuses parameters out of range, and their number is one of them.
            let n = if request.params.check().is_ok() { request.params.n } else { 1 };
            for choice in 0..n {
                parsers.push(prompt.as_ref().map_or_else(AnswerParser::plain, |prompt| prompt.parser(calls)));
                choices.push((request_choice(&request, choice), watch));
            }
        }
        let driver = self.driver()?.clone();
        let updates = driver.submit(choices, demand.clone());
        Ok(Stream::new(driver, demand, updates, parsers, left_open))
    }
}

/// The request for answer number `choice`, counted from 0: seeds follow each other.
fn request_choice(request: &engine::Request, choice: usize) -> engine::Request {
    let mut request = request.clone();
    let next = |seed: u32| (u64::from(seed) + choice as u64) % u64::from(u32::MAX);
    request.params.seed = request.params.seed.map(|seed| u32::try_from(next(seed)).unwrap_or(0));
    request
}
